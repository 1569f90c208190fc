"""Frozen vectors of pieces: an encoder's hidden states, or a table.

Letters: Y layers that are kept, n pieces, D vector size, V vocabulary.
"""

import hashlib
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from common import files
from common.contract import symbols
from common.contract.symbols import SymbolIds
from common.errors import UserError
from data.finetuning.features import pair_features
from data.finetuning.features import table as finetune_table
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import spec_of
from modeling.heads.classification import ClassificationModel
from training.finetuning.ranking.options import AUTO, RANDOM, RankerOptions

# Rows of a step are padded to a multiple of so many pieces: few shapes.
LENGTH_STEP = 32


class TableVectors:
    """One vector per piece, whatever stands around it."""

    def __init__(self, table: np.ndarray):
        self.table = np.asarray(table, np.float32)
        self.layers = (0,)
        self.fingerprint = hashlib.sha256(self.table.tobytes()).hexdigest()
        self.dim = self.table.shape[1]

    def embed(self, rows: Sequence[np.ndarray]) -> np.ndarray | None:
        """Nothing to store: `states` looks them up."""

    def states(self, ids: np.ndarray, stored: np.ndarray | None) -> np.ndarray:
        """float32 [1, n, D] of pieces [n]."""
        return self.table[ids][np.newaxis]


class EncoderVectors:
    """Hidden states of a frozen encoder: pieces in their text.

    A text is read on its own, with the symbols that the encoder expects; each
    piece keeps a vector of every layer that is asked for (0 = the embeddings,
    ... L), in one pass. The encoder is that of a task model with its weights.
    """

    def __init__(
        self, model, ids: SymbolIds, layers: Sequence[int], batch_size: int
    ):
        self.model, self.encoder = model, model.encoder
        config = model.config
        self.layers = tuple(layers)
        self.dim = config.d_model
        self._ids, self._batch_size = ids, batch_size
        self._room = places(config)
        self._layout = spec_of(config.model_type).capabilities.layout
        self.fingerprint = _fingerprint(model, self.layers)
        self._run = tf.function(
            self._states, reduce_retracing=True, autograph=False
        )

    def embed(self, rows: Sequence[np.ndarray]) -> np.ndarray:
        """float32 [Y, n, D]: the pieces of all rows one after another."""
        order = np.argsort([len(r) for r in rows], kind="stable")
        starts = np.cumsum([0, *[len(r) for r in rows]])
        vectors = np.zeros((len(self.layers), starts[-1], self.dim), np.float32)
        for at in range(0, len(order), self._batch_size):
            chosen = order[at : at + self._batch_size]
            states = self._run(*self._inputs([rows[i] for i in chosen]))
            first = int(self._layout == symbols.CLS_FIRST)
            for i, state in zip(
                chosen, np.moveaxis(states.numpy(), 1, 0), strict=False
            ):
                pieces = slice(starts[i], starts[i + 1])
                vectors[:, pieces] = state[:, first : first + len(rows[i])]
        return vectors

    def states(self, ids: np.ndarray, stored: np.ndarray) -> np.ndarray:
        """float32 [Y, n, D] of stored vectors."""
        return stored.astype(np.float32)

    def _inputs(self, rows: Sequence[np.ndarray]) -> tuple[tf.Tensor, ...]:
        """Ids, segment ids and mask; padding on the right, masked."""
        longest = max(len(r) for r in rows) + 2
        length = -(-longest // LENGTH_STEP) * LENGTH_STEP
        if self._room is not None:
            length = min(length, self._room + 2)
        table = finetune_table.from_sequences(
            [
                pair_features.join_segments(
                    [row.tolist()], length, self._ids, self._layout
                )
                for row in rows
            ],
            **(pair_features.padding(self._layout) | {"pad_left": False}),
        )
        # Batches of one shape: surplus rows repeat the last text.
        batch = table.batch(np.arange(len(rows)), length, self._batch_size)
        names = ("input_ids", "segment_ids", "input_mask")
        return tuple(tf.constant(batch[name]) for name in names)

    def _states(self, ids, segments, mask):
        output = self.encoder(
            ids,
            segment_ids=segments,
            input_mask=mask,
            training=False,
            output_hidden_states=True,
        )
        kept = [tf.cast(output.states_of(i), tf.float32) for i in self.layers]
        # ALBERT's embeddings are narrower; zeros change no cosine.
        kept = [
            tf.pad(x, [[0, 0], [0, 0], [0, self.dim - x.shape[-1]]])
            for x in kept
        ]
        return tf.stack(kept)  # [Y, B, T, D]


def _fingerprint(model, layers: Sequence[int]) -> str:
    """Hash of the encoder's weights and of what is read from it."""
    digest = hashlib.sha256(repr((model.config.to_dict(), layers)).encode())
    # Only where it is no default, so that earlier results are found.
    if model.compute_dtype != "float32":
        digest.update(model.compute_dtype.encode())
    if hasattr(model.encoder, "final_norm") and model.config.n_layer in layers:
        digest.update(b"final_norm")  # the last layer was read before it
    for name, variable in sorted(named_variables(model).items()):
        if name.startswith(model.encoder.scope):
            digest.update(name.encode())
            digest.update(variable.numpy().tobytes())
    return digest.hexdigest()


def places(config: EncoderConfig) -> int | None:
    """Pieces that a text may have beside CLS and SEP; None = any number."""
    longest = getattr(config, "max_position_embeddings", None)
    return None if longest is None else longest - 2


def open_encoder(
    config: EncoderConfig,
    checkpoint: checkpoints.Source | None,
    ids: SymbolIds,
    options: RankerOptions,
    seed: int = 0,
) -> EncoderVectors:
    """The encoder of a checkpoint; without it, one with the seed's weights.

    Raises UserError: no such layer, texts longer than the encoder reads; see
    `modeling.checkpoints.restore.restore`.
    """
    layers = layers_of(config, options.layer)
    if spec_of(config.model_type).capabilities.layout == "stream":
        raise UserError(
            f"--vectors=encoder: {config.model_type} reads streams, not texts "
            "on their own; give an encoder with CLS (xlnet, bert, ...)"
        )
    room = places(config)
    for flag in ("max_doc_length", "max_query_length"):
        value = getattr(options, flag)
        if room is not None and value > room:
            raise UserError(
                f"--{flag}={value}: this encoder has {room + 2} positions, "
                f"two are for CLS and SEP; give at most {room}"
            )
    # A second run must make the weights of the first.
    tf_keras.utils.set_random_seed(seed)
    model = ClassificationModel(config.with_memory(None), num_labels=1)
    if checkpoint:
        checkpoints.restore(model, checkpoint, require="encoder")
    return EncoderVectors(model, ids, layers, options.embed_batch_size)


def word_table(source: EncoderVectors) -> TableVectors:
    """The encoder's table of piece vectors, out of any context."""
    tables = [
        variable.numpy()
        for name, variable in named_variables(source.model).items()
        if name.endswith("word_embedding/lookup_table")
    ]
    return TableVectors(tables[0])


def layers_of(config: EncoderConfig, layer: str) -> tuple[int, ...]:
    """The layers that --layer asks for; UserError: the encoder has fewer."""
    if layer == AUTO:
        return tuple(range(config.n_layer + 1))
    if int(layer) > config.n_layer:
        raise UserError(
            f"--layer must be 0 (embeddings) to {config.n_layer}, received "
            f"{layer}"
        )
    return (int(layer),)


def open_table(
    vectors: str, vocab_size: int, size: int, seed: int
) -> TableVectors:
    """Random vectors, or those of an .npy file [V, D].

    Raises UserError: no such file, or another shape.
    """
    if vectors == RANDOM:
        rng = np.random.default_rng((seed, 0))
        return TableVectors(rng.standard_normal((vocab_size, size)))
    try:
        with files.open_binary(vectors) as f:
            table = np.load(f, allow_pickle=False)
    # numpy reads the header as Python: what it raises is not listed.
    except Exception as e:
        raise UserError(
            f"--vectors={vectors} must be encoder, random or an .npy file: {e}"
        ) from e
    if (
        not isinstance(table, np.ndarray)
        or table.ndim != 2
        or len(table) != vocab_size
        or not np.issubdtype(table.dtype, np.floating)
    ):
        raise UserError(
            f"--vectors={vectors}: wanted floats [{vocab_size}, D], one row "
            f"per piece, found {getattr(table, 'dtype', 'an archive')} "
            f"{list(getattr(table, 'shape', []))}"
        )
    return TableVectors(table)
