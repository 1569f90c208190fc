"""The architecture of a model: one frozen, validated dataclass.

Reads and writes the original's `xlnet_config.json`, whose eight keys are a
subset of these fields (`n_token` there is `vocab_size` here).
"""

import dataclasses
import json
import os
from typing import Any, ClassVar, Self

from common import files
from common.checks import FIELD, true_or_false, within
from common.errors import UserError
from common.settings import setting
from modeling.encoders.base_config import RecurrentConfig


@dataclasses.dataclass(frozen=True)
class XLNetConfig(RecurrentConfig):
    """What the shapes and the semantics of a model depend on.

    Attributes:
      ff_activation: of files also "gelu_erf", the exact form, which Hugging
        Face calls "gelu".
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

    ff_activation: str = setting(
        "gelu",
        "Activation of the feed-forward layer; gelu is the tanh form, as in "
        "the original.",
        choices=("gelu", "relu"),
    )
    untie_r: bool = setting(
        True,
        "Every layer has its own relative biases u, v and s; else one set is "
        "shared.",
    )
    attn_type: str = setting(
        "bi",
        "bi sees both sides; uni the past only (Transformer-XL).",
        choices=("bi", "uni"),
    )
    same_length: bool = setting(
        False,
        "With attn_type=uni every position sees equally many keys, M + 1; "
        "without effect with bi, as in the original.",
    )
    blind_rows: str = setting(
        "zero",
        "What a query row that sees no key gets from attention: zero, or the "
        "mean over all keys as in the original. Of importance to pretraining "
        "and generation alone.",
        choices=("zero", "original"),
    )
    mem_len: int | None = setting(
        None, "M, positions kept for the next segment; 0 = none."
    )
    reuse_len: int | None = setting(
        None,
        "Only this many first positions of a segment enter the memory; 0 = all.",
    )
    dropatt: float = setting(0.1, "Dropout rate of attention.")
    activation_dropout: float | None = setting(
        None,
        "Dropout rate after the feed-forward activation; by default as "
        "`dropout` (the later paper has 0).",
    )

    def __post_init__(self):
        super().__post_init__()
        within(self, ">= 0", "reuse_len", form=FIELD, whole=True)
        true_or_false(self, "untie_r", "same_length")

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Of hidden states, attention and the inner feed-forward layer."""
        return self.dropout, self.dropatt, self.inner_dropout

    @property
    def causal(self) -> bool:
        """Whether positions see the past only."""
        return self.attn_type == "uni"

    @property
    def sees_only_itself(self) -> bool:
        """Whether the M + 1 keys of every position are its own alone."""
        return self.causal and self.same_length and not self.mem_len

    def with_memory(self, length: int | None) -> Self:
        """A copy whose memory keeps all of the last `length` inputs.

        For texts that begin without memory: with `same_length`, which no weight
        depends on, each of their tokens would see itself alone.
        """
        return self.replace(mem_len=length, reuse_len=None, same_length=False)

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
        originals = (*self.counts(), "ff_activation", "untie_r")
        for field in dataclasses.fields(self):
            if field.name == "extra":
                continue
            current = getattr(self, field.name)
            if field.name in originals or current != field.default:
                value[field.name] = current
        value["n_token"] = value.pop("vocab_size")
        return json.dumps(value, indent=4, sort_keys=True)

    def to_json_file(self, path: str) -> None:
        """Writes the original's `xlnet_config.json`, atomically."""
        files.write_text(os.fspath(path), self.to_json())

    @classmethod
    def from_json_file(cls, path: str) -> Self:
        """Reads an `xlnet_config.json` of the original or of ours.

        Raises UserError: no such file, no JSON, a field missing or invalid.
        """
        path = os.fspath(path)
        value = files.read_json_object(
            path, "give the configuration of the model"
        )
        try:
            return cls.from_dict(value)
        except UserError as e:
            raise UserError(f"{path}: {e}") from e
