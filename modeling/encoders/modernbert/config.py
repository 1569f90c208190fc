"""The architecture of a ModernBERT: one frozen, validated dataclass.

Sizes of `base` and `large` are those of Warner et al. 2024.
"""

import dataclasses
from typing import Any, ClassVar, Self

from common.checks import FIELD, one_of, within
from common.errors import UserError
from common.settings import setting
from modeling.encoders.base_config import ACTIVATIONS, FileConfig

POOLINGS = ("cls", "mean")
_LAYER_TYPES = ("full_attention", "sliding_attention")


@dataclasses.dataclass(frozen=True)
class ModernBertConfig(FileConfig):
    """What the shapes and the semantics of a ModernBERT depend on.

    D is a multiple of N with an even head size; the first matrix of the
    feed-forward is 2 F wide, and its activation is of the first half. First
    weights of deviation `init_std` are cut at two deviations; those of output
    projections have `init_std` / sqrt(2 L).
    """

    model_type: ClassVar[str] = "modernbert"
    keys: ClassVar[dict[str, str]] = {
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "d_inner",
        "hidden_activation": "ff_activation",
        "global_attn_every_n_layers": "global_every",
        "local_attention": "local_window",
        "global_rope_theta": "global_theta",
        "local_rope_theta": "local_theta",
        "max_position_embeddings": "max_position_embeddings",
        "norm_eps": "norm_eps",
        "classifier_pooling": "pooling",
        "classifier_activation": "head_activation",
        "embedding_dropout": "dropout",
        "mlp_dropout": "mlp_dropout",
        "attention_dropout": "dropatt",
        "classifier_dropout": "classifier_dropout",
        "initializer_range": "init_std",
    }
    init_method: ClassVar[str] = "truncated_normal"
    # No weight's shape depends on these: a warm start may read longer rows.
    extendable: ClassVar[tuple[str, ...]] = (
        "global_theta",
        "max_position_embeddings",
    )

    global_every: int = setting(
        3,
        "modernbert: g; layers 0, g, 2g, ... attend globally, the others "
        "locally.",
    )
    local_window: int = setting(
        128,
        "modernbert: W, keys that a local layer sees, floor(W / 2) to each "
        "side.",
    )
    global_theta: float = setting(
        160_000.0, "modernbert: RoPE theta of global layers."
    )
    local_theta: float = 10_000.0  # of the positions of local layers
    max_position_embeddings: int = 8192  # longest row
    norm_eps: float = 1e-5  # of every LayerNorm
    pooling: str = "cls"  # what a classifier reads, "cls" or "mean"
    # of the layer before decoder or classifier
    head_activation: str = "gelu_erf"
    dropout: float = 0.0  # rate in [0, 1) of the embeddings
    # rate on the attention's probabilities and output projection
    dropatt: float = 0.0
    # rate before the second matrix of the feed-forward
    mlp_dropout: float = 0.0
    classifier_dropout: float = 0.0  # rate before a classifier

    def __post_init__(self):
        super().__post_init__()
        one_of(
            self,
            form=FIELD,
            ff_activation=ACTIVATIONS,
            head_activation=ACTIVATIONS,
            pooling=POOLINGS,
        )
        within(self, ">= 2", "local_window", form=FIELD)
        within(
            self,
            "> 0",
            "norm_eps",
            "global_theta",
            "local_theta",
            form=FIELD,
        )
        if self.d_model % (2 * self.n_head):
            raise UserError(
                "`d_model` must be a multiple of 2 * `n_head` (rotary halves), "
                f"received {self.d_model} and {self.n_head}"
            )
        for name in ("attention_bias", "mlp_bias", "norm_bias"):
            if self.extra.get(name):
                raise UserError(
                    f"`{name}` must be false: only the decoder has a bias"
                )
        if self.extra.get("decoder_bias", True) is not True:
            raise UserError("`decoder_bias` must be true")
        if self.extra.get("classifier_bias"):
            raise UserError("`classifier_bias` must be false")
        # Derived, and written; a copy with other layers must not keep them.
        layer_types = self.extra.pop("layer_types", None)
        if layer_types is not None and not self._has_types(layer_types):
            raise UserError(
                f"`layer_types` must be global every {self.global_every} "
                f"layers, received {layer_types}"
            )

    def _has_types(self, layer_types: Any) -> bool:
        # A file may ask for more layers than a list can hold.
        whole = isinstance(layer_types, list)
        whole = whole and len(layer_types) == self.n_layer
        return whole and layer_types == self._layer_types()

    def _layer_types(self) -> list[str]:
        return [
            _LAYER_TYPES[0] if self.is_global(i) else _LAYER_TYPES[1]
            for i in range(self.n_layer)
        ]

    def is_global(self, layer: int) -> bool:
        """Whether a layer (from 0) sees the whole row."""
        return layer % self.global_every == 0

    @property
    def half_window(self) -> int:
        """Keys that a local layer sees to each side."""
        return self.local_window // 2

    @property
    def head_dropout(self) -> float:
        """The rate before a classifier."""
        return self.classifier_dropout

    @classmethod
    def _translated(cls, value):
        """Recent files have `rope_parameters` and may have `layer_types` only."""
        _check_positions(value)
        _check_window(value)
        kinds = value.get("layer_types")
        if isinstance(kinds, list) and "global_every" not in value:
            step = len(kinds)
            if _LAYER_TYPES[0] in kinds[1:]:
                step = kinds.index(_LAYER_TYPES[0], 1)
            value.setdefault("global_attn_every_n_layers", step)
        rope = value.pop("rope_parameters", None)
        if rope is None:
            return value
        for kind, name in zip(
            _LAYER_TYPES, ("global_theta", "local_theta"), strict=True
        ):
            if "rope_theta" in rope.get(kind, {}):
                value[name] = rope[kind]["rope_theta"]
        return value

    def _untranslated(self, value):
        """Both forms: recent readers take `rope_parameters`, older the keys."""
        thetas = (self.global_theta, self.local_theta)
        value["rope_parameters"] = {
            kind: {"rope_theta": theta, "rope_type": "default"}
            for kind, theta in zip(_LAYER_TYPES, thetas, strict=True)
        }
        value["layer_types"] = self._layer_types()
        return value

    @classmethod
    def base(cls, vocab_size: int = 50368, **kwargs: Any) -> Self:
        """ModernBERT-Base: 22 layers, D 768, 12 heads, F 1,152."""
        return cls._of_sizes(kwargs, vocab_size, 768, 22, 12, 1152)

    @classmethod
    def large(cls, vocab_size: int = 50368, **kwargs: Any) -> Self:
        """ModernBERT-Large: 28 layers, D 1024, 16 heads, F 2,624."""
        return cls._of_sizes(kwargs, vocab_size, 1024, 28, 16, 2624)


def _check_window(value: dict[str, Any]) -> None:
    """Theirs lets `sliding_window`, keys to one side, win over the other key."""
    half = value.get("sliding_window")
    whole = value.get("local_attention", value.get("local_window", 128))
    if half is not None and (not isinstance(whole, int) or half != whole // 2):
        raise UserError(
            f"`sliding_window` must be half of `local_attention` {whole!r}, "
            f"received {half!r}: keep one of them"
        )


def _check_positions(value: dict[str, Any]) -> None:
    """Refuses what would give other positions than the weights know."""
    scaling = value.get("rope_scaling")
    if scaling is not None and _rope_type(scaling) != "default":
        raise UserError(
            f"`rope_scaling` must be null, received {scaling!r}: rotary "
            "positions are not scaled here; take a model without it"
        )
    rope = value.get("rope_parameters")
    if rope is None:
        return
    if (
        not isinstance(rope, dict)
        or set(rope) - set(_LAYER_TYPES)
        or not all(isinstance(settings, dict) for settings in rope.values())
    ):
        raise UserError(
            "`rope_parameters` must hold an object for each of "
            f"{list(_LAYER_TYPES)}, received {rope!r}"
        )
    for kind, settings in rope.items():
        if _rope_type(settings) not in (None, "default"):
            raise UserError(
                f"`rope_parameters` {kind}: rope_type must be 'default', "
                f"received {_rope_type(settings)!r}"
            )


def _rope_type(settings: Any) -> Any:
    """The kind of rotary positions; older files call it `type`."""
    if not isinstance(settings, dict):
        return None
    return settings.get("rope_type", settings.get("type"))
