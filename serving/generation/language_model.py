"""A pretrained model with its tokenizer, ready to be asked."""

import sys
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from common.contract.symbols import CLS_FIRST
from common.errors import UserError
from common.vocabularies import vocabulary
from data.text.opening import AnyTokenizer, open_tokenizer
from modeling import PretrainingModel
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.registry import require, spec_of
from serving.generation.options import ModelOptions

DEFAULT_MEMORY = 512  # slots of embedded segments


class LanguageModel(NamedTuple):
    """What the language-model commands work with; dropout is off."""

    model: PretrainingModel
    tokenizer: AnyTokenizer

    def banned_ids(self) -> np.ndarray:
        """Ids that are never text: control symbols but `<eod>` and `<eop>`."""
        ids = self.tokenizer.symbols.never_written()
        return np.asarray(sorted(ids), np.int32)


def load_tokenizer(options: ModelOptions) -> AnyTokenizer:
    """The vocabulary that was given, or the checkpoint's copy.

    Raises UserError: neither is there, or it is not the vocabulary that the
    checkpoint was trained with.
    """
    path = options.spiece_model_file
    folder = checkpoints.resolve(options.checkpoint).folder
    if not path:
        path = vocabulary.find_or_refuse(folder)
    symbols = vocabulary.read(path)
    settings = vocabulary.settle(symbols, options.text, folder)
    # Standard output is for the results.
    print(f"text: {symbols.describe(settings)}", file=sys.stderr)
    return open_tokenizer(path, settings)


def load_model(
    options: ModelOptions, masked_too: bool = False
) -> LanguageModel:
    """A language model with its head; every weight must be restored.

    Raises UserError: see `modeling.checkpoints.restore.restore`; or the
    vocabulary is of another size than the model.
    """
    tokenizer = load_tokenizer(options)
    config = _config(options, tokenizer)
    masked = spec_of(config.model_type).capabilities.layout == CLS_FIRST
    if not (masked and masked_too):
        require(config, "query_stream", f"--checkpoint={options.checkpoint}")
    model = PretrainingModel(config.with_memory(None))
    checkpoints.restore(model, _weights(options), require="all")
    return LanguageModel(model, tokenizer)


def load_encoder(options: ModelOptions, memory_len: int | None):
    """The backbone alone, of any checkpoint, and the tokenizer.

    `memory_len` is M that segments leave for the next one; 0 = none; None =
    `DEFAULT_MEMORY` where the encoder has memory. Raises UserError: the encoder
    reads no rows with CLS, or has no memory.
    """
    config = checkpoints.find_config(options.checkpoint)
    able = spec_of(config.model_type).capabilities
    if able.layout == "stream":
        raise UserError(
            f"--checkpoint={options.checkpoint}: wanted an encoder of rows "
            f"with CLS, found model_type {config.model_type!r}; the hidden "
            "states of a left-to-right model come from `encode` of its export"
        )
    tokenizer = load_tokenizer(options)
    config = _config(options, tokenizer)
    if memory_len is None:
        memory_len = DEFAULT_MEMORY if able.memory else 0
    if memory_len:
        require(config, "memory", f"--memory_len={memory_len}")
    # A native checkpoint holds a task model: only its encoder is asked for.
    model = PretrainingModel(config.with_memory(memory_len or None))
    checkpoints.restore(model, _weights(options), require="encoder")
    return model.encoder, tokenizer


def _weights(options: ModelOptions) -> checkpoints.Source:
    """The checkpoint that is meant, said where no result goes."""
    source = checkpoints.resolve(
        options.checkpoint, options.checkpoint_choice, options.part
    )
    print(source.line, file=sys.stderr)
    return source


def _config(options: ModelOptions, tokenizer: AnyTokenizer):
    config = checkpoints.find_config(options.checkpoint)
    vocabulary.check_rows(
        tokenizer.path,
        tokenizer.vocab_size,
        config.vocab_size,
        options.checkpoint,
    )
    return config


def mask_logits(logits: tf.Tensor, banned: np.ndarray) -> tf.Tensor:
    """-inf at the banned ids of float32 [..., V]."""
    blocked = np.zeros(logits.shape[-1], bool)
    blocked[banned] = True
    return tf.where(blocked, -np.inf, logits)
