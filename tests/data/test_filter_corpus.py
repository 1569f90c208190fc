"""The command that filters a corpus."""

import subprocess
import sys

import pytest
from absl import flags

from common.errors import UserError
from data import filter_corpus
from data.corpus.options import FilterOptions
from tests.conftest import ROOT
from tests.data.corpus.toy_texts import corpus_with_every_reason, write


@pytest.mark.parametrize(
    "name, field", [("a.txt", ""), ("a.jsonl", " --text_field=body")]
)
def test_the_last_line_learns_a_vocabulary(
    tmp_path, monkeypatch, capsys, name, field
):
    source, out = tmp_path / "in.jsonl", tmp_path / name
    source.write_text('{"body": "A short text. Another."}\n')
    options = FilterOptions(
        str(source),
        output_file=str(out),
        text_field="body",
        min_characters=1,
        languages=(),
    )
    monkeypatch.setattr(filter_corpus.flag_values, "build", lambda _: options)
    filter_corpus.main()
    *_, written, line = capsys.readouterr().out.splitlines()
    assert written.startswith(f"{out} and {out}.")
    assert line == (
        f"next: python -m data.train_sentencepiece --input_glob={out} "
        f"--model_prefix={tmp_path}/spiece{field}"
    )


def test_how_often_a_line_comes_is_asked_of_boilerplate_alone(monkeypatch):
    values = flags.FlagValues()
    flags.DEFINE_integer("boilerplate_documents", 10, "", flag_values=values)
    values(["command", "--boilerplate_documents=2"])
    options = FilterOptions("no.txt", dry_run=True, max_boilerplate=1.0)
    monkeypatch.setattr(filter_corpus.flag_values, "FLAGS", values)
    monkeypatch.setattr(filter_corpus.flag_values, "build", lambda _: options)
    wanted = "_documents is of --max_boilerplate=a share below 1, found 1: leav"
    with pytest.raises(UserError, match=wanted):
        filter_corpus.main()


@pytest.mark.long
def test_dry_run_shows_examples_and_writes_nothing(tmp_path):
    documents, _ = corpus_with_every_reason()
    path = write(tmp_path / "in.txt", documents)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "data.filter_corpus", "--dry_run"),
            *(f"--input_glob={path}", "--languages=en", "--examples=2"),
            *("--min_characters=100", "--boilerplate_documents=4"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "in.txt: line 55: 10 characters\n        Too short." in done.stdout
    assert "language de\n        Die alte Mühle" in done.stdout
    assert "equals " in done.stdout and "in frequent lines" in done.stdout
    assert done.stdout.count("in frequent lines") == 2  # of four
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]
