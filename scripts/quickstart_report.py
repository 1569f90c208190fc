"""Command: what a quickstart run reached, from the files that it wrote.

    python -m scripts.quickstart_report --output_dir=quickstart_output

Every number is read from a log, an evaluation or a prediction of the run.
"""

import csv
import glob
import json
import math
import os
import pathlib
import statistics
import sys
from typing import Any

from absl import flags

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from common import files, summary  # noqa: E402
from common.errors import UserError  # noqa: E402
from flags import app  # noqa: E402
from training.reporting import loss_log  # noqa: E402

FLAGS = flags.FLAGS
AVERAGED_STEPS = 20
STARTS = ("pretrained", "random")
_CURE = "run `bash scripts/quickstart.sh` to its end"


def read_json(path: str) -> dict[str, Any]:
    """The object in a JSON file; UserError if it is not there."""
    return files.read_json_object(path, _CURE)


def read_rows(path: str) -> list[dict]:
    """Rows of a JSON-lines file or, by its name, of a table with a header."""
    if not os.path.exists(path):
        raise UserError(f"{path} does not exist: {_CURE}")
    with open(path, encoding="utf-8", newline="") as f:
        if path.endswith(".tsv"):
            return list(csv.DictReader(f, delimiter="\t"))
        return [json.loads(line) for line in f]


def pretraining(folder: str) -> dict[str, float]:
    """Losses in nats per target, perplexities, and what to compare them with."""
    manifest = read_json(os.path.join(folder, "records", "manifest.json"))
    run = os.path.join(folder, "pretrain")
    path = os.path.join(run, loss_log.FILE_NAME)
    if not os.path.exists(path):
        raise UserError(f"{path} does not exist: {_CURE}")
    names, rows = loss_log.read(run)
    _, losses = loss_log.of_targets(names, rows)
    held_out = read_rows(os.path.join(run, "evaluations.jsonl"))
    return {
        "steps": len(rows),
        "loss_start": float(losses[0]),
        "loss_end": statistics.fmean(losses[-AVERAGED_STEPS:]),
        "log_vocabulary": math.log(manifest["vocab_size"]),
        "unigram_entropy": manifest["unigram"]["train_entropy"],
        "held_out_before": held_out[0]["perplexity"],
        "held_out_after": held_out[-1]["perplexity"],
    }


def classification(folder: str) -> dict[str, float]:
    """Dev accuracy with all labels, and the share of the largest class."""
    dev = os.path.join(folder, "corpus", "classification", "dev.tsv")
    labels = [row["label"] for row in read_rows(dev)]
    path = os.path.join(folder, "classifier", "eval_dev.json")
    return {
        "majority": max(map(labels.count, labels)) / len(labels),
        "accuracy": read_json(path)["accuracy"],
    }


def few_labels(folder: str) -> dict[str, Any]:
    """What pretraining adds where labels are few: two starts, several seeds."""
    result = {}
    for start in STARTS:
        home = os.path.join(folder, "few_labels", start)
        seeds = read_json(os.path.join(home, "seeds.json"))["seeds"]
        result[start] = [seeds[s]["dev"]["accuracy"] for s in sorted(seeds)]
    run = read_json(os.path.join(home, "seed_0", "run.json"))
    gain, error = summary.gain(*(result[start] for start in STARTS))
    return result | {
        "labels": run["flags"]["train_examples"],
        "gain": gain,
        "standard_error": error,
        "verdict": summary.verdict(gain, error),
    }


def sentence(few: dict[str, Any]) -> str:
    """Whether pretraining helps, and by how much."""
    said = {
        "better": "Pretraining helps",
        "worse": "Pretraining does harm here",
        "not shown": "That pretraining helps is not shown",
    }[few["verdict"]]
    return (
        f"{said}: with {few['labels']} labels accuracy differs by "
        f"{few['gain']:+.3f} +- {few['standard_error']:.3f} (standard error of "
        f"{len(few[STARTS[0]])} seeds each; two of them count)."
    )


def report(folder: str) -> tuple[dict, list[str]]:
    """The numbers and the lines that show them."""
    p, c = pretraining(folder), classification(folder)
    few = few_labels(folder)
    of = {start: summary.describe(few[start]) for start in STARTS}
    exports = glob.glob(os.path.join(folder, "classifier", "export", "[0-9]*"))
    if not exports:
        raise UserError(f"{folder}/classifier/export holds no SavedModel")
    saved_model = max(exports, key=lambda path: int(os.path.basename(path)))
    prediction = read_rows(os.path.join(folder, "prediction.jsonl"))[0]
    label = prediction["label"]
    lines = [
        f"pretraining loss      {p['loss_start']:.3f} at step 1, "
        f"{p['loss_end']:.3f} at step {p['steps']} "
        f"(ln(vocabulary) {p['log_vocabulary']:.3f}, "
        f"unigram entropy {p['unigram_entropy']:.3f})",
        f"held-out perplexity   {p['held_out_before']:.1f} before, "
        f"{p['held_out_after']:.1f} after",
        f"dev accuracy          {c['accuracy']:.3f} with all labels "
        f"(largest class {c['majority']:.3f})",
        f"with {few['labels']} labels       "
        f"{of['pretrained']['mean']:.3f} +- {of['pretrained']['sd']:.3f} from the "
        f"pretrained weights, {of['random']['mean']:.3f} +- "
        f"{of['random']['sd']:.3f} from random ones",
        f"SavedModel            {saved_model}",
        f"prediction            {label} "
        f"({prediction['probabilities'][label]:.3f})",
        sentence(few),
    ]
    return {
        "pretraining": p,
        "classification": c,
        "few_labels": few,
        "saved_model": saved_model,
        "prediction": prediction,
    }, lines


def main() -> None:
    """Prints the report and writes `report.json`."""
    numbers, lines = report(FLAGS.output_dir)
    files.write_json(os.path.join(FLAGS.output_dir, "report.json"), numbers)
    print("\n".join(lines))


if __name__ == "__main__":
    flags.DEFINE_string(
        "output_dir",
        "quickstart_output",
        "The folder that scripts/quickstart.sh wrote to.",
    )
    app.run(main)
