"""Presets of BERT, ALBERT and ModernBERT, after the papers' tables.

Sizes are those of the papers: ALBERT's table (layers, hidden, embedding, with
BERT's rows beside) and ModernBERT's; so are ModernBERT's masking rate,
optimizer, shape of the schedule and GLUE rates. What neither says (heads of
ALBERT, steps, batches, warm-up) is `assumed` and printed as such.
"""

from typing import Any

# name -> (model_type, layers, hidden, heads, feed-forward)
_BERT_SIZES = {
    "bert_base": ("bert", 12, 768, 12, 3072),
    "bert_large": ("bert", 24, 1024, 16, 4096),
    "albert_base": ("albert", 12, 768, 12, 3072),
    "albert_large": ("albert", 24, 1024, 16, 4096),
    "albert_xlarge": ("albert", 24, 2048, 16, 8192),
    "albert_xxlarge": ("albert", 12, 4096, 64, 16384),
}
_BERT_ASSUMED = {
    "objective": "mlm",
    "train_batch_size": 256,
    "learning_rate": 1e-4,
    "warmup_steps": 10_000,
    "train_steps": 1_000_000,
    "decay_method": "poly",
    "weight_decay": 0.01,
    "adam_epsilon": 1e-6,
    "clip": 1.0,
}
_MODERN_SIZES = {
    "modernbert_base": (22, 768, 12, 1152),
    "modernbert_large": (28, 1024, 16, 2624),
}
_MODERN_FLAGS = {
    "model_type": "modernbert",
    "local_window": 128,
    "global_every": 3,
    "mask_rate": 0.3,
    "optimizer": "stable_adamw",
    "decay_method": "wsd",
}
_MODERN_ASSUMED = {
    "objective": "mlm",
    "decouple_lr": True,
    "decay_shape": "1-sqrt",
    "learning_rate": 8e-4,
    "weight_decay": 1e-5,
    "adam_beta1": 0.9,
    "adam_beta2": 0.98,
    "adam_epsilon": 1e-6,
    "clip": 0.0,
    "global_theta": 10_000.0,  # of the first phase; 160,000 extends it
    "train_batch_size": 4608,
    "train_steps": 364_000,
    "warmup_steps": 640,
    "decay_steps": 0,
}
# GLUE: task -> rows of train, then rate and decay of base and of large, epochs.
_GLUE = {
    "cola": (8_551, (8e-5, 1e-6), (3e-5, 8e-6), 5),
    "mnli": (392_702, (5e-5, 5e-6), (3e-5, 1e-5), 1),
    "mrpc": (3_668, (5e-5, 5e-6), (8e-5, 5e-6), 2),
    "qnli": (104_743, (8e-5, 5e-6), (3e-5, 5e-6), 2),
    "qqp": (363_846, (5e-5, 5e-6), (5e-5, 8e-6), 2),
    "rte": (2_490, (5e-5, 1e-5), (5e-5, 8e-6), 3),
    "sst-2": (67_349, (8e-5, 1e-5), (1e-5, 1e-6), 3),
    "sts-b": (5_749, (8e-5, 5e-6), (8e-5, 1e-5), 10),
}
_GLUE_BATCH = 32

Values = dict[str, Any]


def pretraining() -> dict[str, tuple[Values, Values, str]]:
    """Name -> (flags, assumed flags, where they stand), run_pretrain.py."""
    recipes = {}
    for name, (kind, *sizes) in _BERT_SIZES.items():
        layers, hidden, heads, inner = sizes
        values = {"model_type": kind, "n_layer": layers, "d_model": hidden}
        assumed = {"n_head": heads, "d_inner": inner} | _BERT_ASSUMED
        if kind == "albert":
            values |= {"embedding_size": 128, "num_groups": 1}
            assumed["sentence_order"] = True
        else:
            assumed["next_sentence"] = True
        recipes[name] = (values, assumed, "sizes of the ALBERT paper's table")
    for name, (layers, hidden, heads, inner) in _MODERN_SIZES.items():
        values = _MODERN_FLAGS | {
            "n_layer": layers,
            "d_model": hidden,
            "n_head": heads,
            "d_inner": inner,
        }
        source = "the ModernBERT paper's section and table"
        recipes[name] = (values, dict(_MODERN_ASSUMED), source)
    return recipes


def glue() -> dict[str, tuple[Values, Values, str]]:
    """Name -> (flags, assumed flags, where they stand), run_classifier.py.

    Epochs became steps by the size of the task's training set.
    """
    recipes = {}
    for task, (rows, base, large, epochs) in _GLUE.items():
        steps = -(-rows * epochs // _GLUE_BATCH)
        for size, (rate, decay) in (("base", base), ("large", large)):
            values = {"learning_rate": rate, "weight_decay": decay}
            assumed = {
                "train_batch_size": _GLUE_BATCH,
                "adam_beta2": 0.98,
                "adam_epsilon": 1e-6,
                "warmup_steps": round(0.06 * steps),
                "decay_method": "poly",
            }
            # The paper's column of epochs stands under the large model.
            where = values if size == "large" else assumed
            where["train_steps"] = steps
            name = f"glue_modernbert_{size}_{task}"
            source = f"the ModernBERT paper's GLUE table, {epochs} epochs of {rows:,} rows"
            recipes[name] = (values, assumed, source)
    return recipes
