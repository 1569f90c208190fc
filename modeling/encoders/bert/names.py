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


class HuggingFace(FileNames):
    """BERT's names there."""

    class_prefix = "Bert"
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
    # Parts of a layer: ours -> theirs.
    layer_parts = {
        "attention/q": "attention.self.query",
        "attention/k": "attention.self.key",
        "attention/v": "attention.self.value",
        "attention/o": "attention.output.dense",
        "attention/LayerNorm": "attention.output.LayerNorm",
        "ff/layer_1": "intermediate.dense",
        "ff/layer_2": "output.dense",
        "ff/LayerNorm": "output.LayerNorm",
    }
    pooler = "bert.pooler.dense"
    lm = "cls.predictions"
    lm_transform = "cls.predictions.transform."
    second = "cls.seq_relationship"

    def names(self, config: BertConfig) -> Names:
        """Canonical name -> (their name, is it a transposed kernel)."""
        ours = f"model/{config.model_type}/"
        theirs = self.scope + "embeddings."
        names = {
            f"{ours}{name}_embedding/lookup_table": (
                f"{theirs}{their_name}_embeddings.weight",
                False,
            )
            for name, their_name in (
                ("word", "word"),
                ("segment", "token_type"),
                ("position", "position"),
            )
        }
        names |= norm(f"{ours}embedding/LayerNorm", theirs + "LayerNorm")
        for scope, their_scope in self.layer_scopes(config):
            for part, their_part in self.layer_parts.items():
                make = norm if part.endswith("LayerNorm") else dense
                names |= make(
                    f"{ours}{scope}{part}", f"{their_scope}{their_part}"
                )
        # Its kernel is [D, N, H] here, their [D, N * H] as it is.
        for name in names:
            if name.endswith("attention/o/kernel"):
                names[name] = (names[name][0], False)
        return names

    def layer_scopes(self, config: BertConfig):
        """(ours, theirs) of every layer that has weights."""
        for i in range(config.n_layer):
            yield f"layer_{i}/", f"{self.scope}encoder.layer.{i}."

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
    layer_parts = {
        "attention/q": "attention.query",
        "attention/k": "attention.key",
        "attention/v": "attention.value",
        "attention/o": "attention.dense",
        "attention/LayerNorm": "attention.LayerNorm",
        "ff/layer_1": "ffn",
        "ff/layer_2": "ffn_output",
        "ff/LayerNorm": "full_layer_layer_norm",
    }
    pooler = "albert.pooler"
    lm = "predictions"
    lm_transform = "predictions."
    second = "sop_classifier.classifier"

    def names(self, config: AlbertConfig) -> Names:
        return super().names(config) | dense(
            f"{_ALBERT}embedding_mapping",
            f"{self.scope}encoder.embedding_hidden_mapping_in",
        )

    def layer_scopes(self, config: AlbertConfig):
        for g in range(config.num_groups):
            for k in range(config.inner_group_num):
                yield (
                    f"group_{g}/inner_{k}/",
                    f"{self.scope}encoder.albert_layer_groups.{g}."
                    f"albert_layers.{k}.",
                )
