"""What configurations of encoders share.

`FileConfig` is of those whose file is Hugging Face's `config.json`. One file
serves both sides: a folder of ours names its fields as theirs does, and every
key that we have no field for is kept and written back.
"""

import dataclasses
import json
from typing import Any, ClassVar, Self

from common.checks import FIELD, one_of, within
from common.errors import UserError
from common.settings import REQUIRED, setting, settings_of
from modeling.encoders.contract import EncoderConfig

ACTIVATIONS = ("gelu", "gelu_erf", "relu")
# Their activation -> ours: theirs "gelu" is the exact form, ours the tanh form. Of
# several names of one function the first is written.
THEIR_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu",
    "relu": "relu",
    "gelu_python": "gelu_erf",
    "gelu_pytorch_tanh": "gelu",
    "gelu_python_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
}


def their_activation(name: str) -> str:
    """Their name of one of `ACTIVATIONS`."""
    return next(k for k, v in THEIR_ACTIVATIONS.items() if v == name)


@dataclasses.dataclass(frozen=True)
class RecurrentConfig(EncoderConfig):
    """Of encoders with memory: Transformer-XL and XLNet.

    Attributes:
      vocab_size: V, number of pieces.
      extra: unknown keys of the file, written back unchanged.
    """

    vocab_size: int
    d_model: int = setting(REQUIRED, "D, width; even.")
    n_layer: int = setting(REQUIRED, "L, layers.")
    n_head: int = setting(REQUIRED, "N, attention heads.")
    d_head: int = setting(REQUIRED, "H, width of a head; N * H need not be D.")
    d_inner: int = setting(REQUIRED, "F, width of the feed-forward layer.")
    clamp_len: int = setting(
        -1, "Distances beyond it count as this one; -1 = off."
    )
    dropout: float = setting(
        0.1,
        "Dropout rate of embeddings, position table, sublayer outputs and the "
        "final output.",
    )
    dropatt: float = setting(0.0, "Dropout rate of attention.")
    init_method: str = setting(
        "normal",
        "Distribution of the first weights.",
        choices=("normal", "uniform"),
    )
    init_range: float = setting(0.1, "Bound of uniform first weights.")
    init_std: float = setting(0.02, "Deviation of normal first weights.")
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self):
        within(self, ">= 1", *self.counts(), form=FIELD, whole=True)
        within(self, ">= 0", "mem_len", form=FIELD, whole=True)
        within(self, "(-inf, inf)", "clamp_len", form=FIELD, whole=True)
        if self.d_model % 2:
            raise UserError(
                "`d_model` must be even (half sines, half cosines), received "
                f"{self.d_model}"
            )
        within(
            self,
            "[0, 1)",
            "dropout",
            "dropatt",
            "activation_dropout",
            form=FIELD,
        )
        within(self, "> 0", "init_range", "init_std", form=FIELD)
        named = {n: s.choices for n, s in settings_of(self).items()}
        choices = {name: found for name, found in named.items() if found}
        # A file may name one that no flag does.
        choices["ff_activation"] = ACTIVATIONS
        one_of(self, form=FIELD, **choices)

    @property
    def inner_dropout(self) -> float:
        """The rate after the feed-forward activation, None resolved."""
        if self.activation_dropout is None:
            return self.dropout
        return self.activation_dropout


@dataclasses.dataclass(frozen=True)
class FileConfig(EncoderConfig):
    """Base of a frozen, validated configuration in Hugging Face's words.

    Class attributes:
      keys: their key -> our field.

    Attributes:
      vocab_size: V, number of pieces.
      d_model: D, a multiple of N.
      n_layer: L.
      n_head: N.
      d_inner: F.
      ff_activation: "gelu_erf" (the exact form), "gelu" (tanh) or "relu".
      init_std: deviation of the normal initializer.
      extra: unknown keys of the file, written back unchanged.
    """

    model_type: ClassVar[str]
    keys: ClassVar[dict[str, str]]
    # None of them has memory, and all see both sides.
    mem_len: ClassVar[None] = None
    causal: ClassVar[bool] = False

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_inner: int
    ff_activation: str = "gelu_erf"
    init_std: float = 0.02
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self):
        within(self, ">= 1", *self.counts(), form=FIELD, whole=True)
        within(self, "[0, 1)", *self.rates(), form=FIELD)
        within(self, "> 0", "init_std", form=FIELD)

    @classmethod
    def rates(cls) -> list[str]:
        """Fields in [0, 1), "dropout" first; None where the field may be."""
        names = [field.name for field in dataclasses.fields(cls)]
        return [name for name in names if "drop" in name]

    @property
    def changeable(self) -> tuple[str, ...]:
        return (*self.rates(), "init_std", "pooling", "extra")

    @property
    def d_head(self) -> int:
        """H."""
        return self.d_model // self.n_head

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Every rate; None, where a field may be that, is the first one's."""
        rates = [getattr(self, name) for name in self.rates()]
        return tuple(rates[0] if rate is None else rate for rate in rates)

    def with_memory(self, length: int | None) -> Self:
        """Itself: there is none; UserError where `length` is positive."""
        if length:
            raise UserError(
                f"{self.model_type} has no memory: wanted no memory length, "
                f"found {length}; xlnet has one"
            )
        return self

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, and the `model_type`."""
        return dataclasses.asdict(self) | {"model_type": self.model_type}

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """Reads fields by our names or by theirs; unknown ones go to `extra`.

        Raises UserError: a field is missing, given twice or invalid.
        """
        value = cls._translated(dict(value))
        value.pop("model_type", None)
        for theirs, ours in cls.keys.items():
            if theirs not in value or theirs == ours:
                continue
            their_value = value.pop(theirs)
            if ours.endswith("_activation"):
                their_value = _activation(theirs, their_value)
            if value.setdefault(ours, their_value) != their_value:
                raise UserError(
                    f"`{theirs}` {their_value!r} and `{ours}` {value[ours]!r} "
                    "disagree: keep one of them"
                )
        theirs = {ours: name for name, ours in cls.keys.items()}
        return cls._of_fields(value, theirs)

    @classmethod
    def _translated(cls, value: dict[str, Any]) -> dict[str, Any]:
        """Keys of theirs that are no plain renaming, as ours."""
        return value

    def to_json(self) -> str:
        """Their keys; every field that they have no key for by our name."""
        value = dict(self.extra)
        by_field = {ours: theirs for theirs, ours in self.keys.items()}
        for field in dataclasses.fields(self):
            if field.name == "extra":
                continue
            current = getattr(self, field.name)
            if field.name not in by_field and current == field.default:
                continue
            if field.name.endswith("_activation"):
                current = their_activation(current)
            value[by_field.get(field.name, field.name)] = current
        value["model_type"] = self.model_type
        value = self._untranslated(value)
        return json.dumps(value, indent=2, sort_keys=True) + "\n"

    def _untranslated(self, value: dict[str, Any]) -> dict[str, Any]:
        """The opposite of `_translated`."""
        return value


def _activation(key: str, name: Any) -> str:
    if not isinstance(name, str) or name not in THEIR_ACTIVATIONS:
        raise UserError(
            f"`{key}` must be one of {list(THEIR_ACTIVATIONS)}, received "
            f"{name!r}"
        )
    return THEIR_ACTIVATIONS[name]
