"""What every kind of attention shares: projections, output, residual, norm.

Letters: B batch, Q query rows, K keys, N heads, H head size, D model.

Heads are the outermost axis inside, [N, B, ...]: masks [B, Q, K] then
broadcast over whole blocks.
"""

import tensorflow as tf

from modeling.attention.attend import ALL, AttendedKeys, Stream
from modeling.ops import saving
from modeling.ops.context import INFERENCE, LayerContext
from modeling.ops.normalization import LayerNorm


class Attention(saving.Layer):
    """LayerNorm(x + dropout(O attention(x))).

    A kind of attention has its own `keys` and `queries`, and its own variables
    in `build_own`. D = `d_model`, N = `n_head`, H = `d_head`.

    Args:
      dropatt: on the attention probabilities.
      initializer: of every variable but LayerNorm's, serialised.
    """

    projections = "qkvo"  # one kernel [D, N, H] each

    def __init__(
        self,
        d_model: int,
        n_head: int,
        d_head: int,
        dropout_rate: float = 0.0,
        dropatt: float = 0.0,
        initializer: dict | str = "glorot_uniform",
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.d_model = d_model
        self.n_head = n_head
        self.d_head = d_head
        self.dropout_rate = dropout_rate
        self.dropatt = dropatt
        self.initializer = initializer
        self.norm = LayerNorm(name="LayerNorm", dtype=self.dtype_policy)

    def add(self, name: str, shape: list[int]) -> tf.Variable:
        """A variable, kept in float32."""
        return self.add_kept(name, shape, self.initializer)

    def build(self, input_shape):
        shape = [self.d_model, self.n_head, self.d_head]
        self.kernels = {
            name: self.add(f"{name}_kernel", shape) for name in self.projections
        }
        self.build_own()
        with tf.name_scope("LayerNorm"):
            self.norm.build([None, None, self.d_model])
        super().build(input_shape)

    def build_own(self) -> None:
        """Adds what the kind has beside kernels and norm."""

    def keys(
        self,
        pieces: list[tf.Tensor],
        query_len: int,
        shared: tuple[tf.Tensor, ...],
        shift: str = "gather",
        context: LayerContext = INFERENCE,
    ) -> AttendedKeys:
        """Projects what the streams attend to.

        Args:
          pieces: [B, M, D] of the memory, if any, and [B, T, D].
          query_len: T.
          shared: tensors that all layers share: the position table [S, R, D]
            (or its mixing of waves [S, W, D]), then the model's biases, if
            it has any.
          shift: see `Streams`.
        """
        raise NotImplementedError

    def queries(
        self,
        q: tf.Tensor,
        keys,
        stream: Stream,
        context: LayerContext = INFERENCE,
    ):
        """[B, Q, N, H] as `attend` takes them; of content alone unless said."""
        del keys, stream, context
        return tf.transpose(q, [2, 0, 1, 3])  # [N, B, Q, H]

    def call(self, x, keys, stream=ALL, context=INFERENCE):
        """[B, Q, D], rows of one stream -> [B, Q, D], attending to `keys`."""
        q = context.matmul.project(x, self.kernels["q"])  # [B, Q, N, H]
        vector = keys.attend(
            self.queries(q, keys, stream, context),
            stream,
            context.site_seed(context.sites.probabilities),
            self.dropatt,
        )  # [N, B, Q, H]
        if stream.gate is not None:
            vector *= tf.cast(stream.gate, x.dtype)[..., tf.newaxis]
        vector = tf.transpose(vector, [1, 2, 0, 3])  # [B, Q, N, H]
        out = context.matmul.merge(vector, self.kernels["o"])  # [B, Q, D]
        return self.norm.after_residual(
            out, x, None, context, context.sites.output, self.dropout_rate
        )

    def own_variable_paths(self) -> dict[str, str]:
        """Names -> attribute paths of what `build_own` adds."""
        return {}

    def variable_paths(self) -> dict[str, str]:
        """The original's names (biases and segments per layer) -> paths."""
        paths = {f"{name}/kernel": f"kernels/{name}" for name in self.kernels}
        paths |= self.own_variable_paths()
        paths["LayerNorm/gamma"] = "norm/gamma"
        paths["LayerNorm/beta"] = "norm/beta"
        return paths
