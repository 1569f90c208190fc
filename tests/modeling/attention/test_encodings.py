"""Other encodings of positions: their formulas, the release, what must hold."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.attention import chunked
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import original, torch_names
from modeling.heads.causal_lm import CausalLanguageModel
from serving.generation.causal_decoder import CausalGenerator
from serving.generation.options import SamplingOptions
from tests.modeling.attention.toy_models import ids_of, toy
from tests.modeling.checkpoints.torch_writer import case_of
from tests.modeling.golden import golden_util, txl_golden

OTHERS = ("shaw", "shaw_released", "absolute", "per_layer")


class Reference:
    """The model in NumPy, one score at a time, from the papers' formulas."""

    def __init__(self, model):
        self.config = model.config
        self.w = {
            name.removeprefix("transformer/"): v.numpy().astype(np.float64)
            for name, v in named_variables(model).items()
        }

    def layer_norm(self, x, scope):
        x = x - x.mean(-1, keepdims=True)
        x = x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-12)
        return x * self.w[f"{scope}/gamma"] + self.w[f"{scope}/beta"]

    def score(self, scope, q, k, distance, head):
        """One query [H] and one key [H]."""
        total = q @ k
        if self.config.encoding.startswith("shaw"):
            rows = self.w[f"{scope}/r_emb"]
            longest = len(rows) - 1
            if self.config.clamp_len > 0:
                longest = min(longest, self.config.clamp_len - 1)
            row = len(rows) - 1 - min(distance, longest)
            total += q @ rows[row, head]
            if self.config.encoding == "shaw_released":
                total += self.w[f"{scope}/r_w_bias"][head] @ k
                total += self.w[f"{scope}/r_bias"][row, head]
        return total / np.sqrt(len(q))

    def attention(self, scope, h, past):
        both = np.concatenate([past, h])
        length, memory = len(h), len(past)
        q, k, v = (
            np.einsum("td,dnh->tnh", x, self.w[f"{scope}/{name}/kernel"])
            for x, name in ((h, "q"), (both, "k"), (both, "v"))
        )
        out = np.zeros_like(h)
        for n in range(self.config.n_head):
            for i in range(length):
                seen = range(memory + i + 1)
                s = [
                    self.score(scope, q[i, n], k[j, n], memory + i - j, n)
                    for j in seen
                ]
                p = np.exp(s - np.max(s))
                vector = (p / p.sum()) @ v[: memory + i + 1, n]
                out[i] += self.w[f"{scope}/o/kernel"][:, n] @ vector
        return self.layer_norm(out + h, f"{scope}/LayerNorm")

    def __call__(self, ids, past):
        """Log-probabilities [T, V] of one row, and the new memory."""
        config, length = self.config, len(ids)
        table = self.w["adaptive_embed/lookup_table"]
        h = table[ids] * np.sqrt(config.d_model)
        if config.encoding == "absolute":
            place = np.arange(length - 1, -1, -1)[:, None]
            i = np.arange(config.d_model // 2)
            angle = place / 10000 ** (2 * i / config.d_model)
            h = h + np.concatenate([np.sin(angle), np.cos(angle)], 1)
        kept = []
        for layer in range(config.n_layer):
            scope = f"layer_{layer}"
            if config.encoding == "per_layer":
                h = h + self.w[f"{scope}/r_emb"][-length:]
            kept.append(np.concatenate([past[layer], h])[-config.mem_len :])
            h = self.attention(f"{scope}/rel_attn", h, past[layer])
            inner = h @ self.w[f"{scope}/ff/layer_1/kernel"]
            inner = np.maximum(inner + self.w[f"{scope}/ff/layer_1/bias"], 0)
            inner = inner @ self.w[f"{scope}/ff/layer_2/kernel"]
            inner = inner + self.w[f"{scope}/ff/layer_2/bias"]
            h = self.layer_norm(inner + h, f"{scope}/ff/LayerNorm")
        logits = h @ table.T + self.w["adaptive_softmax/bias"]
        logits -= logits.max(-1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(-1, keepdims=True)), kept


@pytest.mark.long
@pytest.mark.parametrize("encoding", OTHERS)
def test_the_formulas(encoding):
    """Three segments; the third reaches past the learned distances."""
    model = toy(encoding, clamp_len=6 if encoding == "shaw" else -1)
    reference, ids = Reference(model), ids_of(1, 15)
    past, memory = [np.zeros([0, 10])] * 2, None
    for start, end in ((0, 4), (4, 9), (9, 15)):
        output = model(ids[:, start:end], memory=memory)
        found = model.log_probs(output.sequence_output)[0]
        wanted, past = reference(ids[0, start:end].numpy(), past)
        np.testing.assert_allclose(found, wanted, atol=2e-5)
        memory = output.new_memory
    np.testing.assert_allclose(memory[1][0], past[1], atol=2e-5)


@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        "shaw",
        pytest.param("vaswani_no_memory", marks=pytest.mark.slow),
        pytest.param("alrfou_no_memory", marks=pytest.mark.slow),
    ],
)
def test_the_releases_gradients(golden, name):
    """Of segment 1; its losses are compared in `test_torch_files.py`."""
    config, state, arrays = case_of(golden, name)
    config = torch_names.adapt(config)
    model = CausalLanguageModel(config)
    variables = named_variables(model)
    for key, x in torch_names.from_state_dict(state, config, "x").items():
        variables[key].assign(x)
    tokens = arrays["tokens"]
    memory = model(tokens[:, :7]).new_memory
    with tf.GradientTape() as tape:
        output = model(tokens[:, 7:14], memory=memory, training=True)
        losses = model.token_losses(output.sequence_output, tokens[:, 8:15])
        loss = tf.reduce_mean(losses)
    np.testing.assert_allclose(
        loss, arrays[f"case/{name}/grad_loss"], rtol=2e-5
    )
    found = tape.gradient(loss, list(variables.values()))
    ours = {
        key: tf.convert_to_tensor(x).numpy()
        for key, x in zip(variables, found, strict=True)
    }
    stored = golden_util.gradients_of(arrays, f"case/{name}/grad")
    wanted = torch_names.from_state_dict(stored, config, "gradients")
    golden_util.assert_gradients(ours, wanted)


@pytest.mark.shared
def test_shaw_beyond_its_table(golden):
    """Memory of two segments: more distances than were learned."""
    config, state, arrays = case_of(golden, "shaw_longer_memory")
    config = torch_names.adapt(config).replace(mem_len=20)
    model = CausalLanguageModel(config)
    variables = named_variables(model)
    for key, x in torch_names.from_state_dict(state, config, "x").items():
        variables[key].assign(x)
    memory = None
    for i in range(3):
        part = arrays["tokens"][:, 7 * i : 7 * i + 8]
        output = model(part[:, :-1], memory=memory)
        losses = model.token_losses(output.sequence_output, part[:, 1:])
        golden_util.assert_close(
            losses, arrays[f"case/shaw_longer_memory/seg{i}/nll"].T
        )
        memory = output.new_memory


@pytest.mark.long
@pytest.mark.parametrize("encoding", OTHERS)
def test_nothing_comes_from_the_future_or_past_the_segment(encoding):
    """One changed token moves what stands after it, and memory's readers."""
    model, ids = toy(encoding), ids_of(2, 14).numpy()
    other = ids.copy()
    other[:, 3] = (other[:, 3] + 1) % 19

    def run(ids, memory_of):
        first = model(ids[:, :7])
        memory = first.new_memory if memory_of else None
        second = model(ids[:, 7:], memory=memory)
        return np.concatenate(
            [first.sequence_output, second.sequence_output], 1
        )

    for memory_of in (True, False):
        moved = run(ids, memory_of) != run(other, memory_of)
        moved = moved.any((0, 2))
        assert not moved[:3].any() and moved[3:7].all()
        assert moved[7:].all() == memory_of == moved[7:].any()


@pytest.mark.long
@pytest.mark.parametrize(
    "form", ["blocks", pytest.param("radix", marks=pytest.mark.slow)]
)
def test_fast_forms_of_shaws_attention_are_the_plain_one(form, monkeypatch):
    ids = ids_of(2, 32)

    def run(query_shift):
        model = toy("shaw_released", query_shift, mem_len=16)
        memory = tuple(
            tf.random.stateless_normal([2, 16, 10], [i, 3]) for i in range(2)
        )
        with tf.GradientTape() as tape:
            output = model(ids, memory=memory, training=True)
            losses = model.token_losses(output.sequence_output, ids)
        return [losses, *tape.gradient(losses, model.trainable_variables)]

    wanted = run("gather")
    if form == "blocks":
        monkeypatch.setattr(chunked, "MIN_BLOCK_ROWS", 8)
    found = run("radix" if form == "radix" else "gather")
    for a, b in zip(wanted, found, strict=True):
        a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
        scale = max(1.0, np.abs(a).max())
        np.testing.assert_allclose(a / scale, b / scale, atol=4e-6)


@pytest.mark.slow
def test_generation_with_kept_keys():
    generator = CausalGenerator(toy("shaw_released"), [2])
    prompt = np.arange(6, dtype=np.int32)
    options = [
        SamplingOptions(max_new_tokens=9, temperature=0, use_cache=cached)
        for cached in (True, False)
    ]
    one, other = (generator.generate(prompt, o) for o in options)
    np.testing.assert_array_equal(one.tokens, other.tokens)
    np.testing.assert_allclose(one.log_probs, other.log_probs, atol=1e-5)


def test_what_an_encoding_cannot_do():
    with pytest.raises(ValueError, match="needs sinusoids of unclipped"):
        toy("shaw_released", "factored")
    with pytest.raises(UserError, match="cannot place: wanted relative"):
        CausalGenerator(toy("absolute"), [2])
    with pytest.raises(UserError, match="longer than the 7 places"):
        toy("per_layer")(ids_of(1, 8))
    with pytest.raises(UserError, match="needs `max_positions`"):
        toy("shaw", max_positions=None)
    with pytest.raises(UserError, match="relative positions only"):
        original.stack({"transformer/layer_0/rel_attn/q/kernel": None})
    found = txl_golden.named_variables(toy("per_layer"))
    assert found["transformer/layer_1/r_emb"].shape == [7, 10]
