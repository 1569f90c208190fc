"""Models that others fine-tuned, in the commands of their heads, untrained."""

import json
import shutil

import numpy as np
import pytest

from serving.saved_model import SavedModel
from tests.helpers import commands
from tests.helpers.released_folders import write_head

pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow


def command(*arguments):
    done = commands.run(*arguments)
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    return done.stdout


ALL = ("--do_eval", "--do_predict", "--do_export", "--progress=none")


def asked(home):
    """The export of a run."""
    return SavedModel(str(home / "export"))


@pytest.mark.parametrize(
    "name",
    ["xlnet_sequence", "bert_sequence", "albert_sequence", "modernbert_mean"],
)
def test_classes(tmp_path, name):
    folder = write_head(tmp_path / "released", name)
    texts = ["the river is red", "who is near the boat", "green tower"]
    rows = "".join(
        f"{text}\t{label}\n"
        for text, label in zip(texts, ("bad", "fair", "good"), strict=True)
    )
    for split in ("dev", "test"):
        (tmp_path / f"{split}.tsv").write_text("text\tlabel\n" + rows)
    home = tmp_path / "out"
    said = command(
        "run_classifier.py",
        "--task_name=tsv",
        f"--data_dir={tmp_path}",
        f"--init_checkpoint={folder}",
        f"--model_dir={home}",
        *ALL,
    )
    assert f"settings of {folder}" in said and "accuracy" in said
    lines = (home / "predictions" / "test_predictions.tsv").read_text()
    predicted = [line.split("\t") for line in lines.splitlines()[1:]]
    answers = asked(home)({"text": texts})
    labels = [label.decode() for label in answers["label"]]
    assert set(labels) <= {"bad", "fair", "good"}
    assert all(a in row for a, row in zip(labels, predicted, strict=True))
    direct = tmp_path / "direct"
    command(
        "-m",
        "serving.export",
        f"--model_dir={folder}",
        f"--output_dir={direct}",
    )
    again = SavedModel(str(direct))({"text": texts})
    np.testing.assert_allclose(
        again["probabilities"], answers["probabilities"], atol=1e-6
    )


@pytest.mark.parametrize(
    "name", ["xlnet_token", "bert_token", "albert_token", "modernbert_token"]
)
def test_tags(tmp_path, name):
    folder = write_head(tmp_path / "released", name)
    lines = "the\tO\nriver\tB-x\nis\tI-x\nred\tB-y\n\nwho\tO\nis\tO\n"
    for split in ("dev", "test"):
        (tmp_path / f"{split}.conll").write_text(lines)
    home = tmp_path / "out"
    said = command(
        "run_tagger.py",
        f"--data_dir={tmp_path}",
        f"--init_checkpoint={folder}",
        f"--model_dir={home}",
        *ALL,
    )
    assert "f1" in said
    assert asked(home).description["labels"] == ["O", "B-x", "I-x", "B-y"]


@pytest.mark.parametrize(
    "name",
    [
        "xlnet_span",
        "xlnet_beams",
        "bert_span",
        "albert_span",
        "modernbert_span",
    ],
)
def test_answers(tmp_path, name):
    folder = write_head(tmp_path / "released", name)
    paragraph = "the river is red near the tower and the boat is green"
    question = {
        "id": "1",
        "question": "what is red",
        "answers": [{"text": "river", "answer_start": 4}],
    }
    data = {
        "version": "1.1",
        "data": [
            {
                "title": "t",
                "paragraphs": [{"context": paragraph, "qas": [question]}],
            }
        ],
    }
    (tmp_path / "dev.json").write_text(json.dumps(data))
    home = tmp_path / "out"
    said = command(
        "run_squad.py",
        f"--predict_file={tmp_path}/dev.json",
        f"--init_checkpoint={folder}",
        f"--model_dir={home}",
        "--max_seq_length=40",
        "--max_query_length=8",
        "--doc_stride=16",
        *ALL,
    )
    assert "f1" in said
    path = home / "predictions" / "predictions.json"
    answer = asked(home)(
        {"question": ["what is red"], "paragraph": [paragraph]}
    )
    assert answer["answer"][0].decode() == json.loads(path.read_text())["1"]


def test_the_encoder_of_an_unknown_head(tmp_path):
    folder = write_head(tmp_path / "released", "bert_next_sentence")
    embed = ("-m", "serving.embed", f"--checkpoint={folder}", "--text=river")
    done = commands.run(*embed)
    assert done.returncode == 1
    assert (
        "--head=encoder (serving.export: --task=embedding) leaves"
        in done.stderr
    )
    out = command(*embed, "--pooling=mean", "--head=encoder")
    assert len(json.loads(out)["vector"]) == 8
    for split in ("train", "dev"):
        (tmp_path / f"{split}.tsv").write_text(
            "text\tlabel\nthe river\ta\nred boat\tb\n"
        )
    command(
        "run_classifier.py",
        "--task_name=tsv",
        f"--data_dir={tmp_path}",
        f"--init_checkpoint={folder}",
        f"--model_dir={tmp_path}/out",
        "--head=encoder",
        "--do_train",
        "--train_steps=2",
        "--train_batch_size=2",
        "--max_seq_length=16",
        "--warmup_steps=0",
    )
    shutil.rmtree(tmp_path / "out")
