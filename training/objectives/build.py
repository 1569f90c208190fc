"""Names of heads -> objectives."""

from common.errors import UserError
from common.heads import HEADS, get
from common.references import resolve
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import require
from training.objectives.contract import Objective
from training.objectives.segment_recurrent import recurrent


def build_objective(
    head: str,
    config: EncoderConfig,
    segments: int = 0,
    segment_len: int = 0,
    **head_options,
) -> Objective:
    """The objective of a head that reads documents in `segments`; 0 = whole.

    Options are `recompute_layers`, and what the head's model takes
    (`num_labels`, `summary_type`, `use_proj`, `start_n_top`, `answerability`,
    ...). Raises UserError: unknown head, one that is not trained or reads no
    segments, or an encoder that cannot do what is asked.
    """
    row = get(head)
    if not row.objective:
        able = [name for name, row in HEADS.items() if row.objective]
        raise UserError(
            f"the head `{head}` is not trained: wanted one of {able}"
        )
    if row.encoders and config.model_type not in row.encoders:
        raise UserError(
            f"the head `{head}` needs model_type {' or '.join(row.encoders)}, "
            f"found {config.model_type!r}"
        )
    if not segments:
        objective = resolve(row.objective)
        if objective.query_stream:
            require(config, "query_stream", f"the objective of {head}")
        return objective(config, **head_options)
    require(config, "memory", "--segment_recurrence")
    if not row.reads_segments:
        able = [name for name, row in HEADS.items() if row.reads_segments]
        raise UserError(
            f"--segment_recurrence is for {', '.join(able)}, received {head!r}"
        )
    return recurrent(resolve(row.objective))(
        config, num_segments=segments, segment_len=segment_len, **head_options
    )
