"""Fills hidden spans, or gives the probability of a filling.

    python -m serving.fill_mask --checkpoint=DIR --text="The <mask> sat."
    python -m serving.fill_mask --checkpoint=DIR --text="The <mask> sat." \\
        --fill="black cat" --order=right_to_left

One JSON object per filling: the pieces, the log-probability of each factor in
the order asked for, and the joint. With --compare_independent also the product
of what each place would be without the others, which is all that a masked
language model has, and the (pointwise mutual) information between the places:
the joint less that, in nats. With --attribution how much each given piece says
about the filling: the joint less what it is where nobody sees that piece.

BERT, ALBERT and ModernBERT predict each place by itself (`"independent": true`):
there is no order, and the sum of the log-probabilities is no joint one.
"""

import json
from collections.abc import Iterator

import numpy as np

from common.errors import UserError
from flags import app, flag_values
from modeling.encoders.registry import spec_of
from serving.generation.options import FillOptions, ModelOptions


def main() -> None:
    """The command."""
    from serving.exported import limits
    from serving.generation import fill
    from serving.generation.language_model import load_model

    options = flag_values.build(FillOptions)
    model_options = flag_values.build(ModelOptions)
    text = limits.check_text(options.text, "--text", options.max_chars)
    lm = load_model(model_options, masked_too=True)
    fills = options.fill.split("|") if options.fill else None
    hidden = fill.parse(lm, text, fills)
    able = spec_of(lm.model.config.model_type).capabilities
    answers = in_order if able.query_stream else by_themselves
    shown = 0
    for answer in answers(lm, hidden, options, fills is not None):
        print(json.dumps(answer, ensure_ascii=False))
        shown += 1
    if not shown:  # pieces of no probability are not searched
        limits.check_output(np.nan, "--text")


def in_order(lm, hidden, options: FillOptions, given: bool) -> Iterator[dict]:
    """Answers of a model that predicts in any order."""
    from serving.generation import fill

    order = fill.parse_order(options.order, len(hidden.positions), options.seed)
    filler = fill.Filler(lm)
    if given:
        fillings = [filler.score(hidden, order)]
    else:
        fillings = filler.search(hidden, order, options.beam_size)
    for filling in fillings:
        answer = describe(lm, hidden, order, filling)
        if options.compare_independent:
            answer |= independent(filler, hidden, filling)
        if options.attribution:
            answer["attribution"] = attribution(filler, hidden, order, filling)
        yield answer


def by_themselves(
    lm, hidden, options: FillOptions, given: bool
) -> Iterator[dict]:
    """Answers of a masked language model.

    Raises UserError: an option that asks for an order or a joint probability.
    """
    from serving.generation.masked_fill import MaskedFiller

    wrong = [
        f"--{name}"
        for name in ("order", "compare_independent", "attribution")
        if getattr(options, name) != getattr(FillOptions, name)
    ]
    if wrong:
        kind = lm.model.config.model_type
        raise UserError(
            f"{' and '.join(wrong)}: wanted an encoder that predicts in an "
            f"order (xlnet), found {kind}, which predicts each place by "
            "itself; leave the option out"
        )
    filler = MaskedFiller(lm)
    if given:
        fillings = [filler.score(hidden)]
    else:
        fillings = filler.search(hidden, options.beam_size)
    for filling in fillings:
        yield {
            **_pieces(lm, hidden, filling),
            "independent": True,
            "log_probs": [round(float(x), 6) for x in filling.log_probs],
            "sum_log_probs": round(filling.joint, 6),
        }


def _pieces(lm, hidden, filling) -> dict:
    from serving.exported import limits

    limits.check_output(filling.log_probs, "--text")
    ids = hidden.ids.copy()
    ids[hidden.positions] = filling.ids
    pieces = [lm.tokenizer.id_to_piece(int(i)) for i in filling.ids]
    return {"text": lm.tokenizer.decode(ids), "pieces": pieces}


def describe(lm, hidden, order, filling) -> dict:
    """A filling as a JSON object."""
    return {
        **_pieces(lm, hidden, filling),
        "order": [int(position) for position in order],
        "log_probs": [round(float(x), 6) for x in filling.log_probs],
        "joint_log_prob": round(filling.joint, 6),
        "joint_probability": float(np.exp(filling.joint)),
    }


def independent(filler, hidden, filling) -> dict:
    """The same filling as if its places knew nothing of each other."""
    alone = filler.score(_filled(hidden, filling), None)
    return {
        "independent_log_probs": [round(float(x), 6) for x in alone.log_probs],
        "independent_log_prob": round(alone.joint, 6),
        "mutual_information": round(filling.joint - alone.joint, 6),
    }


def attribution(filler, hidden, order, filling) -> list[tuple[str, float]]:
    """Each given piece and how much it says about the filling, in nats."""
    values = filler.attribution(_filled(hidden, filling), order)
    return [
        (filler.lm.tokenizer.id_to_piece(int(index)), round(float(value), 6))
        for position, (index, value) in enumerate(
            zip(hidden.ids, values, strict=True)
        )
        if position not in hidden.positions
    ]


def _filled(hidden, filling):
    ids = hidden.ids.copy()
    ids[hidden.positions] = filling.ids
    return hidden._replace(ids=ids)


if __name__ == "__main__":
    flag_values.define(ModelOptions)
    flag_values.define(FillOptions)
    app.run(main)
