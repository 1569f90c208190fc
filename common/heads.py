"""One row per head: everything that has to be known about it by name.

A new head is its class in `modeling.heads`, its row here and its test. Classes
and functions are named, not imported: each layer finds its own with
`common.references.resolve`, and imports keep their direction.

Letters: B batch, T length, C options of an example, Y labels.
"""

import dataclasses
from typing import Any

from common.errors import UserError

ENCODER = "encoder"  # weights without a head
# Heads of rows of texts with a label: a class, a number, several classes.
CLASSIFIERS = ("classification", "regression", "multi_label")
# How hidden states become one vector, what is looked at then, and how they
# become the vector of a text where nothing is trained.
SUMMARY_TYPES = ("last", "first", "mean", "attn")
SUMMARY_POOLINGS = ("masked", "original")
TEXT_POOLINGS = ("mean", "cls", "max", "last")


@dataclasses.dataclass(frozen=True)
class Field:
    """One array of a batch: shape letters, dtype name and meaning."""

    shape: str
    dtype: str
    meaning: str


@dataclasses.dataclass(frozen=True)
class HeadSpec:
    """What belongs to a head."""

    name: str  # as in `task.json`, flags and reports
    model: str  # its task model, "module:class"
    # its loss and outputs, "module:class"; "" = it is not trained
    objective: str = ""
    # what an export of it can be asked, "module:function"; "" = it has none
    signatures: str = ""
    # picks the best checkpoint of a run; larger is better. "" = no command asks
    # for one.
    metric: str = ""
    # what its batches hold beyond `common.contract.schema.FINETUNE_BATCH`; {}
    # also where they are others: `PRETRAIN_BATCH`, streams
    fields: dict[str, Field] = dataclasses.field(default_factory=dict)
    # keyword arguments of the model that make it this head
    model_options: dict[str, Any] = dataclasses.field(default_factory=dict)
    # it can be trained on long documents, segment by segment
    reads_segments: bool = False
    # canonical names and attribute path of a variable that only it has; ()
    # where its weights are those of another head
    marker: tuple[str, ...] = ()
    # patterns of the scopes that its variables have by canonical name
    scopes: tuple[str, ...] = ()
    # its class in Hugging Face folders, after the encoder's name
    hf_class: str = ""
    # canonical name -> (their name, is it a transposed kernel)
    hf_names: dict[str, tuple[str, bool]] = dataclasses.field(
        default_factory=dict
    )
    # the last axis of `marker` is the number of labels
    counts_outputs: bool = False
    # `model_type`s that it can stand on; () = any
    encoders: tuple[str, ...] = ()


def _dense(scope: str, theirs: str) -> dict[str, tuple[str, bool]]:
    return {
        f"{scope}/kernel": (f"{theirs}.weight", True),
        f"{scope}/bias": (f"{theirs}.bias", False),
    }


# The original's spelling; released and fine-tuned checkpoints carry it.
SUMMARY_SCOPE = "model/sequnece_summary"
_SUMMARY = _dense(f"{SUMMARY_SCOPE}/summary", "sequence_summary.summary")
# Of start and end by themselves, the head of other people's models.
SPAN_LOGIT = "model/span/logit"
_MODELS = "modeling.heads"
_OBJECTIVES = "training.objectives.finetuning"
_SIGNATURES = "serving.signatures"

_ROWS = (
    HeadSpec(
        name="pretraining",
        model=f"{_MODELS}.language_model:PretrainingModel",
        objective="training.objectives.permutation_lm:PretrainingObjective",
        signatures=f"{_SIGNATURES}.language_model:lm_signatures",
        metric="accuracy",
        marker=("model/lm_loss/bias", "lm_head/bias"),
        # A task's own where ModernBERT has several.
        scopes=(r"lm_loss(_[\w.-]+)?", r"next_sentence\w*"),
        hf_class="LMHeadModel",
        hf_names={"model/lm_loss/bias": ("lm_loss.bias", False)},
    ),
    HeadSpec(
        name="language_model",
        model=f"{_MODELS}.causal_lm:CausalLanguageModel",
        objective="training.objectives.causal_lm:CausalLMObjective",
        # The second is the name with cutoffs.
        marker=(
            "transformer/adaptive_softmax/bias",
            "transformer/adaptive_softmax/cutoff_0/b",
            "softmax/biases/0",
        ),
        encoders=("transformer_xl",),
    ),
    HeadSpec(
        name="classification",
        model=f"{_MODELS}.classification:ClassificationModel",
        objective=f"{_OBJECTIVES}:ClassificationObjective",
        signatures=f"{_SIGNATURES}.sequence:sequence_signatures",
        metric="accuracy",
        fields={"label_ids": Field("B", "int32", "class index")},
        reads_segments=True,
        marker=("model/classification/logit/kernel", "class_dense/kernel"),
        scopes=(r"classification[\w.-]*",),
        hf_class="ForSequenceClassification",
        hf_names=_SUMMARY | _dense("model/classification/logit", "logits_proj"),
        counts_outputs=True,
    ),
    HeadSpec(
        name="multi_label",
        model=f"{_MODELS}.classification:ClassificationModel",
        objective=f"{_OBJECTIVES}:MultiLabelObjective",
        signatures=f"{_SIGNATURES}.sequence:sequence_signatures",
        metric="micro_f1",
        fields={"label_ids": Field("B Y", "float32", "0 or 1 per label")},
        reads_segments=True,
    ),
    HeadSpec(
        name="regression",
        model=f"{_MODELS}.classification:ClassificationModel",
        objective=f"{_OBJECTIVES}:RegressionObjective",
        signatures=f"{_SIGNATURES}.sequence:sequence_signatures",
        metric="pearson",
        fields={"label_ids": Field("B", "float32", "target value")},
        model_options={"num_labels": 1, "regression": True},
        reads_segments=True,
        marker=("model/regression/logit/kernel", "value_dense/kernel"),
        scopes=(r"regression[\w.-]*",),
        hf_class="ForSequenceClassification",
        hf_names=_SUMMARY | _dense("model/regression/logit", "logits_proj"),
        counts_outputs=True,
    ),
    HeadSpec(
        name="ranking",
        model=f"{_MODELS}.classification:ClassificationModel",
        objective="training.objectives.ranking:RankingObjective",
        signatures=f"{_SIGNATURES}.ranking:ranking_signatures",
        metric="ndcg",
        fields={"label_ids": Field("B C", "float32", "grades of a list")},
        model_options={"num_labels": 1, "regression": True},
        reads_segments=True,
    ),
    HeadSpec(
        name="candidate_ranking",
        model=f"{_MODELS}.language_model:PretrainingModel",
        objective="training.objectives.candidates:CandidateObjective",
        metric="accuracy",
        # Rows of a training batch come in pairs, [B, 2, T].
        fields={
            "ranks": Field("B T", "int32", "order of hidden pieces, -1 = seen"),
            "rival": Field("B", "float32", "0 = a pair of equal rows"),
        },
    ),
    HeadSpec(
        name="span",
        model=f"{_MODELS}.question_answering:SpanModel",
        objective=f"{_OBJECTIVES}:SpanObjective",
        signatures=f"{_SIGNATURES}.span:span_signatures",
        metric="f1",
        fields={
            "paragraph_mask": Field("B T", "int32", "1 = may hold an answer"),
            "cls_index": Field("B", "int32", "position of CLS"),
            "start_positions": Field("B", "int32", "first piece of the answer"),
            "end_positions": Field("B", "int32", "last piece of the answer"),
            "is_impossible": Field("B", "float32", "1 = no answer here"),
        },
        marker=(
            "start_logits/dense/kernel",
            "start_dense/kernel",
            f"{SPAN_LOGIT}/kernel",
            "span_dense/kernel",
        ),
        scopes=("start_logits", "end_logits", "answer_class", "span"),
        hf_class="ForQuestionAnswering",
        hf_names=_dense(SPAN_LOGIT, "qa_outputs")
        | _dense("start_logits/dense", "start_logits.dense")
        | _dense("end_logits/dense_0", "end_logits.dense_0")
        | _dense("end_logits/dense_1", "end_logits.dense_1")
        | _dense("answer_class/dense_0", "answer_class.dense_0")
        | {
            "end_logits/LayerNorm/gamma": (
                "end_logits.LayerNorm.weight",
                False,
            ),
            "end_logits/LayerNorm/beta": ("end_logits.LayerNorm.bias", False),
            "answer_class/dense_1/kernel": (
                "answer_class.dense_1.weight",
                True,
            ),
        },
    ),
    HeadSpec(
        name="multiple_choice",
        model=f"{_MODELS}.classification:MultipleChoiceModel",
        objective=f"{_OBJECTIVES}:MultipleChoiceObjective",
        signatures=f"{_SIGNATURES}.choice:choice_signatures",
        metric="accuracy",
        fields={"label_ids": Field("B", "int32", "right option")},
        reads_segments=True,
        marker=("logits/dense/kernel", "choice_dense/kernel"),
        scopes=("logits",),
        hf_class="ForMultipleChoice",
        hf_names=_SUMMARY | _dense("logits/dense", "logits_proj"),
    ),
    HeadSpec(
        name="token_classification",
        model=f"{_MODELS}.classification:TokenClassificationModel",
        objective=f"{_OBJECTIVES}:TokenClassificationObjective",
        signatures=f"{_SIGNATURES}.sequence:token_signatures",
        metric="f1",
        fields={"label_ids": Field("B T", "int32", "-1 = none")},
        marker=(
            "model/token_classification/logit/kernel",
            "token_dense/kernel",
        ),
        scopes=(r"token_\w+",),
        hf_class="ForTokenClassification",
        hf_names=_dense("model/token_classification/logit", "classifier"),
        counts_outputs=True,
    ),
    HeadSpec(
        name="embedding",
        model=f"{_MODELS}.embedding:EmbeddingModel",
        signatures=f"{_SIGNATURES}.embedding:embedding_signatures",
    ),
)
HEADS = {row.name: row for row in _ROWS}


def get(name: str) -> HeadSpec:
    """The row of a head; UserError lists the heads where there is none."""
    if name not in HEADS:
        raise UserError(f"head must be one of {list(HEADS)}, received {name!r}")
    return HEADS[name]


def with_weights() -> dict[str, HeadSpec]:
    """The heads that a checkpoint can be recognised by."""
    return {name: row for name, row in HEADS.items() if row.marker}
