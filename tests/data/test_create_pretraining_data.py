"""The command: one line for errors, and its status."""

import subprocess
import sys

import pytest
from absl import flags

from common.errors import UserError
from data import create_pretraining_data as command
from data.pretraining.options import BuildOptions
from tests.conftest import ROOT
from tests.helpers.runs import builds


def call(*arguments):
    return subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    "flag, choice, wanted",
    [
        ("span_unit", "--sampler=original", "--sampler=balanced, found orig"),
        ("span_lengths", "--sampler=original", "--sampler=balanced, found o"),
        ("span_lengths", "--span_unit=single", "--span_unit=word or token, "),
        ("max_span", "--span_unit=single", "--span_unit=word or token, found "),
    ],
)
def test_a_flag_of_other_spans_is_refused(monkeypatch, flag, choice, wanted):
    """They had no effect."""
    values = flags.FlagValues()
    flags.DEFINE_string(flag, "", "", flag_values=values)
    values(["command", f"--{flag}=1"])
    name, value = choice[2:].split("=")
    options = BuildOptions("t", "s", "o", perm_size=256, **{name: value})
    monkeypatch.setattr(command.flag_values, "FLAGS", values)
    monkeypatch.setattr(command.flag_values, "build", lambda _: options)
    with pytest.raises(UserError, match=f"--{flag} is of {wanted}"):
        command.main()


@pytest.mark.long
def test_build_and_inspect(tmp_path):
    corpus = builds.write_corpus(tmp_path / "corpus.txt")
    model = builds.train_spiece(tmp_path, corpus)
    out = tmp_path / "out"
    arguments = [
        "-m",
        "data.create_pretraining_data",
        f"--input_glob={corpus}",
        f"--spiece_model_file={model}",
        f"--output_dir={out}",
        "--seq_len=32",
        "--reuse_len=12",
    ]
    wrong = call(*arguments, "--num_predict=31")
    assert wrong.returncode == 1 and not out.exists()
    assert wrong.stderr.count("\n") == 1
    assert "--num_predict must lie in 1..29" in wrong.stderr
    done = call(*arguments)
    assert done.returncode == 0, done.stderr
    assert "record files" in done.stdout
    assert done.stdout.endswith(
        "\nthe next command trains 12 layers of 768: --recipe and flags of "
        "sizes train smaller models\n"
        f"next: python run_pretrain.py --data_dir={out} "
        f"--model_dir={tmp_path}/model\n"
    )
    shown = call("-m", "data.inspect", f"--data_dir={out}", "--mode=record")
    assert "order of prediction" in shown.stdout, shown.stderr
    missing = call("-m", "data.inspect", f"--data_dir={tmp_path}/no")
    assert missing.returncode == 1 and missing.stderr.count("\n") == 1
