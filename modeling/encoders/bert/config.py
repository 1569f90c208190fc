"""The architecture of BERT and of ALBERT: two frozen, validated dataclasses.

One implementation serves both; `flags.recipes` has the sizes that were
released.
"""

import dataclasses
from typing import Any, ClassVar, Self

from common.checks import FIELD, one_of, within
from common.errors import UserError
from common.settings import setting
from modeling.encoders.base_config import ACTIVATIONS, FileConfig


@dataclasses.dataclass(frozen=True)
class BertConfig(FileConfig):
    """What the shapes and the semantics of a BERT depend on."""

    model_type: ClassVar[str] = "bert"
    keys: ClassVar[dict[str, str]] = {
        "vocab_size": "vocab_size",
        "hidden_size": "d_model",
        "num_hidden_layers": "n_layer",
        "num_attention_heads": "n_head",
        "intermediate_size": "d_inner",
        "hidden_act": "ff_activation",
        "max_position_embeddings": "max_position_embeddings",
        "type_vocab_size": "type_vocab_size",
        "layer_norm_eps": "layer_norm_eps",
        "hidden_dropout_prob": "dropout",
        "attention_probs_dropout_prob": "dropatt",
        "classifier_dropout": "classifier_dropout",
        "initializer_range": "init_std",
    }
    init_method: ClassVar[str] = "normal"
    # ALBERT's share their weights.
    shared_layers: ClassVar[bool] = False

    max_position_embeddings: int = setting(
        512, "bert, albert, modernbert: longest row."
    )
    type_vocab_size: int = 2  # number of segments that a row can tell apart
    layer_norm_eps: float = 1e-12
    dropout: float = 0.1  # rate in [0, 1) of embeddings and sublayer outputs
    dropatt: float = 0.1
    # rate before a classifier; None = `dropout`
    classifier_dropout: float | None = None

    def __post_init__(self):
        super().__post_init__()
        one_of(self, form=FIELD, ff_activation=ACTIVATIONS)
        within(self, "> 0", "layer_norm_eps", form=FIELD)
        if self.d_model % self.n_head:
            raise UserError(
                f"`d_model` must be a multiple of `n_head`, received "
                f"{self.d_model} and {self.n_head}"
            )
        kind = self.extra.get("position_embedding_type", "absolute")
        if kind != "absolute":
            raise UserError(
                "`position_embedding_type` must be 'absolute', received "
                f"{kind!r}"
            )
        for name in ("is_decoder", "add_cross_attention"):
            if self.extra.get(name):
                raise UserError(f"`{name}` must be false: this is an encoder")

    @property
    def d_embedding(self) -> int:
        """E, width of the embeddings."""
        return self.d_model

    @property
    def layer_groups(self) -> int:
        """G, groups of layers with weights of their own."""
        return self.n_layer

    @property
    def inner_layers(self) -> int:
        """Layers of a group, which all run for one of the L."""
        return 1

    @property
    def head_dropout(self) -> float:
        """The rate before a classifier, None resolved."""
        if self.classifier_dropout is None:
            return self.dropout
        return self.classifier_dropout

    @classmethod
    def base(cls, vocab_size: int = 30522, **kwargs: Any) -> Self:
        """BERT-Base: 12 layers, D 768, 12 heads, F 3072."""
        return cls._of_sizes(kwargs, vocab_size, 768, 12, 12, 3072)

    @classmethod
    def large(cls, vocab_size: int = 30522, **kwargs: Any) -> Self:
        """BERT-Large: 24 layers, D 1024, 16 heads, F 4096."""
        return cls._of_sizes(kwargs, vocab_size, 1024, 24, 16, 4096)


@dataclasses.dataclass(frozen=True)
class AlbertConfig(BertConfig):
    """BERT with narrow embeddings and layers that share their weights."""

    model_type: ClassVar[str] = "albert"
    keys: ClassVar[dict[str, str]] = {
        **{k: v for k, v in BertConfig.keys.items() if "classifier" not in k},
        "classifier_dropout_prob": "classifier_dropout",
        "embedding_size": "embedding_size",
        "num_hidden_groups": "num_groups",
        "inner_group_num": "inner_group_num",
    }
    shared_layers: ClassVar[bool] = True

    ff_activation: str = "gelu"
    dropout: float = 0.0
    dropatt: float = 0.0
    classifier_dropout: float | None = 0.1
    embedding_size: int = setting(128, "albert: E, width of the embeddings.")
    num_groups: int = setting(
        1,
        "albert: G, groups of layers with their own weights; layer i has those "
        "of group floor(i / (L / G)).",
    )
    # layers of a group, which all run for one of the L
    inner_group_num: int = 1

    def __post_init__(self):
        super().__post_init__()
        if self.num_groups > self.n_layer:
            raise UserError(
                f"`num_groups` must be at most `n_layer`, received "
                f"{self.num_groups} and {self.n_layer}"
            )

    @property
    def d_embedding(self) -> int:
        """E, width of the embeddings."""
        return self.embedding_size

    @property
    def layer_groups(self) -> int:
        """G, groups of layers with weights of their own."""
        return self.num_groups

    @property
    def inner_layers(self) -> int:
        """Layers of a group, which all run for one of the L."""
        return self.inner_group_num
