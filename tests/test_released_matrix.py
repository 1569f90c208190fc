"""Every command with every kind of tokenizer: it works, or says why in a line.

Folders are tiny and made here; what a cell answers is compared where two ways
lead to the same answer.
"""

import json
import re
import shutil

import numpy as np
import pytest
import tensorflow as tf

from data.text.opening import graph_tokenizer, open_tokenizer
from modeling import XLNetConfig
from modeling.checkpoints import conversion
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.heads import table as heads
from serving.saved_model import SavedModel
from tests import (
    commands,
    released,
    test_run_multitask,
    test_run_race,
    test_run_tagger,
)
from tests.data import builds
from tests.training.finetuning.ranking import toy

pytest.importorskip("tokenizers")
SIZES = {"d_model": 12, "n_layer": 2, "n_head": 2, "d_inner": 18}
TEXTS = [
    "the red river",
    "A green tower, 2,000 boats?",
    "\u039f\u0394\u039f\u03a3 caf\u00e9 e\u0301a \ufb01ne \u00bd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467 it's 19, ``so''",
]


def _xlnet_json(folder):
    path = builds.train_spiece(folder, builds.write_corpus(folder / "c.txt"))
    released.unigram_json(folder, path)
    (folder / "spiece.model").unlink()


def _albert_json(folder):
    """As transformers saves it: without `spiece.model`."""
    path = released.albert(folder, do_lower_case=True)
    content = open_tokenizer(path).vocabulary.content
    (folder / "tokenizer.json").write_bytes(content)
    (folder / "spiece.model").unlink()


def _vocab_alone(folder):
    released.wordpiece_folder(folder)
    (folder / "tokenizer_config.json").unlink()


def _wordpiece_json(folder):
    content = open_tokenizer(released.wordpiece_folder(folder)).vocabulary
    (folder / "tokenizer.json").write_bytes(content.content)
    (folder / "vocab.txt").unlink()


# Name -> (model_type, what writes the tokenizer into a folder).
KINDS = {
    "xlnet spiece": (
        "xlnet",
        lambda f: builds.train_spiece(f, builds.write_corpus(f / "c.txt")),
    ),
    "xlnet json": ("xlnet", _xlnet_json),
    "bert json": ("bert", _wordpiece_json),
    "bert vocab": ("bert", _vocab_alone),
    "albert spiece": ("albert", released.albert),
    "albert json": ("albert", _albert_json),
    "modernbert bpe": ("modernbert", released.byte_level),
}
MASKED = [name for name, (kind, _) in KINDS.items() if kind != "xlnet"]
OTHERS = [name for name in KINDS if name != "xlnet spiece"]


def _config(kind, size):
    if kind == "xlnet":
        return XLNetConfig(vocab_size=size, **SIZES, d_head=6)
    makers = {
        "bert": BertConfig,
        "albert": lambda **k: AlbertConfig(**k, embedding_size=8),
        "modernbert": lambda **k: ModernBertConfig(**k, local_window=6),
    }
    return makers[kind](vocab_size=size, **SIZES)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Name of `KINDS` -> a Hugging Face folder of a language model."""
    made = {}

    def get(name):
        if name not in made:
            kind, write = KINDS[name]
            place = tmp_path_factory.mktemp("tokenizer")
            write(place)
            (path,) = [
                str(place / n)
                for n in ("spiece.model", "tokenizer.json", "vocab.txt")
                if (place / n).exists()
            ]
            config = _config(kind, open_tokenizer(path).vocab_size)
            model = heads.build("pretraining", config, {})
            for i, variable in enumerate(model.variables):
                noise = tf.random.stateless_normal(variable.shape, [5, i])
                gain = float("gamma" in variable.name)
                variable.assign(noise * (0.3 - 0.2 * gain) + gain)
            weights = conversion.Weights("pretraining", config, model, {}, [])
            folder = tmp_path_factory.mktemp("released") / "model"
            source = checkpoints.Source("native", "", str(place / "none"))
            conversion.write(weights, "hf", str(folder), source)
            for file in place.iterdir():
                if file.suffix in (".model", ".json", ".txt"):
                    shutil.copy(file, folder)
            (folder / "c.txt").unlink(missing_ok=True)
            made[name] = folder
        return made[name]

    return get


# --- Commands: (folder, place) -> arguments ----------------------------------


def _tuned(script, *flags, layout=True):
    def arguments(folder, place):
        return [
            script,
            f"--init_checkpoint={folder}",
            f"--model_dir={place}/out",
            "--do_train",
            "--do_eval",
            "--train_steps=2",
            "--train_batch_size=4",
            "--eval_batch_size=4",
            "--warmup_steps=0",
            "--iterations=1",
            "--progress=none",
            *(flag.format(place=place) for flag in flags),
        ]

    return arguments


def _asked(module, *flags):
    return lambda folder, place: [
        "-m",
        module,
        f"--checkpoint={folder}",
        *flags,
    ]


def _exported(task):
    return lambda folder, place: [
        "-m",
        "serving.export",
        f"--model_dir={folder}",
        f"--task={task}",
        "--max_seq_length=24",
        f"--output_dir={place}/export",
        *["--pooling=mean"] * (task == "embedding"),
    ]


def _converted(to_format):
    return lambda folder, place: [
        "-m",
        "modeling.convert_checkpoint",
        "--from_format=hf",
        f"--input={folder}",
        f"--to_format={to_format}",
        f"--output={place}/new" + "/model" * (to_format == "tf1"),
    ]


def _records(folder, place):
    (path,) = [
        folder / n
        for n in ("spiece.model", "tokenizer.json", "vocab.txt")
        if (folder / n).exists()
    ]
    builds.write_corpus(place / "corpus.txt")
    return [
        "-m",
        "data.create_pretraining_data",
        f"--input_glob={place}/corpus.txt",
        f"--spiece_model_file={path}",
        f"--output_dir={place}/records",
        "--seq_len=24",
        "--reuse_len=8",
        "--segments_per_lane=4",
    ]


COMMANDS = {
    "classify": _tuned(
        "run_classifier.py",
        "--task_name=tsv",
        "--data_dir={place}",
        "--max_seq_length=24",
        "--do_predict",
        "--do_export",
    ),
    "tag": _tuned(
        "run_tagger.py",
        "--data_dir={place}",
        "--max_seq_length=24",
        "--do_export",
    ),
    "squad": _tuned(
        "run_squad.py",
        "--train_file={place}/squad.json",
        "--predict_file={place}/squad.json",
        "--max_seq_length=48",
        "--max_query_length=10",
        "--doc_stride=16",
        "--do_predict",
        "--do_export",
    ),
    "race": _tuned(
        "run_race.py",
        "--data_dir={place}",
        "--max_seq_length=40",
        "--max_qa_length=12",
        "--do_export",
    ),
    "rank": lambda folder, place: [
        "run_ranking.py",
        f"--topics_file={place}/topics.tsv",
        f"--documents={place}/documents.jsonl",
        f"--qrels_file={place}/qrels",
        f"--init_checkpoint={folder}",
        f"--model_dir={place}/out",
        "--ranker=cross_encoder",
        "--depth=6",
        "--folds=3",
        "--max_query_length=8",
        "--train_steps=2",
        "--train_batch_size=4",
        "--warmup_steps=0",
        "--max_seq_length=24",
        "--progress=none",
    ],
    "multitask": _tuned(
        "run_multitask.py",
        "--data_dir={place}",
        "--tasks=sst-2,rte",
        "--max_seq_length=24",
    ),
    "embed": _asked("serving.embed", "--text=the red river", "--pooling=mean"),
    "fill": _asked("serving.fill_mask", "--text=the <mask> river"),
    "score": _asked("serving.score", "--text=the red river"),
    "generate": _asked(
        "serving.generate", "--prompt=the red", "--max_new_tokens=3"
    ),
    "export lm": _exported("lm"),
    "export embedding": _exported("embedding"),
    "to native": _converted("native"),
    "to tf1": _converted("tf1"),
    "to hf": _converted("hf"),
    "records": _records,
}
# Command -> {kind: the line of the refusal}; all else works.
REFUSED = {
    "score": dict.fromkeys(MASKED, "needs an encoder with query stream"),
    "generate": dict.fromkeys(MASKED, "needs an encoder with query stream"),
    "records": dict.fromkeys(OTHERS, "found the tokenizer of released weights"),
    "to tf1": dict.fromkeys(MASKED, "no TF1 checkpoints of"),
}
QUICK = [("fill", "albert json"), ("to hf", "albert spiece")]
# Cells that one rule of the commands decides.
CHOSEN = [
    *QUICK,
    ("embed", "albert spiece"),
    ("score", "xlnet json"),
    ("to native", "xlnet json"),
    ("records", "albert json"),
    ("rank", "bert vocab"),
    ("export lm", "xlnet json"),
]
CELLS = [
    pytest.param(c, k, marks=[] if (c, k) in QUICK else [pytest.mark.slow])
    for c, k in CHOSEN
]


def _data(place):
    lines = [f"{text}\t{i % 2}\n" for i, text in enumerate(TEXTS * 2)]
    for split in ("train", "dev", "test"):
        (place / f"{split}.tsv").write_text("text\tlabel\n" + "".join(lines))
    test_run_tagger.write_sentences(place)
    toy.write(place)
    shutil.rmtree(place / "train", ignore_errors=True)
    test_run_race.write_race(place)
    test_run_multitask.write_tasks(place)
    context = "the red river e\u0301a fl\u00f3ws by a green tower"
    answer = {"text": "green tower", "answer_start": context.index("green")}
    row = {"id": "1", "question": "What tower?", "answers": [answer]}
    paragraph = {"context": context, "qas": [row]}
    data = [{"title": "t", "paragraphs": [paragraph]}]
    value = {"version": "1.1", "data": data}
    (place / "squad.json").write_text(json.dumps(value))


@pytest.mark.parametrize("command, kind", CELLS)
def test_cell(folders, tmp_path, command, kind):
    folder = folders(kind)
    _data(tmp_path)
    done = commands.run(*COMMANDS[command](folder, tmp_path))
    said = (done.stdout + done.stderr)[-3000:]
    wanted = REFUSED.get(command, {}).get(kind)
    if wanted is None:
        assert done.returncode == 0, said
        CHECKS.get(command, lambda *_: None)(folder, tmp_path, done)
        return
    assert done.returncode == 1, said
    assert "Traceback" not in done.stderr
    lines = [x for x in done.stderr.splitlines() if re.search(wanted, x)]
    assert len(lines) == 1, said


# --- What a cell that works must give ----------------------------------------


def _tokenizer_in(folder):
    from common.vocabularies import vocabulary

    path = vocabulary.find(str(folder))
    assert path, sorted(x.name for x in folder.iterdir())
    return open_tokenizer(path)


def _same_ids(folder, place, done):
    """A converted folder's tokenizer gives the ids of the one it came from."""
    old, new = _tokenizer_in(folder), _tokenizer_in(place / "new")
    words = ["the", "river", "(x)", "2,000,", "U.S."]
    for text in [*TEXTS, *released.ODD, *released.random_texts(200, words, 1)]:
        assert new.encode(text) == old.encode(text), text


def _same_classes(folder, place, done):
    """An export answers what the run predicted."""
    path = place / "out" / "predictions" / "test_predictions.tsv"
    rows = [x.split("\t") for x in path.read_text().splitlines()[1:]]
    model = SavedModel(str(place / "out" / "export"))
    answers = model({"text": TEXTS * 2})
    wanted = [[float(p) for p in row[-2:]] for row in rows]
    np.testing.assert_allclose(answers["probabilities"], wanted, atol=2e-5)


def _same_answer(folder, place, done):
    path = place / "out" / "predictions" / "predictions.json"
    value = json.loads((place / "squad.json").read_text())
    paragraph = value["data"][0]["paragraphs"][0]
    context = paragraph["context"]
    model = SavedModel(str(place / "out" / "export"))
    found = model({"question": ["What tower?"], "paragraph": [context]})
    answer = found["answer"][0].decode()
    assert answer in context and answer == json.loads(path.read_text())["1"]


def _places(folder, place, done):
    """Ids and characters of the export's graph are the offline ones."""
    offline = _tokenizer_in(folder)
    graph = graph_tokenizer(offline)
    texts = [*TEXTS, *released.ODD]
    found = graph.tokenize_with_offsets(tf.constant(texts))
    rows = zip(texts, *(x.to_list() for x in found), strict=True)
    for text, *row in rows:
        assert row == [x.tolist() for x in offline.encode_spans(text)], text


def _vector(folder, place, done):
    vector = json.loads(done.stdout.splitlines()[-1])["vector"]
    assert len(vector) == 12 and np.std(vector) > 0.01


def _filled(folder, place, done):
    assert json.loads(done.stdout.splitlines()[0])


CHECKS = {
    "classify": _same_classes,
    "squad": _same_answer,
    "tag": _places,
    "embed": _vector,
    "fill": _filled,
    "to native": _same_ids,
    "to tf1": _same_ids,
    "to hf": _same_ids,
}
