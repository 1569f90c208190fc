"""The command that filters a corpus."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.data.corpus.toy_texts import corpus_with_every_reason, write


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
