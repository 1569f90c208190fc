"""The explainer: the blog's four words, both matrices, the factors."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest

from common.errors import UserError
from modeling import explain

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXT = "This is a sentence"
QUERY = [[0, 1, 1, 1], [0, 0, 1, 0], [0, 0, 0, 0], [0, 1, 1, 0]]


def test_matrices_and_factors():
    found = explain.explain(TEXT.split(), (3, 2, 4, 1))
    np.testing.assert_array_equal(found.query, QUERY)
    np.testing.assert_array_equal(found.content, QUERY + np.eye(4))
    assert found.factors() == [
        "Pr(a)",
        "Pr(is | a)",
        "Pr(sentence | a, is)",
        "Pr(This | a, is, sentence)",
    ]
    text = str(found)
    assert "This  0 1 1 1" in text and "This  1 1 1 1" in text


def test_left_to_right_is_causal():
    found = explain.explain(list("abcde"), (1, 2, 3, 4, 5))
    np.testing.assert_array_equal(found.query, np.tril(np.ones((5, 5)), -1))


@pytest.mark.parametrize("order", [(1, 2), (1, 2, 2, 4), (0, 1, 2, 3)])
def test_bad_orders(order):
    with pytest.raises(UserError, match=r"each of 1\.\.4 once"):
        explain.explain(TEXT.split(), order)
    with pytest.raises(UserError, match="empty"):
        explain.explain([], order)


def test_picture(tmp_path):
    found = explain.explain(TEXT.split(), (3, 2, 4, 1))
    path = tmp_path / "x.png"
    explain.draw(found, str(path))
    assert path.read_bytes().startswith(b"\x89PNG")
    with pytest.raises(UserError, match="does not exist"):
        explain.draw(found, str(tmp_path / "no" / "x.png"))


@pytest.mark.slow
@pytest.mark.shared
def test_command(spiece_model, tmp_path):
    def run(*flags):
        return subprocess.run(
            [sys.executable, "-m", "modeling.explain_permutation", *flags],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

    done = run(
        f"--text={TEXT}", "--order=3,2,4,1", f"--output={tmp_path}/x.png"
    )
    assert done.returncode == 0 and "Pr(is | a)" in done.stdout
    assert (tmp_path / "x.png").exists()
    wrong = run(f"--text={TEXT}", "--order=3,x")
    assert wrong.returncode == 1 and "numbers" in wrong.stderr
    wrong = run(f"--text={TEXT}", "--order=1", "--split=pieces")
    assert wrong.returncode == 1 and "spiece_model_file" in wrong.stderr
    wrong = run(
        "--text=a b",
        "--order=1",
        "--split=pieces",
        f"--spiece_model_file={spiece_model}",
    )
    assert wrong.returncode == 1 and "each of 1.." in wrong.stderr
