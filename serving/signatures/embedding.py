"""One vector of a text: raw text, pieces or ids in, vectors out."""

import tensorflow as tf

from serving.signatures.graph_features import Features
from serving.signatures.sequence import (
    EXAMPLE_TEXTS,
    FEATURE_SPECS,
    IDS,
    RAW,
    TOKENIZE,
    Context,
    Signature,
    ids_signature,
    text_spec,
    tokenize_signature,
)

PIECES = "pieces"  # ids without symbols in
VECTOR = "embedding"  # the output


def embedding_signatures(context: Context) -> dict[str, Signature]:
    """Every signature of `modeling.heads.embedding`."""

    def vector_of(features: Features) -> dict[str, tf.Tensor]:
        return {VECTOR: context.run(features)}  # float32 [B, D]

    def from_rows(pieces: tf.RaggedTensor) -> dict[str, tf.Tensor]:
        features = context.join([pieces])
        return vector_of(features) | {
            "num_tokens": features.lengths,
            "truncated": features.truncated,
        }

    def from_pieces(input_ids, input_mask):
        real = tf.cast(input_mask, tf.bool)  # wherever the padding is
        return from_rows(tf.ragged.boolean_mask(input_ids, real))

    unknown = context.ids.unk
    return {
        RAW: Signature(
            lambda text: from_rows(context.tokenizer.tokenize(text)),
            {"text": text_spec("text")},
            {"text": list(EXAMPLE_TEXTS)},
            "raw text in, its vector out",
        ),
        PIECES: Signature(
            from_pieces,
            {k: FEATURE_SPECS[k] for k in ("input_ids", "input_mask")},
            {
                "input_ids": [[unknown, unknown], [unknown, 0]],
                "input_mask": [[1, 1], [1, 0]],
            },
            "piece ids in as `tokenize` gives them, padded (input_mask 0); "
            "vectors out",
        ),
        IDS: ids_signature(context, vector_of),
        TOKENIZE: tokenize_signature(context),
    }
