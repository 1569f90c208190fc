"""Table 7 of the XLNet paper as presets, in both versions, and our small models.

Those of other encoders are in `flags.recipes.encoder_recipes`.
"""

from flags.recipes import encoder_recipes
from flags.recipes.finetune_recipes import Recipe

COMMAND = "run_pretrain.py"

_LARGE = {
    "n_layer": 24,
    "d_model": 1024,
    "n_head": 16,
    "d_head": 64,
    "d_inner": 4096,
    "dropout": 0.1,
    "dropatt": 0.1,
    "seq_len": 512,
    "train_steps": 500_000,
    "decay_method": "poly",
    "adam_epsilon": 1e-6,
    "weight_decay": 0.01,
}
# K = 6 of Table 7 is how the data were built: 1 of 6 tokens is a target; the slots
# for them are the data's own.
_ASSUMED = {
    "mask_alpha": 6,
    "mask_beta": 1,
    "reuse_len": 256,
    "clip": 0.25,
    "min_lr_ratio": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
}
_V1 = {
    "mem_len": 384,
    "train_batch_size": 2048,
    "learning_rate": 1e-5,
    "warmup_steps": 20_000,
}
_V2 = {
    "activation_dropout": 0.0,
    "train_batch_size": 8192,
    "learning_rate": 4e-4,
    "warmup_steps": 40_000,
}

# Found by search on two cores (docs/explanation/small_models/small_minutes.md).
# So small a model first reaches the unigram plateau and stays there for a while;
# single tokens as targets, more of them, and larger first weights end that sooner.
_SMALL = {
    "n_layer": 3,
    "d_model": 192,
    "n_head": 4,
    "d_head": 48,
    "d_inner": 768,
    "seq_len": 128,
    "reuse_len": 64,
    "mem_len": 64,
    "mask_alpha": 3,
    "mask_beta": 1,
    "init_std": 0.05,
    "dropout": 0.0,
    "dropatt": 0.0,
    "train_batch_size": 16,
    "learning_rate": 1e-3,
}

RECIPES = {
    "small_minutes": Recipe(
        COMMAND,
        _SMALL
        | {
            "train_steps": 900,
            "warmup_steps": 20,
            "learning_rate": 2e-3,
            "init_attention": "nearest",
            "init_output_bias": "unigram",
        },
        {},
        "measured: docs/explanation/small_models/small_minutes.md",
    ),
    "small_hours": Recipe(
        COMMAND,
        _SMALL | {"n_layer": 4, "train_steps": 8000, "warmup_steps": 400},
        {},
        "measured: docs/explanation/small_models/small_hours.md",
    ),
    # 0.04 is BERT's 0.02 at D 768, times the root of 768 / D, rounded up. The rate stays
    # at its peak until the last fifth.
    "small_night": Recipe(
        COMMAND,
        _SMALL
        | {
            "n_layer": 6,
            "d_model": 256,
            "d_head": 64,
            "d_inner": 1024,
            "init_std": 0.04,
            "train_steps": 36_000,
            "warmup_steps": 500,
            "decay_method": "wsd",
            "decay_steps": 7200,
        },
        {},
        "measured: docs/explanation/small_models/small_hours.md",
    ),
    "pretrain_large_v1": Recipe(COMMAND, _LARGE | _V1, _ASSUMED, "Table 7, v1"),
    # The second version gives no memory length.
    "pretrain_large_v2": Recipe(
        COMMAND,
        _LARGE | _V2,
        _ASSUMED | {"mem_len": 384},
        "Table 7, v2; mem_len from v1",
    ),
    # The paper gives the base model's size (that of BERT-Base, in the ablation of Table 6);
    # the rest is the large model's table.
    "pretrain_base": Recipe(
        COMMAND,
        {"n_layer": 12, "d_model": 768, "n_head": 12, "d_head": 64}
        | {"d_inner": 3072},
        {
            name: value
            for name, value in (
                _LARGE | _V2 | _ASSUMED | {"mem_len": 384}
            ).items()
            if name not in ("n_layer", "d_model", "n_head", "d_head", "d_inner")
        },
        "sizes of the ablation (Table 6); the rest is Table 7 of the large model",
    ),
} | {
    name: Recipe(COMMAND, *values)
    for name, values in encoder_recipes.pretraining().items()
}
