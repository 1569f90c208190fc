"""What every encoder's configuration offers, so that nobody else needs names.

An encoder is a folder here (its configuration, its model: a
`modeling.encoders.base.Encoder`) and a row in `modeling.encoders.registry`.
Letters: D model, L layers, M memory length, V vocabulary.
"""

import dataclasses
from typing import Any, ClassVar, Self

from common.errors import UserError

_MAY_BE_0 = ("clamp_len", "mem_len", "reuse_len")


@dataclasses.dataclass(frozen=True)
class EncoderConfig:
    """The architecture of an encoder: a frozen, validated dataclass.

    It also has `with_memory(length)`, a copy that keeps all of its last inputs
    (None = none), `to_dict()` and `from_dict(value)`, its fields by name, and
    `to_json()`, the content of its file.

    What is a fixed function of other fields may be a property (`d_head` where
    it is always D / N) or a class attribute (`mem_len` where there is none).

    Class attributes:
      changeable: fields that a trained model may be used with another value of.

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

    changeable: ClassVar[tuple[str, ...]]

    @classmethod
    def counts(cls) -> list[str]:
        """Fields that are whole numbers > 0."""
        return [
            field.name
            for field in dataclasses.fields(cls)
            if field.type in (int, int | None) and field.name not in _MAY_BE_0
        ]

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def architecture(self) -> dict[str, Any]:
        """The fields that weights or memory depend on; the others may change."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in self.changeable
        }

    @classmethod
    def _of_sizes(cls, changes: dict[str, Any], *sizes: int) -> Self:
        """The first fields in order, changed or completed by others by name."""
        names = [field.name for field in dataclasses.fields(cls)]
        return cls(**(dict(zip(names, sizes, strict=False)) | changes))

    @classmethod
    def _of_fields(cls, value: dict[str, Any], theirs: dict[str, str]) -> Self:
        """Reads fields by name; unknown ones go to `extra`.

        `theirs` has the names in the file that differ. Raises UserError: a
        field without default is missing, or one is invalid.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        extra = value.pop("extra", None)
        if extra is not None and not isinstance(extra, dict):
            raise UserError(
                f"`extra` must be an object of further keys, received {extra!r}"
            )
        extra = dict(extra or {})
        extra |= {k: v for k, v in value.items() if k not in names}
        known = {k: v for k, v in value.items() if k in names}
        missing = [
            theirs.get(field.name, field.name)
            for field in dataclasses.fields(cls)
            if field.name not in known
            and field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
        ]
        if missing:
            raise UserError(f"the configuration lacks {missing}")
        return cls(**known, extra=extra)


@dataclasses.dataclass(frozen=True)
class Capabilities:
    """What an encoder can do; `registry.require` stops what needs more."""

    memory: bool  # takes and gives the memory of segments
    query_stream: bool  # has a second stream for targets
    directions: int  # 2 when rows can be read backward
    # "cls_last" (A SEP B SEP CLS, padded on the left), "cls_first" (CLS A SEP B
    # SEP, padded on the right) or "stream" (plain text without special tokens:
    # no segments, no padding)
    layout: str
    # takes `Encoder.packed_arguments`: several rows in one
    packed_rows: bool = False

    @property
    def summary_type(self) -> str:
        """Where CLS is among the real tokens: "first" or "last"."""
        return "first" if self.layout == "cls_first" else "last"
