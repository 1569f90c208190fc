"""Probabilities of hidden places under a masked language model.

BERT, ALBERT and ModernBERT read a text with all its masks and give every place
a distribution of its own. There is no order and no joint probability: a filling
of several places has the product of what each is without the others.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.contract.symbols import SymbolIds
from common.errors import UserError
from serving.generation.fill import Filling, Hidden
from serving.generation.language_model import LanguageModel


def not_offered(symbols: SymbolIds, pieces: int, rows: int) -> np.ndarray:
    """bool [rows]: symbols, and rows of the table behind all pieces."""
    hidden = np.zeros(rows, bool)
    hidden[sorted(symbols.never_filled())] = True
    hidden[pieces:] = True
    return hidden


class MaskedFiller:
    """Asks a masked language model about hidden places."""

    def __init__(self, lm: LanguageModel):
        self.lm = lm
        self._banned = not_offered(
            lm.tokenizer.symbols,
            lm.tokenizer.vocab_size,
            lm.model.config.vocab_size,
        )

    def log_probs(self, ids: np.ndarray, positions: np.ndarray) -> np.ndarray:
        """float32 [P, V]: log p(. | the text with all its masks) per place.

        What stands in the hidden places is not looked at. Raises UserError: the
        text is longer than the encoder has places.
        """
        symbols = self.lm.tokenizer.symbols
        config = self.lm.model.config
        longest = getattr(config, "max_position_embeddings", len(ids) + 2)
        if len(ids) + 2 > longest:
            raise UserError(
                f"--text has {len(ids) + 2} tokens with CLS and SEP, this "
                f"{config.model_type} reads at most {longest}; give a shorter "
                "text"
            )
        ids = np.asarray(ids, np.int32).copy()
        ids[positions] = symbols.mask
        row = np.concatenate([[symbols.cls], ids, [symbols.sep]])
        output = self.lm.model(
            tf.constant(row[np.newaxis], tf.int32), training=False
        )
        hidden = tf.gather(output.sequence_output, positions + 1, axis=1)
        return tf.nn.log_softmax(self.lm.model.lm_logits(hidden))[0].numpy()

    def score(self, hidden: Hidden) -> Filling:
        """What each piece of the filling that `hidden.ids` holds has alone."""
        factors = self.log_probs(hidden.ids, hidden.positions)
        ids = hidden.ids[hidden.positions]
        return Filling(ids, factors[np.arange(len(ids)), ids])

    def search(self, hidden: Hidden, count: int) -> list[Filling]:
        """The fillings of the largest products, best first."""
        factors = self.log_probs(hidden.ids, hidden.positions)
        factors[:, self._banned] = -np.inf
        beams: list[tuple[float, Sequence[int]]] = [(0.0, ())]
        for row in factors:
            best = np.argsort(-row, kind="stable")[:count]
            best = best[np.isfinite(row[best])]
            longer = [
                (total + row[piece], (*pieces, piece))
                for total, pieces in beams
                for piece in best
            ]
            beams = sorted(longer, key=lambda x: -x[0])[:count]
        places = np.arange(len(factors))
        return [
            Filling(np.asarray(pieces), factors[places, list(pieces)])
            for _, pieces in beams
        ]
