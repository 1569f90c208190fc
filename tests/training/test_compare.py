"""Runs side by side: flags that differ, metrics, curves, and bad folders."""

import json

import pytest
import tensorflow as tf

from common.errors import UserError
from tests.helpers import commands
from training import compare


def write_run(folder, rate, accuracy, steps=50, **changes):
    folder.mkdir(parents=True)
    flags = {"learning_rate": rate, "seed": 1, "model_dir": str(folder)}
    starts = [{"versions": {"numpy": "2"}, "git_revision": "abc"}]
    (folder / "run.json").write_text(
        json.dumps({"flags": flags | changes, "starts": starts})
    )
    lines = "".join(f"{i}\t{10 / i}\t0.1\n" for i in range(1, steps + 1))
    (folder / "losses.tsv").write_text(f"step\tloss\tlr\n{lines}")
    metrics = {"accuracy": accuracy, "loss": 0.5}
    (folder / "eval_dev.json").write_text(json.dumps(metrics))
    return str(folder)


@pytest.mark.slow
def test_the_command_shows_what_differs(tmp_path):
    one = write_run(tmp_path / "runs/a", 1e-3, 0.75)
    other = write_run(tmp_path / "runs/b", 2e-3, 0.5, seed=7)
    done = commands.run(
        *("-m", "training.compare", f"--model_dirs={one},{other}"),
        f"--output_dir={tmp_path}/out",
    )
    assert done.returncode == 0, done.stderr
    rows = dict(
        (line.split("  ")[0], line.split()[-2:])
        for line in done.stdout.splitlines()
    )
    assert rows["learning_rate"] == ["0.001", "0.002"]
    assert rows["seed"] == ["1", "7"]
    assert rows["dev: accuracy"] == ["0.75", "0.5"]
    assert rows["steps"] == ["50", "50"]
    assert "model_dir" not in rows and "git_revision" not in rows
    table = (tmp_path / "out/compare.tsv").read_text().splitlines()
    assert table[0] == "\ta\tb"
    picture = (tmp_path / "out/losses.png").read_bytes()
    assert picture.startswith(b"\x89PNG") and len(picture) > 5000


def test_evaluations_are_points_beside_their_curve(tmp_path):
    one, other = (
        compare.read_run(write_run(tmp_path / name, rate, 0.5))
        for name, rate in (("a", 1e-3), ("b", 2e-3))
    )
    assert one["evaluations"] == []
    lines = [{"step": 0, "loss": 3.5}, {"step": 20, "accuracy": 1.0}]
    lines.append({"step": 50, "loss": 1.25, "perplexity": 3.5})
    (tmp_path / "b" / "evaluations.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines)
    )
    assert other["evaluations"] == []
    other = compare.read_run(str(tmp_path / "b"))
    assert other["evaluations"] == [(0, 3.5), (50, 1.25)]
    names = ["a", "b$$"]  # a formula of nothing: it ended in a stack trace
    paths = compare.draw(names, [one, other], str(tmp_path / "losses"))
    assert [path[-3:] for path in paths] == ["png", "svg"]
    before = (tmp_path / "losses.svg").read_bytes()
    other["evaluations"] = []
    compare.draw(names, [one, other], str(tmp_path / "losses"))
    assert (tmp_path / "losses.svg").read_bytes() != before


def test_curves_are_means_of_equal_parts():
    losses = [(i, float(i)) for i in range(1, 11)]
    assert compare.smooth(losses, 5) == [
        (2, 1.5),
        (4, 3.5),
        (6, 5.5),
        (8, 7.5),
        (10, 9.5),
    ]
    assert compare.smooth(losses[:3], 5) == losses[:3]
    # No part is a rest of one step, and there are no more parts than asked for.
    steps = [(i, float(i)) for i in range(1, 12)]
    assert compare.smooth(steps, 5) == [
        (2, 1.5),
        (4, 3.5),
        (6, 5.5),
        (8, 7.5),
        (11, 10.0),
    ]
    assert len(compare.smooth(losses, 6)) == 6


def test_steps_without_a_target_are_in_no_mean(tmp_path):
    """Their loss is 0, and their gradient: the ends of lanes of records."""
    folder = write_run(tmp_path / "a", 1e-3, 0.5)
    rows = [(1, 4.0, 1.5), (2, 0.0, 0.0), (3, 2.0, 0.5), (4, 0.0, 0.25)]
    rows += [(5, 0.0, 0.0)]
    (tmp_path / "a" / "losses.tsv").write_text(
        "step\tloss\tgradient_norm\n"
        + "".join(f"{n}\t{loss}\t{norm}\n" for n, loss, norm in rows)
    )
    run = compare.read_run(folder)
    assert compare.smooth(run["losses"], 1) == [(4, 2.0)]
    assert run["metrics"]["steps"] == 5
    assert run["metrics"]["training loss"] == 0.0  # of a step with targets
    (tmp_path / "a" / "losses.tsv").write_text(
        "step\tloss\tgradient_norm\n1\t0.0\t0.0\n"
    )
    assert "training loss" not in compare.read_run(folder)["metrics"]


def test_a_run_in_a_bucket_has_its_losses(tmp_path):
    """The table had its flags, and no curve."""
    folder = write_run(tmp_path / "a", 1e-3, 0.5, steps=3)
    evaluation = json.dumps({"step": 2, "loss": 1.5}) + "\n"
    (tmp_path / "a" / "evaluations.jsonl").write_text(evaluation)
    wanted, bucket = compare.read_run(folder), "ram://compared/a"
    assert wanted["losses"] and wanted["evaluations"] == [(2, 1.5)]
    tf.io.gfile.makedirs(bucket)
    for path in (tmp_path / "a").iterdir():
        tf.io.gfile.copy(str(path), f"{bucket}/{path.name}", overwrite=True)
    assert compare.read_run(bucket) == wanted


def test_half_a_line_of_a_killed_run_is_no_loss(tmp_path):
    path = tmp_path / "losses.tsv"
    path.write_text("step\tloss\tlr\n1\t2.5\t0.1\n2\t1")
    assert compare.read_losses(str(tmp_path)) == (1, [(1, 2.5)])
    path.write_text("step\tloss\tlr\n1\t2")
    assert compare.read_losses(str(tmp_path)) == (0, [])


def test_names_are_where_paths_differ():
    assert compare.short_names(["/x/a/m", "/x/b/m"]) == ["a/m", "b/m"]
    assert compare.short_names(["/x", "/x/best"]) == ["x", "x/best"]


def test_folders_that_are_no_runs(tmp_path):
    with pytest.raises(UserError, match="wanted the --model_dir of a run"):
        compare.read_run(str(tmp_path))
    folder = tmp_path / "a"
    write_run(folder, 1e-3, 1.0)
    (folder / "losses.tsv").write_text("step\tloss\n1\tx\n")
    with pytest.raises(UserError, match="tsv: wanted rows of numbers"):
        compare.read_run(str(folder))
    (folder / "losses.tsv").unlink()
    for text in ("{", "3\n", '{"loss": 1.0}', '{"step": [], "loss": 1}'):
        (folder / "evaluations.jsonl").write_text(text)
        with pytest.raises(
            UserError, match="jsonl is damaged .* wanted one JSON object"
        ):
            compare.read_run(str(folder))
    for text, message in (
        ('{"flags": 3}', "wanted an object `flags`"),
        ('{"flags": {}, "starts": ["x"]}', "a start: wanted dict, found str"),
        (
            '{"flags": {}, "starts": {"a": 1}}',
            "starts: wanted list, found dict",
        ),
    ):
        (folder / "run.json").write_text(text)
        with pytest.raises(UserError, match=message):
            compare.read_run(str(folder))
