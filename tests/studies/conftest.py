"""A small study whose command is a stub; what commands make of their words."""

import pytest
from absl import flags

import run_classifier
import run_squad
from flags.tasks import finetune_flags
from flags.training import common_flags, pretrain_flags
from tests.flags.fresh_flags import remove_ours
from tests.studies.toy_studies import OPTIONS, STUB


@pytest.fixture
def options(tmp_path):
    stub = tmp_path / "stub.py"
    stub.write_text(STUB)
    path = tmp_path / "options.toml"
    path.write_text(OPTIONS.replace("STUB", f"-S -E {stub}"))
    return path


# Command -> (its flags, reads and checks them).
COMMANDS = {
    "run_pretrain.py": (pretrain_flags, common_flags.from_flags),
    "run_squad.py": (run_squad.COMMAND, finetune_flags.from_flags),
    "run_classifier.py": (run_classifier.COMMAND, finetune_flags.from_flags),
}


@pytest.fixture
def parsed():
    """Options of a run as its command reads them from its words."""

    def parse(words):
        defined, read = COMMANDS[words[0]]
        remove_ours()
        defined.define()
        flags.FLAGS(words)
        options = read()
        return getattr(options, "run", options)

    yield parse
    remove_ours()
    flags.FLAGS.unparse_flags()
