"""ModernBERT's variables elsewhere: optimizer groups, Hugging Face."""

from collections.abc import Mapping
from typing import Any

from common.errors import UserError
from common.heads import ENCODER, SPAN_LOGIT
from modeling.encoders.hf_names import (
    LOGITS,
    FileNames,
    Names,
    Summary,
    dense,
    norm,
)
from modeling.encoders.modernbert.config import ModernBertConfig

_SCOPE = "model/modernbert/"
_LAYER = _SCOPE + r"layer_(?P<layer>\d+)/"

# See `modeling.encoders.xlnet.names.GROUPS`.
GROUPS = (
    (_SCOPE + r"word_embedding/lookup_table", True, "embedding"),
    (_SCOPE + r"embedding/LayerNorm/gamma", False, "embedding"),
    (_LAYER + r"(attention/(qkv|o)|ff/layer_[12])/kernel", True, "layer"),
    (_LAYER + r"(attention|ff)/LayerNorm/gamma", False, "layer"),
    (_SCOPE + r"final/LayerNorm/gamma", False, "top"),
)

_HEAD = {
    "model/lm_loss/transform/kernel": ("head.dense.weight", True),
    "model/lm_loss/LayerNorm/gamma": ("head.norm.weight", False),
}
_POOLINGS = {"first": "cls", "mean": "mean"}
_LOGITS = LOGITS | {"span": SPAN_LOGIT}
_OF_TOKENS = ("token_classification", "span")


class HuggingFace(FileNames):
    """ModernBERT's names there.

    Every head of theirs has the prediction head before it.
    """

    class_prefix = "ModernBert"
    config_class = ModernBertConfig
    ours = _SCOPE
    scope = "model."
    around = {
        "word_embedding/lookup_table": (
            "embeddings.tok_embeddings.weight",
            False,
        ),
        **norm("embedding/LayerNorm", "embeddings.norm", False),
        **norm("final/LayerNorm", "final_norm", False),
    }
    layer_scope = "layers.{}."
    layer = {
        **norm("attention/LayerNorm", "attn_norm", False),
        **dense("attention/qkv", "attn.Wqkv", False),
        # [D, N, H] here, their [D, N * H] as it is.
        **dense("attention/o", "attn.Wo", False, flip=False),
        **norm("ff/LayerNorm", "mlp_norm", False),
        **dense("ff/layer_1", "mlp.Wi", False),
        **dense("ff/layer_2", "mlp.Wo", False),
    }
    projection = "model/lm_loss/transform/kernel"
    token_ids = {
        "pad_token_id": ("pad", 50283),
        "bos_token_id": ("cls", 50281),
        "eos_token_id": ("sep", 50282),
        "cls_token_id": ("cls", 50281),
        "sep_token_id": ("sep", 50282),
    }
    ties = (("decoder.weight", "model.embeddings.tok_embeddings.weight"),)

    def names(self, config: ModernBertConfig) -> Names:
        """The first layer has no norm before its attention."""
        names = super().names(config)
        del names[f"{_SCOPE}layer_0/attention/LayerNorm/gamma"]
        return names

    def head_names(self, head: str) -> Names:
        if head == ENCODER:
            return {}
        if head == "pretraining":
            return _HEAD | {"model/lm_loss/bias": ("decoder.bias", False)}
        if head in _LOGITS:
            return _HEAD | dense(_LOGITS[head], "classifier")
        return {}

    def class_kinds(self, head: str) -> tuple[str, ...]:
        if head == "pretraining":
            return ("ForMaskedLM",)
        return super().class_kinds(head)

    def head_shapes(self, arrays, config):
        """[D, 3 N H] there is [D, 3, N, H] here, [D, N H] is [D, N, H]."""
        heads, width = [config.n_head, config.d_head], config.d_model
        for name in list(arrays):
            if name.endswith("/attention/qkv/kernel"):
                yield name, [width, 3, *heads], [width, 3 * width]
            elif name.endswith("/attention/o/kernel"):
                yield name, [width, *heads], [width, width]

    def check_complete(self, arrays: Mapping[str, Any], head: str) -> None:
        """Logits of tokens; those of a summary are `write_summary`'s."""
        if head not in _OF_TOKENS or self.projection in arrays:
            return
        raise UserError(
            f"{self.class_name(head)} reads the encoder through a prediction "
            "head, and would draw its weights at random: wanted a model with "
            "it, found none; use --to_format=native"
        )

    def write_summary(
        self, theirs: dict[str, Any], summary: Summary
    ) -> list[str]:
        """`classifier_pooling`; theirs always has the prediction head."""
        summary_type = summary.summary_type
        if (
            not summary.use_proj
            or summary_type not in (None, *_POOLINGS)
            # Their mean is over real tokens.
            or (summary_type == "mean" and summary.pooling == "original")
        ):
            raise UserError(
                "Hugging Face's ModernBert classifies by CLS or by the mean of "
                "real tokens, with a projection: wanted --summary_type=first or "
                "mean, --pooling=masked and --use_summ_proj, found "
                f"{summary_type or theirs['classifier_pooling']}, pooling "
                f"{summary.pooling or 'masked'}"
                f"{'' if summary.use_proj else ', without projection'}"
                "; use --to_format=native"
            )
        if summary_type:
            theirs["classifier_pooling"] = _POOLINGS[summary_type]
        return []
