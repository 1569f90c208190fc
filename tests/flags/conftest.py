"""Flags of pretraining, registered anew."""

import pytest
from absl import flags

from flags.training import pretrain_flags
from tests.flags.fresh_flags import remove_ours


@pytest.fixture
def parse():
    """Registers the flags anew and parses a command line."""

    def run(*arguments):
        remove_ours()
        pretrain_flags.define()
        flags.FLAGS(
            ["run_pretrain.py", "--data_dir=d", "--model_dir=m", *arguments]
        )

    yield run
    remove_ours()
    flags.FLAGS.unparse_flags()
