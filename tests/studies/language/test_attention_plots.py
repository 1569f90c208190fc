"""Attention made visible: the original's scores, and what the figures show."""

import os

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from data.text.tokenizer import Tokenizer
from modeling import PretrainingModel, XLNetConfig
from modeling.checkpoints import native
from studies.language import attention_plots, attention_terms
from tests.helpers import commands
from tests.modeling.attention.toy_models import ids_of, toy
from tests.modeling.golden import golden_util, txl_golden


@pytest.mark.shared
def test_terms_scores_and_probabilities_are_the_originals(golden):
    """Of segment 2 of every case that has them."""
    found, checked = txl_golden.cases(golden), 0
    for name, case in found["cases"].items():
        arrays = txl_golden.load(golden, name)
        if "attn/layer0/score" not in arrays:
            continue
        checked += 1
        settings = case["settings"]
        config = txl_golden.config(found["config"], settings)
        model = txl_golden.build(
            config, txl_golden.case_arrays(golden, case["variables"])
        )
        memory = None
        if settings["start"] == "zeros" and config.mem_len:
            rows = arrays["seg0/inputs"].shape[0]
            shape = [rows, config.mem_len, config.d_model]
            memory = (tf.zeros(shape),) * config.n_layer
        for i in range(2):
            memory = model(arrays[f"seg{i}/inputs"], memory=memory).new_memory
        with attention_terms.observed(model) as layers:
            model(arrays["seg2/inputs"], memory=memory)
        assert [one.layer for one in layers] == list(range(config.n_layer))
        for one in layers:
            check_layer(one, arrays, f"attn/layer{one.layer}")
    assert checked


def check_layer(one, arrays, scope):
    def theirs(name):  # [T, K, B, N] -> [N, B, T, K]
        return np.transpose(arrays[f"{scope}/{name}"], [3, 2, 0, 1])

    terms = one.terms()
    golden_util.assert_close(terms["a"] + terms["c"], theirs("ac"))
    seen = theirs("score") > -1e29
    assert ((one.scores() < -1e29) == ~seen).all()
    scaled = (sum(terms.values()) / np.sqrt(one.q.shape[-1]))[seen]
    golden_util.assert_close(scaled, theirs("score")[seen])
    golden_util.assert_close(one.scores()[seen], theirs("score")[seen])
    golden_util.assert_close(one.probabilities(), theirs("prob"))
    # (d) apart from (b), and (c) from (a): of the stored queries and keys.
    u, v = (bias.numpy() for bias in one.keys.biases)
    q = arrays[f"{scope}/q_plus_r_w_bias"] - u  # [T, B, N, H]
    a = np.einsum("ibnh,jbnh->nbij", q, arrays[f"{scope}/k"])
    golden_util.assert_close(terms["a"], a)
    d = np.einsum("nh,jnh->nj", v, arrays[f"{scope}/r_k"])  # farthest first
    length, count = terms["d"].shape[2:]
    for i in range(length):
        wanted = d[:, length - 1 - i :]
        found = terms["d"][:, 0, i, : count - length + 1 + i]
        golden_util.assert_close(found, wanted)


def test_a_segment_alone_behind_the_memory_is_drawn():
    """Such a split ended in a stack trace."""
    assert attention_plots.draw_place(32, 64, 32, seed=3) == 32
    places = [attention_plots.draw_place(4, 9, 3, seed=s) for s in range(20)]
    assert set(places) == {4, 5}


def test_tokens_are_no_formulas(tmp_path):
    """One of two dollars ended in a stack trace."""
    tokens = ["a", "$$"]
    stem = str(tmp_path / "heads")
    paths = attention_plots.draw_heads({"x": np.eye(2)}, tokens, tokens, stem)
    assert [path[-4:] for path in paths] == [".tsv", ".png", ".svg"]


def test_by_distance_and_around():
    weights = np.arange(12.0).reshape(3, 4)  # T = 3, M = 1
    found = attention_terms.by_distance(weights, 1, 1)
    np.testing.assert_array_equal(found, [[1, 0], [6, 5], [11, 10]])
    found = attention_terms.around(np.array([[1.0, 2], [3, 5]]))
    np.testing.assert_array_equal(found, [3, 3, 2])


@pytest.mark.long
def test_means_by_distance_are_of_every_token_once():
    """Of segments behind a full memory; terms alone are softmaxes, too."""
    model = toy("relative", same_length=True, mem_len=6, untie_r=True)
    ids = ids_of(1, 30).numpy()[0]
    found, tokens = attention_plots.means(model, ids, 4, 100)
    assert tokens == 20  # two segments fill the memory
    assert set(found) == {"whole", "a", "b", "d"}
    for rows in found.values():
        assert rows.shape == (6, 7)
        np.testing.assert_allclose(rows.sum(1), 1, atol=1e-5)
    # Whatever the segments.
    other, _ = attention_plots.means(model, ids, 2, 100)
    assert other["whole"].shape == (6, 7)
    with pytest.raises(UserError, match="wanted more than 6 tokens"):
        attention_plots.means(model, ids[:6], 4, 100)
    with (
        pytest.raises(UserError, match="found ContentAttention"),
        attention_terms.observed(toy("absolute")),
    ):
        pass


@pytest.mark.long
def test_figures_of_both_streams_of_xlnet(tmp_path):
    config = XLNetConfig(
        **dict(vocab_size=19, d_model=8, n_layer=2, n_head=2, d_head=4),
        d_inner=8,
    )
    model = PretrainingModel(config)
    tokens = [f"t{i}" for i in range(5)]
    ids = np.arange(5) + 3
    streams = attention_plots.two_streams(model, ids, seed=3)
    for name, layers in streams.items():
        assert [w.shape for w in layers] == [(2, 5, 5)] * 2
        seen = layers[0][0] > 1e-9
        own = seen.diagonal()
        assert own.all() if name == "content" else not own.any()
    paths = attention_plots.draw_streams(streams, tokens, [0, 3], str(tmp_path))
    assert len(paths) == 12
    table = (tmp_path / "query_heads.tsv").read_text().splitlines()
    assert len(table) == 1 + 2 * 5
    assert table[0].split("\t") == ["panel", "query", *tokens]
    last = table[-1].split("\t")
    assert last[:2] == ["query stream, layer 2, head 2 (--heads=3)", "t4"]
    np.testing.assert_allclose(
        np.array(last[2:], float), streams["query"][1][1, 4], rtol=1e-4
    )
    assert all((tmp_path / p.split("/")[-1]).stat().st_size for p in paths)


@pytest.mark.slow
@pytest.mark.shared
def test_the_command_draws_an_xlnet_checkpoint(spiece_model, tmp_path):
    config = XLNetConfig(
        **dict(vocab_size=Tokenizer(spiece_model).vocab_size, d_model=8),
        **dict(n_layer=1, n_head=2, d_head=4, d_inner=8),
    )
    native.write(str(tmp_path / "model"), PretrainingModel(config), config)
    command = [
        *("-m", "studies.language.attention_plots"),
        *(f"--checkpoint={tmp_path}/model", "--text=It cost 12 francs."),
        *(f"--spiece_model_file={spiece_model}", "--heads=1"),
        f"--output_dir={tmp_path}/out",
    ]
    assert commands.run(*command).returncode == 0
    assert len(os.listdir(tmp_path / "out")) == 12
    command[-2] = "--heads=2"
    done = commands.run(*command)
    assert done.returncode and "--heads must lie in 0..1" in done.stderr
