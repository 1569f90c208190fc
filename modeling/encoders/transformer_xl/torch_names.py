"""Transformer-XL's weights in the PyTorch release's `state_dict`.

All kinds of its attention are read: `attn_type` 0 is `encoding` "relative", 1
"shaw_released", 2 "absolute", 3 "per_layer". Its kernels are [outputs, inputs] and its projections [D, E_i]; queries, keys
and values are one kernel (types 2 and 3: queries apart); u and v belong to all
layers, what Shaw's form has instead is stacked over them. The head's entries of
the tail clusters are in reversed order. What two modules share is in the file
twice.
"""

import re

import numpy as np

from common.errors import UserError
from modeling.encoders.transformer_xl import original
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.transformer_xl.names import BIASES, SCOPE

# `torch.nn.LayerNorm`'s; the TensorFlow release has 1e-12.
LAYER_NORM_EPSILON = 1e-5
# `encoding` -> the release's `attn_type`.
KINDS = {"relative": 0, "shaw_released": 1, "absolute": 2, "per_layer": 3}
_LAYER = {
    "dec_attn.qkv_net.weight": ("rel_attn/qkv/kernel", True),
    "dec_attn.r_net.weight": ("rel_attn/r/kernel", True),
    "dec_attn.o_net.weight": ("rel_attn/o/kernel", True),
    "dec_attn.layer_norm.weight": ("rel_attn/LayerNorm/gamma", False),
    "dec_attn.layer_norm.bias": ("rel_attn/LayerNorm/beta", False),
    "pos_ff.CoreNet.0.weight": ("ff/layer_1/kernel", True),
    "pos_ff.CoreNet.0.bias": ("ff/layer_1/bias", False),
    "pos_ff.CoreNet.3.weight": ("ff/layer_2/kernel", True),
    "pos_ff.CoreNet.3.bias": ("ff/layer_2/bias", False),
    "pos_ff.layer_norm.weight": ("ff/LayerNorm/gamma", False),
    "pos_ff.layer_norm.bias": ("ff/LayerNorm/beta", False),
}
_EMBED, _SOFTMAX = SCOPE + "adaptive_embed/", SCOPE + "adaptive_softmax/"


def adapt(config: TransformerXLConfig) -> TransformerXLConfig:
    """The configuration with what all PyTorch weights were trained with."""
    return config.replace(layer_norm_epsilon=LAYER_NORM_EPSILON)


def from_state_dict(
    state: dict[str, np.ndarray], config: TransformerXLConfig, source: str
) -> dict[str, np.ndarray]:
    """A `state_dict` -> one array per variable of ours.

    Raises UserError: another attention type than `encoding`, u and v per layer,
    an untied softmax, or an array that no variable takes.
    """
    left = {
        # `DataParallel` puts its own scope in front.
        name.removeprefix("module."): np.asarray(value, np.float32)
        for name, value in state.items()
    }
    kind, encoding = _kind(left), config.encoding
    if kind != encoding:
        raise UserError(
            f"{source}: wanted the attention of `encoding` {encoding!r} "
            f"(attn_type {KINDS.get(encoding, 'of none')}), found attn_type "
            f"{KINDS[kind]}, which is {kind!r}"
        )
    if config.untie_r and encoding == "relative":
        raise UserError(
            f"{source}: the PyTorch release has one u and v for all layers; "
            "set `untie_r` to false in the configuration"
        )
    tables = _taken(left, "word_emb.emb_layers", ".weight")
    projections = _taken(left, "word_emb.emb_projs")
    variables = {}
    for i, table in tables.items():
        scope = _EMBED + (f"cutoff_{i}/" if len(tables) > 1 else "")
        variables[f"{scope}lookup_table"] = table
        if i in projections:
            variables[f"{scope}proj_W"] = projections[i].T
    variables |= _positions(left, encoding)
    variables |= _softmax(left, tables, projections, config, source)
    for theirs, (ours, flip) in _LAYER.items():
        for i, value in _taken(left, "layers", f".{theirs}").items():
            variables[f"{SCOPE}layer_{i}/{ours}"] = value.T if flip else value
    for name in BIASES:
        if name in left:
            variables[SCOPE + name] = left.pop(name)
    left.pop("pos_emb.inv_freq", None)  # computed, not learned
    if left:
        raise UserError(
            f"{source}: no variable takes {sorted(left)[:5]} "
            f"({len(left)} tensors in all)"
        )
    return original.unstack(variables, config, source)


def _kind(left) -> str:
    """The encoding whose tensors these are."""
    if "r_bias" in left:
        return "shaw_released"
    if "r_emb" in left:
        return "per_layer"
    apart = any(name.endswith("dec_attn.q_net.weight") for name in left)
    return "absolute" if apart else "relative"


def _positions(left, encoding: str) -> dict:
    """Takes what belongs to places or distances, stacked over layers."""
    variables = {}
    if encoding in ("absolute", "per_layer"):
        queries = _taken(left, "layers", ".dec_attn.q_net.weight")
        for i, keys in _taken(
            left, "layers", ".dec_attn.kv_net.weight"
        ).items():
            whole = np.concatenate([queries[i], keys])
            left[f"layers.{i}.dec_attn.qkv_net.weight"] = whole
    if encoding == "per_layer":
        for i, rows in enumerate(left.pop("r_emb")):
            flat = rows.reshape(len(rows), -1)
            variables[f"{SCOPE}layer_{i}/r_emb"] = flat
    if encoding == "shaw_released":
        for name in ("r_emb", "r_bias", "r_w_bias"):
            for i, value in enumerate(left.pop(name)):
                variables[f"{SCOPE}layer_{i}/rel_attn/{name}"] = value
    return variables


def _softmax(left, tables, projections, config, source) -> dict:
    """Takes biases, entries of tail clusters and projections."""
    variables, ends = {}, config.cluster_ends
    count = len(ends) - 1
    biases = _taken(left, "crit.out_layers", ".bias")
    if len(biases) == 1 and count > 1 and len(biases[0]) == ends[-1]:
        biases = dict(enumerate(np.split(biases[0], ends[1:-1])))
    for i, bias in biases.items():
        key = f"cutoff_{i}/b" if count > 1 else "bias"
        variables[_SOFTMAX + key] = bias
    for name, ours in (("weight", "cluster_W"), ("bias", "cluster_b")):
        value = left.pop(f"crit.cluster_{name}", None)
        if value is not None:
            variables[f"{_SOFTMAX}cutoff_0/{ours}"] = value[::-1]
    tied = [
        (value, tables.get(i))
        for i, value in _taken(left, "crit.out_layers", ".weight").items()
    ]
    for i, value in _taken(left, "crit.out_projs").items():
        if count == 1 or (i and config.proj_share_all_but_first):
            one = i if config.div_val > 1 else 0
            tied.append((value, projections.get(one)))
        else:
            variables[f"{_SOFTMAX}cutoff_{i}/proj"] = value.T
    if not all(np.array_equal(*pair) for pair in tied):
        raise UserError(
            f"{source}: the softmax has other tables or projections than the "
            "embedding; it must be tied to it as the configuration says "
            "(`proj_share_all_but_first`)"
        )
    return variables


def _taken(left, scope: str, ending: str = "") -> dict[int, np.ndarray]:
    """Takes SCOPE.i ENDING out of `left`; by i."""
    arrays = {}
    for name in list(left):
        match = re.fullmatch(
            re.escape(scope) + r"\.(\d+)" + re.escape(ending), name
        )
        if match:
            arrays[int(match[1])] = left.pop(name)
    return arrays
