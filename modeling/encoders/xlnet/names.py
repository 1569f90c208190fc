"""XLNet's variables elsewhere: optimizer groups, Hugging Face's folders.

Theirs are told by name. Two facts differ in the configuration: "gelu" there is
the exact form (ours: "gelu_erf"; the original's tanh form is "gelu_new" there),
and biases are always per layer.
"""

from typing import Any

import numpy as np

from common.errors import UserError
from common.heads import SPAN_LOGIT
from modeling.encoders.base_config import (
    THEIR_ACTIVATIONS,
    their_activation,
)
from modeling.encoders.hf_names import (
    HuggingFaceNames,
    Summary,
    dense,
    norm,
)
from modeling.encoders.xlnet.config import XLNetConfig

SCOPE = "model/transformer/"
_LAYER_SCOPE = SCOPE + r"layer_(?P<layer>\d+)/"

# (pattern of the whole name, decayed, place). The first match counts.
# place: "embedding"; "layer" or "bias_of_layer" (the number is in the name, the
# original's layer-wise rates leave out the second); "top" = above all layers.
GROUPS = (
    (SCOPE + r"word_embedding/lookup_table", True, "embedding"),
    (SCOPE + r"mask_emb/mask_emb", True, "embedding"),
    (_LAYER_SCOPE + r"rel_attn/[qkvor]/kernel", True, "layer"),
    (_LAYER_SCOPE + r"rel_attn/r_[wrs]_bias", True, "bias_of_layer"),
    (_LAYER_SCOPE + r"rel_attn/seg_embed", True, "bias_of_layer"),
    (_LAYER_SCOPE + r"ff/layer_[12]/kernel", True, "layer"),
    (_LAYER_SCOPE + r"ff/layer_[12]/bias", False, "layer"),
    (_LAYER_SCOPE + r"(rel_attn|ff)/LayerNorm/(gamma|beta)", False, "layer"),
    # Shared by all layers, or stacked over them in the original's files.
    (SCOPE + r"(r_[wrs]_bias|seg_embed)", True, "top"),
)

BIASES = ("r_w_bias", "r_r_bias", "r_s_bias")
_SUMMARIES = ("last", "first", "mean")
# How theirs writes that the summary has no activation; they apply one without a
# projection, too.
_LINEAR = ("linear", None, "")
_SAME_KEYS = (
    "vocab_size",
    "d_model",
    "n_layer",
    "n_head",
    "d_inner",
    "untie_r",
    "attn_type",
    "same_length",
    "clamp_len",
    "dropout",
    "mem_len",
    "reuse_len",
)


class HuggingFace(HuggingFaceNames):
    """XLNet's names there; those of the heads are in `common.heads`."""

    class_prefix = "XLNet"
    ours = SCOPE
    scope = "transformer."
    around = {
        "word_embedding/lookup_table": ("word_embedding.weight", False),
        "mask_emb/mask_emb": ("mask_emb", False),
    }
    layer_scope = "layer.{}."
    layer = {
        **{f"rel_attn/{n}/kernel": (f"rel_attn.{n}", False) for n in "qkvor"},
        **{
            f"rel_attn/{n}": (f"rel_attn.{n}", False)
            for n in (*BIASES, "seg_embed")
        },
        **norm("rel_attn/LayerNorm", "rel_attn.layer_norm"),
        **norm("ff/LayerNorm", "ff.layer_norm"),
        **dense("ff/layer_1", "ff.layer_1"),
        **dense("ff/layer_2", "ff.layer_2"),
    }
    token_ids = {
        "pad_token_id": ("pad", 5),
        "bos_token_id": ("bos", 1),
        "eos_token_id": ("eos", 2),
    }
    ties = (("lm_loss.weight", "transformer.word_embedding.weight"),)

    def class_kinds(self, head: str) -> tuple[str, ...]:
        if head == "span":
            return ("ForQuestionAnswering", "ForQuestionAnsweringSimple")
        return super().class_kinds(head)

    def class_name(self, head: str, arrays: Any = ()) -> str:
        if head == "span" and f"{SPAN_LOGIT}/kernel" in arrays:
            return self.class_prefix + "ForQuestionAnsweringSimple"
        return super().class_name(head)

    def from_theirs(
        self, arrays: dict[str, np.ndarray], config: XLNetConfig, path: str
    ) -> None:
        """Their per-layer copies -> one shared bias, without `untie_r`."""
        if config.untie_r:
            return
        for bias in BIASES:
            keys = [
                f"{SCOPE}layer_{i}/rel_attn/{bias}"
                for i in range(config.n_layer)
            ]
            copies = [arrays.pop(key) for key in keys if key in arrays]
            if not copies:
                continue
            if any(not np.array_equal(copies[0], copy) for copy in copies):
                raise UserError(
                    f"{path}: the config says untie_r false, but `{bias}` "
                    "differs among the layers"
                )
            arrays[SCOPE + bias] = copies[0]

    def to_theirs(
        self, arrays: dict[str, np.ndarray], config: XLNetConfig
    ) -> None:
        """The opposite of `from_theirs`."""
        if config.untie_r:
            return
        for bias in BIASES:
            shared = arrays.pop(SCOPE + bias)
            for i in range(config.n_layer):
                arrays[f"{SCOPE}layer_{i}/rel_attn/{bias}"] = shared

    def read_config(self, theirs: dict[str, Any], path: str) -> XLNetConfig:
        """Their `config.json` as ours; the rest stays in `extra["hf"]`.

        Raises UserError: a field is missing, or a setting that we have not.
        """
        activation = theirs.get("ff_activation", "gelu")
        if activation not in list(THEIR_ACTIVATIONS):  # of any type
            raise UserError(
                f"{path}: wanted ff_activation one of {list(THEIR_ACTIVATIONS)}, "
                f"found {activation!r}"
            )
        epsilon = theirs.get("layer_norm_eps", 1e-12)
        if epsilon != 1e-12:
            raise UserError(
                f"{path}: wanted layer_norm_eps 1e-12, found {epsilon}"
            )
        if theirs.get("bi_data"):
            raise UserError(
                f"{path}: wanted bi_data false, found {theirs['bi_data']!r}: "
                "it would read the second half of each batch backward"
            )
        missing = [k for k in ("d_model", "n_head") if k not in theirs]
        if missing:
            raise UserError(f"{path} lacks {missing}")
        known = {k: theirs[k] for k in _SAME_KEYS if k in theirs}
        # Theirs has one rate for everything; ours writes its own beside it.
        ours = theirs.get("xlnet_config", {})
        if not isinstance(ours, dict):
            raise UserError(
                f"{path}: wanted an object as xlnet_config, found {ours!r}"
            )
        known |= {
            "d_head": _head_size(theirs["d_model"], theirs["n_head"]),
            "ff_activation": THEIR_ACTIVATIONS[activation],
            "dropatt": ours.get("dropatt", theirs.get("dropout", 0.1)),
            "init_std": theirs.get("initializer_range", 0.02),
        }
        known |= {k: v for k, v in ours.items() if k != "dropatt"}
        try:
            return XLNetConfig.from_dict(known | {"extra": {"hf": theirs}})
        except UserError as e:
            raise UserError(f"{path}: {e}") from e

    def write_config(self, config: XLNetConfig) -> dict[str, Any]:
        """Ours as theirs; what theirs cannot say goes to `xlnet_config`."""
        if config.n_head * config.d_head != config.d_model:
            raise UserError(
                f"Hugging Face's XLNet needs n_head * d_head = d_model, found "
                f"{config.n_head} * {config.d_head} and {config.d_model}"
            )
        theirs = dict(config.extra.get("hf", {}))
        read_back = bool(theirs)
        theirs |= {
            key: getattr(config, key)
            for key in _SAME_KEYS
            # Recent versions leave this key out: there it is always true.
            if key != "untie_r" or key in theirs or not config.untie_r
        }
        theirs |= {
            "model_type": "xlnet",
            "ff_activation": their_activation(config.ff_activation),
            "layer_norm_eps": 1e-12,
            "initializer_range": config.init_std,
        }
        if not read_back:
            theirs["d_head"] = config.d_head
            theirs["summary_activation"] = "tanh"
            theirs["summary_last_dropout"] = config.dropout
        theirs.pop("xlnet_config", None)
        if beside := _beside(config):
            theirs["xlnet_config"] = beside
        return theirs

    def write_task(self, theirs: dict[str, Any]) -> None:
        """Without memory in the answers: pipelines cannot cut it into rows."""
        theirs["use_mems_eval"] = False

    def write_summary(
        self, theirs: dict[str, Any], summary: Summary
    ) -> list[str]:
        """`summary_type`, `summary_use_proj` and `summary_activation`."""
        if summary.use_proj != theirs.get("summary_use_proj", True):
            theirs["summary_use_proj"] = summary.use_proj
        activations = ("tanh",) if summary.use_proj else _LINEAR
        if theirs.get("summary_activation", "tanh") not in activations:
            theirs["summary_activation"] = activations[0]
        summary_type = summary.summary_type
        if summary_type is None:
            return []
        if summary_type not in _SUMMARIES:
            raise UserError(
                f"Hugging Face's XLNet has no summary_type {summary_type!r}: wanted "
                f"one of {', '.join(_SUMMARIES)}; use --to_format=native"
            )
        if summary_type != theirs.get("summary_type", "last"):
            theirs["summary_type"] = summary_type
        if summary_type == "last" or summary.pooling == "original":
            return []
        return [
            f"summary_type {summary_type}: theirs counts padding, ours does not; "
            "equal for rows without padding"
        ]

    def read_summary(self, theirs: dict[str, Any], path: str) -> dict[str, Any]:
        """See the base.

        `first` and `mean` count padding there. Here they do not, so that a text
        has the answer that it has there alone, whatever is beside it.
        """
        summary_type = theirs.get("summary_type", "last")
        if summary_type not in _SUMMARIES:
            raise UserError(
                f"{path}: wanted summary_type one of {', '.join(_SUMMARIES)}, "
                f"found {summary_type!r}: take a model with one of these"
            )
        projected = theirs.get("summary_use_proj", True)
        activation = theirs.get("summary_activation", "tanh")
        if activation not in (("tanh",) if projected else _LINEAR):
            raise UserError(
                f"{path}: wanted summary_activation 'tanh' with a projection "
                f"and 'linear' without, found {activation!r} and "
                f"summary_use_proj {projected}: take a model with these"
            )
        return {} if summary_type == "last" else {"summary_type": summary_type}


def _head_size(d_model: Any, n_head: Any) -> int:
    """H; 1 of numbers that are none, of which the configuration complains."""
    right = all(isinstance(n, int) and n > 0 for n in (d_model, n_head))
    return d_model // n_head if right else 1


def _beside(config: XLNetConfig) -> dict[str, Any]:
    """Settings that their config has no key for, where they matter."""
    plain = {
        "dropatt": config.dropout,
        "activation_dropout": None,
        "init_method": "normal",
        "init_range": 0.1,
        "blind_rows": "zero",
    }
    return {
        key: getattr(config, key)
        for key, value in plain.items()
        if getattr(config, key) != value
    }
