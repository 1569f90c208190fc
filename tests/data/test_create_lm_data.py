"""The command that turns text into token streams."""

import json

import pytest

from common.errors import UserError
from data import create_lm_data
from data.language_modeling.options import LMDataOptions
from flags.training import transformer_xl_flags


@pytest.fixture
def command(tmp_path, monkeypatch, capsys):
    """Builds from two splits; its last three lines."""
    for name, text in (
        ("train", "the cat sat\non the mat\n" * 9),
        ("valid", "the mat sat\n"),
    ):
        (tmp_path / f"{name}.txt").write_text(text)

    def run(**changes):
        values = {
            "output_dir": str(tmp_path / "out"),
            "train_glob": str(tmp_path / "train.txt"),
            "valid_glob": str(tmp_path / "valid.txt"),
            "record_tokens": 16,
        }

        def build(kind):
            assert kind is LMDataOptions
            return kind(**(values | changes))

        monkeypatch.setattr(create_lm_data.flag_values, "build", build)
        create_lm_data.main()
        return capsys.readouterr().out.splitlines()[-3:]

    return run


def content(folder):
    return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_the_last_lines_count_the_files_and_name_their_reader(
    command, tmp_path, monkeypatch
):
    out = tmp_path / "out"
    lines = command()
    before = content(out)
    files = json.loads(before["manifest.json"])["files"]
    assert lines[0] == f"{out}: {len(files)} record files"
    assert lines[1] == (
        "the next command trains 16 layers of 410: --n_layer and --d_model "
        "train smaller models"
    )
    assert lines[2] == (
        f"next: python run_lm.py --data_dir={out} --model_dir={tmp_path}/model"
    )
    assert {file["name"] for file in files} <= before.keys()
    assert {file["split"] for file in files} == {"train", "valid"}
    # The sizes are the defaults of the reader's flags.
    with monkeypatch.context() as patch:
        patch.setitem(transformer_xl_flags.DEFAULTS, "n_layer", 7)
        assert command()[1].startswith("the next command trains 7 layers of ")
    # The same command again changes nothing, others are refused.
    assert command() == lines and content(out) == before
    with pytest.raises(
        UserError, match="a build of other parameters: .*lower_c"
    ):
        command(lower_case=True)
    assert content(out) == before
