"""What tasks of a study begin with where it does not pretrain.

Weights of a folder, or random ones of the same architecture: every seed of a
tuning draws its own.
"""

import os
from typing import Any

from common import files
from common.errors import UserError
from common.vocabularies import vocabulary

STARTS = WEIGHTS, RANDOM = ("weights", "random")


def flags_of(
    start: str, folder: str, home: str, deviation: float, write: bool
) -> dict[str, Any]:
    """Flags of a tuning.

    Args:
      start: of `STARTS`.
      folder: of the weights.
      home: takes the architecture of random weights of another `deviation`
        than it says itself; `write` = it may be written.

    Raises:
      UserError: the folder has no architecture or no vocabulary.
    """
    config = config_of(folder)
    if start == WEIGHTS:
        return {"init_checkpoint": folder}
    path = config
    if deviation:
        from modeling.encoders import registry

        path = os.path.join(home, os.path.basename(config))
        if write:
            os.makedirs(home, exist_ok=True)
            architecture = registry.read_config(config)
            text = architecture.replace(init_std=deviation).to_json()
            files.write_text(path, text)
    return {
        "model_config_path": path,
        "spiece_model_file": vocabulary.find_or_refuse(folder),
    }


def config_of(folder: str) -> str:
    """The architecture's file in a folder of weights.

    Raises:
      UserError: there is none.
    """
    for name in ("xlnet_config.json", "config.json"):
        path = os.path.join(folder, name)
        if files.exists(path):
            return path
    raise UserError(
        f"--init_checkpoint={folder}: wanted a folder that run_pretrain.py "
        "wrote, found no xlnet_config.json or config.json in it"
    )
