"""Public layouts become sentences and documents."""

import subprocess
import sys

from data import convert_corpus
from tests.conftest import ROOT


def test_wikitext():
    lines = [
        " \n",
        " = Red Mill = \n",
        " \n",
        " It cost $ 1 @,@ 200 , and it 's well @-@ known . He left ( early ) .\n",
        " = = History = = \n",
        " It burned .\n",
        " = Blue Mill = \n",
        ' He said " no . " Then e.g. nothing .\n',
    ]
    found = list(convert_corpus.wikitext_paragraphs(iter(lines)))
    assert found[0] is None and found[3] is None and found[-1] is None
    assert found[1] == " It cost $1,200, and it's well-known. He left (early)."
    assert convert_corpus.sentences(found[1]) == [
        "It cost $1,200, and it's well-known.",
        "He left (early).",
    ]
    assert len(convert_corpus.sentences("Is it? “Yes.” She left.")) == 3


def test_command(tmp_path):
    (tmp_path / "a.txt").write_text("\ufeffOne line\nmore. Two.\n\nThree.\n")
    (tmp_path / "b.txt").write_text("Four.\n")
    out = tmp_path / "out.txt"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "data.convert_corpus",
            "--layout=book",
            f"--input_glob={tmp_path}/a.txt,{tmp_path}/b.txt",
            f"--output_file={out}",
            "--paragraphs",
        ],
        cwd=ROOT,
        check=True,
    )
    assert out.read_text() == (
        "One line more.\nTwo. <eop>\nThree. <eop>\n\nFour. <eop>\n\n"
    )
