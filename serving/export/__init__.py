"""SavedModels: `export_model`, and `python -m serving.export` (`__main__`).

The command shows its help before TensorFlow is loaded.
"""

from common.references import on_demand

_MODULES = {
    "check_exportable": "serving.export.exporter",
    "export_model": "serving.export.exporter",
}
__all__ = list(_MODULES)

__getattr__ = on_demand(__name__, _MODULES)
