"""What the tokenizers in a graph have in common."""

import tensorflow as tf

# Of each piece: id, first raw character, one past its last; [B, (pieces)].
Spans = tuple[tf.RaggedTensor, tf.RaggedTensor, tf.RaggedTensor]


class RawTokenizer(tf.Module):
    """Raw UTF-8 -> ids of pieces.

    A subclass has `_pieces`, strings [V], `tokenize_with_offsets` and
    `detokenize` (int32 [B, (pieces)] -> [B] text).
    """

    _pieces: tf.Tensor

    def tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """[B] raw UTF-8 -> int32 [B, (pieces)] ids."""
        return self.tokenize_with_offsets(texts)[0]

    def tokenize_with_offsets(self, texts: tf.Tensor) -> Spans:
        """[B] raw UTF-8 -> ids with the raw characters that each came from.

        ids, starts, ends: int32 [B, (pieces)]; `text[start:end]` in characters
        (code points) of the raw text, without the white space at its edges.
        Pieces that came from one character share its span.
        """
        raise NotImplementedError

    def id_to_piece(self, ids: tf.Tensor) -> tf.Tensor:
        """The pieces of ids, as strings of the same shape."""
        return tf.gather(self._pieces, ids)
