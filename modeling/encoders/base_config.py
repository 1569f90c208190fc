"""What configurations share whose file is Hugging Face's `config.json` (L0).

One file serves both sides: a folder of ours names its fields as theirs does,
and every key that we have no field for is kept and written back.
"""

import dataclasses
import json
from typing import Any, ClassVar, Self

from common.errors import UserError
from modeling.encoders.contract import pop_extra

# Their activation -> ours: theirs "gelu" is the exact form, ours the tanh form.
ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "relu": "relu",
}


@dataclasses.dataclass(frozen=True)
class FileConfig:
    """Base of a frozen, validated configuration.

    Class attributes:
      keys: their key -> our field.
      changeable: fields that a trained model may be used with another value of.
      counts: fields that are whole numbers > 0.
      rates: fields in [0, 1); None where the field may be.
    """

    model_type: ClassVar[str]
    keys: ClassVar[dict[str, str]]
    changeable: ClassVar[tuple[str, ...]]
    counts: ClassVar[tuple[str, ...]]
    rates: ClassVar[tuple[str, ...]]
    # None of them has memory, and all see both sides.
    mem_len: ClassVar[None] = None
    causal: ClassVar[bool] = False

    def __post_init__(self):
        for name in self.counts:
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int):
                raise UserError(
                    f"`{name}` must be a whole number, received {value!r}"
                )
            if value < 1:
                raise UserError(f"`{name}` must be >= 1, received {value}")
        for name in self.rates:
            value = getattr(self, name)
            if value is None and self._default(name) is None:
                continue
            if not is_number(value) or not 0.0 <= value < 1.0:
                raise UserError(
                    f"`{name}` must be a rate in [0, 1), received {value!r}"
                )

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Every rate; None, where a field may be that, is the first one's."""
        found = [getattr(self, name) for name in self.rates]
        return tuple(found[0] if rate is None else rate for rate in found)

    @classmethod
    def _default(cls, name: str) -> Any:
        return cls.__dataclass_fields__[name].default

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def architecture(self) -> dict[str, Any]:
        """The fields that weights depend on; the others may change."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in self.changeable
        }

    def with_memory(self, length: int | None) -> Self:
        """Itself: there is none.

        Raises:
          UserError: `length` is positive.
        """
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

        Raises:
          UserError: a field is missing, given twice or invalid.
        """
        value = cls._translated(dict(value))
        value.pop("model_type", None)
        names = {f.name for f in dataclasses.fields(cls)}
        extra = pop_extra(value)
        for theirs, ours in cls.keys.items():
            if theirs not in value or theirs == ours:
                continue
            found = value.pop(theirs)
            if ours.endswith("_activation"):
                found = _activation(theirs, found)
            if value.setdefault(ours, found) != found:
                raise UserError(
                    f"`{theirs}` {found!r} and `{ours}` {value[ours]!r} "
                    "disagree: keep one of them"
                )
        extra |= {k: v for k, v in value.items() if k not in names}
        known = {k: v for k, v in value.items() if k in names}
        missing = [
            f.name
            for f in dataclasses.fields(cls)
            if f.name not in known
            and f.default is dataclasses.MISSING
            and f.default_factory is dataclasses.MISSING
        ]
        if missing:
            theirs = {ours: name for name, ours in cls.keys.items()}
            shown = [theirs.get(name, name) for name in missing]
            raise UserError(f"the configuration lacks {shown}")
        return cls(**known, extra=extra)

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
                current = _their_activation(current)
            value[by_field.get(field.name, field.name)] = current
        value["model_type"] = self.model_type
        value = self._untranslated(value)
        return json.dumps(value, indent=2, sort_keys=True) + "\n"

    def _untranslated(self, value: dict[str, Any]) -> dict[str, Any]:
        """The opposite of `_translated`."""
        return value


def _activation(key: str, name: Any) -> str:
    if name not in ACTIVATIONS:
        raise UserError(
            f"`{key}` must be one of {list(ACTIVATIONS)}, received {name!r}"
        )
    return ACTIVATIONS[name]


def _their_activation(name: str) -> str:
    return next(k for k, v in ACTIVATIONS.items() if v == name)


def check_choice(name: str, value: Any, choices: tuple[str, ...]) -> None:
    """Raises `UserError` unless `value` is one of `choices`."""
    if value not in choices:
        raise UserError(
            f"`{name}` must be one of {list(choices)}, received {value!r}"
        )


def is_number(value: Any) -> bool:
    """An int or float; True and False are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
