"""Command: what a quickstart run reached, from the files that it wrote.

    python -m scripts.quickstart_report --output_dir=quickstart_output

Every number is read from a log, an evaluation or a prediction of the run.
"""

import csv
import glob
import json
import math
import os
from typing import Any

from absl import flags

from common import files
from common.errors import UserError
from flags import app

FLAGS = flags.FLAGS
AVERAGED_STEPS = 20


def read_json(path: str) -> Any:
    """The content of a JSON file; UserError if it is not there."""
    if not os.path.exists(path):
        raise UserError(
            f"{path} does not exist: run `bash scripts/quickstart.sh` to its end"
        )
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def read_rows(path: str) -> list[dict]:
    """Rows of a JSON-lines file or, by its name, of a table with a header."""
    if not os.path.exists(path):
        raise UserError(
            f"{path} does not exist: run `bash scripts/quickstart.sh` to its end"
        )
    with open(path, encoding="utf-8", newline="") as f:
        if path.endswith(".tsv"):
            return list(csv.DictReader(f, delimiter="\t"))
        return [json.loads(line) for line in f]


def mean(values: list[float]) -> float:
    """Arithmetic mean of at least one value."""
    return math.fsum(values) / len(values)


def pretraining(folder: str) -> dict[str, float]:
    """Losses in nats per target, perplexities, and what to compare them with."""
    manifest = read_json(os.path.join(folder, "records", "manifest.json"))
    losses = [
        float(row["loss"])
        for row in read_rows(os.path.join(folder, "pretrain", "losses.tsv"))
    ]
    held_out = read_rows(os.path.join(folder, "pretrain", "evaluations.jsonl"))
    return {
        "steps": len(losses),
        "loss_start": losses[0],
        "loss_end": mean(losses[-AVERAGED_STEPS:]),
        "log_vocabulary": math.log(manifest["vocab_size"]),
        "unigram_entropy": manifest["unigram"]["train_entropy"],
        "held_out_before": held_out[0]["perplexity"],
        "held_out_after": held_out[-1]["perplexity"],
    }


def classification(folder: str) -> dict[str, float]:
    """Dev accuracies with and without pretraining, and of the largest class."""
    dev = os.path.join(folder, "corpus", "classification", "dev.tsv")
    labels = [row["label"] for row in read_rows(dev)]
    result = {"majority": max(map(labels.count, labels)) / len(labels)}
    for key, name in (
        ("pretrained", "classifier"),
        ("scratch", "classifier_scratch"),
    ):
        path = os.path.join(folder, name, "eval_dev.json")
        result[key] = read_json(path)["accuracy"]
    return result


def report(folder: str) -> tuple[dict, list[str]]:
    """The numbers and the lines that show them."""
    p, c = pretraining(folder), classification(folder)
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
        f"dev accuracy          {c['pretrained']:.3f} with the pretrained "
        f"weights, {c['scratch']:.3f} without, same steps "
        f"(largest class {c['majority']:.3f})",
        f"SavedModel            {saved_model}",
        f"prediction            {label} "
        f"({prediction['probabilities'][label]:.3f})",
    ]
    return {
        "pretraining": p,
        "classification": c,
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
