"""The script that a fresh process runs: what it finds, and its status."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from serving.export import exporter, reload_check
from tests.serving.exported.saved_graphs import save

SCRIPT = pathlib.Path(reload_check.__file__)
IN, OUT = "in/serving_default/text", "out/serving_default/"
TEXTS = exporter._savable(np.array([b"a", b"bcd"], object))
GOOD = {
    IN: TEXTS,
    OUT + "size": np.array([1, 3], np.int32),
    OUT + "half": np.array([0.5, 1.5], np.float32),
    OUT + "again": TEXTS,
}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    folder = tmp_path_factory.mktemp("export")

    def answer(text):
        size = tf.strings.length(text)
        half = tf.cast(size, tf.float32) / 2.0
        return {"size": size, "half": half, "again": tf.identity(text)}

    save(folder, answer)
    return str(folder)


def check(export, path, arrays, tolerance=1e-3):
    np.savez(path / "requests.npz", **arrays)
    return reload_check.main(export, str(path / "requests.npz"), tolerance)


def test_equal_answers_differ_in_nothing(export, tmp_path, capsys):
    assert check(export, tmp_path, GOOD) == 0
    near = GOOD | {OUT + "half": np.array([0.5005, 1.499], np.float32)}
    assert check(export, tmp_path, near) == 0
    assert capsys.readouterr().out == ""


def test_strings_may_end_with_zero_bytes():
    """What a model of bytes wrote came back without them, and differed."""
    texts = np.array([[b"ab\0", b""], [b"\0\0", b"c"]], object)
    back = reload_check._tensor(exporter._savable(texts))
    assert back.tolist() == texts.tolist() and back.dtype == object
    for plain in (np.zeros([2]), np.zeros([0], object)):
        back = reload_check._tensor(exporter._savable(plain))
        assert back.shape == plain.shape and back.dtype == plain.dtype


@pytest.mark.parametrize(
    "change, line",
    [
        (
            {OUT + "half": np.array([0.5, 1.51], np.float32)},
            "serving_default/half: values differ by 0.01",
        ),
        (
            {OUT + "size": np.array([1, 4], np.int32)},
            "serving_default/size: values differ",
        ),
        (
            {OUT + "again": TEXTS[:1].repeat(2)},
            "serving_default/again: values differ",
        ),
        (
            {OUT + "size": np.array([[1, 3]], np.int32)},
            "serving_default/size: wanted the shape (1, 2), found (2,)",
        ),
        (
            {OUT + "label": np.array([1], np.int32)},
            "serving_default: wanted ['again', 'half', 'label', 'size'], found"
            " ['again', 'half', 'size']",
        ),
    ],
)
def test_every_difference_is_a_line(export, tmp_path, capsys, change, line):
    assert check(export, tmp_path, GOOD | change) == 1
    assert capsys.readouterr().out == line + "\n"


def test_all_differences_are_counted(export, tmp_path, capsys):
    both = {
        OUT + "size": np.array([2, 3], np.int32),
        OUT + "half": np.array([0.25, 1.5], np.float32),
    }
    assert check(export, tmp_path, GOOD | both) == 2
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_the_tolerance_is_relative_above_one():
    def differ(wanted, found):
        wanted, found = np.float32([wanted]), np.float32([found])
        return reload_check._difference(wanted, found, 0.01)

    assert not differ(0.001, 0.009)
    assert differ(0.001, 0.02)
    assert not differ(-200.0, -201.5)
    assert differ(-200.0, -203.0)
    assert differ(1.0, np.nan) and differ(np.nan, 1.0)
    empty = np.zeros([0, 3], np.float32)
    assert not reload_check._difference(empty, empty, 0.01)


@pytest.mark.slow
def test_a_wrong_answer_is_found(export, tmp_path):
    """By a fresh process, away from the project."""
    path = tmp_path / "requests.npz"
    wrong = {IN: GOOD[IN], OUT + "logits": np.array([9.0], np.float32)}
    np.savez(path, **wrong)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), export, str(path), "2e-5"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
    )
    assert done.returncode == 1
    assert "serving_default: wanted ['logits'], found" in done.stdout
