"""SavedModels: `export_model`, and `python -m serving.export` (`__main__`)."""

from serving.export.exporter import export_model

__all__ = ["export_model"]
