"""Reads the original Transformer-XL's numbers; helper of the parity tests."""

import json
import pathlib

import numpy as np

from modeling.checkpoints.names import named_variables
from modeling.encoders.transformer_xl import original
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel

PREFIX = "transformer/"


def folder(golden: pathlib.Path) -> pathlib.Path:
    """The folder of config A."""
    return golden / "txl" / "A"


def load(golden: pathlib.Path, name: str) -> dict[str, np.ndarray]:
    """Arrays of `<name>.npz`."""
    with np.load(folder(golden) / f"{name}.npz", allow_pickle=False) as f:
        return {key: f[key] for key in f.files}


def cases(golden: pathlib.Path, name: str = "cases.json") -> dict:
    """`cases.json`, or another list of cases."""
    return json.loads((folder(golden) / name).read_text())


def config(sizes: dict, settings: dict, **changes) -> TransformerXLConfig:
    """A case's configuration without dropout.

    `sizes` is `config` of `cases.json`; `settings` may have the names of the
    forward cases and those of the training runs.
    """

    def get(*names, default=None):
        found = [settings[n] for n in names if n in settings]
        return found[0] if found else default

    values = dict(
        vocab_size=sizes["n_token"],
        n_layer=sizes["n_layer"],
        d_model=sizes["d_model"],
        n_head=sizes["n_head"],
        d_head=sizes["d_head"],
        d_inner=sizes["d_inner"],
        d_embed=get("d_embed", "e"),
        cutoffs=tuple(get("cutoffs", "cut", default=())),
        div_val=get("div_val", "div", default=1),
        proj_share_all_but_first=get(
            "share", "proj_share_all_but_first", default=False
        ),
        proj_same_dim=get("same_dim", "same", default=True),
        untie_r=get("untie_r", default=False),
        same_length=get("same_length", default=False),
        clamp_len=get("clamp_len", default=-1),
        mem_len=get("mem_len", default=sizes["mem_len"]),
        memory_start="zeros",
        dropout=0.0,
        dropatt=0.0,
    )
    return TransformerXLConfig(**(values | changes))


def empty_memory(config: TransformerXLConfig, rows: int) -> tuple:
    """(L arrays [B, M, D], valid slots [B]) before a text."""
    shape = [rows, config.mem_len or 0, config.d_model]
    layers = (np.zeros(shape, np.float32),) * config.n_layer
    return layers, np.zeros([rows], np.int32)


def build(config: TransformerXLConfig, arrays: dict) -> CausalLanguageModel:
    """A model with the original's arrays in it, every one used."""
    model = CausalLanguageModel(config)
    assign(model, arrays)
    return model


def assign(model: CausalLanguageModel, arrays: dict) -> None:
    """Every variable gets its array, and every array goes to a variable."""
    found = original.unstack(arrays, model.config, "golden")
    variables = named_variables(model)
    assert set(found) == set(variables)
    for name, variable in variables.items():
        variable.assign(found[name])


def case_arrays(golden: pathlib.Path, variables: dict) -> dict:
    """The stored weights of a case by name."""
    weights = load(golden, "weights")
    return {
        name: weights[f"{name}|{'x'.join(map(str, shape))}"]
        for name, shape in variables.items()
    }
