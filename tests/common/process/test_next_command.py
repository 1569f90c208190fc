"""The line of what to run next is read by a shell."""

import shlex
import tomllib

import pytest

from common.process import next_command
from tests.conftest import ROOT


def test_the_line_is_a_command_of_a_shell():
    words = ("-m", "data.inspect", "--data_dir=my 'records'")
    label, *said = shlex.split(next_command.line(*words))
    assert (label, said) == ("next:", ["python", *words])


@pytest.mark.parametrize(
    "program, name",
    [
        (("-m", "data.create_lm_data"), "xlnet-create-lm-data"),
        (("run_classifier.py",), "xlnet-classifier"),
        (("-m", "serving.export"), "xlnet-export"),
    ],
)
def test_an_installed_library_names_its_own_command(
    monkeypatch, tmp_path, program, name
):
    """`python -m data.inspect` finds no module there."""
    library = tmp_path / "xlnet_tf2/library"
    monkeypatch.setattr(next_command, "ROOT", library)
    line = next_command.line(*program, "--data_dir=my records")
    assert shlex.split(line) == ["next:", name, "--data_dir=my records"]
    with open(ROOT / "pyproject.toml", "rb") as f:
        assert name in tomllib.load(f)["project"]["scripts"]
