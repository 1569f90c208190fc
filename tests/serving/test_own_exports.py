"""The lists of `serving.graph_check`, made again from our own exports."""

import dataclasses
import pathlib
import tarfile

import pytest
import tensorflow as tf
import tf_keras

from common.errors import UserError
from common.text_settings import TextSettings
from data.symbols import CLS_FIRST
from data.text.vocabulary import PieceVocabulary, SymbolVocabulary
from modeling import (
    ClassificationModel,
    MultipleChoiceModel,
    PretrainingModel,
    SpanModel,
)
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from modeling.encoders.registry import spec_of
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.half_precision import in_bfloat16
from modeling.heads.causal_lm import CausalLanguageModel
from modeling.heads.kernel_ranking import KernelRankingModel
from serving import graph_check
from serving.export import export_model
from serving.export.causal import export_causal
from serving.generation.causal import CausalLM
from tests import released
from tests.serving.test_export import LABELS, make_config, make_spec
from tests.test_first_format import ARCHIVE

SIZES = dict(vocab_size=1000, d_model=8, n_layer=1, n_head=2, d_inner=6)
XLNET = make_config().replace(n_layer=1)
ALBERT = AlbertConfig(**SIZES, embedding_size=4)
MODERN = ModernBertConfig(
    **SIZES | {"n_layer": 2},
    local_window=6,
    pooling="mean",
    ff_activation="relu",
    head_activation="gelu",
)
SHORT = {"max_query_length": 4}
# (head, its model, configuration, options of the data, bfloat16, uncased): of
# all heads, encoders and precisions those that hold every operation.
EXPORTS = (
    (
        "pretraining",
        PretrainingModel,
        XLNET.replace(ff_activation="gelu_erf"),
        {},
        False,
        False,
    ),
    ("multiple_choice", MultipleChoiceModel, MODERN, SHORT, False, False),
    (
        "multi_label",
        lambda c: ClassificationModel(c, 3),
        XLNET,
        {},
        True,
        False,
    ),
    ("span", lambda c: SpanModel(c, 3, 2), XLNET, SHORT, False, True),
    (
        "ranking",
        lambda c: ClassificationModel(c, 1, regression=True),
        MODERN,
        SHORT | {"passage_stride": 3, "max_passages": 2},
        False,
        False,
    ),
    (
        "ranking",
        lambda c: KernelRankingModel(c, (0.5, 1.0), (0.1, 0.2), 1, True),
        ALBERT,
        SHORT | {"ranker": "knrm", "max_doc_length": 22},
        False,
        False,
    ),
)


def exports(folder, spiece):
    """Version folders of the exports."""
    for i, (head, build, config, options, half, uncased) in enumerate(EXPORTS):
        model = build(config)
        if half:
            model = in_bfloat16(lambda b=build, c=config: b(c), model)
        options = options | {
            "layout": spec_of(config.model_type).capabilities.layout
        }
        labels = LABELS if head == "multi_label" else ()
        spec = dataclasses.replace(
            make_spec(head, labels, **options),
            text=TextSettings(uncased=uncased),
        )
        yield export_model(f"{folder}/{i}", model, spec, spiece, check=False)
    words = released.wordpiece_folder(folder)
    bert = BertConfig(**SIZES | {"vocab_size": len(released.PIECES)})
    spec = make_spec("classification", LABELS, layout=CLS_FIRST)
    model = ClassificationModel(bert, len(LABELS))
    yield export_model(f"{folder}/words", model, spec, words, check=False)
    vocabulary = folder / "vocabulary"
    vocabulary.write_text("x")
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
        lm = CausalLM(CausalLanguageModel(config), words, str(vocabulary))
        yield export_causal(f"{folder}/causal{i}", lm, "x", check=False)


@pytest.mark.slow
@pytest.mark.shared
def test_every_operation_is_one_of_ours(spiece_model, tmp_path):
    """All are accepted, and the lists hold nothing that none of them does."""
    pytest.importorskip("tokenizers")
    loaded, other = set(), set()
    for folder in exports(tmp_path, spiece_model):
        graph_check.check_files(folder)
        proto = graph_check.read(folder)
        graph_check.check(folder, proto)
        graph = proto.meta_graphs[0]
        kept = graph_check._functions_of_objects(graph)
        for function in graph.graph_def.library.function:
            found = loaded if function.signature.name in kept else other
            found |= {node.op for node in function.node_def}
        other |= {node.op for node in graph.graph_def.node}
    assert graph_check.ALLOWED <= loaded
    assert graph_check.SAVER <= other


def test_an_export_of_the_first_version_is_accepted(tmp_path):
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    (path,) = pathlib.Path(tmp_path).rglob("saved_model.pb")
    folder = str(path.parent)
    graph_check.check_files(folder)
    graph_check.check(folder, graph_check.read(folder))


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
    """Harmless, and refused: `docs/serving.md` says so."""
    layer = tf_keras.layers.TextVectorization(vocabulary=["a", "b"], **how)
    model = tf_keras.Sequential([tf_keras.Input([1], dtype=tf.string), layer])
    model.save(str(tmp_path / "1"), save_format="tf")
    folder = str(tmp_path / "1")
    proto = graph_check.read(folder)
    with pytest.raises(UserError, match=names):
        graph_check.check(folder, proto)
