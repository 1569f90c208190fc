"""Small inputs of every kind, made by the commands themselves.

A recipe is a function that writes files, or the command that makes them. Each
is made once, when it is asked for first, below the folder of the world.
"""

import json
import os
import random
from collections.abc import Callable, Iterator

import numpy as np

from common.vocabularies.released_vocabulary import as_json

SIZES = ["--n_layer=1", "--d_model=8", "--n_head=2", "--d_head=4"]
SIZES += ["--d_inner=8"]
TRAIN = ["--train_steps=1", "--iterations=1", "--train_batch_size=4"]
TRAIN += ["--save_steps=1", "--progress=none", "--learning_rate=1e-3"]
TWO_STEPS = [*TRAIN, "--train_steps=2"]  # each saved: two checkpoints
CONFIG = {
    "d_head": 4,
    "d_inner": 8,
    "d_model": 8,
    "ff_activation": "gelu",
    "n_head": 2,
    "n_layer": 1,
    "n_token": 200,
    "untie_r": True,
}
WORDS = [
    "".join(random.Random(i).choices("abcdefgh", k=2 + i % 5))
    for i in range(300)
]


def write_text(path: str) -> None:
    """Documents of random words, one sentence a line."""
    rng = random.Random(7)
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(60):
            for _ in range(rng.randint(5, 20)):
                f.write(" ".join(rng.choices(WORDS, k=9)) + ".\n")
            f.write("\n")


def write_jsonl(path: str) -> None:
    """The same, one document per line."""
    rng = random.Random(7)
    with open(path, "w", encoding="utf-8") as f:
        for _ in range(60):
            text = "\n".join(
                " ".join(rng.choices(WORDS, k=9)) + "." for _ in range(12)
            )
            f.write(json.dumps({"text": text}) + "\n")


def write_rows(path: str) -> None:
    """Texts to predict."""
    with open(path, "w", encoding="utf-8") as f:
        f.write("text\n")
        f.writelines(" ".join(WORDS[i : i + 5]) + "\n" for i in range(9))


def write_task(path: str) -> None:
    """train.tsv, of more than a page of a disk, and dev.tsv."""
    os.makedirs(path)
    for split, count in (("train", 200), ("dev", 8)):
        with open(os.path.join(path, f"{split}.tsv"), "w") as f:
            f.write("text\tlabel\n")
            for i in range(count):
                text = " ".join(WORDS[i : i + 5])
                f.write(f"{text}\t{'no' if i % 2 else 'yes'}\n")


def write_squad(path: str) -> None:
    """Two paragraphs in SQuAD's layout."""
    paragraphs = []
    for i in range(2):
        context = " ".join(WORDS[i : i + 12])
        answer = {"text": WORDS[i + 3], "answer_start": 0}
        answer["answer_start"] = context.index(answer["text"])
        question = {"id": f"q{i}", "question": "which", "answers": [answer]}
        paragraphs.append({"context": context, "qas": [question]})
    value = {"data": [{"title": "t", "paragraphs": paragraphs}]}
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def write_race(path: str) -> None:
    """One passage per split."""
    for split in ("train", "dev"):
        folder = os.path.join(path, split, "high")
        os.makedirs(folder)
        value = {
            "article": " ".join(WORDS[:12]),
            "questions": ["which", "what"],
            "options": [WORDS[i : i + 4] for i in (0, 4)],
            "answers": ["A", "C"],
        }
        with open(os.path.join(folder, "1.txt"), "w") as f:
            json.dump(value, f)


def write_tags(path: str) -> None:
    """A token and its tag per line, sentences apart."""
    with open(path, "w", encoding="utf-8") as f:
        for i in range(8):
            f.writelines(
                f"{word}\t{'O' if len(word) % 2 else 'B-x'}\n"
                for word in WORDS[i : i + 5]
            )
            f.write("\n")


def write_newsqa(path: str) -> None:
    """One story in NewsQA's layout."""
    story = {
        "storyId": "a",
        "type": "train",
        "text": " ".join(WORDS * 5),
        "questions": [{"q": "which", "consensus": {"s": 0, "e": 2}}],
    }
    with open(path, "w", encoding="utf-8") as f:
        json.dump({"data": [story]}, f)


def write_ranking(path: str) -> None:
    """Nine queries, thirty documents and judgements."""
    os.makedirs(path)
    bodies = [WORDS[i : i + 6] for i in range(30)]
    rows = {
        "topics.tsv": [f"{q}\t{WORDS[q]} {WORDS[q + 3]}" for q in range(9)],
        "documents.jsonl": [
            json.dumps({"id": f"d{i}", "text": " ".join(body)})
            for i, body in enumerate(bodies)
        ],
        "qrels": [
            f"{q} 0 d{i} 1"
            for q in range(9)
            for i, body in enumerate(bodies)
            if WORDS[q] in body
        ],
    }
    for name, lines in rows.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as f:
            f.write("\n".join(lines) + "\n")


_PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh")
_PIECES = (*_PIECES, *(f"##{c}" for c in "abcdefgh"))
_BERT = {
    "model_type": "bert",
    "vocab_size": len(_PIECES),
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
}
# One of sentence-transformers.
_SENTENCES = {
    "modules.json": [
        {"type": "models.Transformer", "path": ""},
        {"type": "models.Pooling", "path": "1_Pooling"},
    ],
    "1_Pooling/config.json": {"pooling_mode_mean_tokens": True},
    "sentence_bert_config.json": {"max_seq_length": 32},
}


def write_released(path: str) -> None:
    """A BERT as Hugging Face folders have it."""
    from safetensors import numpy as safetensors

    os.makedirs(os.path.join(path, "1_Pooling"))
    words = "".join(f"{piece}\n" for piece in _PIECES).encode()
    content = {
        "config.json": _BERT,
        "tokenizer.json": json.loads(as_json("vocab.txt", words, {})),
        "tokenizer_config.json": {"do_lower_case": True},
    } | _SENTENCES
    for name, value in content.items():
        with open(os.path.join(path, name), "w", encoding="utf-8") as f:
            json.dump(value, f)
    rng = np.random.default_rng(3)
    tensors = {
        name: rng.normal(size=shape).astype(np.float32)
        for name, shape in _bert_shapes()
    }
    safetensors.save_file(tensors, os.path.join(path, "model.safetensors"))


def _bert_shapes() -> Iterator[tuple[str, tuple[int, ...]]]:
    """Names and shapes of all weights of `_BERT`."""
    size, width = _BERT["vocab_size"], _BERT["hidden_size"]
    of_text = "bert.embeddings."
    of_layer = "bert.encoder.layer.0."
    yield of_text + "word_embeddings.weight", (size, width)
    yield of_text + "position_embeddings.weight", (64, width)
    yield of_text + "token_type_embeddings.weight", (2, width)
    for name in (
        *(f"{of_layer}attention.self.{n}" for n in ("query", "key", "value")),
        *(of_layer + f"{n}dense" for n in ("attention.output.", "output.")),
        of_layer + "intermediate.dense",
        "bert.pooler.dense",
        "cls.predictions.transform.dense",
    ):
        yield name + ".weight", (width, width)
        yield name + ".bias", (width,)
    for name in (
        of_text,
        *(of_layer + n for n in ("attention.output.", "output.")),
        "cls.predictions.transform.",
    ):
        yield name + "LayerNorm.weight", (width,)
        yield name + "LayerNorm.bias", (width,)
    yield "cls.predictions.bias", (size,)


def write_config(path: str) -> None:
    """`xlnet_config.json` of the smallest model."""
    with open(path, "w", encoding="utf-8") as f:
        json.dump(CONFIG, f)


def _finetune(command: str, out: str, *more: str) -> list[str]:
    return [
        command,
        f"--model_dir={out}",
        "--spiece_model_file={spiece}",
        "--model_config_path={config}",
        "--max_seq_length=24",
        "--eval_batch_size=4",
        "--do_train",
        *TWO_STEPS,
        *more,
    ]


Recipe = Callable[[str], None] | list[str]
# Name -> (file name, recipe, files that it is made of).
RECIPES: dict[str, tuple[str, Recipe]] = {
    "text": ("text.txt", write_text),
    "jsonl": ("text.jsonl", write_jsonl),
    "rows": ("rows.tsv", write_rows),
    "config": ("config.json", write_config),
    "task": ("task", write_task),
    "squad_file": ("squad.json", write_squad),
    "race_data": ("race", write_race),
    "tags": ("tags.tsv", write_tags),
    "ranking": ("ranking", write_ranking),
    "newsqa": ("newsqa.json", write_newsqa),
    "released": ("released", write_released),
    "spiece": (
        "spiece.model",
        ["data.train_sentencepiece", "--input_glob={text}"]
        + ["--model_prefix={world}/spiece", "--vocab_size=200"],
    ),
    "records": (
        "records",
        ["data.create_pretraining_data", "--input_glob={text}"]
        + ["--spiece_model_file={spiece}", "--output_dir={world}/records"]
        + ["--seq_len=24", "--reuse_len=12"],
    ),
    "streams": (
        "streams",
        ["data.create_lm_data", "--train_glob={text}", "--valid_glob={text}"]
        + ["--unit=byte", "--output_dir={world}/streams"],
    ),
    "causal_lm": (
        "causal_lm",
        ["run_lm", "--data_dir={streams}", "--model_dir={world}/causal_lm"]
        + [*SIZES, *TWO_STEPS, "--mem_len=12", "--seq_len=12"],
    ),
    "lm": (
        "lm",
        ["run_pretrain", "--data_dir={records}", "--model_dir={world}/lm"]
        + [*SIZES, *TWO_STEPS, "--mem_len=12", "--mode=train"]
        + ["--spiece_model_file={spiece}"],
    ),
    "classifier": (
        "classifier",
        _finetune("run_classifier", "{world}/classifier", "--task_name=tsv")
        + ["--data_dir={task}"],
    ),
    "squad": (
        "squad",
        _finetune("run_squad", "{world}/squad", "--train_file={squad_file}")
        + ["--max_query_length=4", "--doc_stride=8"],
    ),
    "race": (
        "race_model",
        _finetune("run_race", "{world}/race_model", "--data_dir={race_data}"),
    ),
    "tagger": (
        "tagger",
        _finetune("run_tagger", "{world}/tagger", "--train_file={tags}")
        + ["--doc_stride=8"],
    ),
    "multitask": (
        "multitask",
        _finetune("run_multitask", "{world}/multitask", "--task_name=tsv")
        + ["--data_dir={task}"],
    ),
    "export": (
        "export",
        ["serving.export.__main__", "--model_dir={classifier}", "--nocheck"]
        + ["--output_dir={world}/export"],
    ),
}
