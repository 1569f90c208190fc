"""The architecture of a Transformer-XL: one frozen, validated dataclass.

A language model's sizes are in it whole: its softmax is tied to the embedding,
so cutoffs and projections belong to both. What training and evaluation choose
freely (memory, clamping, `same_length`) is no part of the architecture.
"""

import dataclasses
import json
from typing import Any, ClassVar, Self

from common.checks import FIELD, true_or_false, within
from common.errors import UserError
from common.settings import setting
from modeling.encoders.base_config import RecurrentConfig

FILE_NAME = "transformer_xl_config.json"

_FLAGS = (
    "untie_r",
    "same_length",
    "proj_share_all_but_first",
    "proj_same_dim",
    "variational_dropout",
)


@dataclasses.dataclass(frozen=True)
class TransformerXLConfig(RecurrentConfig):
    """What the shapes and the semantics of a model depend on.

    Attributes:
      encoding: "relative" (Transformer-XL's own); "shaw", "shaw_released" (a
        learned key per distance, head and layer, see
        `modeling.attention.encodings`); "absolute" (the sinusoid of the place
        is added to the embedding, counted down to 0 for the segment's last
        token, as the PyTorch release does); "per_layer" (a learned vector per
        place is added to the input of every layer, as in Al-Rfou et al. 2018;
        memory keeps these sums).
      max_positions: wanted by "shaw", "shaw_released" and "per_layer". Of
        "absolute": the segment length it was trained with, or None.
      ff_activation: of files also "gelu_erf", the exact form.
      layer_norm_epsilon: added to the variance; weights are of their own
        (1e-12, TensorFlow's release; 1e-5, PyTorch's).

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

    encoding: str = setting(
        "relative",
        "How positions are known: Transformer-XL's own; Shaw's as its paper "
        "describes it, or as its PyTorch release has it; the sinusoid added to "
        "the embedding; a learned vector per place and layer (Al-Rfou).",
        choices=("relative", "shaw", "shaw_released", "absolute", "per_layer"),
    )
    max_positions: int | None = setting(
        None,
        "Places, or distances, that other encodings learn; by default what a "
        "training segment and its memory hold.",
    )
    d_embed: int | None = setting(
        None, "E, width of the embedding; by default --d_model."
    )
    cutoffs: tuple[int, ...] = setting(
        (),
        "First ids of the tail clusters, rising, comma-separated; '' = one "
        "softmax.",
    )
    div_val: int = setting(
        1, "Cluster i has embeddings of width E // div_val^i."
    )
    proj_share_all_but_first: bool = setting(
        False,
        "The softmax of tail clusters takes the embedding's projections; else "
        "each has its own.",
    )
    proj_same_dim: bool = setting(
        True, "With --div_val, project also where a cluster has width D."
    )
    ff_activation: str = setting(
        "relu",
        "Activation of the feed-forward layer, the original's by default.",
        choices=("relu", "gelu"),
    )
    untie_r: bool = setting(
        False, "Every layer has its own u and v; else one pair is shared."
    )
    same_length: bool = setting(
        False, "Every position sees equally many keys, M + 1."
    )
    mem_len: int | None = setting(
        None,
        "M, inputs of each layer kept for the next segment; 0 = none; by "
        "default --seq_len, with --encoding=absolute and per_layer 0.",
    )
    memory_start: str = setting(
        "hidden",
        "What a row sees where its text starts: hidden = its own segment only; "
        "zeros = M zero vectors, which attention sees, as in the original.",
        choices=("hidden", "zeros"),
    )
    activation_dropout: float | None = setting(
        None,
        "Dropout rate after the feed-forward activation; by default as "
        "`dropout`.",
    )
    variational_dropout: bool = setting(
        False,
        "All positions of a segment have one dropout mask per text at every "
        "site but attention's (Gal and Ghahramani 2016).",
    )
    word_dropout: float = setting(
        0.0,
        "Rate at which words lose their embedding, all occurrences in a batch "
        "together; the softmax keeps it.",
    )
    proj_init_std: float = setting(
        0.01, "Deviation of the projections' normal first weights."
    )
    layer_norm_epsilon: float = 1e-12

    def __post_init__(self):
        object.__setattr__(self, "cutoffs", tuple(self.cutoffs))
        super().__post_init__()
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
    def sees_only_itself(self) -> bool:
        """Whether the M + 1 keys of every position are its own alone."""
        return self.same_length and not self.mem_len

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

        Raises UserError: a size is missing or a value invalid.
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
