"""The architecture of a Transformer-XL: one frozen, validated dataclass.

A language model's sizes are in it whole: its softmax is tied to the embedding,
so cutoffs and projections belong to both. What training and evaluation choose
freely (memory, clamping, `same_length`) is no part of the architecture.
"""

import dataclasses
import json
from typing import Any, ClassVar

from common.errors import UserError
from modeling.encoders.contract import pop_extra

FILE_NAME = "transformer_xl_config.json"

_POSITIVE = (
    "vocab_size",
    "d_model",
    "n_layer",
    "n_head",
    "d_head",
    "d_inner",
    "div_val",
)
_FLAGS = (
    "untie_r",
    "same_length",
    "proj_share_all_but_first",
    "proj_same_dim",
    "variational_dropout",
)
_CHOICES = {
    "ff_activation": ("relu", "gelu", "gelu_erf"),
    "init_method": ("normal", "uniform"),
    "memory_start": ("hidden", "zeros"),
}
# No weight depends on these: a trained model may be used with other values.
_CHANGEABLE = (
    "mem_len",
    "clamp_len",
    "same_length",
    "memory_start",
    "dropout",
    "dropatt",
    "activation_dropout",
    "variational_dropout",
    "word_dropout",
    "init_method",
    "init_range",
    "init_std",
    "proj_init_std",
    "extra",
)


@dataclasses.dataclass(frozen=True)
class TransformerXLConfig:
    """What the shapes and the semantics of a model depend on.

    Attributes:
      vocab_size: V.
      d_model: D, even.
      n_layer: L.
      n_head: N.
      d_head: H; N * H need not be D.
      d_inner: F.
      d_embed: E, width of the embedding; None = D.
      cutoffs: first ids of the tail clusters, rising; () = one softmax.
      div_val: cluster i has embeddings of width E // div_val^i.
      proj_share_all_but_first: the softmax of every tail cluster takes the
        embedding's projection; else one of its own.
      proj_same_dim: with `div_val` > 1, also project where the width of the
        cluster is D.
      ff_activation: "relu" (the original), "gelu", "gelu_erf".
      untie_r: each layer has its own u and v; else one pair is shared.
      same_length: every position sees the same number of keys (M + 1).
      clamp_len: distances beyond it count as this one; <= 0 = off.
      mem_len: M, inputs of each layer kept for the next segment; None or 0 =
        none.
      memory_start: what a row sees where its text starts: "hidden" = its own
        segment only; "zeros" = M zero vectors, which attention sees (the
        original).
      dropout: rate of embeddings, position table, sublayer outputs, the
        feed-forward activation and the final output.
      dropatt: rate on attention probabilities.
      activation_dropout: rate after the activation; None = `dropout`.
      variational_dropout: all positions of a segment have one mask per text
        at every site but attention's (Gal and Ghahramani 2016); else each has
        its own.
      word_dropout: rate at which words lose their embedding, all occurrences
        in a batch together; the softmax keeps it.
      init_method: "normal" (`init_std`) or "uniform" (+- `init_range`).
      init_range: bound of the uniform initializer.
      init_std: deviation of the normal initializer.
      proj_init_std: deviation of the projections' normal initializer.
      layer_norm_epsilon: added to the variance; weights are of their own
        (1e-12, TensorFlow's release; 1e-5, PyTorch's).
      extra: unknown keys of the file, written back unchanged.

    Raises:
      UserError: a value is out of range, or two contradict each other.
    """

    model_type: ClassVar[str] = "transformer_xl"
    attn_type: ClassVar[str] = "uni"
    causal: ClassVar[bool] = True
    reuse_len: ClassVar[None] = None

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_head: int
    d_inner: int
    d_embed: int | None = None
    cutoffs: tuple[int, ...] = ()
    div_val: int = 1
    proj_share_all_but_first: bool = False
    proj_same_dim: bool = True
    ff_activation: str = "relu"
    untie_r: bool = False
    same_length: bool = False
    clamp_len: int = -1
    mem_len: int | None = None
    memory_start: str = "hidden"
    dropout: float = 0.1
    dropatt: float = 0.0
    activation_dropout: float | None = None
    variational_dropout: bool = False
    word_dropout: float = 0.0
    init_method: str = "normal"
    init_range: float = 0.1
    init_std: float = 0.02
    proj_init_std: float = 0.01
    layer_norm_epsilon: float = 1e-12
    extra: dict[str, Any] = dataclasses.field(default_factory=dict, hash=False)

    def __post_init__(self):
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))
        for name in _POSITIVE:
            _whole(name, getattr(self, name), 1)
        for name, least in (("d_embed", 1), ("mem_len", 0)):
            if getattr(self, name) is not None:
                _whole(name, getattr(self, name), least)
        _whole("clamp_len", self.clamp_len, None)
        if self.d_model % 2:
            raise UserError(
                "`d_model` must be even (half sines, half cosines), received "
                f"{self.d_model}"
            )
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise UserError(
                    f"`{name}` must be one of {list(choices)}, received "
                    f"{getattr(self, name)!r}"
                )
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise UserError(
                    f"`{name}` must be true or false, received "
                    f"{getattr(self, name)!r}"
                )
        self._check_numbers()
        self._check_clusters()

    def _check_numbers(self) -> None:
        for name in (
            "dropout",
            "dropatt",
            "activation_dropout",
            "word_dropout",
        ):
            value = getattr(self, name)
            if value is None and name == "activation_dropout":
                continue
            if not _is_number(value) or not 0.0 <= value < 1.0:
                raise UserError(
                    f"`{name}` must be a rate in [0, 1), received {value!r}"
                )
        for name in (
            "init_range",
            "init_std",
            "proj_init_std",
            "layer_norm_epsilon",
        ):
            value = getattr(self, name)
            if not _is_number(value) or value <= 0:
                raise UserError(f"`{name}` must be > 0, received {value!r}")

    def _check_clusters(self) -> None:
        for cutoff in self.cutoffs:
            _whole("cutoffs", cutoff, 1)
        ends = [0, *self.cutoffs, self.vocab_size]
        if any(a >= b for a, b in zip(ends, ends[1:], strict=False)):
            raise UserError(
                "`cutoffs` must rise and lie below the vocabulary size "
                f"{self.vocab_size}, received {list(self.cutoffs)}"
            )
        if self.div_val > 1 and not self.cutoffs:
            raise UserError(
                f"`div_val` {self.div_val} needs `cutoffs`: without them "
                "there is one cluster"
            )
        last = self.cluster_width(len(self.cutoffs))
        if last < 1:
            raise UserError(
                f"the last of {len(self.cutoffs) + 1} clusters would have "
                f"embeddings of width {self.embedding_width} // "
                f"{self.div_val}^{len(self.cutoffs)} = 0; take a smaller "
                "`div_val` or fewer `cutoffs`"
            )

    @property
    def embedding_width(self) -> int:
        """E."""
        return self.d_model if self.d_embed is None else self.d_embed

    @property
    def cluster_ends(self) -> tuple[int, ...]:
        """0, the cutoffs, V: cluster i has the ids from [i] to [i + 1] - 1."""
        return (0, *self.cutoffs, self.vocab_size)

    def cluster_width(self, i: int) -> int:
        """E // div_val^i."""
        return self.embedding_width // self.div_val**i

    @property
    def inner_dropout(self) -> float:
        """The rate after the feed-forward activation, None resolved."""
        if self.activation_dropout is None:
            return self.dropout
        return self.activation_dropout

    @property
    def dropout_rates(self) -> tuple[float, ...]:
        """Every rate."""
        rates = (self.dropout, self.dropatt, self.inner_dropout)
        return (*rates, self.word_dropout) if self.word_dropout else rates

    def architecture(self) -> dict[str, Any]:
        """The fields that weights depend on; the others may change."""
        found = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in _CHANGEABLE
        }
        return found | {"d_embed": self.embedding_width}

    def with_memory(self, length: int | None) -> "TransformerXLConfig":
        """A copy that keeps its last `length` inputs."""
        return self.replace(mem_len=length)

    def replace(self, **changes: Any) -> "TransformerXLConfig":
        """A copy with some fields changed."""
        return dataclasses.replace(self, **changes)

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, and `model_type`."""
        found = dataclasses.asdict(self)
        return found | {
            "cutoffs": list(self.cutoffs),
            "model_type": self.model_type,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> "TransformerXLConfig":
        """Reads fields by name; unknown ones go to `extra`.

        Raises:
          UserError: a size is missing or a value invalid.
        """
        value = dict(value)
        value.pop("model_type", None)
        names = {f.name for f in dataclasses.fields(cls)}
        extra = pop_extra(value)
        extra |= {k: v for k, v in value.items() if k not in names}
        known = {k: v for k, v in value.items() if k in names}
        missing = [k for k in _POSITIVE[:-1] if k not in known]
        if missing:
            raise UserError(f"the configuration lacks {missing}")
        if not isinstance(known.get("cutoffs", ()), (list, tuple)):
            raise UserError(
                "`cutoffs` must be a list of ids, received "
                f"{known['cutoffs']!r}"
            )
        return cls(**known, extra=extra)

    def to_json(self) -> str:
        """The content of the configuration file."""
        value = dict(self.extra) | self.to_dict()
        del value["extra"]
        return json.dumps(value, indent=4, sort_keys=True)


def _whole(name: str, value: Any, minimum: int | None) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise UserError(f"`{name}` must be a whole number, received {value!r}")
    if minimum is not None and value < minimum:
        raise UserError(f"`{name}` must be >= {minimum}, received {value}")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
