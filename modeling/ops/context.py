"""How one call of a layer is run: what all of its sublayers are told."""

import dataclasses

import tensorflow as tf

from modeling.ops import dropout
from modeling.ops.matmul import Matmul


@dataclasses.dataclass(frozen=True)
class LayerContext:
    """Belongs to the call, not to the layer: a layer may be called twice."""

    training: bool = False
    # int32 [2] of this call, or None = no dropout
    seed: tf.Tensor | None = None
    matmul: Matmul = Matmul()
    # numbers of the dropout sites of the stream
    sites: dropout.Sites = dropout.CONTENT
    # B with variational dropout: the rows of a text, whatever their shape, have
    # one mask; None = every row its own
    texts: int | None = None

    def site_seed(self, site: int) -> tf.Tensor | None:
        """int32 [2] of one of the sites, or None = no dropout there."""
        return dropout.site_seed(self.seed if self.training else None, site)

    def for_query_stream(self) -> "LayerContext":
        """The same with the query stream's dropout sites."""
        return dataclasses.replace(self, sites=dropout.QUERY)


INFERENCE = LayerContext()
