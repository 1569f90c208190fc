"""What tasks of a study begin with where it does not pretrain.

Weights of a folder, or random ones of the same architecture: every seed of a
tuning draws its own.
"""

from typing import Any

from common.vocabularies import vocabulary
from modeling.encoders import registry

STARTS = WEIGHTS, RANDOM = ("weights", "random")


def flags_of(
    start: str, folder: str, home: str, deviation: float, write: bool
) -> dict[str, Any]:
    """Flags of a tuning.

    Args:
      start: of `STARTS`.
      folder: of the weights.
      home: takes the architecture of random weights of another `deviation`
        than it says itself, or of a folder without our file (a released
        XLNet); `write` = it may be written.

    Raises:
      UserError: the folder has no architecture or no vocabulary.
    """
    own = registry.config_file_in(folder)
    if start == WEIGHTS:
        if not own:
            _architecture(folder, own)
        return {"init_checkpoint": folder}
    path = own
    if deviation or not own:
        config = _architecture(folder, own)
        if deviation:
            config = config.replace(init_std=deviation)
        path = registry.config_path(home, config)
        if write:
            registry.write_config(home, config)
    return {
        "model_config_path": path,
        "spiece_model_file": vocabulary.find_or_refuse(folder),
    }


def _architecture(folder: str, own: str | None):
    """Of our file, or of a checkpoint of another format."""
    if own:
        return registry.read_config(own)
    from modeling.checkpoints import restore  # TensorFlow, for such ones alone

    return restore.find_config(folder)
