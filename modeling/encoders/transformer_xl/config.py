"""The architecture of a Transformer-XL: one frozen, validated dataclass.

A language model's sizes are in it whole: its softmax is tied to the embedding,
so cutoffs and projections belong to both. What training and evaluation choose
freely (memory, clamping, `same_length`) is no part of the architecture.
"""

import dataclasses
import json
from typing import Any, ClassVar, Self

from common.checks import FIELD, one_of, true_or_false, within
from common.errors import UserError
from modeling.encoders.base_config import RecurrentConfig

FILE_NAME = "transformer_xl_config.json"

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
    "encoding": ("relative", "shaw", "shaw_released", "absolute", "per_layer"),
    "memory_start": ("hidden", "zeros"),
}


@dataclasses.dataclass(frozen=True)
class TransformerXLConfig(RecurrentConfig):
    """What the shapes and the semantics of a model depend on.

    Attributes:
      vocab_size: V.
      d_model: D, even.
      n_layer: L.
      n_head: N.
      d_head: H; N * H need not be D.
      d_inner: F.
      encoding: how positions are known: "relative" (Transformer-XL's own);
        "shaw", "shaw_released" (a learned key per distance, head and layer,
        see `modeling.attention.encodings`); "absolute" (the sinusoid of the
        place is added to the embedding, counted down to 0 for the segment's
        last token, as the PyTorch release does); "per_layer" (a learned
        vector per place is added to the input of every layer, as in Al-Rfou
        et al. 2018; memory keeps these sums).
      max_positions: places, or distances, that are learned; wanted by
        "shaw", "shaw_released" and "per_layer". Of "absolute": the segment
        length it was trained with, or None.
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
    # No weight depends on these.
    changeable: ClassVar[tuple[str, ...]] = (
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
    counts: ClassVar[tuple[str, ...]] = (
        "vocab_size",
        "d_model",
        "n_layer",
        "n_head",
        "d_head",
        "d_inner",
        "d_embed",
        "div_val",
        "max_positions",
    )

    vocab_size: int
    d_model: int
    n_layer: int
    n_head: int
    d_head: int
    d_inner: int
    encoding: str = "relative"
    max_positions: int | None = None
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
        super().__post_init__()
        one_of(self, form=FIELD, **_CHOICES)
        true_or_false(self, *_FLAGS)
        within(self, "[0, 1)", "word_dropout", form=FIELD)
        within(self, "> 0", "proj_init_std", "layer_norm_epsilon", form=FIELD)
        if self.max_positions is None and self.learns_positions:
            raise UserError(
                f"`encoding` {self.encoding!r} needs `max_positions`, how "
                "many places or distances are learned"
            )
        self._check_clusters()

    def _check_clusters(self) -> None:
        if not all(type(cutoff) is int for cutoff in self.cutoffs):
            raise UserError(
                "`cutoffs` must be whole numbers, received "
                f"{list(self.cutoffs)}"
            )
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
    def learns_positions(self) -> bool:
        """Weights belong to places or distances."""
        return self.encoding in ("shaw", "shaw_released", "per_layer")

    @property
    def ignores_empty_memory(self) -> bool:
        """Whether M slots with nothing in them are as no memory at all."""
        return self.memory_start == "hidden" and not self.same_length

    @property
    def bound_to_segment(self) -> bool:
        """Positions are places in a segment, which nothing lies beyond."""
        return self.encoding in ("absolute", "per_layer")

    @property
    def trained_length(self) -> int | None:
        """T of the training, where the file or the places tell it."""
        places = self.max_positions if self.bound_to_segment else None
        return self.extra.get("seq_len") or places

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
    def dropout_rates(self) -> tuple[float, ...]:
        """Every rate."""
        rates = (self.dropout, self.dropatt, self.inner_dropout)
        return (*rates, self.word_dropout) if self.word_dropout else rates

    def architecture(self) -> dict[str, Any]:
        """The fields that weights depend on; the others may change."""
        return super().architecture() | {"d_embed": self.embedding_width}

    def with_memory(self, length: int | None) -> Self:
        """A copy that keeps its last `length` inputs."""
        return self.replace(mem_len=length)

    def to_dict(self) -> dict[str, Any]:
        """Every field by name, and `model_type`."""
        fields = dataclasses.asdict(self)
        return fields | {
            "cutoffs": list(self.cutoffs),
            "model_type": self.model_type,
        }

    @classmethod
    def from_dict(cls, value: dict[str, Any]) -> Self:
        """Reads fields by name; unknown ones go to `extra`.

        Raises:
          UserError: a size is missing or a value invalid.
        """
        value = dict(value)
        value.pop("model_type", None)
        if not isinstance(value.get("cutoffs", ()), (list, tuple)):
            raise UserError(
                "`cutoffs` must be a list of ids, received "
                f"{value['cutoffs']!r}"
            )
        return cls._of_fields(value, {})

    def to_json(self) -> str:
        """The content of the configuration file."""
        value = dict(self.extra) | self.to_dict()
        del value["extra"]
        return json.dumps(value, indent=4, sort_keys=True)
