"""Log-probability of texts, by a model of either kind.

    python -m serving.score --checkpoint=DIR --text="..." --order=random \\
        --num_orders=8

One JSON object per text: the log-probability under every order asked for,
their mean, and the perplexity per token. Pretraining predicts the last part of
an order only, so the first tokens, seen from little context, are scored by a
model that has seldom seen such a question: --context_chars gives the model a
beginning that is not scored. --order=all takes every order of a text of at most
7 tokens: their mean is the paper's expectation, exactly. --per_token adds each
piece's own log-probability: unlikely words stand out. A left-to-right model
(Transformer-XL) has one order, reads every text as a line by itself and scores
the line's end, too; --noscore_line_end leaves it open.
"""

import json
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from common.errors import UserError
from flags import app, flag_values
from serving.generation.options import ModelOptions, ScoreOptions

# M of a permutation model: the original's share of 512.
MEMORY = 384


class Scored(NamedTuple):
    """A text."""

    tokens: int
    pieces: list[str]
    log_probs: np.ndarray  # float32 [orders, scored pieces]


def main() -> None:
    """The command."""
    from serving.exported import limits
    from serving.generation.causal import is_causal
    from serving.generation.scored_lines import perplexity

    options = flag_values.build(ScoreOptions)
    model_options = flag_values.build(ModelOptions)
    texts = [
        limits.check_text(t, f"--text[{i}]", options.max_chars)
        for i, t in enumerate(options.text)
    ]
    score = _permuted
    if is_causal(model_options.checkpoint):
        score = _left_to_right
    found = score(texts, options, model_options)
    for number, scored_text in enumerate(found):
        limits.check_output(scored_text.log_probs, f"--text[{number}]")
        totals = scored_text.log_probs.sum(1, dtype=np.float64)
        scored = len(scored_text.pieces)
        answer = {
            "tokens": scored_text.tokens,
            "scored_tokens": scored,
            "order": options.order,
            "log_probs": [round(t, 5) for t in totals.tolist()],
            "mean_log_prob": round(float(np.mean(totals)), 5),
            "perplexity": perplexity(float(np.mean(totals)), scored),
        }
        if options.per_token:
            means = scored_text.log_probs.mean(0, dtype=np.float64)
            answer["pieces"] = scored_text.pieces
            answer["mean_token_log_probs"] = means.round(5).tolist()
        print(json.dumps(answer, ensure_ascii=False), flush=True)


def _permuted(
    texts: list[str], options: ScoreOptions, model_options: ModelOptions
) -> Iterator[Scored]:
    """Each text under every order that is asked for."""
    from serving.generation.language_model import load_model
    from serving.generation.scoring import Scorer

    if not options.score_line_end:
        raise UserError(
            f"--noscore_line_end: {model_options.checkpoint} is not a "
            "left-to-right model and scores no line end; leave it out"
        )
    lm = load_model(model_options)
    memory = MEMORY if options.memory_len is None else options.memory_len
    scorer = Scorer(lm.model, options.max_seq_length, memory)
    count = options.num_orders if options.order == "random" else 1
    for text in texts:
        ids, starts, _ = lm.tokenizer.encode_with_offsets(text)
        context = int(np.searchsorted(starts, options.context_chars))
        ids = np.asarray(ids, np.int32)
        if options.order == "all":
            log_probs = scorer.all_orders(ids, context)
        else:
            log_probs = np.stack(
                [
                    scorer.score(
                        ids, options.order, options.seed + i, context
                    ).log_probs
                    for i in range(count)
                ]
            )
        pieces = [lm.tokenizer.id_to_piece(int(i)) for i in ids[context:]]
        yield Scored(len(ids), pieces, log_probs)


def _left_to_right(
    texts: list[str], options: ScoreOptions, model_options: ModelOptions
) -> Iterator[Scored]:
    """As `_permuted`, by a model with one order."""
    from serving.generation.causal import load_causal
    from serving.generation.causal_scoring import CausalScorer

    if options.order != "left_to_right":
        raise UserError(
            f"--order={options.order}: {model_options.checkpoint} is a "
            "left-to-right model; leave --order out"
        )
    lm = load_causal(model_options, options.memory_len)
    rows = [
        lm.vocabulary.encode_line(text, options.score_line_end)
        for text in texts
    ]
    # A text may have no pieces, and a segment has one at least.
    longest = max([1, *(len(ids) for ids, _ in rows)])
    longest = min(options.max_seq_length, longest)
    scorer = CausalScorer(lm.model, lm.segment_len(longest))
    scores = scorer.score([ids for ids, _ in rows])
    for text, (ids, scored), log_probs in zip(texts, rows, scores, strict=True):
        context_length = lm.tokens_before(text, options.context_chars)
        if not scored:  # the first one has no log-probability
            context_length = max(context_length - 1, 0)
        # The first id is read and not predicted.
        pieces = [
            lm.vocabulary.symbol(int(i)) for i in ids[1:][context_length:]
        ]
        yield Scored(
            len(ids) - scored, pieces, log_probs[np.newaxis, context_length:]
        )


if __name__ == "__main__":
    flag_values.define(ModelOptions)
    flag_values.define(ScoreOptions, text=())
    app.run(main)
