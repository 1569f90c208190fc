"""The one command of studies: what its flags stand for in a file."""

import inspect
import re

import pytest
from absl import flags

from common.errors import UserError
from studies import run
from tests.helpers import commands

STUDY = """
reference = "a"
pretrain = { command = "-c 0", train_steps = 1, at = "{text}" }
tasks.one = { command = "-c 0", train_steps = 1, data_dir = "{data}/one" }
tasks.two = { command = "-c 0", train_steps = 1 }
columns = [{ name = "loss", file = "eval.json", metric = "loss" }]
rows = [{ name = "a" }]
"""


@pytest.fixture
def given(tmp_path):
    """Options as the command reads them with these flags."""
    values = flags.FLAGS
    before = set(values)
    run.define()
    (tmp_path / "mine.toml").write_text(STUDY)

    def read(*more, study=tmp_path / "mine.toml"):
        values.unparse_flags()
        words = [f"--study={study}", f"--output_dir={tmp_path}", *more]
        values(["run", *words])
        return run.read_options(str(tmp_path))

    read.defined = set(values) - before
    yield read
    for name in read.defined:
        delattr(values, name)
    values.unparse_flags()


def test_the_flags(given):
    assert given.defined == {
        *("study", "output_dir", "data_dir", "init_checkpoint", "input_glob"),
        *("tasks", "workers", "known", "table"),
    }


def test_what_a_flag_stands_for(given, tmp_path):
    options = given("--data_dir=sets", "--input_glob=a.txt")
    assert options.tasks["one"].flags["data_dir"] == "sets/one"
    assert options.pretrain.flags["at"] == "a.txt"
    # Without the text it is what the corpus of the file writes.
    options = given("--tasks=two")
    assert options.pretrain.flags["at"] == f"{tmp_path}/corpus/pretrain.txt"
    assert list(options.tasks) == ["two"]


def test_a_file_says_which_flag_it_needs(given):
    with pytest.raises(UserError, match=r"{data}: give --data_dir$"):
        given()
    with pytest.raises(UserError, match=r"{data}: give --data_dir$"):
        given("--tasks=one")
    for study in ("results", "released", "multitask"):
        with pytest.raises(UserError, match="start}: give --init_checkpoint$"):
            given("--data_dir=sets", study=study)
    options = given("--data_dir=D", "--init_checkpoint=x", study="results")
    assert re.fullmatch("/.*/x", options.start)  # jobs are moved with it
    with pytest.raises(UserError, match="no.toml does not exist: give a TOML"):
        given(study="no.toml")


def test_the_studies_are_named_in_its_help():
    about = inspect.getdoc(run)
    done = commands.run("-m", "studies.run", "--help")
    for name in ("ablation", "encoders", "language_model", "learning"):
        assert f"`{name}`" in about and name in done.stdout
    for name in ("multitask", "plateau", "recipe", "released", "results"):
        assert f"`{name}`" in about and name in done.stdout
