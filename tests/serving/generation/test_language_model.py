"""Filling, scoring and embedding: chains, memory, padding, spans."""

import dataclasses
import itertools
import json

import numpy as np
import pytest
import tensorflow as tf

from common.contract.symbols import SymbolIds
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.pretraining.sampling import permutation
from data.text.graph.graph_tokenizer import GraphTokenizer
from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel, XLNetConfig
from serving import fill_mask, generate, score
from serving.generation import fill
from serving.generation.embeddings import Embedder
from serving.generation.language_model import LanguageModel
from serving.generation.options import ModelOptions, ScoreOptions
from serving.generation.scoring import Scorer
from serving.signatures.language_model import _embed, lm_signatures
from serving.signatures.sequence import Context


def make_model(**overrides) -> PretrainingModel:
    tf.keras.utils.set_random_seed(11)
    config = {
        "vocab_size": 1000,
        "d_model": 20,
        "n_layer": 2,
        "n_head": 2,
        "d_head": 6,
        "d_inner": 28,
        "init_std": 0.3,
    }
    return PretrainingModel(XLNetConfig(**config | overrides))


@pytest.fixture(scope="module")
def lm(spiece_model):
    return LanguageModel(make_model(), Tokenizer(spiece_model))


@pytest.mark.shared
def test_every_factor_is_a_distribution_and_orders_are_chains(lm):
    hidden = fill.parse(lm, "The <mask> was <mask>.", ["cat", "old"])
    filler = fill.Filler(lm)
    count = len(hidden.positions)
    left = np.arange(count)
    for order in (left, left[::-1], np.roll(left, 2)):
        factors = filler.factors(hidden.ids[None], hidden.positions, order)[0]
        np.testing.assert_allclose(np.exp(factors).sum(-1), 1.0, atol=1e-5)
        # A chain: factor k is that of a text in which only what comes before
        # k in the order is known; later targets cannot matter.
        chain = filler.score(hidden, order)
        for step, place in enumerate(order):
            known = hidden.ids.copy()
            known[hidden.positions[order[step:]]] = 9
            alone = filler.factors(known[None], hidden.positions, order)[0]
            token = hidden.ids[hidden.positions[place]]
            np.testing.assert_allclose(
                alone[place, token], chain.log_probs[place], atol=2e-5
            )
        assert chain.joint == pytest.approx(float(chain.log_probs.sum()))


@pytest.mark.slow
@pytest.mark.shared
def test_search_finds_the_best_pair_that_a_full_beam_sees(lm):
    hidden = fill.parse(lm, "<mask> sat on <mask>", None)
    filler = fill.Filler(lm)
    found = filler.search(hidden, np.array([1, 0]), 6)
    joints = [f.joint for f in found]
    assert joints == sorted(joints, reverse=True) and len(found) == 6
    banned = set(lm.tokenizer.symbols.never_filled())
    for filling in found:
        assert not banned & set(filling.ids.tolist())
        ids = hidden.ids.copy()
        ids[hidden.positions] = filling.ids
        again = filler.score(hidden._replace(ids=ids), np.array([1, 0]))
        assert again.joint == pytest.approx(filling.joint, abs=2e-5)


class Pieces:
    """A vocabulary of single letters behind the special symbols."""

    symbols = SymbolIds()

    def encode(self, text):
        return [9 + ord(c) - ord("a") for c in text]

    def encode_with_offsets(self, text):
        places = list(range(len(text)))
        return self.encode(text), places, [i + 1 for i in places]

    def id_to_piece(self, index):
        return chr(index - 9 + ord("a"))

    def tokenize(self, texts):
        return tf.ragged.constant(
            [self.encode(t.decode()) for t in texts.numpy()], tf.int32
        )


def test_a_full_beam_finds_the_best_of_all_pairs():
    model = make_model(vocab_size=12, n_layer=1)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    hidden = fill.Hidden(np.array([10, 0, 11, 0], np.int32), np.array([1, 3]))
    order = np.array([1, 0])
    joints = {}
    for pair in itertools.product((9, 10, 11), repeat=2):
        ids = hidden.ids.copy()
        ids[hidden.positions] = pair
        score = filler.score(hidden._replace(ids=ids), order)
        joints[pair] = score.joint
    found = filler.search(hidden, order, 9)
    best = sorted(joints, key=joints.get, reverse=True)
    assert [tuple(f.ids.tolist()) for f in found] == best
    for filling in found:
        wanted = joints[tuple(filling.ids.tolist())]
        assert filling.joint == pytest.approx(wanted, abs=2e-5)


def test_places_are_filled_in_the_given_order():
    model = make_model(vocab_size=15, n_layer=1)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    ids = np.array([[9, 10, 11, 12, 13]], np.int32)
    positions, order = np.array([0, 2, 3]), np.array([2, 0, 1])
    plain = filler.factors(ids, positions, order)[0]
    # First position 3, then 0, then 2: whose factor does a token change?
    for token, sees in ((3, [True, True, False]), (0, [False, True, False])):
        other = ids.copy()
        other[0, token] = 14
        moved = filler.factors(other, positions, order)[0]
        change = np.nanmax(np.abs(np.exp(moved) - np.exp(plain)), -1) > 1e-6
        assert change.tolist() == sees


def test_cls_is_the_last_vector_of_what_the_encoder_reads():
    model = make_model(vocab_size=40)
    embedder = Embedder(model.encoder, Pieces(), segment_len=16)
    (found,) = embedder.embed(["abca"])
    ids = [[9, 10, 11, 9, 4, 3]]  # ... SEP CLS
    output = (
        model.encoder(
            np.asarray(ids), segment_ids=np.array([[0, 0, 0, 0, 0, 2]])
        )
        .sequence_output[0]
        .numpy()
    )
    np.testing.assert_allclose(found.cls, output[5], atol=2e-5)
    np.testing.assert_allclose(found.vectors, output[:4], atol=2e-5)
    np.testing.assert_allclose(
        found.pooled("mean"), output[:4].mean(0), atol=2e-5
    )
    np.testing.assert_allclose(found.pooled("last"), output[3], atol=2e-5)


def test_the_vector_of_a_text_is_the_mean_of_its_pieces():
    """In a batch with padding, as alone; SEP and CLS are no pieces."""
    model = make_model(vocab_size=40)
    spec = type("Spec", (), {"max_seq_length": 16})
    context = Context(model, spec, Pieces(), SymbolIds())
    texts = tf.constant(["ab", "cabde"])
    found = _embed(context, texts)
    for row, text in enumerate(("ab", "cabde")):
        ids = [[*Pieces().encode(text), 4, 3]]
        kinds = np.array([[0] * (len(text) + 1) + [2]])
        output = model.encoder(np.asarray(ids), segment_ids=kinds)
        output = output.sequence_output[0].numpy()
        np.testing.assert_allclose(
            found["embedding"][row], output[:-2].mean(0), atol=2e-5
        )
        np.testing.assert_allclose(found["cls"][row], output[-1], atol=2e-5)


@pytest.mark.shared
def test_a_filling_is_scored_among_the_pieces_of_the_whole_text(lm):
    encode = lm.tokenizer.encode
    hidden = fill.parse(lm, "Oliver asked the <mask>.", ["master"])
    assert hidden.ids.tolist() == encode("Oliver asked the master.")
    found = lm.tokenizer.decode(hidden.ids[hidden.positions])
    assert found == "master"
    hidden = fill.parse(lm, "pre<mask>ed <mask>", ["view", "1998"])
    assert hidden.ids.tolist() == encode("preview" + "ed 1998")
    # Not known: the mask's id among the pieces of both sides.
    hidden = fill.parse(lm, "pre<mask>ed <mask>.", None)
    mask = lm.tokenizer.symbols.mask
    left, end = encode("pre"), lm.tokenizer.piece_to_id("ed")
    full_stop = lm.tokenizer.piece_to_id(".")
    assert hidden.ids.tolist() == [*left, mask, end, mask, full_stop]
    assert hidden.positions.tolist() == [len(left), len(left) + 2]


@pytest.mark.shared
def test_fill_errors(lm):
    with pytest.raises(UserError, match="holds no <mask>"):
        fill.parse(lm, "nothing", None)
    with pytest.raises(UserError, match="needs 1 texts"):
        fill.parse(lm, "a <mask>", ["a", "b"])
    for symbol in ("<eop>", "\u2603"):
        with pytest.raises(UserError, match="text 2 holds .*never fills"):
            fill.parse(lm, "a <mask> <mask>", ["a", f"b {symbol}"])
    for empty in ("", " "):
        with pytest.raises(UserError, match="text 1 has no pieces"):
            fill.parse(lm, "a <mask> b", [empty])
    with pytest.raises(UserError, match="permutation of 0..1"):
        fill.parse_order("0,0", 2, 0)
    assert sorted(fill.parse_order("random", 5, 3)) == list(range(5))


def test_left_to_right_scores_are_the_sum_over_prefixes():
    model = make_model(vocab_size=30)
    ids = np.array([4, 9, 12, 7, 21, 3], np.int32)
    scorer = Scorer(model, segment_len=10, memory_len=0)
    whole = scorer.score(ids, "left_to_right", 0).log_probs
    for n in (1, 3, 5):
        prefix = scorer.score(ids[:n], "left_to_right", 0).log_probs
        np.testing.assert_allclose(prefix, whole[:n], atol=2e-5)
    given = scorer.score(ids, "left_to_right", 0, context=2).log_probs
    assert len(given) == 4
    random = scorer.score(ids, "random", 5)
    assert sorted(random.orders[0]) == list(range(6))
    assert random.total == scorer.score(ids, "random", 5).total
    # Segments with memory read the text, too, and see what came before.
    parts = Scorer(model, 3, 8).score(ids, "left_to_right", 0).log_probs
    np.testing.assert_allclose(parts[:3], whole[:3], atol=2e-5)
    np.testing.assert_allclose(parts, whole, atol=2e-5)


def test_the_expectation_over_all_orders_is_exact():
    """24 orders: those of the scorer, and what pretraining's draws tend to."""
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 10, 0)
    ids = np.array([4, 9, 12, 7, 21], np.int32)
    found = scorer.all_orders(ids, context=1)
    assert found.shape == (24, 4)
    named = [(o, 0) for o in ("left_to_right", "right_to_left")]
    named += [("random", seed) for seed in range(3)]
    orders = list(itertools.permutations(range(1, 5)))
    for order, seed in named:
        score = scorer.score(ids, order, seed, context=1)
        row = found[orders.index(tuple(score.orders[0]))]
        np.testing.assert_allclose(row, score.log_probs, atol=2e-5)
    totals = found.sum(1, dtype=np.float64)
    ordered = np.array([[False, True, True, True, True]] * 4000)
    ranks = permutation.draw_ranks(ordered, 0, np.random.default_rng(0))
    # With no reuse part context has rank 0, and places come after it.
    drawn = [tuple(np.argsort(row)[1:].tolist()) for row in ranks.astype(int)]
    sample = totals[[orders.index(o) for o in drawn]]
    error = totals.std() / len(sample) ** 0.5
    assert totals.std() > 1e-3
    assert abs(sample.mean() - totals.mean()) < 5 * error
    with pytest.raises(UserError, match="at most 7 scored tokens"):
        scorer.all_orders(np.arange(9, dtype=np.int32))


@pytest.mark.shared
def test_each_pieces_own_score_of_the_command(lm, monkeypatch, capsys):
    """--per_token: the mean over the orders, piece by piece, in text order."""
    text, context = "The old tower was open.", 4
    options = ScoreOptions((text,), "random", 3, seed=5, context_chars=context)
    options = dataclasses.replace(options, per_token=True, memory_len=0)
    built = {ScoreOptions: options, ModelOptions: ModelOptions(checkpoint="c")}
    monkeypatch.setattr(score.flag_values, "build", lambda cls: built[cls])
    generation = "serving.generation"
    monkeypatch.setattr(f"{generation}.language_model.load_model", lambda _: lm)
    monkeypatch.setattr(f"{generation}.causal.is_causal", lambda _: False)
    score.main()
    found = json.loads(capsys.readouterr().out)
    ids, starts, _ = lm.tokenizer.encode_with_offsets(text)
    given = int(np.searchsorted(starts, context))
    assert given >= 1 and found["scored_tokens"] == len(ids) - given
    assert "".join(found["pieces"]).replace("\u2581", " ").endswith("open.")
    assert found["pieces"] == [lm.tokenizer.id_to_piece(i) for i in ids[given:]]
    scorer = Scorer(lm.model, options.max_seq_length, 0)
    wanted = [
        scorer.score(np.array(ids, np.int32), "random", 5 + i, given).log_probs
        for i in range(3)
    ]
    own = found["mean_token_log_probs"]
    np.testing.assert_allclose(own, np.mean(wanted, 0), atol=2e-5)
    assert sum(own) == pytest.approx(found["mean_log_prob"], abs=1e-4)
    assert np.std(own) > 0.1  # pieces differ; one would not stand out


def test_places_without_an_order_know_nothing_of_each_other():
    model = make_model(vocab_size=15, n_layer=1)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    hidden = fill.Hidden(
        np.array([9, 10, 11, 12, 13], np.int32), np.array([1, 3])
    )
    alone = filler.score(hidden, None)
    # Each is the first factor of the order that begins with it.
    for place, order in ((0, [0, 1]), (1, [1, 0])):
        chain = filler.score(hidden, np.array(order))
        assert chain.log_probs[place] == pytest.approx(
            alone.log_probs[place], abs=2e-5
        )
        assert abs(chain.joint - alone.joint) > 1e-4
    said = fill_mask.independent(filler, hidden, chain)
    assert said["mutual_information"] == pytest.approx(
        chain.joint - alone.joint, abs=1e-5
    )


def test_attribution_is_what_is_lost_without_a_token():
    model = make_model(vocab_size=15, n_layer=2)
    filler = fill.Filler(LanguageModel(model, Pieces()))
    ids = np.array([9, 10, 11, 12, 13], np.int32)
    hidden = fill.Hidden(ids, np.array([1, 3]))
    order = np.array([1, 0])
    found = filler.attribution(hidden, order)
    assert found[[1, 3]].tolist() == [0, 0] and found[[0, 2, 4]].all()
    # Nobody sees it: what is left does not depend on which token it is.
    rest = filler.score(hidden, order).joint - found
    other = hidden._replace(ids=np.array([9, 10, 14, 12, 13], np.int32))
    moved = filler.score(other, order).joint - filler.attribution(other, order)
    assert moved[2] == pytest.approx(rest[2], abs=2e-5)
    assert abs(moved[0] - rest[0]) > 1e-4
    filling = filler.score(hidden, order)
    said = fill_mask.attribution(filler, hidden, order, filling)
    assert [piece for piece, _ in said] == ["a", "c", "e"]
    np.testing.assert_allclose(
        [v for _, v in said], found[[0, 2, 4]], atol=1e-5
    )


def test_only_the_first_tokens_of_a_text_are_given():
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 3, 4)
    ids = np.array([4, 9, 12, 7, 21, 3, 8], np.int32)
    found = scorer.score(ids, "left_to_right", 0, context=2)
    assert len(found.log_probs) == 5
    assert [o.tolist() for o in found.orders] == [[2], [0, 1, 2], [0]]


def test_memory_holds_the_inputs_of_the_last_tokens():
    """With one layer a segment depends on M tokens before it, and no other."""
    scorer = Scorer(make_model(vocab_size=30, n_layer=1), 2, 3)
    ids = np.array([4, 9, 12, 7, 21, 3], np.int32)
    plain = scorer.score(ids, "left_to_right", 0).log_probs[4:]
    for place, matters in ((0, False), (1, True), (2, True), (3, True)):
        other = ids.copy()
        other[place] = 25
        moved = scorer.score(other, "left_to_right", 0).log_probs[4:]
        assert (np.abs(moved - plain).max() > 1e-4) == matters, place


@pytest.mark.shared
def test_embeddings_ignore_padding_batch_and_order(lm, golden):
    with open(golden / "text" / "encode.json") as f:
        texts = [c["text"] for c in json.load(f)["cases"]][:12]
    texts = [t for t in texts if t.strip()]
    model = make_model(mem_len=12)
    embedder = Embedder(model.encoder, lm.tokenizer, segment_len=8)
    one = list(embedder.embed(texts, batch_size=1))
    many = list(embedder.embed(texts, batch_size=7))
    turned = list(embedder.embed(texts[::-1], batch_size=5))[::-1]
    for text, a, b, c in zip(texts, one, many, turned, strict=True):
        for other in (b, c):
            np.testing.assert_allclose(a.vectors, other.vectors, atol=2e-5)
            np.testing.assert_allclose(a.cls, other.cls, atol=2e-5)
        ids, starts, ends = lm.tokenizer.encode_with_offsets(text)
        assert (a.starts, a.ends) == (starts, ends)
        assert len(a.vectors) == len(ids) == len(a.pieces)
        mean = a.vectors.astype(np.float64).mean(0)
        np.testing.assert_allclose(a.pooled("mean"), mean, atol=1e-6)
        np.testing.assert_array_equal(a.pooled("last"), a.vectors[-1])


@pytest.mark.slow
@pytest.mark.shared
def test_memory_reaches_later_segments_and_layers_can_be_picked(lm):
    with_memory = make_model(mem_len=16).encoder
    without = make_model().encoder
    first = "One two three four five six. "
    texts = [first + "The end of it.", "Quite another start. " + first * 2]
    seen = Embedder(with_memory, lm.tokenizer, 6)
    blind = Embedder(without, lm.tokenizer, 6)
    a, b = list(seen.embed(texts))[0], list(blind.embed(texts))[0]
    np.testing.assert_allclose(a.vectors[:6], b.vectors[:6], atol=2e-5)
    assert np.abs(a.vectors[6:] - b.vectors[6:]).max() > 1e-2
    words = Embedder(without, lm.tokenizer, 6, layer=0)
    table = without.embeddings.lookup_table.numpy()
    ids = lm.tokenizer.encode(texts[0])
    vectors = list(words.embed(texts))[0].vectors
    np.testing.assert_array_equal(vectors, table[ids])
    with pytest.raises(ValueError, match="layer"):
        Embedder(without, lm.tokenizer, 6, layer=4)


def test_streamed_signatures_equal_one_long_call():
    """Left-to-right scores in two calls with memory = in one."""
    model = make_model(vocab_size=30)
    spec = type("Spec", (), {"max_seq_length": 16})
    context = type("C", (), {"model": model, "spec": spec, "tokenizer": None})
    context.ids = type("I", (), {"eod": 7})
    score = lm_signatures(context)["score"].function
    ids = np.array([[4, 9, 12, 7, 21, 3], [5, 5, 8, 20, 2, 1]], np.int32)
    memory = tf.zeros([2, 2, 1, 20])
    length = tf.zeros([2], tf.int32)
    ones = tf.ones([2, 6], tf.int32)
    whole = score(ids, ones, memory, length)["token_log_probs"]
    parts = []
    for begin in (0, 3):
        out = score(ids[:, begin : begin + 3], ones[:, :3], memory, length)
        memory, length = out["new_memory"], out["new_memory_length"]
        parts.append(out["token_log_probs"])
    np.testing.assert_allclose(tf.concat(parts, 1), whole, atol=2e-5)
    assert length.numpy().tolist() == [6, 6]


@pytest.mark.shared
def test_the_command_and_the_export_fill_with_equal_probabilities(lm):
    symbols = lm.tokenizer.symbols
    # Likely, if they were offered.
    bias = np.zeros(1000, np.float32)
    bias[[symbols.eop, symbols.eod, symbols.unk]] = 9.0
    model = make_model()
    model.lm_head.bias.assign(bias)
    lm = lm._replace(model=model)
    spec = TaskSpec(
        task_name="lm",
        head="pretraining",
        labels=(),
        max_seq_length=64,
        text=lm.tokenizer.settings,
        spiece_sha256=lm.tokenizer.sha256,
    )
    with open(lm.tokenizer.path, "rb") as f:
        graph = GraphTokenizer(f.read(), lm.tokenizer.settings)
    context = Context(lm.model, spec, graph, symbols)
    text = "The <mask> was <mask>."
    out = lm_signatures(context)["fill_mask"].function(tf.constant([text]))
    hidden = fill.parse(lm, text, None)
    filler = fill.Filler(lm)
    order = np.arange(2)
    (best,) = filler.search(hidden, order, 1)
    ids = hidden.ids.copy()
    ids[hidden.positions] = best.ids
    factors = filler.factors(ids[np.newaxis], hidden.positions, order)[0]
    top = -np.sort(-np.exp(factors), axis=-1)[:, :10]
    np.testing.assert_allclose(out["probabilities"][0], top, rtol=2e-5)
    assert [p.decode() for p in out["pieces"][0, :, 0].numpy()] == [
        lm.tokenizer.id_to_piece(int(i)) for i in best.ids
    ]
    assert float(out["joint_log_prob"][0]) == pytest.approx(best.joint, 1e-5)
    # A mask beyond the model's length is not one that was certain.
    cut = lm_signatures(context)["fill_mask"].function(
        tf.constant([text, "was " * 70 + "<mask>"])
    )
    assert cut["truncated"].numpy().tolist() == [False, True]
    assert cut["num_masks"].numpy().tolist() == [2, 0]


def test_a_priming_file_that_is_not_utf8_names_the_line(tmp_path):
    path = tmp_path / "before.txt"
    path.write_bytes(b"one\ntwo\nna\xefve\n")
    with pytest.raises(UserError, match=r"before.txt:3: is not UTF-8"):
        generate.read_priming(str(path), 100)
    path.write_text("one\nna\u00efve\n", "utf-8")
    assert generate.read_priming(str(path), 100) == "one\nna\u00efve\n"
    path.write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    assert generate.read_priming(str(path), 100) == "one\ntwo\n"
