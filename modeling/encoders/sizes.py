"""Whether a model fits, told from the numbers of its configuration."""

import fractions
import itertools

from common.errors import UserError
from common.process import memory
from modeling.encoders.contract import EncoderConfig

# Objects of Keras and of the graph, however small the layer is.
_LAYER_BYTES = 100_000
# Of a usual model: the field that is furthest above is named.
_USUAL = {
    "vocab_size": 32000,
    "d_model": 768,
    "n_layer": 12,
    "n_head": 12,
    "d_head": 64,
    "d_inner": 3072,
    "d_embed": 768,
    "embedding_size": 768,
    "inner_group_num": 1,
    "max_position_embeddings": 8192,
    "max_positions": 8192,
    "type_vocab_size": 2,
}


def parameters(config: EncoderConfig) -> int:
    """Of the matrices: what makes nearly all of a model."""
    d, heads = config.d_model, config.n_head * config.d_head
    layer = 4 * d * heads + 2 * d * config.d_inner
    if getattr(config, "learns_positions", False):
        layer += config.max_positions * (
            d if config.bound_to_segment else heads
        )
    layers = config.n_layer
    if hasattr(config, "layer_groups"):  # ALBERT's layers share weights
        layers = config.layer_groups * config.inner_layers
    return _tables(config) + layers * layer


def _tables(config: EncoderConfig) -> int:
    """Of the embeddings."""
    if getattr(config, "div_val", 1) > 1:  # narrower for rare words
        ends = itertools.pairwise(config.cluster_ends)
        return sum(
            (b - a) * config.cluster_width(i) for i, (a, b) in enumerate(ends)
        )
    # Transformer-XL's, ALBERT's, then those that have one width only.
    width = getattr(config, "d_embed", None)
    width = width or getattr(config, "d_embedding", config.d_model)
    rows = config.vocab_size
    if hasattr(config, "type_vocab_size"):  # places are learned
        rows += config.max_position_embeddings + config.type_vocab_size
    return rows * width


def check(config: EncoderConfig, copies: int = 1, path: str = "") -> None:
    """UserError, which names the field to blame, where weights fill the memory.

    `copies` of every weight: 3 with the slots of an optimizer.
    """
    count = parameters(config)
    wanted = 4 * copies * count + _LAYER_BYTES * config.n_layer
    left, limit = memory.room()
    if wanted <= left:
        return
    name = max(
        (n for n in _USUAL if getattr(config, n, None)),
        key=lambda n: fractions.Fraction(getattr(config, n), _USUAL[n]),
    )
    raise UserError(
        f"{path and path + ': '}out of memory: `{name}` {_shown(getattr(config, name))} of the "
        f"configuration makes a model of {_short(count)} parameters, "
        f"{_short(fractions.Fraction(wanted, memory.GIB))} GiB with what belongs to them; "
        f"{limit} leaves {left / memory.GIB:.3g} GiB: correct `{name}`, or "
        "give more memory"
    )


def _shown(number: int) -> str:
    """A number of a file, which may have thousands of digits."""
    text = str(number)
    return text if len(text) <= 20 else f"{text[:9]}... ({len(text)} digits)"


def _short(number: int | fractions.Fraction) -> str:
    """About how much; no floating-point number is larger."""
    return f"{float(number):.3g}" if number < 10**300 else "more than 1e+300"
