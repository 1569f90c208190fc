"""The architecture of a model: one frozen, validated dataclass.

Reads and writes the original's `xlnet_config.json`, whose eight keys are a
subset of these fields (`n_token` there is `vocab_size` here).
"""

import dataclasses
import json
import os
from typing import Any, ClassVar, Self

from common import files
from common.checks import FIELD, one_of, true_or_false, within
from common.errors import UserError
from modeling.encoders.base_config import RecurrentConfig

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
_CHOICES = {
    "ff_activation": ("gelu", "gelu_erf", "relu"),
    "attn_type": ("bi", "uni"),
    "blind_rows": ("zero", "original"),
    "init_method": ("normal", "uniform"),
}


@dataclasses.dataclass(frozen=True)
class XLNetConfig(RecurrentConfig):
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
    changeable: ClassVar[tuple[str, ...]] = (
        "dropout",
        "dropatt",
        "activation_dropout",
        "init_method",
        "init_range",
        "init_std",
        "extra",
    )
    counts: ClassVar[tuple[str, ...]] = (
        "vocab_size",
        "d_model",
        "n_layer",
        "n_head",
        "d_head",
        "d_inner",
    )

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
        super().__post_init__()
        within(self, ">= 0", "reuse_len", form=FIELD, whole=True)
        one_of(self, form=FIELD, **_CHOICES)
        true_or_false(self, "untie_r", "same_length")

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Of hidden states, attention and the inner feed-forward layer."""
        return self.dropout, self.dropatt, self.inner_dropout

    @property
    def causal(self) -> bool:
        """Whether positions see the past only."""
        return self.attn_type == "uni"

    def with_memory(self, length: int | None) -> Self:
        """A copy whose memory keeps all of the last `length` inputs."""
        return self.replace(mem_len=length, reuse_len=None)

    @classmethod
    def base(cls, vocab_size: int = 32000, **kwargs: Any) -> Self:
        """XLNet-Base: 12 layers, D 768, 12 heads of 64, F 3072."""
        return cls._of_sizes(kwargs, vocab_size, 768, 12, 12, 64, 3072)

    @classmethod
    def large(cls, vocab_size: int = 32000, **kwargs: Any) -> Self:
        """XLNet-Large: 24 layers, D 1024, 16 heads of 64, F 4096."""
        return cls._of_sizes(kwargs, vocab_size, 1024, 24, 16, 64, 4096)

    def to_dict(self) -> dict[str, Any]:
        """Every field by name; `from_dict` reads it back."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """Reads fields by name; unknown ones go to `extra`."""
        value = dict(value)
        if "n_token" in value:
            n_token = value.pop("n_token")
            if value.setdefault("vocab_size", n_token) != n_token:
                raise UserError(
                    f"`n_token` {n_token} and `vocab_size` "
                    f"{value['vocab_size']} disagree: keep one of them"
                )
        return cls._of_fields(value, {"vocab_size": "n_token"})

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
    def from_json_file(cls, path: str) -> Self:
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
