"""Folders that we write, read by the real transformers and torch.

They run in another Python (requirements-bench.txt): the one that
XLNET_TRANSFORMERS_PYTHON names, or this one where both are installed.
"""

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import unicodedata

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from data import train_sentencepiece
from data.corpus.options import SentencePieceOptions
from data.finetuning.features import pair_features
from data.text.opening import graph_tokenizer, open_tokenizer
from modeling import XLNetConfig, convert_checkpoint
from modeling.checkpoints import conversion
from modeling.checkpoints import restore as checkpoints
from modeling.command_options import ConvertOptions
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import spec_of
from modeling.heads import table as heads
from serving.export import export_model
from serving.generation import fill
from serving.generation.language_model import load_model
from serving.generation.masked_fill import MaskedFiller
from serving.generation.options import ModelOptions
from serving.saved_model import SavedModel
from serving.signatures import build as signatures
from serving.signatures.sequence import RAW, Context
from tests.helpers import languages, released

pytestmark = [pytest.mark.slow, pytest.mark.bench]
PEER = pathlib.Path(__file__).with_name("transformers_peer.py")
LINES = [line for name in languages.LANGUAGES for line in languages.lines(name)]
NFD = [unicodedata.normalize("NFD", line) for line in LINES]
# 200 texts in nine scripts: as typed, taken apart, two languages in one.
TEXTS = [*LINES, *NFD, *map(" ".join, zip(LINES, NFD[::-1], strict=True))]
TEXTS = [*TEXTS, *languages.COMPOSED][:200]
PAIRS = [list(pair) for pair in zip(LINES, NFD[5:] + NFD[:5], strict=True)]
MODELS = ("xlnet", "bert", "albert", "modernbert")
LENGTH = 40  # cuts the longest of the texts
LABELS = {
    "classification": ("east", "west", "north"),
    "token_classification": ("O", "B-P", "I-P"),
    "span": (),
    "pretraining": (),
}


def _python() -> str:
    given = os.environ.get("XLNET_TRANSFORMERS_PYTHON")
    if given:
        return given
    if all(map(importlib.util.find_spec, ("torch", "transformers"))):
        return sys.executable
    pytest.skip("no Python with transformers and torch is known")


@pytest.fixture(scope="module")
def ask(tmp_path_factory):
    """Jobs -> answers of `tests/xlnet_tf2/commands/released/transformers_peer.py`.

    One process answers all: it imports torch and transformers once.
    """
    said = tmp_path_factory.mktemp("peer") / "stderr"
    with (
        open(said, "wb") as stderr,
        subprocess.Popen(
            [_python(), str(PEER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env={k: v for k, v in os.environ.items() if "PYTHON" not in k}
            | {"HF_HUB_OFFLINE": "1"},
        ) as peer,
    ):

        def run(jobs):
            print(json.dumps(jobs), file=peer.stdin, flush=True)
            answer = peer.stdout.readline()
            assert answer, said.read_text(errors="replace")[-3000:]
            return json.loads(answer)

        yield run
        peer.stdin.close()
        assert peer.wait() == 0


@pytest.fixture(scope="module")
def vocabulary_path(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    train_sentencepiece.train(
        SentencePieceOptions(
            input_glob=languages.write_corpus(folder / "text.txt", copies=8),
            model_prefix=f"{folder}/spiece",
            vocab_size=620,
            character_coverage=1.0,
        ),
        log=lambda line: None,
    )
    return f"{folder}/spiece.model"


def _config(name, size):
    sizes = dict(vocab_size=size, d_model=16, n_layer=2, n_head=2, d_inner=24)
    if name == "xlnet":
        return XLNetConfig(**sizes, d_head=8)
    if name == "modernbert":
        return ModernBertConfig(**sizes, local_window=6)
    if name == "albert":
        return AlbertConfig(**sizes, embedding_size=8)
    return BertConfig(**sizes)


def _made(name, head, vocabulary, folder):
    """(model, its settings, the folder for them) of random weights."""
    tokenizer = open_tokenizer(vocabulary)
    config = _config(name, tokenizer.vocab_size)
    markers = dict.fromkeys(heads.HEADS[head].marker, [16, 3])
    shapes = markers | {"model/sequnece_summary/summary/kernel": [16, 16]}
    if name == "modernbert":
        shapes["model/lm_loss/transform/kernel"] = [16, 16]
    model = heads.build(head, config, shapes)
    for i, variable in enumerate(model.variables):
        noise = tf.random.stateless_normal(variable.shape, [3, i])
        gain = "gamma" in variable.name
        variable.assign(noise * (0.1 if gain else 0.3) + float(gain))
    native, theirs = str(folder / "native"), str(folder / "hf")
    source = checkpoints.Source("native", "", os.path.dirname(vocabulary))
    weights = conversion.Weights(head, config, model, {}, [])
    conversion.write(weights, "native", native, source)
    spec = TaskSpec(
        "tsv",
        head,
        LABELS[head],
        LENGTH,
        tokenizer.settings,
        tokenizer.sha256,
        data_options={"layout": spec_of(name).capabilities.layout},
    )
    if LABELS[head]:
        spec.write(native)
    options = ConvertOptions("native", "hf", native, theirs)
    with pytest.MonkeyPatch.context() as patch:
        flag_values = convert_checkpoint.flag_values
        patch.setattr(flag_values, "build", lambda _: options)
        convert_checkpoint.main()
    return model, spec, theirs


def _row(parts, tokenizer, layout):
    return pair_features.join_segments(
        parts, LENGTH, tokenizer.symbols, layout=layout
    )


def _export(model, spec, vocabulary, folder):
    export = str(folder / "export")
    return SavedModel(
        export_model(export, model, spec, vocabulary, check=False)
    )


def _answers(model, spec, vocabulary, texts):
    """What the export's function says, without writing it."""
    offline = open_tokenizer(vocabulary)
    context = Context(model, spec, graph_tokenizer(offline), offline.symbols)
    found = signatures.build(context)[RAW].function(text=tf.constant(texts))
    return {name: value.numpy() for name, value in found.items()}


@pytest.mark.parametrize("name", MODELS)
def test_classifiers(name, ask, vocabulary_path, tmp_path):
    model, spec, theirs = _made(
        name, "classification", vocabulary_path, tmp_path
    )
    answers = _export(model, spec, vocabulary_path, tmp_path)({"text": TEXTS})
    job = {"folder": theirs, "options": {"truncation": True}}
    ids, pairs, found = ask(
        [
            job | {"task": "ids", "texts": TEXTS},
            job | {"task": "ids", "texts": PAIRS},
            job | {"task": "classification", "texts": TEXTS},
        ]
    )
    tokenizer = open_tokenizer(vocabulary_path)
    layout = spec.data_options["layout"]
    for text, row in zip([*TEXTS, *PAIRS], ids + pairs, strict=True):
        parts = [text] if isinstance(text, str) else text
        parts = [tokenizer.encode(part) for part in parts]
        wanted = _row(parts, tokenizer, layout)
        if row["input_ids"] != wanted.ids:
            # Two texts that are both cut: the odd token is the first one's
            # here and the second one's there.
            first = pair_features.shared_lengths(
                list(map(len, parts)), LENGTH - 3
            )[0]
            parts = [parts[0][: first - 1], parts[1]]
            wanted = _row(parts, tokenizer, layout)
        assert row["input_ids"] == wanted.ids, text
        if name != "modernbert":
            assert row["token_type_ids"] == wanted.segments
    for i, row in enumerate(found):
        probabilities = [row[label] for label in spec.labels]
        np.testing.assert_allclose(
            answers["probabilities"][i], probabilities, atol=1e-5
        )
        assert answers["label"][i].decode() == max(row, key=row.get)
    assert np.std(answers["probabilities"], 0).max() > 1e-3


@pytest.mark.parametrize("name", MODELS[:3])
def test_taggers(name, ask, vocabulary_path, tmp_path):
    """ModernBERT's token classifier is another one there."""
    model, spec, theirs = _made(
        name, "token_classification", vocabulary_path, tmp_path
    )
    answers = _answers(model, spec, vocabulary_path, TEXTS)
    job = {"folder": theirs, "task": "token_classification", "texts": TEXTS}
    (found,) = ask([job])
    for i, rows in enumerate(found):
        count = answers["num_pieces"][i]
        # Theirs leaves CLS and SEP out.
        assert [row[0] for row in rows] == [
            label.decode() for label in answers["labels"][i][:count]
        ]
        logits = answers["logits"][i][:count]
        best = tf.reduce_max(tf.nn.softmax(logits), -1)
        scores = [row[1] for row in rows]
        np.testing.assert_allclose(best, scores, atol=1e-5)


def test_questions(ask, vocabulary_path, tmp_path):
    """Version 5 has no pipeline for them; BERT's class lacks our beams."""
    model, _, theirs = _made("xlnet", "span", vocabulary_path, tmp_path)
    pairs = [list(pair) for pair in zip(LINES, LINES[::-1], strict=True)]
    ids, found = ask(
        [
            {"folder": theirs, "task": "ids", "texts": pairs, "options": {}},
            {"folder": theirs, "task": "span", "texts": pairs},
        ]
    )
    tokenizer = open_tokenizer(vocabulary_path)
    for pair, row, answer in zip(pairs, ids, found, strict=True):
        parts = [tokenizer.encode(text) for text in pair]
        wanted = pair_features.join_segments(parts, 512, tokenizer.symbols)
        assert row["input_ids"] == wanted.ids
        assert row["token_type_ids"] == wanted.segments
        segments = np.asarray([wanted.segments], np.int32)
        ours = model(
            np.asarray([wanted.ids], np.int32),
            segment_ids=segments,
            paragraph_mask=np.asarray(segments == 0, np.int32),
            cls_index=np.asarray([len(wanted.ids) - 1], np.int32),
            training=False,
        )
        assert (
            answer["start_top_index"]
            == ours.start_top_index[0].numpy().tolist()
        )
        np.testing.assert_allclose(
            np.exp(ours.start_top_log_probs[0]),
            answer["start_top_log_probs"],  # probabilities there
            atol=1e-5,
        )


@pytest.mark.parametrize("name", MODELS[1:])
def test_hidden_places(name, ask, vocabulary_path, tmp_path):
    """XLNet has no pipeline for them: it predicts in an order."""
    model, _, theirs = _made(name, "pretraining", vocabulary_path, tmp_path)
    texts = [f"{line} <mask>." for line in TEXTS[:190]]
    texts += [f"<mask> {a} <mask> {b}" for a, b in PAIRS[:10]]
    job = {"folder": theirs, "task": "fill", "texts": texts, "top_k": 15}
    (found,) = ask([job])
    lm = load_model(ModelOptions(theirs), masked_too=True)
    filler = MaskedFiller(lm)
    for text, places in zip(texts, found, strict=True):
        hidden = fill.parse(lm, text, None)
        ours = np.exp(filler.log_probs(hidden.ids, hidden.positions))
        assert len(places) == len(ours)
        for probabilities, rows in zip(ours, places, strict=True):
            pieces = [token for token, _ in rows]
            np.testing.assert_allclose(
                probabilities[pieces], [score for _, score in rows], atol=1e-5
            )
            assert probabilities.max() == probabilities[pieces[0]]


def test_a_released_bert_is_the_same_there_and_here(ask, tmp_path):
    """WordPiece: their tokenizer.json as it was, through our format."""
    (tmp_path / "vocabulary").mkdir()
    path = released.wordpiece_folder(tmp_path / "vocabulary")
    model, spec, theirs = _made("bert", "classification", path, tmp_path)
    texts = [*released.ODD, *LINES, *released.random_texts(50, LINES, 3)]
    answers = _answers(model, spec, path, texts)
    job = {"folder": theirs, "task": "classification", "texts": texts}
    (found,) = ask([job])
    for i, row in enumerate(found):
        probabilities = [row[label] for label in spec.labels]
        np.testing.assert_allclose(
            answers["probabilities"][i], probabilities, atol=1e-5
        )


@pytest.mark.parametrize("symbols", [(), released.USER_DEFINED])
def test_alberts_vocabulary_is_cut_as_its_class_does(ask, tmp_path, symbols):
    """`spiece.model` alone: ids and places, offline and in the graph."""
    path = released.albert(
        tmp_path, symbols, tokenizer_class="AlbertTokenizer", do_lower_case=True
    )
    (tmp_path / "config.json").write_text('{"model_type": "albert"}')
    tokenizer = open_tokenizer(path)
    words = [tokenizer.decode([i]) for i in range(5, tokenizer.vocab_size)]
    texts = [*TEXTS, *released.ODD, *released.random_texts(10_000, words, 5)]
    options = {"add_special_tokens": False, "return_offsets_mapping": True}
    (rows,) = ask(
        [
            {
                "folder": str(tmp_path),
                "task": "ids",
                "texts": texts,
                "options": options,
            }
        ]
    )
    graph = graph_tokenizer(tokenizer)
    for at in range(0, len(texts), 500):
        part = texts[at : at + 500]
        found = graph.tokenize_with_offsets(tf.constant(part))
        found = zip(*(x.to_list() for x in found), strict=True)
        for text, ours, theirs in zip(part, found, rows[at:], strict=False):
            offline = [x.tolist() for x in tokenizer.encode_spans(text)]
            assert offline == list(ours), text
            assert theirs["input_ids"] == offline[0], text
            # Ours have no white space at their edges.
            for span, *ours in zip(
                theirs["offset_mapping"], *offline[1:], strict=True
            ):
                assert text[slice(*span)].strip() == text[slice(*ours)], text
