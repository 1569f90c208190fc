"""Names of heads -> objectives."""

from common.errors import UserError
from data import schema
from modeling.encoders.xlnet.config import XLNetConfig
from training.objectives import finetuning as finetune
from training.objectives.contract import Objective
from training.objectives.permutation_lm import PretrainingObjective

OBJECTIVES = {
    "pretraining": PretrainingObjective,
    "classification": finetune.ClassificationObjective,
    "multi_label": finetune.MultiLabelObjective,
    "regression": finetune.RegressionObjective,
    "span": finetune.SpanObjective,
    "multiple_choice": finetune.MultipleChoiceObjective,
    "token_classification": finetune.TokenClassificationObjective,
}


def build_objective(
    head: str, config: XLNetConfig, **head_options
) -> Objective:
    """The objective of a head.

    Args:
      head: "pretraining" or a key of `data.schema.HEAD_FIELDS`.
      config: the architecture.
      **head_options: `recompute_layers`, and what the head's model takes
        (`num_labels`, `summary_type`, `use_proj`, `task_name`, `start_n_top`,
        `answerability`, ...).

    Raises:
      UserError: unknown head.
    """
    if head not in OBJECTIVES:
        raise UserError(
            f"head must be one of {['pretraining', *schema.HEAD_FIELDS]}, "
            f"received {head!r}"
        )
    return OBJECTIVES[head](config, **head_options)
