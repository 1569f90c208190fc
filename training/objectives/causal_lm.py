"""Left-to-right language modelling with memory (Transformer-XL, section 3)."""

import tensorflow as tf
import tf_keras

from modeling.encoders.contract import EncoderConfig
from modeling.heads.causal_lm import CausalLanguageModel
from training.objectives.contract import LossOutput, Memory
from training.objectives.language_model import LanguageModelObjective


class CausalLMObjective(LanguageModelObjective):
    """Batches are `input_ids`, `target_ids`, `target_weights` [B, T] and
    `reset_memory` [B]. `half_loss` trains on the later half of every segment
    only, the last ceil(T / 2) positions (the ablation of Table 5).
    """

    name = "language_model"
    pads_left = False
    shown_metrics = {"perplexity": "ppl"}

    def __init__(
        self,
        config: EncoderConfig,
        loss_chunk_size: int | None = None,
        recompute_layers: bool = False,
        half_loss: bool = False,
        **model_options,
    ):
        super().__init__(loss_chunk_size)
        self.config = config
        self.recompute_layers = recompute_layers
        self.half_loss = half_loss
        self.model_options = model_options
        self.memory_len = config.mem_len or 0

    def build_model(self) -> tf_keras.Model:
        """A `CausalLanguageModel`, all variables made."""
        return CausalLanguageModel(
            self.config, recompute=self.recompute_method(), **self.model_options
        )

    def loss(self, model, batch, memory, training, seed):
        """Sums over the tokens of the batch; perplexity is exp(loss)."""
        weights = tf.cast(batch["target_weights"], tf.float32)  # [B, T]
        if training and self.half_loss:
            weights *= later_half(weights)
        ids, how = batch["input_ids"], {"training": training, "seed": seed}
        if memory:
            output = model.read_on(ids, *memory, **how)
        else:
            output = model(ids, **how)
        losses = model.token_losses(
            output.sequence_output,
            batch["target_ids"],
            self.loss_chunk_size,
            output.tables,
        )  # [B, T]
        total, count = tf.reduce_sum(losses * weights), tf.reduce_sum(weights)
        new_memory = ()
        if self.memory_len:
            new_memory = Memory(output.new_memory, output.new_memory_length)
        return LossOutput(
            total, count, {"lm_loss": (total, count)}, {}, new_memory
        )


def later_half(weights: tf.Tensor) -> tf.Tensor:
    """float32 [1, T], 1 for the last ceil(T / 2) of the T columns."""
    length = tf.shape(weights)[1]
    late = tf.range(length) >= length // 2
    return tf.cast(late, tf.float32)[tf.newaxis]
