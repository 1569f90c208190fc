"""Where a fine-tuning run finds its architecture, vocabulary and text settings."""

import dataclasses
import os
from collections.abc import Callable

import tensorflow as tf

from common.contract.task_spec import FILE_NAME, TaskSpec
from common.errors import UserError
from common.vocabularies import joined_texts, vocabulary
from common.vocabularies.text_settings import TextChoice, TextSettings
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    DEFAULT,
    changed,
    config_file_in,
    config_file_names,
    read_config,
    spec_of,
)
from training.checkpointing.checkpoints import weights_to_read
from training.finetuning.options import FinetuneOptions


def find_config(
    options: FinetuneOptions, vocab_size: int, spiece: str = ""
) -> EncoderConfig:
    """--model_config_path, or the config beside the weights that are read.

    Released weights may have more rows than the pieces of `spiece`. Raises
    UserError: there is none, it is of another vocabulary, or a flag changes
    what its encoder has not.
    """
    known = _known_config(options)
    if known is None:
        raise UserError(
            "no architecture: give --init_checkpoint, --model_config_path, or "
            f"a --model_dir that holds {config_file_names()}"
        )
    config, source = known
    vocabulary.check_rows(spiece, vocab_size, config.vocab_size, source)
    return changed(config, options.config_changes)


def settle(
    options: FinetuneOptions, spiece: str = ""
) -> tuple[FinetuneOptions, str]:
    """What the encoder decides where the user did not.

    The options with a `summary_type`, and the layout of the encoder's rows
    (XLNet's where no architecture is known yet). Two texts are joined as the
    vocabulary file `spiece` says, "" = as usual.
    """
    known = _known_config(options)
    model_type = known[0].model_type if known else DEFAULT
    able = spec_of(model_type).capabilities
    kind = options.summary_type or able.summary_type
    if options.summary_type is None and known:
        # ModernBERT's file says what its classifier reads.
        if getattr(known[0], "pooling", "cls") == "mean":
            kind = "mean"
    layout = able.layout
    if known and spiece:
        segments = getattr(known[0], "type_vocab_size", None)
        read = vocabulary.read(spiece)
        layout = joined_texts.layout_of(read, layout, segments)
    return dataclasses.replace(options, summary_type=kind), layout


def _known_config(
    options: FinetuneOptions,
) -> tuple[EncoderConfig, str] | None:
    """The architecture and where it was found."""
    run = options.run
    config_file = config_file_in(run.model_dir)
    trained = not options.do_train and read_spec(run.model_dir) is not None
    if options.model_config_path:
        path = options.model_config_path
        return read_config(path), path
    named = _named(options)
    if named and (named.format == "hf" or config_file_in(named.folder)):
        return checkpoints.source_config(named), named.folder
    if trained and not options.predict_ckpt and config_file:
        return read_config(config_file), config_file
    if run.init_checkpoint:
        config = checkpoints.find_config(run.init_checkpoint)
        return config, run.init_checkpoint
    return (read_config(config_file), config_file) if config_file else None


def _named(options: FinetuneOptions) -> checkpoints.Source | None:
    """What --predict_ckpt names, if its model is read: settings are of weights.

    One that is named beside a training is of the same model.
    """
    if options.do_train or not options.predict_ckpt:
        return None
    return checkpoints.resolve(options.predict_ckpt)


def _folders(options: FinetuneOptions) -> list[str]:
    """Folders whose vocabulary and text settings the model has."""
    named = _named(options)
    if named and vocabulary.find(named.folder):
        return [named.folder]
    folders = [options.run.model_dir]
    if options.run.init_checkpoint:
        folders.append(checkpoints.resolve(options.run.init_checkpoint).folder)
    return folders


def read_spec(model_dir: str) -> TaskSpec | None:
    """task.json of an earlier run in `model_dir`, None without one."""
    if not tf.io.gfile.exists(os.path.join(model_dir, FILE_NAME)):
        return None
    return TaskSpec.read(model_dir)


def weights_of(options: FinetuneOptions) -> checkpoints.Source:
    """The weights to evaluate, predict and export with; UserError: none."""
    run = options.run
    if options.predict_ckpt:
        return checkpoints.resolve(options.predict_ckpt, run.checkpoint_choice)
    return weights_to_read(run)


def find_spiece(options: FinetuneOptions, given: str) -> str:
    """--spiece_model_file, or the copy beside the weights that are read.

    Those of --predict_ckpt, else of `model_dir`, else the start's. A released
    folder's `tokenizer.json` or `vocab.txt` counts, too.

    Raises:
      UserError: there is none; or no weights either, which is said first.
    """
    if given:
        return given
    home = options.run.model_dir
    begins = options.do_train and not options.run.init_checkpoint
    if begins and vocabulary.find(home) is None:
        raise UserError(
            f"{home} holds no vocabulary, and nothing to begin with is "
            "given: give --init_checkpoint, a folder with weights and their "
            "vocabulary, or --spiece_model_file to train random weights"
        )
    folders = _folders(options)
    if not options.do_train and vocabulary.find(*folders) is None:
        weights_of(options)
    return vocabulary.find_or_refuse(*folders)


def find_text(
    options: FinetuneOptions,
    spiece: str,
    said: TextChoice,
    say: Callable[[str], None] = print,
) -> TextSettings:
    """The text settings of the vocabulary, checked and said.

    Raises UserError: the folder's or the checkpoint's model is of another
    vocabulary or of other text settings; or the flags differ.
    """
    file = vocabulary.read(spiece)
    settings = vocabulary.settle(file, said, *_folders(options))
    say(f"text         {file.describe(settings)}")
    return settings
