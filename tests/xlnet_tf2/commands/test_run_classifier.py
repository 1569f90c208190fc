"""run_classifier.py end to end on toy data and a toy model."""

import json
import pathlib
import sys

import numpy as np
import pytest
import sentencepiece

from common.errors import UserError
from data.finetuning.options import FeatureOptions
from tests import conftest
from tests.helpers import commands
from tests.helpers.runs import builds
from tests.helpers.runs.classifier import (
    CONFIG,
    make_job,
    make_options,
    read_rows,
    run,
    write_task,
)
from tests.helpers.runs.written_slices import check_written

ROOT = str(conftest.ROOT)


@pytest.mark.long
@pytest.mark.shared
def test_train_evaluate_predict(tmp_path, spiece_model):
    write_task(tmp_path)
    options = make_options(
        tmp_path,
        do_train=True,
        do_eval=True,
        do_predict=True,
        slice_by_length=True,
    )
    results, said = run(tmp_path, spiece_model, options)
    assert set(results["dev"]) == {"accuracy", "macro_f1", "loss"}
    model_dir = tmp_path / "model"
    stored = json.loads((model_dir / "eval_dev.json").read_text())
    assert stored.pop("checkpoint").startswith("model.ckpt-")
    assert stored == results["dev"]
    slices = check_written(model_dir, stored, "accuracy")
    assert sum(f" {s['examples']} examples: " in " ".join(said) for s in slices)
    spec = json.loads((model_dir / "task.json").read_text())
    assert spec["labels"] == ["no", "yes"]
    copy = (model_dir / "spiece.model").read_bytes()
    assert copy == pathlib.Path(spiece_model).read_bytes()
    # 7 rows in batches of 4: each once, in order, no padding row.
    rows = read_rows(model_dir / "predictions" / "test_predictions.tsv")
    assert rows[0] == ["guid", "prediction", "p(no)", "p(yes)"]
    assert [r[0] for r in rows[1:]] == [str(i) for i in range(7)]
    for _, guess, no, yes in rows[1:]:
        assert float(no) + float(yes) == pytest.approx(1, abs=2e-6)
        assert guess == ("no", "yes")[float(yes) > float(no)]

    # Another task in the same folder is refused before anything is written.
    with pytest.raises(UserError, match="is of another task: `max_seq_length`"):
        run(tmp_path, spiece_model, options, FeatureOptions(spiece_model, 12))


@pytest.mark.shared
def test_what_users_get_wrong_is_one_line(tmp_path, spiece_model):
    from training.finetuning import sources

    write_task(tmp_path)
    options = make_options(tmp_path, do_train=True)
    config = dict(CONFIG, n_token=999)
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="has 1000 pieces.*vocabulary of 999"):
        run(tmp_path, spiece_model, options)
    assert not (tmp_path / "model").exists()
    with pytest.raises(UserError, match="give --init_checkpoint, a folder"):
        sources.find_spiece(options, "")
    padded = make_options(tmp_path, do_train=True, pooling="original")
    buckets = FeatureOptions(spiece_model, 16, length_buckets="8")
    with pytest.raises(UserError, match="give one of them"):
        make_job(tmp_path, spiece_model, padded, buckets)
    with pytest.raises(UserError, match="nothing to do"):
        make_options(tmp_path)


@pytest.mark.slow
@pytest.mark.shared
def test_replicas_batch_sizes_and_buckets_agree(tmp_path, spiece_model):
    """One child process with four logical CPUs runs every variant."""
    write_task(tmp_path)
    done = commands.run(
        *(
            "-m",
            "tests.xlnet_tf2.commands.test_run_classifier",
            tmp_path,
            spiece_model,
        )
    )
    assert done.returncode == 0, done.stderr[-2000:]
    results = json.loads((tmp_path / "results.json").read_text())
    one = results.pop("1 replica, batch 8")
    assert len(results) == 4
    for metrics, rows in results.values():
        assert metrics == pytest.approx(one[0], abs=1e-6)
        assert [r[0] for r in rows] == [r[0] for r in one[1]]
        np.testing.assert_allclose(values(rows), values(one[1]), atol=2e-6)
    assert [r[0] for r in one[1]] == ["guid", *map(str, range(7))]


def values(rows):
    return np.array([[float(x) for x in r[2:]] for r in rows[1:]])


def child(folder: pathlib.Path, spiece: str) -> None:
    """Trains on four replicas, then evaluates on 4, 2 and 1."""
    from training.run_options import StrategyOptions

    found = {}
    for name, replicas, batch, buckets in (
        ("4 replicas, batch 8", 4, 8, ""),
        ("2 replicas, batch 4", 2, 4, ""),
        ("1 replica, batch 8", 1, 8, ""),
        ("1 replica, batch 3", 1, 3, ""),
        ("1 replica, buckets", 1, 4, "6,9"),
    ):
        strategy = StrategyOptions()
        if replicas > 1:
            strategy = StrategyOptions(
                "mirrored", num_virtual_replicas=replicas
            )
        options = make_options(
            folder,
            steps=20,
            do_train=not found,
            do_eval=True,
            do_predict=True,
            run={
                "strategy": strategy,
                "train_batch_size": 8,
                "eval_batch_size": batch,
            },
        )
        features = FeatureOptions(spiece, 16, length_buckets=buckets)
        results, _ = run(folder, spiece, options, features)
        rows = read_rows(folder / "model/predictions/test_predictions.tsv")
        found[name] = (results["dev"], rows)
    (folder / "results.json").write_text(json.dumps(found))


@pytest.mark.slow
@pytest.mark.shared
def test_regression_multi_label_three_texts_and_all_checkpoints(
    tmp_path, spiece_model
):
    write_task(tmp_path)
    for split in ("train", "dev"):
        rows = read_rows(tmp_path / f"{split}.tsv")[1:]
        three = ["text_a\ttext_b\ttext_c\tlabel"]
        three += [
            f"{t}\tx\t{t}\t{'r|w' if y == 'yes' else ''}" for t, y in rows
        ]
        (tmp_path / f"{split}.tsv").write_text("\n".join(three) + "\n")
    (tmp_path / "test.tsv").unlink()
    options = make_options(
        tmp_path,
        steps=6,
        do_train=True,
        do_eval=True,
        do_predict=True,
        eval_all_ckpt=True,
        run={"save_steps": 2, "iterations": 2, "max_save": 0},
    )
    results, said = run(tmp_path, spiece_model, options, head="multi_label")
    assert set(results["dev"]) >= {"micro_f1", "macro_f1", "exact_match"}
    chosen = json.loads((tmp_path / "model/eval_all_ckpt.json").read_text())
    assert len(chosen["scores"]) == 3
    assert chosen["scores"][chosen["best"]] == max(chosen["scores"].values())
    assert any("best of 3" in line for line in said)
    rows = read_rows(tmp_path / "model/predictions/dev_predictions.tsv")
    assert rows[0] == ["guid", "prediction", "p(r)", "p(w)"]
    assert len(rows) == 12


@pytest.mark.slow
def test_labels_that_look_like_flags_go_through_all_commands(tmp_path):
    """Training, evaluation, prediction, an export and its predictions."""
    labels = ("--1", "-2")
    write_task(tmp_path, rows=12, labels=labels)
    spiece = builds.train_spiece(
        tmp_path, builds.write_corpus(tmp_path / "corpus.txt")
    )
    size = sentencepiece.SentencePieceProcessor(spiece).get_piece_size()
    config = CONFIG | {"n_layer": 1, "n_token": size}
    (tmp_path / "config.json").write_text(json.dumps(config))
    model = tmp_path / "model"

    def command(*arguments):
        done = commands.run(*arguments)
        assert done.returncode == 0, done.stderr[-3000:]

    task = ("run_classifier.py", f"--model_dir={model}", "--do_eval")
    task += ("--task_name=tsv", f"--data_dir={tmp_path}", "--do_predict")
    command(
        *(*task, f"--spiece_model_file={spiece}", "--max_seq_length=16"),
        *(f"--model_config_path={tmp_path}/config.json", "--train_steps=2"),
        *("--train_batch_size=4", "--do_train", "--do_export"),
    )
    first = read_rows(model / "predictions/test_predictions.tsv")
    assert first[0] == ["guid", "prediction", "p(--1)", "p(-2)"]
    assert {row[1] for row in first[1:]} <= {*labels}
    command(*task, "--labels", ",".join(labels))
    assert read_rows(model / "predictions/test_predictions.tsv") == first
    rows = read_rows(model / "predictions/dev_examples.tsv")
    gold = read_rows(tmp_path / "dev.tsv")
    column = rows[0].index("label")
    assert [r[column] for r in rows[1:]] == [r[1] for r in gold[1:]]
    output = tmp_path / "answers.jsonl"
    command(
        *("-m", "serving.predict", f"--saved_model_dir={model}/export"),
        *(f"--input_file={tmp_path}/dev.tsv", f"--output_file={output}"),
    )
    answers = [json.loads(line) for line in output.read_text().splitlines()]
    assert [a["true_label"] for a in answers] == [r[1] for r in gold[1:]]
    assert all(list(a["probabilities"]) == [*labels] for a in answers)


@pytest.mark.slow
@pytest.mark.shared
def test_sts_b_writes_a_submission(tmp_path, spiece_model):
    write_task(tmp_path)
    header = "index\tsentence1\tsentence2\tscore\n"
    for split in ("train", "dev"):
        body = "".join(f"{i}\tred {i}\tblue\t{i % 6}\n" for i in range(12))
        (tmp_path / f"{split}.tsv").write_text(header + body)
    (tmp_path / "test.tsv").write_text(
        "index\tsentence1\tsentence2\n9\ta\tb\n4\tc\td\n"
    )
    options = make_options(
        tmp_path, do_train=True, do_eval=True, do_predict=True
    )
    results, _ = run(tmp_path, spiece_model, options, task_name="STS-B")
    assert set(results["dev"]) == {"loss", "mse", "pearson", "spearman"}
    rows = read_rows(tmp_path / "model/predictions/STS-B.tsv")
    assert [r[0] for r in rows] == ["index", "9", "4"]
    assert all(0 <= float(r[1]) <= 5 for r in rows[1:])


if __name__ == "__main__":
    child(pathlib.Path(sys.argv[1]), sys.argv[2])
