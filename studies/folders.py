"""Where studies write that start commands and read what these leave."""

import os

from common import files
from common.errors import UserError


def local_folder(path: str) -> str:
    """The path of --output_dir from the root; UserError: it is a bucket."""
    if files.is_remote(path):
        raise UserError(
            f"--output_dir={path}: studies write on a disk of this machine; "
            "give a folder there, and copy it"
        )
    return os.path.abspath(path)
