"""The report reads what the run wrote, and says what is missing."""

import json
import math

import pytest

from common.errors import UserError
from scripts import quickstart_report


def write(folder, name, value):
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(value if isinstance(value, str) else json.dumps(value))


@pytest.fixture
def run(tmp_path):
    losses = "step\tloss\n1\t9.0\n" + "".join(
        f"{i}\t{4 + i % 2}\n" for i in range(2, 42)
    )
    losses += "42\t0.0\n"  # a step without a target
    write(tmp_path, "pretrain/losses.tsv", losses)
    held_out = [{"step": 0, "perplexity": 99.5}, {"perplexity": 12.25}]
    write(
        tmp_path,
        "pretrain/evaluations.jsonl",
        "\n".join(map(json.dumps, held_out)),
    )
    write(
        tmp_path,
        "records/manifest.json",
        {"vocab_size": 100, "unigram": {"train_entropy": 3.5}},
    )
    dev = "text\tlabel\n" + "x\ta\n" * 3 + "y\tb\n"
    write(tmp_path, "corpus/classification/dev.tsv", dev)
    write(tmp_path, "classifier/eval_dev.json", {"accuracy": 0.75})
    for start, values in (
        ("pretrained", (0.5, 0.75, 0.625)),
        ("random", (0.25, 0.375, 0.125)),
    ):
        accuracies = {
            str(seed): {"dev": {"accuracy": value}}
            for seed, value in enumerate(values)
        }
        write(tmp_path, f"few_labels/{start}/seeds.json", {"seeds": accuracies})
        settings = {"flags": {"train_examples": 30}}
        write(tmp_path, f"few_labels/{start}/seed_0/run.json", settings)
    for version in ("9", "10"):
        write(tmp_path, f"classifier/export/{version}/saved_model.pb", "")
    answer = {"label": "b", "probabilities": {"a": 0.25, "b": 0.75}}
    write(tmp_path, "prediction.jsonl", json.dumps(answer) + "\n")
    return tmp_path


def test_numbers_come_from_the_files(run):
    numbers, lines = quickstart_report.report(str(run))
    p = numbers["pretraining"]
    assert (p["steps"], p["loss_start"], p["loss_end"]) == (42, 9.0, 4.5)
    assert p["log_vocabulary"] == math.log(100)
    assert (p["held_out_before"], p["held_out_after"]) == (99.5, 12.25)
    assert numbers["classification"] == {"majority": 0.75, "accuracy": 0.75}
    few = numbers["few_labels"]
    assert few["labels"] == 30
    assert few["pretrained"] == [0.5, 0.75, 0.625]
    assert few["gain"] == 0.375
    assert few["standard_error"] == pytest.approx(0.125 * (2 / 3) ** 0.5)
    assert few["verdict"] == "better"
    assert numbers["saved_model"].endswith("export/10")
    text = "\n".join(lines)
    for part in (
        "9.000",
        "4.500",
        "99.5",
        "12.2",
        "0.750",
        "0.625 +- 0.125 from the pretrained",
        "0.250 +- 0.125 from random",
        "export/10",
        "Pretraining helps: with 30 labels",
        "+0.375 +- 0.102",
    ):
        assert part in text


@pytest.mark.parametrize(
    "name",
    [
        "pretrain/losses.tsv",
        "records/manifest.json",
        "few_labels/random/seeds.json",
        "prediction.jsonl",
    ],
)
def test_a_missing_file_is_named(run, name):
    (run / name).unlink()
    with pytest.raises(UserError, match=f"{name} does not exist"):
        quickstart_report.report(str(run))


@pytest.mark.parametrize(
    "random,start",
    [
        ((0.5, 0.75, 0.7), "That pretraining helps is not shown"),
        ((0.9, 0.92, 0.91), "Pretraining does harm here"),
    ],
)
def test_the_last_sentence_says_also_that_it_does_not_help(run, random, start):
    accuracies = {
        str(seed): {"dev": {"accuracy": value}}
        for seed, value in enumerate(random)
    }
    write(run, "few_labels/random/seeds.json", {"seeds": accuracies})
    _, lines = quickstart_report.report(str(run))
    assert lines[-1].startswith(start)
