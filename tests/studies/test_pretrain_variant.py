"""run_pretrain.py with variants: a run, and who reads its folder."""

import json

import pytest

from tests.helpers import commands
from tests.helpers.runs import builds

SIZES = (
    "--d_model=8",
    "--n_layer=1",
    "--n_head=2",
    "--d_inner=12",
    "--max_position_embeddings=48",
    "--train_steps=2",
    "--train_batch_size=4",
    "--mode=train",
)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    folder = tmp_path_factory.mktemp("records")
    builds.run(folder, "data", reuse_len=0, bi_data=False)
    return folder / "data"


@pytest.mark.long
@pytest.mark.parametrize("model_type", ["bert_pre_norm", "albert_sinusoids"])
def test_no_other_command_reads_a_variant(records, tmp_path, model_type):
    out = tmp_path / "run"
    flags = [f"--data_dir={records}", f"--model_dir={out}", *SIZES]
    flags.append(f"--model_type={model_type}")
    done = commands.run("-m", "studies.pretrain_variant", *flags)
    assert done.returncode == 0, done.stderr
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == model_type
    known = "must be one of ['xlnet', 'bert', 'albert', 'modernbert', "
    other = commands.run("run_pretrain.py", *flags)
    assert other.returncode == 1
    assert known in other.stderr and "Traceback" not in other.stderr


def test_its_flags_are_those_of_the_pretraining():
    done = commands.run("-m", "studies.pretrain_variant", "--rate=1")
    assert done.returncode == 1
    assert "Unknown command line flag 'rate'" in done.stderr
