"""Documents of more than T tokens, read in segments that carry memory.

A row of W tokens, padded on the left, is cut into segments of T. Each attends
to the memory that the segments before it left (Transformer-XL section 3.2,
XLNet paper section 2.4), and the head sees the last one, which holds CLS.

Because padding is on the left, the tokens of earlier segments are at the right
end of the memory: `memory_length` is how many of them there are, and a short
document gives what it gives without recurrence. Memory counts as segment 0.
"""

import tensorflow as tf

from modeling.ops import dropout


class LongDocument:
    """A task model for rows of any width.

    Rows of unknown width are read in a loop inside the graph, with as many
    segments as the widest row needs; both ways give equal results. The model
    takes `input_ids`, `segment_ids` and `input_mask`; its config has `mem_len`
    = T or more. Raises ValueError: it keeps less memory than a segment.
    """

    def __init__(self, model, segment_len: int):
        if (model.config.mem_len or 0) < segment_len:
            raise ValueError(
                f"`model.config.mem_len` must be at least {segment_len}, found "
                f"{model.config.mem_len}"
            )
        self.model = model
        self.config = model.config
        self.segment_len = segment_len

    def __call__(
        self, input_ids, segment_ids, input_mask, training=False, seed=None
    ):
        """The head's output on the last segment, as of [B, T] or [B, C, T].

        Of int [B, W] or [B, C, W]; W must be known with dropout. Each
        segment gets a seed of its own.
        """
        inputs = {
            "input_ids": input_ids,
            "segment_ids": segment_ids,
            "input_mask": input_mask,
        }
        inputs = {
            k: self._whole(tf.convert_to_tensor(v)) for k, v in inputs.items()
        }
        width = inputs["input_ids"].shape[-1]
        if width is None:
            return self._read_unknown(inputs)
        count = width // self.segment_len
        carried = {}
        for s in range(count - 1):
            own_seed = dropout.fold(seed, s)
            carried = self._step(inputs, s, carried, training, own_seed)
        own_seed = dropout.fold(seed, count - 1)
        return self._last(inputs, carried, training, own_seed)

    def _whole(self, x):
        """Pads on the left to a multiple of T; what is masked has any id."""
        width = tf.shape(x)[-1] if x.shape[-1] is None else x.shape[-1]
        gap = -width % self.segment_len
        return tf.pad(x, [[0, 0]] * (x.shape.rank - 1) + [[gap, 0]])

    def _step(self, inputs, s, carried, training=False, seed=None) -> dict:
        """Memory after segment s; options are rows of their own."""
        length = self.segment_len
        rows = {}
        for name, x in inputs.items():
            segment = x[..., s * length : (s + 1) * length]
            rows[name] = tf.reshape(segment, [-1, length])  # [B or B*C, T]
        output = self.model.encoder(
            **rows, **carried, training=training, seed=seed
        )
        read = tf.reduce_sum(tf.cast(rows["input_mask"], tf.int32), 1)
        if carried:
            read += carried["memory_length"]
        kept = self.config.mem_len
        return {
            "memory": output.new_memory,
            "memory_length": tf.minimum(read, kept),
        }

    def _last(self, inputs, carried, training=False, seed=None):
        last = {k: x[..., -self.segment_len :] for k, x in inputs.items()}
        return self.model(**last, **carried, training=training, seed=seed)

    def _read_unknown(self, inputs):
        """Width not known: a loop, and a way around it for one segment."""
        shape = tf.shape(inputs["input_ids"])
        count = shape[-1] // self.segment_len

        def long():
            batch = tf.reduce_prod(shape[:-1])
            empty = [batch, self.config.mem_len, self.config.d_model]
            dtype = self.model.encoder.compute_dtype
            start = [tf.zeros(empty, dtype)] * self.config.n_layer

            def body(s, length, *memory):
                carried = {"memory": memory, "memory_length": length}
                carried = self._step(inputs, s, carried)
                return s + 1, carried["memory_length"], *carried["memory"]

            _, length, *memory = tf.while_loop(
                lambda s, *_: s < count - 1,
                body,
                (0, tf.zeros([batch], tf.int32), *start),
            )
            carried = {"memory": tuple(memory), "memory_length": length}
            return self._last(inputs, carried)

        return tf.cond(count > 1, long, lambda: self._last(inputs, {}))
