"""Which task model a set of weights belongs to, by the rows of `common.heads`."""

from collections.abc import Mapping, Sequence
from typing import Any

import tf_keras

from common.errors import UserError
from common.heads import ENCODER, HEADS, with_weights
from common.references import resolve
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import build_encoder


def find(names: Mapping | Sequence, source: str, wanted: str | None) -> str:
    """The head that canonical names or attribute paths belong to.

    `wanted` is `ENCODER`, a head with weights, or None for the only one there.
    Raises UserError: several heads and none wanted, or the wanted one missing.
    """
    present = [
        head
        for head, row in with_weights().items()
        if any(marker in names for marker in row.marker)
    ]
    if wanted is not None:
        if wanted != ENCODER and wanted not in present:
            raise UserError(
                f"{source}: wanted the head `{wanted}`, found "
                f"{present or 'none'}"
            )
        return wanted
    if len(present) > 1:
        raise UserError(
            f"{source} holds the heads {present}: choose one with --head"
        )
    return present[0] if present else ENCODER


def build(
    head: str,
    config: EncoderConfig,
    shapes: Mapping[str, Sequence[int]],
    **more: Any,
) -> tf_keras.Model:
    """A model with this head, sized after the weights.

    The plain form: `HEADS[head].model(config, **sizes of the weights)`; `more`
    are arguments that weights do not tell.
    """

    def shape(pair):
        return next((shapes[name] for name in pair if name in shapes), None)

    if head == ENCODER:
        return build_encoder(config)
    row = HEADS[head]
    model = resolve(row.model)
    options = row.model_options | model.options_of(shape) | more
    if row.counts_outputs:
        options["num_labels"] = shape(row.marker)[-1]
    return model(config, **options)
