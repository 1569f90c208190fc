"""ModernBERT's variables elsewhere: optimizer groups, Hugging Face."""

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


class HuggingFace(FileNames):
    """ModernBERT's names there.

    Every head of theirs has the prediction head before it.
    """

    class_prefix = "ModernBert"
    config_class = ModernBertConfig
    scope = "model."
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
        """Canonical name -> (their name, is it a transposed kernel)."""
        names = {
            f"{_SCOPE}word_embedding/lookup_table": (
                "model.embeddings.tok_embeddings.weight",
                False,
            )
        }
        names |= norm(
            f"{_SCOPE}embedding/LayerNorm", "model.embeddings.norm", False
        )
        for i in range(config.n_layer):
            ours, theirs = f"{_SCOPE}layer_{i}", f"model.layers.{i}"
            if i:
                names |= norm(
                    f"{ours}/attention/LayerNorm", f"{theirs}.attn_norm", False
                )
            names |= dense(
                f"{ours}/attention/qkv", f"{theirs}.attn.Wqkv", False
            )
            # [D, N, H] here, their [D, N * H] as it is.
            names[f"{ours}/attention/o/kernel"] = (
                f"{theirs}.attn.Wo.weight",
                False,
            )
            names |= norm(f"{ours}/ff/LayerNorm", f"{theirs}.mlp_norm", False)
            names |= dense(f"{ours}/ff/layer_1", f"{theirs}.mlp.Wi", False)
            names |= dense(f"{ours}/ff/layer_2", f"{theirs}.mlp.Wo", False)
        return names | norm(
            f"{_SCOPE}final/LayerNorm", "model.final_norm", False
        )

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
