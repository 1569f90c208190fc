"""A collection whose relevant documents say the query's words, and options."""

import json

import numpy as np

from common.vocabularies.text_settings import TextSettings
from data.finetuning.ranking.options import RankingDataOptions
from training.finetuning.options import FinetuneOptions
from training.finetuning.ranking.options import RankerOptions
from training.finetuning.ranking.run import RankingOptions
from training.run_options import OptimizerOptions, RunOptions, StrategyOptions

WORDS = (
    "red green tower river winter summer music market school garden bridge "
    "window doctor letter silver forest island engine kitchen mountain"
).split()
CONFIG = {
    "d_head": 3,
    "d_inner": 10,
    "d_model": 12,
    "ff_activation": "gelu",
    "n_head": 2,
    "n_layer": 2,
    "n_token": 1000,
    "untie_r": True,
    "dropout": 0.0,
    "dropatt": 0.0,
}
NUM_QUERIES = 9


def write(folder, documents=30):
    """Files of the collection and a configuration; options of the files."""
    rng = np.random.default_rng(0)
    topics, judged, texts = [], [], []
    bodies = [
        rng.choice(WORDS, rng.integers(4, 9)).tolist() for _ in range(documents)
    ]
    for i, body in enumerate(bodies):
        texts.append(json.dumps({"id": f"d{i}", "text": " ".join(body)}))
    for q in range(NUM_QUERIES):
        asked = rng.choice(WORDS, 2, replace=False).tolist()
        topics.append(f"{q}\t{' '.join(asked)}")
        for i, body in enumerate(bodies):
            grade = sum(word in body for word in asked)
            if grade:
                judged.append(f"{q} 0 d{i} {grade}")
    for name, rows in (
        ("topics.tsv", topics),
        ("documents.jsonl", texts),
        ("qrels", judged),
    ):
        (folder / name).write_text("\n".join(rows) + "\n")
    (folder / "config.json").write_text(json.dumps(CONFIG))
    (folder / "xlnet.json").write_text(json.dumps(CONFIG))


def data_options(folder, **changes):
    values = dict(
        topics_file=str(folder / "topics.tsv"),
        documents=str(folder / "documents.jsonl"),
        qrels_file=str(folder / "qrels"),
        depth=12,
        folds=3,
        max_pairs_per_query=20,
    )
    return RankingDataOptions(**(values | changes))


def finetune_options(folder, **changes):
    run = RunOptions(
        model_dir=str(folder / changes.pop("model", "model")),
        train_steps=changes.pop("steps", 2),
        train_batch_size=4,
        eval_batch_size=6,
        iterations=2,
        save_steps=0,
        progress="none",
        optimizer=OptimizerOptions(learning_rate=3e-3),
        strategy=StrategyOptions(seed=3),
    )
    values = dict(
        do_train=True,
        do_eval=True,
        model_config_path=str(folder / "xlnet.json"),
    )
    return FinetuneOptions(run, **(values | changes))


def options(folder, data=(), ranker=(), **finetune):
    values = dict(
        seeds=2, epochs=3, max_doc_length=12, max_query_length=6, vector_size=7
    )
    return RankingOptions(
        data_options(folder, **dict(data)),
        RankerOptions(**(values | dict(ranker))),
        finetune_options(folder, **finetune),
    )


class Letters:
    """A tokenizer whose pieces are letters."""

    sha256 = "of the vocabulary"
    settings = TextSettings()

    def encode_batch(self, texts):
        return [np.array([ord(c) - 97 for c in t], np.int32) for t in texts]
