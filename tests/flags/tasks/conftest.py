"""Flags of a command, registered anew."""

import pytest
from absl import flags

from tests.flags.fresh_flags import remove_ours


@pytest.fixture
def parse():
    """Registers a command's flags anew and reads a command line."""

    def run(command, *arguments):
        remove_ours()
        command.define()
        flags.FLAGS(["x", "--model_dir=m", *arguments])

    yield run
    remove_ours()
    flags.FLAGS.unparse_flags()
