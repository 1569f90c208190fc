"""First weights of a pretraining that are not all drawn at random.

With them a small model leaves the unigram plateau sooner
(docs/explanation/small_models/unigram_plateau.md).
"""

import itertools
from collections.abc import Callable

import numpy as np

from common.errors import UserError
from common.references import resolve
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import ENCODERS, spec_of
from training.jobs.pretrain_options import PretrainOptions
from training.run import InputFn
from training.run_options import RunOptions

# What frequencies are counted of: so many targets, in at most so many batches.
TARGETS = 250_000
BATCHES = 1000


def warm_start(
    what: PretrainOptions,
    options: RunOptions,
    config: EncoderConfig,
    input_fn: InputFn,
) -> Callable | None:
    """Model -> lines for the user: changes random weights; None = keeps them.

    Weights of a checkpoint are kept. `input_fn` gives the training batches.
    Raises UserError: the encoder has no such weights.
    """
    nearest = what.init_attention == "nearest"
    unigram = what.init_output_bias == "unigram"
    if options.init_checkpoint or not (nearest or unigram):
        return None
    attend_to_nearest = spec_of(config.model_type).nearest_attention
    if nearest and not attend_to_nearest:
        able = [n for n, row in ENCODERS.items() if row.nearest_attention]
        raise UserError(
            f"--init_attention=nearest is for {' or '.join(able)}, found "
            f"{config.model_type}; leave it out"
        )

    def start(model) -> list[str]:
        lines = []
        if nearest:
            resolve(attend_to_nearest)(model.encoder)
            lines.append(
                "first weights  half of the heads attend to a neighbour"
            )
        if unigram:
            batches = input_fn(
                {"batch_size": options.train_batch_size, "start_step": 0}
            )
            counts = target_counts(batches, config.vocab_size)
            model.lm_head.bias.assign(log_frequencies(counts))
            lines.append(
                "first weights  output bias: log frequencies of "
                f"{counts.sum():,.0f} targets"
            )
        return lines

    return start


def target_counts(batches, vocab_size: int) -> np.ndarray:
    """[V]: how often each piece is a target, in the first batches."""
    counts = np.zeros(vocab_size)
    for batch in itertools.islice(batches, BATCHES):
        ids, weights = (
            batch[name].numpy().ravel()
            for name in ("target_ids", "target_weights")
        )
        counts += np.bincount(ids, weights, vocab_size)
        if counts.sum() >= TARGETS:
            break
    return counts


def log_frequencies(counts: np.ndarray) -> np.ndarray:
    """float32 [V]: every piece counts once more than it was seen."""
    return np.log((counts + 1) / (counts.sum() + len(counts))).astype(
        np.float32
    )
