"""Transformer-XL's published runs as presets.

Sizes and lengths are those of the paper's released scripts ("TF": its
TensorFlow form, "torch": its PyTorch form). What no source gives is in
`assumed` and printed as such.
"""

from flags.recipes.finetune_recipes import Recipe

COMMAND = "run_lm.py"


def _model(n_layer, d_model, n_head, d_head, d_inner) -> dict:
    return {
        "n_layer": n_layer,
        "d_model": d_model,
        "n_head": n_head,
        "d_head": d_head,
        "d_inner": d_inner,
    }


def _train(batch, length, steps, rate=2.5e-4, warmup=0) -> dict:
    return {
        "train_batch_size": batch,
        "seq_len": length,
        "mem_len": length,
        "train_steps": steps,
        "learning_rate": rate,
        "warmup_steps": warmup,
    }


def _eval(length, memory, clamp, batch) -> dict:
    return {
        "eval_seq_len": length,
        "eval_mem_len": memory,
        "eval_clamp_len": clamp,
        "eval_batch_size": batch,
        "eval_same_length": True,
    }


# Of all runs.
_COMMON = {
    "ff_activation": "relu",
    "memory_start": "zeros",
    "decay_method": "cos",
    "min_lr_ratio": 0.004,
    "clip": 0.25,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "weight_decay": 0.0,
    "init_std": 0.02,
    "proj_init_std": 0.01,
    "div_val": 1,
    "untie_r": False,
    "dropout": 0.1,
    "dropatt": 0.0,
}
_WT103 = {
    "cutoffs": [20_000, 40_000, 200_000],
    "untie_r": True,
    "proj_share_all_but_first": True,
}
_LM1B = {
    "cutoffs": [60_000, 100_000, 640_000],
    "div_val": 4,
    "untie_r": True,
    "proj_share_all_but_first": False,
    "proj_same_dim": False,
    "order": "shuffled",
}
_CHARACTERS = _model(12, 512, 8, 64, 2048) | _eval(80, 2100, 820, 10)
_CHARACTERS_LARGE = (
    _model(24, 1024, 8, 128, 3072)
    | {"dropout": 0.15, "dropatt": 0.15}
    | _train(64, 768, 400_000, warmup=4_000)
    | _eval(128, 3800, 1000, 16)
)
_SCRIPT = "the released TF script"


def _recipe(flags: dict, source: str, assumed: dict | None = None) -> Recipe:
    assumed = assumed or {}
    known = {k: v for k, v in (_COMMON | flags).items() if k not in assumed}
    return Recipe(COMMAND, known, assumed, source)


def _lm1b_assumed() -> Recipe:
    """20 layers, 0.46B: its author's statement has the sizes alone."""
    known = ("n_layer", "d_model", "d_inner")
    sizes = _model(20, 1024, 8, 128, 6144)
    rest = _train(256, 32, 400_000) | _eval(32, 128, -1, 16)
    assumed = rest | {k: sizes[k] for k in ("n_head", "d_head")}
    return _recipe(
        _LM1B | {k: sizes[k] for k in known},
        "Table 4, 23.5; sizes by its author, kimiyoung/transformer-xl issue 69",
        assumed | {"dropout": 0.1, "dropatt": 0.0},
    )


def _ptb() -> Recipe:
    """24M: no code was released, and nobody reproduced 54.5."""
    assumed = (
        _COMMON
        | _model(12, 400, 10, 40, 1024)
        | _train(20, 70, 40_000)
        | _eval(70, 70, -1, 10)
        | {"dropout": 0.5, "dropatt": 0.2, "learning_rate": 3e-4}
        | {"weight_decay": 1.2e-6}
        # AWD-LSTM's: its rate of whole words, its trigger, one evaluation
        # per pass over the 929,589 tokens.
        | {"variational_dropout": True, "word_dropout": 0.1}
        | {"average_trigger": 5, "eval_every": 664}
    )
    return Recipe(
        COMMAND,
        {},
        assumed,
        "Table 3 has a result and no settings but variational dropout and "
        "weight averaging as in AWD-LSTM; sizes near its 24M",
    )


RECIPES = {
    "txl_wt103_standard": _recipe(
        _WT103
        | _model(16, 410, 10, 41, 2100)
        | _train(60, 150, 400_000)
        | _eval(64, 640, 400, 10),
        f"Table 1, 24.0; {_SCRIPT}",
    ),
    "txl_wt103_large": _recipe(
        _WT103
        | {"div_val": 4, "init_std": 0.005, "dropout": 0.2, "dropatt": 0.2}
        | _model(18, 1024, 16, 64, 4096)
        | _train(128, 384, 4_000_000, warmup=16_000)
        | _eval(128, 1600, 1000, 8),
        f"Table 1, 18.3; {_SCRIPT}: 285M parameters (the paper: 257M)",
    ),
    "txl_enwik8_12": _recipe(
        _CHARACTERS | _train(24, 512, 400_000), f"Table 2, 1.06; {_SCRIPT}"
    ),
    # Its sizes are published nowhere: these give 88.67M parameters.
    "txl_enwik8_18": _recipe(
        {"n_layer": 18},
        "Table 2, 1.03; nothing but 18 layers and 88M is published",
        {k: v for k, v in _model(18, 512, 8, 128, 2240).items() if k[0] != "n"}
        | {"n_head": 8}
        | _train(24, 512, 400_000)
        | _eval(80, 2100, 820, 10)
        | {"dropout": 0.1, "dropatt": 0.0},
    ),
    "txl_enwik8_24": _recipe(
        _CHARACTERS_LARGE, f"Table 2, 0.99; {_SCRIPT} (the paper: T 784)"
    ),
    "txl_text8": _recipe(
        _CHARACTERS | _train(24, 512, 400_000), f"text8, base; {_SCRIPT}"
    ),
    "txl_text8_large": _recipe(
        _CHARACTERS_LARGE, f"the later version's text8, 1.08; {_SCRIPT}"
    ),
    "txl_lm1b_base": _recipe(
        _LM1B
        | _model(18, 1024, 8, 128, 4096)
        | _train(256, 256, 400_000)
        | _eval(32, 128, -1, 16),
        f"One Billion Word; {_SCRIPT} of the base model",
    ),
    "txl_lm1b_460m": _lm1b_assumed(),
    "txl_lm1b_large": _recipe(
        _LM1B
        | {"init_std": 0.005, "dropout": 0.05, "dropatt": 0.05}
        | _model(24, 1280, 16, 80, 8192)
        | _train(512, 32, 1_200_000, rate=1e-4, warmup=30_000)
        | _eval(32, 128, -1, 8),
        f"One Billion Word, 21.8; {_SCRIPT}",
    ),
    "txl_ptb": _ptb(),
}
