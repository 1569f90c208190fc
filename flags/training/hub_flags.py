"""Flags whose value may be a name on Hugging Face's hub."""

import os
import sys

from absl import flags

from common.settings import CONFIG, FOLDER, VOCABULARY
from common.vocabularies import vocabulary
from common.weights import hub
from flags import flag_values

FLAGS = flags.FLAGS


def make_local() -> None:
    """Puts the local path in the place of every name on the hub.

    Raises UserError: see `common.weights.hub.local`; or there is no vocabulary.
    """
    for name, part in flag_values.released.items():
        value = FLAGS[name].value if name in FLAGS else None
        if not isinstance(value, str) or not hub.is_name(value):
            continue
        path = hub.local(value, part == FOLDER)
        line = f"--{name}={value}: {hub.origin(path)}"
        print(line, file=sys.stderr, flush=True)
        if part == VOCABULARY:
            path = vocabulary.find_or_refuse(path)
        elif part == CONFIG:
            path = os.path.join(path, hub.CONFIG)
        FLAGS[name].value = path
