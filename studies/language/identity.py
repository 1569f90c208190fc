"""What the kept numbers of a folder depend on: others are not taken for them."""

import json
import os

from common import files
from common.errors import UserError

FILE = "identity.json"


def settle(folder: str, identity: dict, results: str) -> None:
    """Writes the facts beside the results, or compares them with those there.

    Args:
      folder: of the results; it is there.
      identity: name -> value of everything that any of them depends on.
      results: the file that they are kept in.

    Raises:
      UserError: what is there was made with other facts, or is of a version
        that did not keep them.
    """
    path = os.path.join(folder, FILE)
    wanted = json.loads(json.dumps(identity))
    if files.exists(path):
        found = files.read_json_object(path, "give another output folder")
    elif files.exists(os.path.join(folder, results)):
        found = {}
    else:
        files.write_json(path, wanted)
        return
    wrong = [
        f"`{name}` wanted {value}, found {found.get(name, 'nothing')}"
        for name, value in wanted.items()
        if name not in found or found[name] != value
    ]
    if wrong:
        raise UserError(
            f"{path}: {results} was made with other options: "
            f"{'; '.join(wrong)}; give those, or another output folder"
        )
