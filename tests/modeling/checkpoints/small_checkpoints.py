"""Checkpoints of a small model."""

from modeling.checkpoints import native as native_checkpoint


def native_folder(tmp_path, model):
    folder = str(tmp_path / "native")
    native_checkpoint.write(folder, model, model.config)
    return folder
