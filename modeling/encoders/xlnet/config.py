"""The architecture of a model: one frozen, validated dataclass.

Reads and writes the original's `xlnet_config.json`, whose eight keys are a
subset of these fields (`n_token` there is `vocab_size` here).
"""

import dataclasses
import json
import os
from typing import Any, ClassVar

from common import files
from common.errors import UserError
from modeling.encoders.contract import pop_extra

# The keys that the original always writes.
_ORIGINAL_KEYS = (
    "d_head",
    "d_inner",
    "d_model",
    "ff_activation",
    "n_head",
    "n_layer",
    "untie_r",
    "vocab_size",
)
# What a trained model may be used with another value of.
_CHANGEABLE = (
    "dropout",
    "dropatt",
    "activation_dropout",
    "init_method",
    "init_range",
    "init_std",
    "extra",
)
_CHOICES = {
    "ff_activation": ("gelu", "gelu_erf", "relu"),
    "attn_type": ("bi", "uni"),
    "blind_rows": ("zero", "original"),
    "init_method": ("normal", "uniform"),
}


@dataclasses.dataclass(frozen=True)
class XLNetConfig:
    """What the shapes and the semantics of a model depend on.

    Attributes:
      vocab_size: V, number of pieces.
      d_model: D, even.
      n_layer: L.
      n_head: N.
      d_head: H; N * H need not be D.
      d_inner: F.
      ff_activation: "gelu" (tanh form, as in the original), "relu", or
        "gelu_erf" (the exact form, which Hugging Face calls "gelu").
      untie_r: each layer has its own u, v and s biases; else one set is shared.
      attn_type: "bi" sees both sides; "uni" is causal (Transformer-XL).
      same_length: with "uni", every position sees the same number of keys
        (M + 1); without effect with "bi", as in the original.
      clamp_len: distances beyond it count as this one; -1 = off.
      blind_rows: what a query row that sees no key gets; see `XLNetModel`.
      mem_len: memory slots kept for the next segment; None or 0 = no memory.
      reuse_len: only the first so many positions enter the memory; None or 0 =
        the whole segment.
      dropout: rate in [0, 1) of embeddings, position table, sublayer outputs
        and final output.
      dropatt: rate on attention probabilities.
      activation_dropout: rate after the feed-forward activation; None = the
        value of `dropout` (the original; the later paper has 0.0).
      init_method: "normal" (`init_std`) or "uniform" (+- `init_range`).
      init_range: bound of the uniform initializer.
      init_std: deviation of the normal initializer.
      extra: unknown keys of the JSON file, written back unchanged.
    """

    model_type: ClassVar[str] = "xlnet"

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_head: int
    d_inner: int
    ff_activation: str = "gelu"
    untie_r: bool = True
    attn_type: str = "bi"
    same_length: bool = False
    clamp_len: int = -1
    blind_rows: str = "zero"
    mem_len: int | None = None
    reuse_len: int | None = None
    dropout: float = 0.1
    dropatt: float = 0.1
    activation_dropout: float | None = None
    init_method: str = "normal"
    init_range: float = 0.1
    init_std: float = 0.02
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self):
        for name in (
            "vocab_size",
            "d_model",
            "n_layer",
            "n_head",
            "d_head",
            "d_inner",
        ):
            self._check_int(name, minimum=1)
        for name in ("mem_len", "reuse_len"):
            if getattr(self, name) is not None:
                self._check_int(name, minimum=0)
        self._check_int("clamp_len", minimum=None)
        if self.d_model % 2:
            raise UserError(
                f"`d_model` must be even (half sines, half cosines), "
                f"received {self.d_model}"
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"`{name}` must be one of {list(choices)}, received "
                    f"{getattr(self, name)!r}"
                )
        for name in ("untie_r", "same_length"):
            if not isinstance(getattr(self, name), bool):
                raise UserError(
                    f"`{name}` must be true or false, received "
                    f"{getattr(self, name)!r}"
                )
        for name in ("dropout", "dropatt", "activation_dropout"):
            value = getattr(self, name)
            if value is None and name == "activation_dropout":
                continue
            if not _is_number(value) or not 0.0 <= value < 1.0:
                raise UserError(
                    f"`{name}` must be a rate in [0, 1), received {value!r}"
                )
        for name in ("init_range", "init_std"):
            value = getattr(self, name)
            if not _is_number(value) or value <= 0:
                raise UserError(f"`{name}` must be > 0, received {value!r}")

    def _check_int(self, name: str, minimum: int | None) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int):
            raise UserError(
                f"`{name}` must be a whole number, received {value!r}"
            )
        if minimum is not None and value < minimum:
            raise UserError(f"`{name}` must be >= {minimum}, received {value}")

    @property
    def inner_dropout(self) -> float:
        """The rate after the feed-forward activation, None resolved."""
        if self.activation_dropout is None:
            return self.dropout
        return self.activation_dropout

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Of hidden states, attention and the inner feed-forward layer."""
        return self.dropout, self.dropatt, self.inner_dropout

    @property
    def causal(self) -> bool:
        """Whether positions see the past only."""
        return self.attn_type == "uni"

    def architecture(self) -> dict[str, Any]:
        """The fields that weights or memory depend on; the others may change."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in _CHANGEABLE
        }

    def with_memory(self, length: int | None) -> "XLNetConfig":
        """A copy whose memory keeps all of the last `length` inputs."""
        return self.replace(mem_len=length, reuse_len=None)

    def replace(self, **changes: Any) -> "XLNetConfig":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    @classmethod
    def base(cls, vocab_size: int = 32000, **kwargs: Any) -> "XLNetConfig":
        """XLNet-Base: 12 layers, D 768, 12 heads of 64, F 3072."""
        sizes = dict(
            vocab_size=vocab_size,
            d_model=768,
            n_layer=12,
            n_head=12,
            d_head=64,
            d_inner=3072,
        )
        return cls(**(sizes | kwargs))

    @classmethod
    def large(cls, vocab_size: int = 32000, **kwargs: Any) -> "XLNetConfig":
        """XLNet-Large: 24 layers, D 1024, 16 heads of 64, F 4096."""
        sizes = dict(
            vocab_size=vocab_size,
            d_model=1024,
            n_layer=24,
            n_head=16,
            d_head=64,
            d_inner=4096,
        )
        return cls(**(sizes | kwargs))

    def to_dict(self) -> dict[str, Any]:
        """Every field by name; `from_dict` reads it back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "XLNetConfig":
        """Reads fields by name; unknown ones go to `extra`."""
        value = dict(value)
        if "n_token" in value:
            n_token = value.pop("n_token")
            if value.setdefault("vocab_size", n_token) != n_token:
                raise UserError(
                    f"`n_token` {n_token} and `vocab_size` "
                    f"{value['vocab_size']} disagree: keep one of them"
                )
        names = {f.name for f in dataclasses.fields(cls)}
        extra = pop_extra(value)
        extra |= {k: v for k, v in value.items() if k not in names}
        known = {k: v for k, v in value.items() if k in names}
        missing = [k for k in _ORIGINAL_KEYS if k not in known]
        missing = [k for k in missing if k not in ("ff_activation", "untie_r")]
        if missing:
            shown = ["n_token" if k == "vocab_size" else k for k in missing]
            raise UserError(f"the configuration lacks {shown}")
        return cls(**known, extra=extra)

    def to_json(self) -> str:
        """The original's keys, then what differs from the defaults."""
        value = dict(self.extra)
        for field in dataclasses.fields(self):
            if field.name == "extra":
                continue
            current = getattr(self, field.name)
            if field.name in _ORIGINAL_KEYS or current != field.default:
                value[field.name] = current
        value["n_token"] = value.pop("vocab_size")
        return json.dumps(value, indent=4, sort_keys=True)

    def to_json_file(self, path: str) -> None:
        """Writes the original's `xlnet_config.json`, atomically."""
        files.write_text(os.fspath(path), self.to_json())

    @classmethod
    def from_json_file(cls, path: str) -> "XLNetConfig":
        """Reads an `xlnet_config.json` of the original or of ours.

        Raises:
          UserError: no such file, no JSON, a field missing or invalid.
        """
        path = os.fspath(path)
        value = files.read_json_object(
            path, "give the configuration of the model"
        )
        try:
            return cls.from_dict(value)
        except UserError as e:
            raise UserError(f"{path}: {e}") from e


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
