"""Language-model baselines: n-grams against their formulas, the LSTM's state."""

import collections
import json

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from studies.language import kneser_ney, lm_baselines, lm_lstm
from tests.helpers import commands
from training.objectives.contract import Memory

VOCABULARY = 7  # of which 6 is never seen


def stream(seed=5, size=240):
    rng = np.random.default_rng(seed)
    return np.minimum(rng.geometric(0.35, size) - 1, 5)


def by_formula(tokens, discounts, history, word):
    """Interpolated modified Kneser-Ney by its definition, with dictionaries."""
    order = len(discounts)
    padded = [VOCABULARY] * (order - 1) + list(tokens)
    grams = [
        {tuple(padded[i - k : i + 1]): 0 for i in range(order - 1, len(padded))}
        for k in range(order)
    ]
    counts = [collections.Counter() for _ in range(order)]
    for i in range(order - 1, len(padded)):
        counts[-1][tuple(padded[i - order + 1 : i + 1])] += 1
    for k in range(order - 1):
        for gram in grams[k + 1]:
            counts[k][gram[1:]] += 1

    def p(k, context):
        """Of order k + 1."""
        if k < 0:
            return 1 / VOCABULARY
        of_context = [c for g, c in counts[k].items() if g[:-1] == context]
        lower = p(k - 1, context[1:])
        if not of_context:
            return lower
        d = [0.0, *discounts[k]]
        count = counts[k][(*context, word)]
        kept = sum(d[min(c, 3)] for c in of_context)
        share = count - d[min(count, 3)]
        return (share + kept * lower) / sum(of_context)

    return p(order - 1, tuple(history))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_n_grams_are_those_of_the_formula_and_sum_to_one(order):
    tokens = stream()
    model = kneser_ney.KneserNey(tokens, VOCABULARY, order)
    discounts = [level.discounts for level in model.levels]
    if order == 3:
        # Both kinds of discounts are tried.
        assert kneser_ney.FALLBACK in discounts
        assert discounts[-1] != kneser_ney.FALLBACK
    starts = [(), (0,), (3, 1), (5, 5), (6, 2), (1, 6)]
    for start in starts:
        total = 0.0
        history = ([VOCABULARY] * order + list(start))[len(start) + 1 :]
        history = history[len(history) - order + 1 :]
        for word in range(VOCABULARY):
            found = np.exp(model.log_probs(np.array([*start, word]))[-1])
            wanted = by_formula(tokens, discounts, history, word)
            assert found == pytest.approx(wanted, rel=1e-12)
            total += found
        assert total == pytest.approx(1, abs=1e-12)


def test_discounts_of_counts():
    # n1..n4 = 8, 4, 2, 1: Y = 1/2.
    counts = np.repeat([0, 1, 2, 3, 4, 9], [3, 8, 4, 2, 1, 5])
    found = kneser_ney.modified_discounts(counts)
    assert found == pytest.approx((0.5, 1.25, 2.0))
    with pytest.raises(UserError, match="received order 0 and 2 tokens"):
        kneser_ney.KneserNey(np.array([1, 2]), 3, 0)


def test_the_lstm_carries_its_state():
    config = TransformerXLConfig(
        vocab_size=9,
        d_model=4,
        n_layer=2,
        n_head=1,
        d_head=1,
        d_inner=6,
        cutoffs=(5,),
        init_std=0.5,
        dropout=0.5,
    )
    objective = lm_lstm.LSTMObjective(config)
    assert objective.memory_len == 3
    model = objective.build_model()
    assert len(objective.named_variables(model)) == len(model.weights)
    ids = np.random.default_rng(2).integers(0, 9, [2, 7])

    def loss(part, memory, seed=None):
        batch = {
            "input_ids": tf.constant(part[:, :-1]),
            "target_ids": tf.constant(part[:, 1:]),
            "target_weights": tf.ones([2, part.shape[1] - 1]),
        }
        return objective.loss(model, batch, memory, seed is not None, seed)

    empty = Memory(
        tuple(tf.fill([2, 3, 4], 9.0) for _ in range(2)),
        tf.zeros([2], tf.int32),
    )
    whole = loss(ids, empty)
    first = loss(ids[:, :4], empty)
    second = loss(ids[:, 3:], first.new_memory)
    total = float(first.loss_sum + second.loss_sum)
    assert total == pytest.approx(float(whole.loss_sum), rel=1e-5)
    # What the state says counts, and a row that begins anew has none.
    again = loss(ids[:, 3:], first.new_memory._replace(length=empty.length))
    assert abs(float(again.loss_sum - second.loss_sum)) > 1e-3
    assert not np.allclose(first.new_memory.layers[0], 9.0)
    with tf.GradientTape() as tape:
        dropped = loss(ids, empty, tf.constant([1, 2]))
    assert abs(float(dropped.loss_sum - whole.loss_sum)) > 1e-3
    gradients = tape.gradient(dropped.loss_sum, model.weights)
    assert all(float(tf.norm(g)) > 0 for g in gradients)
    with pytest.raises(UserError, match="--d_inner=5 must be a multiple"):
        lm_lstm.LSTMObjective(config.replace(d_inner=5))


def test_text8_rules():
    assert lm_baselines.text8("In 1984 , <unk>!\n É") == (
        "in one nine eight four unk "
    )


def run(*arguments):
    return commands.run("-m", "studies.language.lm_baselines", *arguments)


@pytest.mark.slow
def test_the_table_is_made_once(tmp_path):
    rng = np.random.default_rng(0)
    text = tmp_path / "text"
    text.mkdir()
    for split, lines in (("train", 60), ("valid", 8)):
        words = rng.choice(["a", "b", "of", "<unk>", "12"], [lines, 30])
        (text / f"{split}.txt").write_text(
            "".join(" ".join(row) + " \n" for row in words)
        )
    out = tmp_path / "out"
    arguments = [f"--output_dir={out}", "--units=char", "--turns=1"]
    arguments += ["--minutes=0.0001", "--threads=1", f"--data_path={text}"]
    first = run(*arguments)
    assert first.returncode == 0, first.stderr
    rows = json.loads((out / "results.json").read_text())
    trained = [row for row in rows.values() if "steps" in row]
    grams = [row for name, row in rows.items() if "gram" in name]
    assert len(trained) == 2 and len(grams) == 2
    # The same tokens for everyone; "12" is spelled out.
    assert len({row["predicted_tokens"] for row in trained + grams}) == 1
    sizes = [row["parameters"] for row in trained]
    assert max(sizes) < 1.1 * min(sizes)
    # What is done is read again, not done again.
    kept = lm_baselines.Results(str(out))
    for name, row in rows.items():
        assert kept.once(name, None) == row
    assert first.stdout.endswith(lm_baselines.table(kept.rows) + "\n")
    other = run(*arguments, "--seed=1")
    assert other.returncode == 1 and "`seed` wanted 1, found 0" in other.stderr
    # An evaluation of the LSTM trains nothing, however many steps are named.
    (log,) = (out / "char").glob("lstm-*.log")
    line = [n for n in log.read_text().splitlines() if n.startswith("$ ")][-1]
    assert "--mode=eval" in line
    found = commands.run(*line.split()[1:], "--train_steps=400")
    assert found.returncode == 0, found.stderr
    (row,) = (row for name, row in rows.items() if "lstm, " in name)
    assert f"nats_per_token {row['nats_per_token']:.6g}" in found.stdout
    assert not list((out / "char").glob("lstm-*/model.ckpt-400.*"))
