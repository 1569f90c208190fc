"""A tokenizer whose pieces are characters."""

import tensorflow as tf


class Letters(tf.Module):
    """Each character is a piece, and its code point the id."""

    def encode(self, text: str) -> list[int]:
        """Ids of one text, without TensorFlow."""
        return [ord(c) for c in text]

    def tokenize(self, texts) -> tf.RaggedTensor:
        """Strings [B] -> int32 [B, (characters)]."""
        return tf.strings.unicode_decode(texts, "UTF-8")
