"""A BERT folder with nothing but `vocab.txt`, served and converted."""

import numpy as np
import pytest

from common.contract.symbols import CLS_FIRST
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies import vocabulary
from data.finetuning.features import pair_features
from data.text import opening
from modeling import ClassificationModel
from modeling.checkpoints import conversion
from modeling.command_options import ConvertOptions
from serving.export import export_model
from serving.generation.embeddings import Embedder
from serving.generation.language_model import load_encoder
from serving.generation.options import ModelOptions
from serving.saved_model import SavedModel
from tests.helpers import released
from tests.serving.export.toy_exports import (
    RELEASED,
    masked_folder,
    random_weights,
)

TEXTS = ["The RIVER, unaffable!", "caf\u00e9 [SEP] \u6f22a", ""]


@pytest.fixture(scope="module")
def vocab(tmp_path_factory):
    """Path of the vocab.txt of the folder."""
    pytest.importorskip("tokenizers")
    return released.wordpiece_folder(tmp_path_factory.mktemp("released"))


@pytest.fixture(scope="module")
def folder(vocab):
    """The folder with weights of a masked language model."""
    return masked_folder(vocab)


@pytest.mark.slow
def test_an_export_reads_words_as_the_package_does(vocab, tmp_path):
    model = random_weights(ClassificationModel(RELEASED, num_labels=3))
    offline = opening.open_tokenizer(vocab)
    spec = TaskSpec(
        "tsv",
        "classification",
        ("a", "b", "c"),
        24,
        offline.settings,
        offline.sha256,
        data_options={"layout": CLS_FIRST},
    )
    folder = export_model(str(tmp_path), model, spec, vocab, check=False)
    assert vocabulary.find(f"{folder}/assets").endswith("tokenizer.json")
    found = SavedModel(folder)({"text": TEXTS})
    for row, text in enumerate(TEXTS):
        row_of_text = pair_features.join_segments(
            [offline.encode(text)], 24, offline.symbols, layout=CLS_FIRST
        )
        ids = np.asarray([row_of_text.ids], np.int32)
        wanted = model(ids, training=False)[0]
        np.testing.assert_allclose(found["logits"][row], wanted, atol=1e-5)
    assert found["num_tokens"].tolist() == [
        len(offline.encode(text)) + 2 for text in TEXTS
    ]


def test_embeddings_have_pieces_and_places(folder):
    encoder, tokenizer = load_encoder(ModelOptions(folder), None)
    embedded = next(Embedder(encoder, tokenizer, 24).embed(["The unaffable"]))
    assert embedded.pieces == ["the", "un", "##aff", "##able"]
    assert list(embedded.starts) == [0, 4, 6, 9]
    assert embedded.vectors.shape == (4, 8)


@pytest.mark.parametrize("to_format", ["native", "hf"])
def test_conversions_carry_the_tokenizer(folder, to_format, tmp_path):
    target = str(tmp_path / "made")
    conversion.convert(ConvertOptions("hf", to_format, folder, target))
    own = vocabulary.read(vocabulary.find(target))
    assert own.sha256 == vocabulary.read(f"{folder}/vocab.txt").sha256


def test_a_folder_without_a_vocabulary_names_what_it_wants(folder, tmp_path):
    with pytest.raises(UserError, match=r"spiece.model, tokenizer.json, voc"):
        vocabulary.find_or_refuse(str(tmp_path))
    path = tmp_path / "vocab.txt"
    path.write_text("a\nb\n[CLS]\n")
    with pytest.raises(UserError, match=r"\[PAD\], \[UNK\], \[SEP\]"):
        vocabulary.read(str(path))
    path.write_bytes(b"\xff\n")
    with pytest.raises(UserError, match="UTF-8"):
        vocabulary.read(str(path))


def test_case_is_the_configs_or_else_the_pieces(tmp_path):
    pytest.importorskip("tokenizers")
    for uncased in (True, False):
        folder = tmp_path / str(uncased)
        folder.mkdir()
        path = released.wordpiece_folder(folder, uncased)
        with_config = opening.open_tokenizer(path).rules["normalizer"]
        assert with_config["lowercase"] is uncased
        (folder / "tokenizer_config.json").unlink()
        assert opening.open_tokenizer(path).rules["normalizer"] == with_config
