"""The lists of `serving.exported.graph_check`, made again from our own exports."""

import dataclasses
import itertools
import multiprocessing
import pathlib
import shutil
import tarfile
from concurrent import futures

import pytest
import tensorflow as tf
import tf_keras

from common import heads
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.text.lm_vocabulary import PieceVocabulary, SymbolVocabulary
from data.text.opening import graph_tokenizer, open_tokenizer
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
    TokenClassificationModel,
)
from modeling.encoders import registry
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import spec_of
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from modeling.heads.embedding import EmbeddingModel
from modeling.heads.kernel_ranking import KernelRankingModel
from modeling.models.half_precision import in_bfloat16
from serving.export import export_model, exporter
from serving.export.causal import export_causal
from serving.exported import graph_check
from serving.generation.causal import CausalLM
from tests.golden import FIRST_FORMAT
from tests.helpers import released
from tests.serving.export.toy_exports import LABELS, make_config, make_spec

SIZES = dict(vocab_size=1000, d_model=8, n_layer=1, n_head=2, d_inner=6)
XLNET = make_config().replace(n_layer=1)
ENCODERS = {
    "xlnet": XLNET,
    "bert": BertConfig(**SIZES),
    "albert": AlbertConfig(**SIZES, embedding_size=4),
    "modernbert": ModernBertConfig(
        **SIZES | {"n_layer": 2},
        local_window=6,
        pooling="mean",
        ff_activation="relu",
        head_activation="gelu",
    ),
}
# Of gradients, which exports had before they were left out, of words, and of gelu.
EARLIER = {"Erfc", "ReduceJoin", "ReluGrad", "SplitV"}
SHORT = {"max_query_length": 4}
PASSAGES = SHORT | {"passage_stride": 3, "max_passages": 2}
# Head -> (its model of a configuration, options of the data, labels).
HEADS = {
    "pretraining": (PretrainingModel, {}, ()),
    "classification": (lambda c: ClassificationModel(c, 3), {}, LABELS),
    "multi_label": (lambda c: ClassificationModel(c, 3), {}, LABELS),
    "regression": (
        lambda c: ClassificationModel(c, 1, regression=True),
        {"num_texts": 2},
        (),
    ),
    "ranking": (
        lambda c: ClassificationModel(c, 1, regression=True),
        PASSAGES,
        (),
    ),
    "knrm": (
        lambda c: KernelRankingModel(c, (0.5, 1.0), (0.1, 0.2), 1, True),
        SHORT | {"ranker": "knrm", "max_doc_length": 22},
        (),
    ),
    "embedding": (EmbeddingModel, {}, ()),
    "span": (lambda c: SpanModel(c, 3, 2), SHORT | {"doc_stride": 4}, ()),
    "multiple_choice": (MultipleChoiceModel, SHORT, ()),
    "token_classification": (
        lambda c: TokenClassificationModel(c, 3),
        {},
        LABELS,
    ),
}
# (head, configuration, half, uncased): what the matrix does not hold.
MORE = (
    ("pretraining", XLNET.replace(ff_activation="gelu_erf"), False, False),
    ("span", XLNET, False, True),
)


def cells(whole):
    """(head, configuration, half, uncased) of every head on every encoder.

    Args:
      whole: each in both precisions; else every head once, so that every
        encoder meets both.
    """
    for i, head in enumerate(HEADS):
        for j, config in enumerate(ENCODERS.values()):
            for half in (False, True):
                chosen = whole or (j, half) == (i % 4, i // 4 == 1)
                if whole and head == "pretraining":  # no other is exported
                    chosen = not half
                if chosen:
                    yield head, config, half, False
    yield from MORE


def save_heads(folder, spiece, whole):
    """Version folders of `cells`."""
    for i, (head, config, half, uncased) in enumerate(cells(whole)):
        yield save(f"{folder}/{i}", head, config, half, uncased, spiece)


def save(folder, head, config, half, uncased, vocabulary):
    """The version folder of one export."""
    build, options, labels = HEADS[head]
    model = build(config)
    if half:
        model = in_bfloat16(lambda: build(config), model)
    layout = spec_of(config.model_type).capabilities.layout
    head = "ranking" if head == "knrm" else head
    spec = dataclasses.replace(
        make_spec(head, labels, **options, layout=layout),
        text=TextSettings(uncased=uncased),
    )
    return export_model(folder, model, spec, vocabulary, check=False)


def save_words(folder):
    """The same with WordPiece: ids alone, and with places in the text."""
    words = released.wordpiece_folder(folder)
    size = len(released.PIECES)
    for head, name in (("classification", "bert"), ("span", "modernbert")):
        config = ENCODERS[name].replace(vocab_size=size)
        yield save(f"{folder}/{head}", head, config, False, False, words)


def save_merges(folder):
    """The same with byte-level BPE."""
    merged = released.byte_level(folder, prefix_space=True)
    config = ENCODERS["modernbert"].replace(vocab_size=720)
    for head in ("classification", "span"):
        yield save(f"{folder}/{head}_bpe", head, config, False, False, merged)


def save_unigram(folder, spiece):
    """The same with a Unigram `tokenizer.json`."""
    folder = folder / "unigram"
    folder.mkdir()
    words = released.unigram_json(folder, spiece)
    config = ENCODERS["albert"]
    for head in ("classification", "span"):
        yield save(f"{folder}/{head}", head, config, False, False, words)


def _strip_right(value):
    """As newer conversions of SentencePiece's files do."""
    sides = {"strip_left": False, "strip_right": True}
    value["normalizer"] = {"type": "Strip"} | sides


def marked(folder, spiece):
    """(path, encoder, head): XLM-R's text rules; Gemma's, and texts of ids."""
    for name in ("xlmr", "gemma"):
        (folder / name).mkdir()
    path = released.unigram_json(folder / "xlmr", spiece, _strip_right)
    yield path, "bert", "classification"
    yield released.character_bpe(folder / "gemma"), "modernbert", "pretraining"


def save_marked(folder, spiece):
    """The same with these."""
    for path, name, head in marked(folder, spiece):
        size = open_tokenizer(path).vocab_size
        config = ENCODERS[name].replace(vocab_size=size)
        yield save(f"{folder}/of_{name}", head, config, False, False, path)


def save_causal(folder, spiece):
    """The same of left-to-right models: bytes, and pieces with cutoffs."""
    text = folder / "vocabulary"
    text.write_text("x")
    for i, (words, changes) in enumerate(
        (
            (SymbolVocabulary("byte", map(str, range(256)), "none"), {}),
            (
                PieceVocabulary(spiece, "eos"),
                {"cutoffs": (100, 500), "d_embed": 6},
            ),
        )
    ):
        config = TransformerXLConfig(
            **SIZES | {"vocab_size": words.size},
            d_head=3,
            mem_len=6,
            proj_share_all_but_first=True,
            **changes,
        )
        lm = CausalLM(CausalLanguageModel(config), words, str(text))
        yield export_causal(f"{folder}/causal{i}", lm, "x", check=False)


class Held:
    """What SavedModels hold, as `serving.exported.graph_check` lists it."""

    def __init__(self):
        self.loaded, self.other = set(), set()
        self.attributes, self.objects = set(), set()

    def add(self, folder):
        """Reads one more, which must be accepted."""
        graph_check.check_files(folder)
        proto = graph_check.read(folder)
        graph_check.check(folder, proto)
        graph = proto.meta_graphs[0]
        kept = graph_check._functions_of_objects(graph)
        for function in graph.graph_def.library.function:
            found = self.other
            if function.signature.name in kept:
                found = self.loaded
            found |= {node.op for node in function.node_def}
            for owner in (function, *function.arg_attr.values()):
                self.attributes |= set(owner.attr)
        self.other |= {node.op for node in graph.graph_def.node}
        for node in graph_check._nodes(graph):
            declared = graph_check._attributes(node.op)
            self.attributes |= set(node.attr) - declared
        self.objects |= {
            name
            for saved in graph.object_graph_def.nodes
            for name in (saved.user_object.identifier, saved.registered_name)
        }


def first_version(folder):
    """The version folder of the export that is kept."""
    with tarfile.open(FIRST_FORMAT) as archive:
        archive.extractall(folder, filter="data")
    (path,) = pathlib.Path(folder).rglob("saved_model.pb")
    return str(path.parent)


def derive(folder: pathlib.Path, spiece: str, whole: bool) -> Held:
    """Makes the exports one by one, and lists what they hold."""
    # What they answer is asked elsewhere.
    exporter._answers = lambda *_: {"in": {}, "out": {}}
    folders = itertools.chain(
        save_heads(folder / "heads", spiece, whole),
        save_words(folder),
        save_merges(folder),
        save_unigram(folder, spiece),
        save_marked(folder, spiece),
        save_causal(folder, spiece),
        [first_version(folder / "first")],
    )
    held = Held()
    for made in folders:
        held.add(made)
        shutil.rmtree(made)
    return held


@pytest.mark.shared
@pytest.mark.parametrize(
    "whole",
    [
        pytest.param(False, marks=pytest.mark.slow, id="pairs"),
        pytest.param(True, marks=pytest.mark.bench, id="whole"),
    ],
)
def test_the_lists_are_what_our_exports_hold(spiece_model, tmp_path, whole):
    """All are accepted, and no list holds what none of them does."""
    pytest.importorskip("tokenizers")
    # In a process of its own: graphs of this many exports stay in memory.
    spawn = multiprocessing.get_context("spawn")
    with futures.ProcessPoolExecutor(1, mp_context=spawn) as pool:
        held = pool.submit(derive, tmp_path, spiece_model, whole).result()
    assert held.loaded == graph_check.ALLOWED - EARLIER
    assert held.other - graph_check.ALLOWED == graph_check.SAVER
    assert held.attributes == graph_check.ATTRIBUTES
    assert held.objects == graph_check.OBJECTS


@pytest.mark.long
@pytest.mark.shared
def test_operations_of_newer_tokenizers_are_listed(spiece_model, tmp_path):
    """Exports with them were refused, after the training."""
    pytest.importorskip("tokenizers")
    for path, *_ in marked(tmp_path, spiece_model):
        tokenizer = graph_tokenizer(open_tokenizer(path))
        function = tf.function(
            lambda text, of=tokenizer: of.detokenize(of.tokenize(text)),
            autograph=False,
        ).get_concrete_function(tf.TensorSpec([None], tf.string))
        graph = function.graph.as_graph_def()
        nodes = list(graph.node)
        for called in graph.library.function:
            nodes += called.node_def
        found = {node.op for node in nodes} - {"Placeholder"}
        assert found <= graph_check.ALLOWED


def test_the_matrix_has_every_head_and_encoder():
    found = {name for name, row in heads.HEADS.items() if row.signatures}
    assert found == HEADS.keys() - {"knrm"}
    left_to_right = {"transformer_xl"}  # `save_causal`
    assert ENCODERS.keys() | left_to_right == registry.ENCODERS.keys()


def test_an_export_of_the_first_version_is_accepted(tmp_path):
    folder = first_version(tmp_path)
    graph_check.check_files(folder)
    graph_check.check(folder, graph_check.read(folder))


@pytest.mark.long
@pytest.mark.parametrize(
    "how,names",
    [
        ({}, "MutableHashTableV2|StringLower|the object _tf_keras_"),
        ({"standardize": None, "split": None}, "the object _tf_keras_"),
        ({"output_mode": "multi_hot"}, "the object _tf_keras_"),
        ({"output_mode": "tf_idf", "idf_weights": [1.0, 2.0]}, "_tf_keras_"),
        ({"ngrams": 2}, "the object _tf_keras_"),
    ],
)
def test_text_vectorizers_of_keras_are_refused(tmp_path, how, names):
    """Harmless, and refused: `docs/guides/serving/deploy.md` says so."""
    layer = tf_keras.layers.TextVectorization(vocabulary=["a", "b"], **how)
    model = tf_keras.Sequential([tf_keras.Input([1], dtype=tf.string), layer])
    model.save(str(tmp_path / "1"), save_format="tf")
    folder = str(tmp_path / "1")
    proto = graph_check.read(folder)
    with pytest.raises(UserError, match=names):
        graph_check.check(folder, proto)
