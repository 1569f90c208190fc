"""Our defaults beside the original's objective: jobs, table, curves."""

import json
import os
import re

import numpy as np
import pytest
from absl import flags

from studies import learning
from studies.learning import ORIGINAL, OURS, Curve
from tests.helpers import commands

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(__file__)))


def _curves(*losses, on_ours=None):
    steps = np.array([0, 50, 100])
    return [Curve(steps, np.array(x), on_ours) for x in losses]


def test_a_curve_between_two_evaluations():
    (curve,) = _curves([8.0, 6.0, 5.0])
    assert curve.at(75) == 5.5 and curve.at(50) == 6.0


def test_the_table_by_hand():
    curves = {
        OURS: _curves([8.0, 6.0, 5.0], [8.0, 6.0, 5.2], on_ours=4.0),
        ORIGINAL: _curves([8.0, 7.0, 5.0], [8.0, 7.0, 5.4], on_ours=4.5),
    }
    lines = learning.table(curves, {OURS: 0.2, ORIGINAL: 0.4}, 100).split("\n")
    assert lines[2] == (
        "| ours | 5.100 ± 0.141 (2) | 4.000 ± 0.000 (2) | 0.200 | 100 "
        "| 5.100 ± 0.141 (2) |"
    )
    # The Model Garden's pace leaves the original's objective half of the steps.
    assert lines[3] == (
        "| original | 5.200 ± 0.283 (2) | 4.500 ± 0.000 (2) | 0.400 | 50 "
        "| 7.000 ± 0.000 (2) |"
    )
    error = np.sqrt(0.141421**2 / 2 + 0.282843**2 / 2)
    assert lines[5].endswith(f"-0.100 ± {error:.3f} nats per target.")
    assert lines[6].startswith("At equal seconds")
    assert lines[6].endswith("-1.900 ± 0.100 nats per target.")


def test_a_slower_step_of_ours_is_counted_against_us():
    curves = {
        OURS: _curves([8.0, 6.0, 5.0]),
        ORIGINAL: _curves([8.0, 7.0, 5.5]),
    }
    text = learning.table(curves, {OURS: 0.4, ORIGINAL: 0.2}, 100)
    assert "| 50 | 6.000 ± 0.000 (1) |" in text
    assert "At equal steps, ours less the original's objective: -0.500" in text
    assert "objective: +0.500 nats per target (one run each)." in text


def test_a_table_without_runs_or_times_says_so():
    text = learning.table({OURS: [], ORIGINAL: []}, {}, 100)
    assert "| ours | not run | not run |" in text and "s per step" not in text
    assert "needs a run of both" in text


def test_the_picture_has_both_budgets(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        learning.figures, "save", lambda figure, stem: drawn.append(figure)
    )
    curves = {
        OURS: _curves([8.0, 6.0, 5.0]),
        ORIGINAL: _curves([8.0, 7.0, 5.5]),
    }
    learning.draw(curves, {OURS: 0.2, ORIGINAL: 0.5}, str(tmp_path / "x"))
    steps, seconds = drawn[0].axes
    ends = [
        [line.get_xdata()[-1] for line in a.lines] for a in (steps, seconds)
    ]
    assert ends == [[100.0, 100.0], [20.0, 50.0]]
    learning.draw(curves, {}, str(tmp_path / "x"))
    assert len(drawn[1].axes) == 1


@pytest.fixture
def parsed(tmp_path):
    """The command's flags, parsed."""
    values = flags.FLAGS
    before = set(values)
    learning.define()
    values(["learning", f"--output_dir={tmp_path}", "--input_glob=text.txt"])
    yield tmp_path
    for name in set(values) - before:
        delattr(values, name)
    values.unparse_flags()


def test_both_differ_in_their_records_alone(parsed):
    jobs = learning.Learning(str(parsed))
    records = {job.name: job.commands[0] for job in jobs.data_jobs()}
    assert "corpus" not in records  # there is a text
    more = set(records["records-original"]) - set(records["records-ours"])
    assert {x.split("=")[0] for x in more} == {"--output_dir", "--sampler"}
    ours, theirs = (jobs.pretraining(r, 1) for r in (OURS, ORIGINAL))
    apart = set(ours.commands[0]) ^ set(theirs.commands[0])
    assert {x.split("=")[0] for x in apart} == {"--data_dir", "--model_dir"}
    held_out = f"--eval_data_dir={jobs.records(ORIGINAL)}"
    assert held_out in ours.commands[0] and held_out in theirs.commands[0]
    (words,) = jobs.on_ours(ORIGINAL, 1).commands
    assert f"--eval_data_dir={jobs.records(OURS)}" in words
    assert "--mode=eval" in words and "--seed=1" in words


@pytest.mark.slow
def test_from_text_to_the_picture_and_again(tmp_path):
    text = tmp_path / "text.txt"
    random = np.random.default_rng(3)
    words = ["river", "mountain", "apple", "seven", "quiet", "letters", "under"]
    lines = [" ".join(random.choice(words, 9)) + "." for _ in range(1500)]
    text.write_text("\n".join(lines))

    def start(*more):
        command = ["-m", "studies.learning"]
        command += [f"--output_dir={tmp_path / 'out'}", f"--input_glob={text}"]
        command += ["--vocab_size=36", "--seq_len=32", "--layers=1"]
        command += ["--heads=2", "--width=16", "--steps=4", "--batch_size=4"]
        command += ["--eval_every=2", "--eval_steps=2", "--speed_rounds=2"]
        command += ["--dev_fraction=0.1", "--seeds=1", *more]
        return commands.run(*command)

    done = start()
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads((tmp_path / "out" / "results.json").read_text())
    for rule in (OURS, ORIGINAL):
        (curve,) = found["curves"][rule]
        assert curve["steps"] == [0, 2, 4]
        assert 2 < curve["losses"][-1] < 5 and 2 < curve["on_ours"] < 5
        assert found["seconds"][rule] > 0
    assert found["curves"][OURS][0]["losses"][0] == pytest.approx(
        found["curves"][ORIGINAL][0]["losses"][0]
    )  # equal weights, equal held-out targets
    table = (tmp_path / "out" / "table.md").read_bytes()
    for name in ("learning.png", "learning.svg"):
        assert (tmp_path / "out" / name).stat().st_size > 1000
    log = (tmp_path / "out" / "ours-0" / "log.txt").read_bytes()
    again = start("--table")
    assert again.returncode == 0, again.stdout + again.stderr
    assert (tmp_path / "out" / "table.md").read_bytes() == table
    assert (tmp_path / "out" / "ours-0" / "log.txt").read_bytes() == log
    other = start("--learning_rate=0.5")
    assert (
        other.returncode != 0 and "other options" in other.stdout + other.stderr
    )
    assert not re.search("Traceback", other.stderr)
