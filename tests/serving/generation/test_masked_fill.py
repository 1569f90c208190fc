"""BERT, ALBERT and ModernBERT fill hidden places, each by itself."""

import json
import math

import numpy as np
import pytest
import tensorflow as tf

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.text.opening import graph_tokenizer, open_tokenizer
from modeling import PretrainingModel
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.modernbert.config import ModernBertConfig
from serving import fill_mask
from serving.generation import fill
from serving.generation.language_model import LanguageModel
from serving.generation.masked_fill import MaskedFiller
from serving.generation.options import FillOptions
from serving.signatures.language_model import lm_signatures
from serving.signatures.sequence import Context
from tests.helpers import released

# Released tables may have more rows than the vocabulary has pieces.
SIZES = dict(
    vocab_size=len(released.PIECES) + 3,
    d_model=8,
    n_layer=2,
    n_head=2,
    d_inner=12,
    max_position_embeddings=24,
)
CONFIGS = [
    BertConfig(**SIZES),
    AlbertConfig(**SIZES, embedding_size=4),
    ModernBertConfig(**SIZES, local_window=6),
]
TEXT = "The <mask> river <mask>ing."


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    pytest.importorskip("tokenizers")
    folder = tmp_path_factory.mktemp("released")
    return open_tokenizer(released.wordpiece_folder(folder))


def _lm(config, tokenizer):
    model = PretrainingModel(config)
    for i, variable in enumerate(model.variables):
        noise = tf.random.stateless_normal(variable.shape, [2, i])
        variable.assign(noise + float("gamma" in variable.name))
    return LanguageModel(model, tokenizer)


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_each_place_has_the_distribution_of_the_text_with_all_masks(
    config, tokenizer
):
    lm = _lm(config, tokenizer)
    hidden = fill.parse(lm, TEXT, None)
    symbols = tokenizer.symbols
    the, river = tokenizer.encode("The river")
    assert hidden.ids.tolist()[:4] == [the, symbols.mask, river, symbols.mask]
    row = [symbols.cls, *hidden.ids, symbols.sep]
    states = lm.model(np.asarray([row], np.int32)).sequence_output
    logits = lm.model.lm_logits(states)[0]
    wanted = tf.gather(tf.nn.log_softmax(logits), [2, 4])  # CLS comes first
    filler = MaskedFiller(lm)
    found = filler.log_probs(hidden.ids, hidden.positions)
    np.testing.assert_allclose(found, wanted, atol=1e-5)
    # What stands in a hidden place is not looked at, or the answer leaks.
    other = hidden.ids.copy()
    other[hidden.positions] = 9
    np.testing.assert_array_equal(
        filler.log_probs(other, hidden.positions), found
    )


def test_the_best_fillings_are_the_largest_products(tokenizer):
    lm = _lm(CONFIGS[0], tokenizer)
    hidden = fill.parse(lm, TEXT, None)
    filler = MaskedFiller(lm)
    factors = filler.log_probs(hidden.ids, hidden.positions)
    never = {*tokenizer.symbols.never_filled()}
    never |= {*range(tokenizer.vocab_size, SIZES["vocab_size"])}
    pairs = [
        (factors[0, a] + factors[1, b], (a, b))
        for a in set(range(SIZES["vocab_size"])) - never
        for b in set(range(SIZES["vocab_size"])) - never
    ]
    wanted = [pair for _, pair in sorted(pairs, reverse=True)[:4]]
    found = filler.search(hidden, 4)
    assert [tuple(f.ids.tolist()) for f in found] == wanted
    given = fill.parse(lm, "The <mask> river <mask>.", ["boat", "unaffable"])
    assert len(given.positions) == 4
    factors = filler.log_probs(given.ids, given.positions)
    scored = filler.score(given)
    ids = given.ids[given.positions]
    assert scored.joint == pytest.approx(
        sum(row[i] for row, i in zip(factors, ids, strict=True)), abs=1e-5
    )


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.model_type)
def test_the_export_fills_as_the_command_does(config, tokenizer):
    lm = _lm(config, tokenizer)
    spec = TaskSpec(
        "lm", "pretraining", (), 16, tokenizer.settings, tokenizer.sha256
    )
    graph = graph_tokenizer(tokenizer)
    signatures = lm_signatures(
        Context(lm.model, spec, graph, tokenizer.symbols)
    )
    assert set(signatures) == {"serving_default", "fill_mask", "tokenize"}
    texts = [TEXT, "a boat", "x " * 20 + "<mask>", "[MASK]"]
    out = signatures["fill_mask"].function(tf.constant(texts))
    assert out["num_masks"].numpy().tolist() == [2, 0, 0, 1]
    assert out["truncated"].numpy().tolist() == [False, False, True, False]
    assert out["independent"].numpy().all()
    filler = MaskedFiller(lm)
    for row in (0, 3):
        hidden = fill.parse(lm, texts[row], None)
        factors = filler.log_probs(hidden.ids, hidden.positions)
        best = filler.search(hidden, 1)[0]
        for place, index in enumerate(best.ids):
            pieces = [p.decode() for p in out["pieces"][row, place].numpy()]
            assert pieces[0] == tokenizer.id_to_piece(int(index))
            ids = [tokenizer.package.token_to_id(p) for p in pieces]
            np.testing.assert_allclose(
                out["probabilities"][row, place],
                np.exp(factors[place, ids]),
                atol=1e-5,
            )
    # Rows without masks are the text.
    assert out["filled"][1].numpy() == b"a boat"
    assert not out["probabilities"][1].numpy().any()
    vectors = signatures["serving_default"].function(tf.constant(["a boat"]))
    ids = tokenizer.encode("a boat")
    row = [tokenizer.symbols.cls, *ids, tokenizer.symbols.sep]
    states = lm.model(np.asarray([row], np.int32)).sequence_output[0]
    np.testing.assert_allclose(
        vectors["embedding"][0], np.mean(states[1:-1], 0), atol=1e-5
    )
    np.testing.assert_allclose(vectors["cls"][0], states[0], atol=1e-5)


def _run(monkeypatch, capsys, lm, **options):
    options = FillOptions(**({"text": TEXT} | options))
    monkeypatch.setattr(
        fill_mask.flag_values,
        "build",
        lambda cls: options if cls is FillOptions else None,
    )
    monkeypatch.setattr(
        "serving.generation.language_model.load_model", lambda *_, **__: lm
    )
    fill_mask.main()
    return [json.loads(x) for x in capsys.readouterr().out.splitlines()]


def test_the_command_says_that_places_are_independent(
    tokenizer, monkeypatch, capsys
):
    lm = _lm(CONFIGS[0], tokenizer)
    rows = _run(monkeypatch, capsys, lm, beam_size=3)
    assert len(rows) == 3
    assert all(row["independent"] is True for row in rows)
    assert not any("joint" in key for row in rows for key in row)
    for row in rows:
        assert row["sum_log_probs"] == pytest.approx(sum(row["log_probs"]))
        assert len(row["pieces"]) == 2
    (row,) = _run(monkeypatch, capsys, lm, fill="boat|x", beam_size=3)
    assert row["text"].startswith("the boat river x")
    assert math.isfinite(row["sum_log_probs"])
    for wrong in ("order", "compare_independent", "attribution"):
        value = "right_to_left" if wrong == "order" else True
        with pytest.raises(UserError, match=f"^--{wrong}: .* bert, which"):
            _run(monkeypatch, capsys, lm, **{wrong: value})
    with pytest.raises(UserError, match="has 46 tokens .* at most 24"):
        _run(monkeypatch, capsys, lm, text="a " * 43 + "<mask>")


@pytest.mark.shared
def test_a_sentencepiece_vocabulary_hides_places_as_in_training(spiece_model):
    offline = open_tokenizer(spiece_model)
    config = BertConfig(**(SIZES | {"vocab_size": offline.vocab_size}))
    lm = _lm(config, offline)
    spec = TaskSpec("lm", "pretraining", (), 24, offline.settings, "")
    context = Context(lm.model, spec, graph_tokenizer(offline), offline.symbols)
    text = "The <mask> was <mask>."
    out = lm_signatures(context)["fill_mask"].function(tf.constant([text]))
    hidden = fill.parse(lm, text, None)
    best = MaskedFiller(lm).search(hidden, 1)[0]
    assert [p.decode() for p in out["pieces"][0, :, 0].numpy()] == [
        offline.id_to_piece(int(i)) for i in best.ids
    ]
