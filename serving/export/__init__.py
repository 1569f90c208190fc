"""SavedModels: `export_model`, and `python -m serving.export` (`__main__`)."""

from serving.export.exporter import check_exportable, export_model

__all__ = ["check_exportable", "export_model"]
