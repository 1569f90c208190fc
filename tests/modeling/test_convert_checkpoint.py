"""The command."""

import pytest

from modeling import PretrainingModel, XLNetConfig
from modeling.checkpoints import native
from tests.helpers import commands

SMALL_CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


@pytest.mark.slow
def test_command(tmp_path):
    folder = str(tmp_path / "native")
    native.write(folder, PretrainingModel(SMALL_CONFIG), SMALL_CONFIG)
    command = ("-m", "modeling.convert_checkpoint")
    done = commands.run(
        *command,
        "--from_format=native",
        "--to_format=tf1",
        f"--input={folder}",
        f"--output={tmp_path}/out/xlnet_model.ckpt",
    )
    assert done.returncode == 0, done.stderr
    assert "model/lm_loss/bias [11] float32" in done.stdout
    wrong = commands.run(
        *command,
        "--from_format=hf",
        "--to_format=tf1",
        f"--input={folder}",
        f"--output={tmp_path}/no/xlnet_model.ckpt",
    )
    assert wrong.returncode == 1 and "--from_format=native" in wrong.stderr
    assert "Traceback" not in wrong.stderr
