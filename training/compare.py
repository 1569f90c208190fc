"""Command: what differs between runs, and what came of it.

    python -m training.compare --model_dirs=OUT/a,OUT/b --output_dir=OUT/compare

Reads `run.json`, `losses.tsv`, `evaluations.jsonl` and `eval_*.json` of each
folder: the flags in which the runs differ, their metrics side by side, and one
picture of their losses, in training and in the evaluations beside it. One run
alone has its picture, too.
"""

import itertools
import json
import os

from absl import flags

from common import figures, files
from common.errors import UserError
from flags import app

FLAGS = flags.FLAGS
# They differ between any two runs and say nothing.
PLACES = ("model_dir", "export_dir", "predict_dir")
POINTS = 200  # of a curve; steps between are averaged


def read_run(folder: str) -> dict:
    """Flags, versions, metrics and losses of a run's folder.

    `flags` name -> value, `metrics` name -> number (those of evaluations by
    `split: name`, and the last training loss), `losses` and `evaluations`
    [(step, loss)]. Raises UserError: the folder is of no run.
    """
    from training.reporting import run_record

    path = os.path.join(folder, run_record.FILE_NAME)
    record = files.read_json_object(path, "wanted the --model_dir of a run")
    flag_values = record.get("flags")
    if not isinstance(flag_values, dict):
        raise UserError(f"{path}: wanted an object `flags`")
    run_record.check_kinds(path, record)
    start = (record.get("starts") or [{}])[-1]
    versions = start.get("versions", {})
    facts = {f"version of {k}": v for k, v in versions.items()}
    facts["git_revision"] = start.get("git_revision")
    steps, losses = read_losses(folder)
    metrics = {"steps": steps} if steps else {}
    if losses:
        metrics["training loss"] = smooth(losses, 20)[-1][1]
    for report in files.beginning_with(os.path.join(folder, "eval_")):
        if not report.endswith(".json"):
            continue
        split = os.path.basename(report)[len("eval_") : -len(".json")]
        for name, value in files.read_json_object(report, "a metric").items():
            if isinstance(value, (int, float)):
                metrics[f"{split}: {name}"] = value
    kept = {k: v for k, v in flag_values.items() if k not in PLACES}
    return {
        "flags": kept | facts,
        "metrics": metrics,
        "losses": losses,
        "evaluations": read_evaluations(folder),
    }


def read_losses(folder: str) -> tuple[int, list[tuple[int, float]]]:
    """(last step, (step, loss) of every step); (0, []) of a run without any.

    Steps in which no target counts, whose loss and gradient are 0, are left
    out.
    """
    from training.reporting import loss_log

    path = os.path.join(folder, loss_log.FILE_NAME)
    if not files.exists(path):
        return 0, []
    names, rows = loss_log.read_begun(folder)
    if not len(rows):
        return 0, []
    if "loss" not in names:
        raise UserError(f"{path}: wanted a column `loss`, found {names}")
    columns = dict(zip(["step", *names], rows.T, strict=True))
    steps, losses = columns["step"].astype(int), columns["loss"]
    counts = (losses != 0) | (columns.get("gradient_norm", losses + 1) != 0)
    pairs = zip(steps[counts].tolist(), losses[counts].tolist(), strict=True)
    return int(steps[-1]), list(pairs)


def read_evaluations(folder: str) -> list[tuple[int, float]]:
    """(step, loss) of every evaluation that has one; empty without the file."""
    from modeling.checkpoints import weights

    rows = weights.read_log(folder).items()
    return [(step, row["loss"]) for step, row in rows if "loss" in row]


def smooth(losses: list, points: int) -> list[tuple[int, float]]:
    """Means of up to so many parts, each at its last step.

    They are as equal as can be: sizes differ by one step at most.
    """
    count = max(1, min(points, len(losses)))
    ends = [len(losses) * i // count for i in range(count + 1)]
    parts = [losses[a:b] for a, b in itertools.pairwise(ends)]
    return [(p[-1][0], sum(v for _, v in p) / len(p)) for p in parts]


def differing(runs: list[dict]) -> list[str]:
    """Names of the flags that are not the same in all runs."""
    names = sorted(set().union(*(run["flags"] for run in runs)))
    return [
        name
        for name in names
        if len({json.dumps(run["flags"].get(name)) for run in runs}) > 1
    ]


def table(names: list[str], runs: list[dict]) -> list[list[str]]:
    """Rows: header, flags that differ, metrics; a column per run."""
    rows = [["", *names]]
    for name in differing(runs):
        rows.append([name, *(_shown(r["flags"].get(name)) for r in runs)])
    metric_names = dict.fromkeys(key for run in runs for key in run["metrics"])
    for name in metric_names:
        rows.append([name, *(_shown(r["metrics"].get(name)) for r in runs)])
    return rows


def _shown(value: object) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def draw(names: list[str], runs: list[dict], stem: str) -> list[str]:
    """The losses of all runs in one picture; its files.

    A line is the training's, points of its colour are the evaluations'.
    """
    figure, ((axes,),) = figures.new(figsize=(8, 5))
    for name, run in zip(map(figures.literal, names), runs, strict=True):
        colour = None
        if run["losses"]:
            steps, values = zip(*smooth(run["losses"], POINTS), strict=True)
            (line,) = axes.plot(steps, values, label=name)
            colour = line.get_color()
        if run["evaluations"]:
            steps, values = zip(*run["evaluations"], strict=True)
            axes.plot(
                steps, values, "o--", color=colour, label=f"{name}, evaluated"
            )
    axes.set(xlabel="step", ylabel="loss")
    axes.legend()
    figures.caption(
        figure,
        f"One run per colour. Line: training loss, mean of up to {POINTS} "
        "groups of steps. Points: evaluations.",
        "python -m training.compare",
    )
    return figures.save(figure, stem)


def short_names(folders: list[str]) -> list[str]:
    """The parts of the paths in which they differ."""
    parts = [os.path.normpath(f).split(os.sep) for f in folders]
    shared = len(os.path.commonprefix(parts))
    shared = min(shared, min(map(len, parts)) - 1)
    return [os.sep.join(p[shared:]) for p in parts]


def main() -> None:
    """Prints the table; writes it and the picture where a folder is given."""
    folders = [folder for folder in FLAGS.model_dirs if folder]
    if not folders:
        raise UserError("--model_dirs: wanted folders of runs")
    runs = [read_run(folder) for folder in folders]
    names = short_names(folders)
    rows = table(names, runs)
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        cells = [c.ljust(w) for c, w in zip(row, widths, strict=True)]
        print("  ".join(cells).rstrip())
    if FLAGS.output_dir:
        text = "".join("\t".join(row) + "\n" for row in rows)
        path = os.path.join(FLAGS.output_dir, "compare.tsv")
        files.write_text(path, text)
        stem = os.path.join(FLAGS.output_dir, "losses")
        print(f"wrote {', '.join([path, *draw(names, runs, stem)])}")


if __name__ == "__main__":
    flags.DEFINE_list("model_dirs", None, "Folders of the runs.", required=True)
    flags.DEFINE_string(
        "output_dir", "", "Folder for the table as TSV and the picture."
    )
    app.run(main)
