"""The command."""

import dataclasses
import json
import os
import pathlib

import pytest

from common.contract.task_spec import TaskSpec
from modeling import PretrainingModel, XLNetConfig, convert_checkpoint
from modeling.checkpoints import native
from modeling.command_options import ConvertOptions
from tests.helpers import commands

STORED = pathlib.Path(__file__).resolve().parents[1] / "golden" / "hf_heads"

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


@pytest.mark.parametrize("name", ["bert_multi_label", "xlnet_beams"])
def test_a_conversion_keeps_the_task(tmp_path, name):
    """A native folder had no labels: nothing could evaluate or export it."""
    native, again = str(tmp_path / "native"), str(tmp_path / "again")
    convert_checkpoint.convert(
        ConvertOptions("hf", "native", str(STORED / name), native)
    )
    assert TaskSpec.read(native) == TaskSpec.read(str(STORED / name))
    convert_checkpoint.convert(ConvertOptions("native", "hf", native, again))
    with open(os.path.join(again, "config.json")) as f:
        written = json.load(f)
    with open(STORED / name / "config.json") as f:
        assert written == json.load(f)
    bare = str(tmp_path / "bare")
    options = ConvertOptions("hf", "native", str(STORED / name), bare)
    convert_checkpoint.convert(dataclasses.replace(options, head="encoder"))
    assert not os.path.exists(os.path.join(bare, "task.json"))


@pytest.mark.parametrize("beams", [(2, 7), (5, 5)])
def test_beams_of_a_tuned_model_are_those_of_its_class_there(tmp_path, beams):
    """The model before it had 3 starts with 2 ends; without a key they are 5."""
    native, theirs = str(tmp_path / "native"), str(tmp_path / "theirs")
    convert_checkpoint.convert(
        ConvertOptions("hf", "native", str(STORED / "xlnet_beams"), native)
    )
    wanted = dict(zip(("start_n_top", "end_n_top"), beams, strict=True))
    tuned = dataclasses.replace(
        TaskSpec.read(native), head_options=wanted, data_options={}
    )
    tuned.write(native)
    convert_checkpoint.convert(ConvertOptions("native", "hf", native, theirs))
    assert TaskSpec.read(theirs).head_options == wanted
