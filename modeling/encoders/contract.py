"""What every encoder's configuration offers, so that nobody else needs names.

An encoder is a folder here (its configuration, its model: a
`modeling.encoders.base.Encoder`) and a row in `modeling.encoders.registry`.
Letters: D model, L layers, M memory length, V vocabulary.
"""

import dataclasses
from typing import Any, ClassVar, Protocol

from common.errors import UserError


class EncoderConfig(Protocol):
    """The architecture of an encoder: a frozen, validated dataclass.

    What is a fixed function of other fields may be a property (`d_head` where
    it is always D / N) or a class attribute (`mem_len` where there is none).

    Attributes:
      model_type: key of `registry.ENCODERS`; in files that name one.
      vocab_size: V.
      d_model: D, width of the hidden states.
      n_layer: L.
      n_head: N.
      d_head: H.
      d_inner: F, width within a feed-forward layer.
      causal: positions see the past only.
      dropout: rate of hidden states; heads use it, too.
      dropatt: rate of attention probabilities.
      dropout_rates: every rate, in an order that stays: a run is known by it.
      init_method: of first weights, "normal" or "truncated_normal"
        (`init_std`), or "uniform"; one that may be "uniform" has a bound,
        `init_range`, too.
      init_std: deviation of normal first weights.
      mem_len: M; None or 0 = no memory.
      extra: unknown keys of the file, written back unchanged.

    One with another rate before a classifier than `dropout` has `head_dropout`;
    one whose rows may become longer has `extendable`, the fields that say so;
    one whose rows cannot be of any length has `max_position_embeddings`.
    """

    model_type: ClassVar[str]
    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_head: int
    d_inner: int
    causal: bool
    dropout: float
    dropatt: float
    dropout_rates: tuple[float, ...]
    init_method: str
    init_std: float
    mem_len: int | None
    extra: dict[str, Any]

    def replace(self, **changes: Any) -> "EncoderConfig":
        """A copy with some fields changed."""
        ...

    def architecture(self) -> dict[str, Any]:
        """The fields that weights or memory depend on; the others may change."""
        ...

    def with_memory(self, length: int | None) -> "EncoderConfig":
        """A copy that keeps all of its last `length` inputs; None = none."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Every field by name."""
        ...

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "EncoderConfig":
        """Reads fields by name; unknown ones go to `extra`."""
        ...

    def to_json(self) -> str:
        """The content of the configuration file."""
        ...


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What an encoder can do; `registry.require` stops what needs more.

    Attributes:
      memory: takes and gives the memory of segments.
      query_stream: has a second stream for targets.
      directions: 2 when rows can be read backward.
      layout: "cls_last" (A SEP B SEP CLS, padded on the left), "cls_first"
        (CLS A SEP B SEP, padded on the right) or "stream" (plain text without
        special tokens: no segments, no padding).
      packed_rows: takes `Encoder.packed_arguments`: several rows in one.
    """

    memory: bool
    query_stream: bool
    directions: int
    layout: str
    packed_rows: bool = False

    @property
    def summary_type(self) -> str:
        """Where CLS is among the real tokens: "first" or "last"."""
        return "first" if self.layout == "cls_first" else "last"


def pop_extra(value: dict[str, Any]) -> dict[str, Any]:
    """Takes `extra` out of a configuration's values; a copy of it.

    Raises:
      UserError: it is neither an object nor null.
    """
    extra = value.pop("extra", None)
    if extra is not None and not isinstance(extra, dict):
        raise UserError(
            f"`extra` must be an object of further keys, received {extra!r}"
        )
    return dict(extra or {})
