"""A state_dict of the PyTorch release, as far as names and shapes go."""

import numpy as np
import pytest

from common.errors import UserError
from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import torch_names
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel

D, N, H, F, V, L = 6, 3, 4, 8, 9, 2
CONFIG = TransformerXLConfig(
    vocab_size=V, n_layer=L, d_model=D, n_head=N, d_head=H, d_inner=F, mem_len=5
)


def state(**more):
    """Of relative attention, without clusters."""
    rng = np.random.default_rng(0)
    shapes = {"word_emb.emb_layers.0.weight": (V, D)}
    for i in range(L):
        shapes |= {
            f"layers.{i}.dec_attn.qkv_net.weight": (3 * N * H, D),
            f"layers.{i}.dec_attn.r_net.weight": (N * H, D),
            f"layers.{i}.dec_attn.o_net.weight": (D, N * H),
            f"layers.{i}.dec_attn.layer_norm.weight": (D,),
            f"layers.{i}.dec_attn.layer_norm.bias": (D,),
            f"layers.{i}.pos_ff.CoreNet.0.weight": (F, D),
            f"layers.{i}.pos_ff.CoreNet.0.bias": (F,),
            f"layers.{i}.pos_ff.CoreNet.3.weight": (D, F),
            f"layers.{i}.pos_ff.CoreNet.3.bias": (D,),
            f"layers.{i}.pos_ff.layer_norm.weight": (D,),
            f"layers.{i}.pos_ff.layer_norm.bias": (D,),
        }
    shapes |= {"r_w_bias": (N, H), "r_r_bias": (N, H)}
    shapes |= {"crit.out_layers.0.bias": (V,), "pos_emb.inv_freq": (D // 2,)}
    found = {k: rng.normal(size=s).astype("f4") for k, s in shapes.items()}
    tied = {"crit.out_layers.0.weight": found["word_emb.emb_layers.0.weight"]}
    return found | tied | more


def test_every_tensor_becomes_one_of_ours():
    theirs = state()
    wrapped = {f"module.{k}": v for k, v in theirs.items()}
    found = torch_names.from_state_dict(wrapped, CONFIG, "f")
    variables = named_variables(CausalLanguageModel(CONFIG))
    assert {k: v.shape for k, v in found.items()} == {
        k: tuple(v.shape) for k, v in variables.items()
    }
    kernel = found["transformer/layer_1/ff/layer_1/kernel"]
    np.testing.assert_array_equal(
        kernel, theirs["layers.1.pos_ff.CoreNet.0.weight"].T
    )
    assert "module.r_w_bias" in wrapped  # what was given stays


@pytest.mark.parametrize(
    "changes, more, message",
    [
        (
            {"encoding": "shaw_released", "max_positions": 7},
            {},
            "attn_type 1., found attn_type 0, which is .relative",
        ),
        ({"untie_r": True}, {}, "one u and v for all layers"),
        ({}, {"other": np.zeros(2)}, r"no variable takes \['other'\] .1 tens"),
        (
            {},
            {"crit.out_layers.0.weight": np.zeros((V, D))},
            "the softmax has other tables",
        ),
    ],
)
def test_other_models_are_one_line(changes, more, message):
    config = CONFIG.replace(**changes)
    with pytest.raises(UserError, match=message) as caught:
        torch_names.from_state_dict(state(**more), config, "f")
    assert "\n" not in str(caught.value)


def test_their_norms_have_another_epsilon():
    assert torch_names.adapt(CONFIG).layer_norm_epsilon == 1e-5
