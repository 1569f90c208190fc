"""BERT's and ALBERT's variables elsewhere: optimizer groups, Hugging Face."""

from typing import Any

from common.errors import UserError
from common.heads import ENCODER, SPAN_LOGIT, SUMMARY_SCOPE
from modeling.encoders.bert.config import AlbertConfig, BertConfig
from modeling.encoders.hf_names import (
    LOGITS,
    FileNames,
    Names,
    Summary,
    dense,
    norm,
)

_BERT = "model/bert/"
_ALBERT = "model/albert/"
_LAYER = _BERT + r"layer_(?P<layer>\d+)/"
_SHARED = _ALBERT + r"group_\d+/inner_\d+/"


def _outer(scope: str) -> tuple:
    return (
        (scope + r"\w+_embedding/lookup_table", True, "embedding"),
        (scope + r"embedding/LayerNorm/(gamma|beta)", False, "embedding"),
        (scope + r"embedding_mapping/kernel", True, "embedding"),
        (scope + r"embedding_mapping/bias", False, "embedding"),
    )


def _layers(scope: str, layer_path: str) -> tuple:
    return (
        (scope + r"(attention/[qkvo]|ff/layer_[12])/kernel", True, layer_path),
        (scope + r"(attention/[qkvo]|ff/layer_[12])/bias", False, layer_path),
        (scope + r"(attention|ff)/LayerNorm/(gamma|beta)", False, layer_path),
    )


# See `modeling.encoders.xlnet.names.GROUPS`. "shared": used by several layers.
GROUPS = _outer(_BERT) + _layers(_LAYER, "layer")
ALBERT_GROUPS = _outer(_ALBERT) + _layers(_SHARED, "shared")

_LM = "model/lm_loss"
_NSP = "model/next_sentence/logit"


def _layer(*theirs: str) -> Names:
    """Of their names of q, k, v, o, norm and the two dense layers, norm."""
    q, k, v, o, norm_1, dense_1, dense_2, norm_2 = theirs
    return {
        **dense("attention/q", q),
        **dense("attention/k", k),
        **dense("attention/v", v),
        # Its kernel is [D, N, H] here, their [D, N * H] as it is.
        **dense("attention/o", o, flip=False),
        **norm("attention/LayerNorm", norm_1),
        **dense("ff/layer_1", dense_1),
        **dense("ff/layer_2", dense_2),
        **norm("ff/LayerNorm", norm_2),
    }


class HuggingFace(FileNames):
    """BERT's names there."""

    class_prefix = "Bert"
    ours = _BERT
    scope = "bert."
    config_class = BertConfig
    ties = (
        (
            "cls.predictions.decoder.weight",
            "bert.embeddings.word_embeddings.weight",
        ),
        ("cls.predictions.decoder.bias", "cls.predictions.bias"),
    )
    buffers = ("embeddings.position_ids", "embeddings.token_type_ids")
    around = {
        f"{name}_embedding/lookup_table": (
            f"embeddings.{theirs}_embeddings.weight",
            False,
        )
        for name, theirs in (
            ("word", "word"),
            ("segment", "token_type"),
            ("position", "position"),
        )
    } | norm("embedding/LayerNorm", "embeddings.LayerNorm")
    layer_scope = "encoder.layer.{}."
    layer = _layer(
        "attention.self.query",
        "attention.self.key",
        "attention.self.value",
        "attention.output.dense",
        "attention.output.LayerNorm",
        "intermediate.dense",
        "output.dense",
        "output.LayerNorm",
    )
    pooler = "bert.pooler.dense"
    lm = "cls.predictions"
    lm_transform = "cls.predictions.transform."
    second = "cls.seq_relationship"

    def head_names(self, head: str) -> Names:
        pooler = dense(f"{SUMMARY_SCOPE}/summary", self.pooler)
        if head == ENCODER:
            return pooler
        if head == "pretraining":
            return {
                f"{_LM}/bias": (f"{self.lm}.bias", False),
                **dense(f"{_LM}/transform", f"{self.lm_transform}dense"),
                **norm(f"{_LM}/LayerNorm", f"{self.lm_transform}LayerNorm"),
                **pooler,
                **dense(_NSP, self.second),
            }
        if head == "span":
            return dense(SPAN_LOGIT, "qa_outputs")
        if head not in LOGITS:
            return {}
        logits = dense(LOGITS[head], "classifier")
        return logits if head == "token_classification" else pooler | logits

    def class_kinds(self, head: str) -> tuple[str, ...]:
        if head == "pretraining":
            return ("ForPreTraining", "ForMaskedLM")
        return super().class_kinds(head)

    def class_name(self, head: str, arrays: Any = ()) -> str:
        if head == "pretraining" and f"{_NSP}/kernel" not in arrays:
            return self.class_prefix + "ForMaskedLM"
        return super().class_name(head)

    def old_names(self, name: str) -> str:
        for old, new in (("gamma", "weight"), ("beta", "bias")):
            if name.endswith(f"LayerNorm.{old}"):
                return name.removesuffix(old) + new
        return name

    def head_shapes(self, arrays, config):
        """[D, N * H] there is [D, N, H] here, [N * H] is [N, H]."""
        heads = [config.n_head, config.d_head]
        width = config.n_head * config.d_head
        for name in list(arrays):
            part, _, kind = name.rpartition("/")
            if not part.endswith(tuple(f"/attention/{n}" for n in "qkvo")):
                continue
            if kind == "kernel":
                first = [config.d_model]
                yield name, [*first, *heads], [*first, width]
            elif not part.endswith("/o"):
                yield name, heads, [width]

    def write_summary(
        self, theirs: dict[str, Any], summary: Summary
    ) -> list[str]:
        """Theirs always reads CLS through the pooler: nothing to write."""
        if summary.summary_type in (None, "first") and summary.use_proj:
            return []
        summary_type = summary.summary_type or "first"
        raise UserError(
            f"Hugging Face's {self.class_prefix} classifies by CLS with a "
            "projection: wanted --summary_type=first and --use_summ_proj, "
            f"found {summary_type}{'' if summary.use_proj else ' without projection'}"
            "; use --to_format=native"
        )


class AlbertHuggingFace(HuggingFace):
    """ALBERT's names there."""

    class_prefix = "Albert"
    ours = _ALBERT
    scope = "albert."
    # Theirs begins a text with CLS and ends it with SEP.
    token_ids = {
        "pad_token_id": ("pad", 0),
        "bos_token_id": ("cls", 2),
        "eos_token_id": ("sep", 3),
    }
    config_class = AlbertConfig
    ties = (
        (
            "predictions.decoder.weight",
            "albert.embeddings.word_embeddings.weight",
        ),
        ("predictions.decoder.bias", "predictions.bias"),
    )
    around = HuggingFace.around | dense(
        "embedding_mapping", "encoder.embedding_hidden_mapping_in"
    )
    layer = _layer(
        "attention.query",
        "attention.key",
        "attention.value",
        "attention.dense",
        "attention.LayerNorm",
        "ffn",
        "ffn_output",
        "full_layer_layer_norm",
    )
    pooler = "albert.pooler"
    lm = "predictions"
    lm_transform = "predictions."
    second = "sop_classifier.classifier"

    def layer_scopes(self, config: AlbertConfig):
        for g in range(config.num_groups):
            for k in range(config.inner_group_num):
                yield (
                    f"group_{g}/inner_{k}/",
                    f"encoder.albert_layer_groups.{g}.albert_layers.{k}.",
                )
