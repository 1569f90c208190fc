"""BERT and ALBERT: ids and masks in, hidden states out."""

import tensorflow as tf

from modeling.attention import plain
from modeling.encoders.base import EncoderOutput
from modeling.encoders.bert.config import BertConfig
from modeling.encoders.bert.embeddings import BertEmbeddings
from modeling.encoders.bert.layer import BertLayer
from modeling.encoders.registry import config_from_dict
from modeling.encoders.stack import Stack
from modeling.ops import initializers, saving, tied


class BertModel(Stack):
    """A stack of post-LN layers; ALBERT applies the same ones again.

    Args:
      config: `BertConfig` or `AlbertConfig`, or its `to_dict()`.
      recompute: see `modeling.ops.rematerialization`; per application.

    Call arguments:
      input_ids: int [B, T].
      segment_ids: int [B, T], below `type_vocab_size`; None = 0.
      input_mask: [B, T], 1 = real token; None = all.
      positions: int [B, T]; None = 0..T-1.
      documents: int [B, T], of packed rows: tokens see their document only.
      seed: int [2], needed for dropout.
      output_hidden_states: also return [B, T, E] after the embeddings and
        [B, T, D] after each of the L layers (ALBERT: after its group).
      tied_head: in training, also return the `tables` that a tied head takes.
    """

    def __init__(
        self, config: BertConfig | dict, recompute: str = "none", **kwargs
    ):
        config = config_from_dict(config)
        super().__init__(config, recompute, **kwargs)
        self.scope = f"model/{config.model_type}/"
        self.embeddings = BertEmbeddings(
            config, name="embeddings", dtype=self.dtype_policy
        )
        self.mapping = None
        if config.shared_layers:
            self.mapping = saving.Dense(
                config.d_model,
                kernel_initializer=initializers.fresh(
                    initializers.from_config(config)
                ),
                name="embedding_mapping",
                dtype=self.dtype_policy,
            )
        # Groups of layers: [G][inner].
        self.groups = [
            [
                BertLayer(
                    config,
                    name=f"group_{g}_inner_{k}",
                    dtype=self.dtype_policy,
                )
                for k in range(config.inner_layers)
            ]
            for g in range(config.layer_groups)
        ]
        parts = [
            (layer, config.d_model) for group in self.groups for layer in group
        ]
        if self.mapping is not None:
            parts.insert(0, (self.mapping, config.d_embedding))
        self.build_variables(*parts)

    def applied_layers(self) -> list[BertLayer]:
        """The layers in the order in which they run; shared ones repeat."""
        config = self.config
        layers = []
        # Rounded as in Hugging Face's class: with 18 layers in 14 groups layer
        # 9 has group 6, where 9 * 14 / 18 is 7.
        layers_per_group = config.n_layer / config.layer_groups
        for i in range(config.n_layer):
            layers += self.groups[int(i / layers_per_group)]
        return layers

    def call(
        self,
        input_ids,
        segment_ids=None,
        input_mask=None,
        positions=None,
        documents=None,
        training=False,
        seed=None,
        output_hidden_states=False,
        tied_head=False,
    ):
        """Runs the encoder, see the class; returns `EncoderOutput`."""
        config = self.config
        context = self.begin(training, seed, packed=documents is not None)
        input_ids = tf.convert_to_tensor(input_ids)
        _check_length(input_ids, config.max_position_embeddings)
        reader = tied.Reader(training and tied_head)
        h = self.embeddings(
            input_ids,
            segment_ids,
            positions,
            self.outer_seed(context),
            reader,
        )  # [B, T, E]
        embedded = h
        if self.mapping is not None:
            h = self.mapping(h)  # [B, T, D]
        mask = plain.mask_of(input_mask, documents)

        def applied(layer):
            return lambda rows, _, context: (layer(*rows, mask, context),)

        rows = self.run(
            [applied(layer) for layer in self.applied_layers()], (h,), context
        )
        # A group of several layers is one of the L.
        outputs = rows.outputs[config.inner_layers - 1 :: config.inner_layers]
        return EncoderOutput(
            rows.streams[0],
            hidden_states=(embedded, *outputs)
            if output_hidden_states
            else None,
            tables=reader.tables,
        )

    def scoped_layers(self) -> list[tuple[str, str]]:
        """See `Stack`; a shared layer once."""
        form = "group_{}/inner_{}" if self.config.shared_layers else "layer_{}"
        return [
            (form.format(g, k), f"groups/{g}/{k}")
            for g, group in enumerate(self.groups)
            for k in range(len(group))
        ]

    def variable_paths(self) -> dict[str, str]:
        paths = super().variable_paths()
        if self.mapping is not None:
            for name in ("kernel", "bias"):
                paths[f"embedding_mapping/{name}"] = f"mapping/{name}"
        return paths


def _check_length(input_ids, longest: int) -> None:
    """A row that is too long would get no position, or another's."""
    length = input_ids.shape[1]
    if length is not None and length > longest:
        raise ValueError(
            f"rows have {length} tokens, but `max_position_embeddings` is "
            f"{longest}"
        )
