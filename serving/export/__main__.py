"""Exports a model directory.

    python -m serving.export --model_dir=DIR [--task=lm] [--output_dir=DIR]
    python -m serving.export --model_dir=DIR --task=embedding [--pooling=mean]

A fine-tuned directory says in `task.json` what it is; a pretraining run has
none: give --task=lm (and --spiece_model_file where no copy lies there). Any
encoder gives vectors of texts: --task=embedding.
"""

from __future__ import annotations

import dataclasses
import os
from typing import TYPE_CHECKING

from common import files
from common.checks import require
from common.contract import task_spec
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.heads import CLASSIFIERS
from common.vocabularies import text_settings, vocabulary
from common.weights import hub
from flags import app, flag_values
from serving.options import EMBEDDING, LANGUAGE_MODEL, ExportOptions

if TYPE_CHECKING:
    from modeling.checkpoints.restore import Source
    from modeling.encoders.contract import EncoderConfig

_PRETRAINING = "pretraining"  # head of language models with a mask
_LENGTH = 512  # rows of language models, where nothing else is said


def main() -> None:
    """The command."""
    options = flag_values.build(ExportOptions)
    # These load TensorFlow: flags are read and checked before.
    from modeling.checkpoints import restore, weights
    from serving.generation.causal import is_causal

    options = dataclasses.replace(
        options,
        checkpoint=options.checkpoint or options.model_dir,
        model_dir=weights.home_of(options.model_dir),
    )
    output_dir = options.output_dir or os.path.join(options.model_dir, "export")
    require(
        options.output_dir or not hub.origin(options.model_dir),
        "--output_dir is needed: the folder of --model_dir is in the cache "
        "of the hub",
    )
    source = restore.resolve(options.checkpoint, options.checkpoint_choice)
    files.check_output(os.path.join(output_dir, "1"))
    if options.task in LANGUAGE_MODEL and is_causal(source.path):
        head, path = "language_model", _export_causal(output_dir, options)
    elif options.task == EMBEDDING:
        from serving.export.embedding import export_embedding

        head, path = EMBEDDING, export_embedding(output_dir, options, source)
    else:
        head, path = _export_head(output_dir, options, source)
    print(f"exported {head} to {path}")


def _export_causal(output_dir: str, options: ExportOptions) -> str:
    """The version folder of a left-to-right language model."""
    from serving.export.causal import export_causal
    from serving.generation.causal import load_causal
    from serving.generation.options import ModelOptions

    require(
        not options.max_seq_length,
        f"--max_seq_length={options.max_seq_length}: {options.checkpoint} is a "
        "left-to-right model, whose export reads segments of any length; leave "
        "it out",
    )
    lm = load_causal(
        ModelOptions(
            options.checkpoint,
            options.spiece_model_file,
            options.text,
            options.checkpoint_choice,
        )
    )
    return export_causal(output_dir, lm, options.model_name, options.check)


def _export_head(
    output_dir: str, options: ExportOptions, source: Source
) -> tuple[str, str]:
    """(head, version folder) of a fine-tuned or a permutation model."""
    from modeling.checkpoints import restore
    from modeling.encoders.registry import spec_of
    from modeling.heads import table
    from serving.export.exporter import export_restored
    from training.objectives.build import build_objective

    config = restore.source_config(source)
    if spec_of(config.model_type).capabilities.layout == "stream":
        raise UserError(
            f"{source.path} is a left-to-right language model, received "
            f"--task={options.task or 'none'}: give --task=lm"
        )
    spiece = options.spiece_model_file or vocabulary.find_or_refuse(
        options.model_dir
    )
    spec = _read_spec(options, spiece, source, config)

    def build():
        if spec.head == _PRETRAINING:  # whatever objective trained it
            memory = getattr(config, "mem_len", None)
            return table.build(spec.head, config.with_memory(memory), {})
        return build_objective(
            spec.head,
            config,
            segments=spec.data_options.get("segment_recurrence", 0),
            segment_len=spec.max_seq_length,
            **spec.head_options,
        ).build_model()

    return spec.head, export_restored(
        output_dir, build, spec, spiece, source, options
    )


def _read_spec(
    options: ExportOptions, spiece: str, source: Source, config: EncoderConfig
) -> TaskSpec:
    if options.task in LANGUAGE_MODEL:
        return _language_model_spec(options, spiece, source, config)
    from data.finetuning import thresholds
    from modeling.checkpoints import weights
    from training.finetuning import preflight

    path = os.path.join(options.model_dir, task_spec.FILE_NAME)
    if not task_spec.find_folder(options.model_dir):
        raise UserError(
            f"{path} does not exist: give the --model_dir of a fine-tuning "
            "run; or, for weights that were only pretrained, --task=embedding "
            "or --task=lm"
        )
    spec = TaskSpec.read(options.model_dir)
    if options.task and options.task not in (spec.task_name, spec.head):
        raise UserError(
            f"--task={options.task}, but {path} says {spec.task_name} with the "
            f"head {spec.head}: leave --task out or give another --model_dir"
        )
    text_settings.resolve(options.text, spec.text, path)
    if options.num_texts:
        spec = _of_texts(spec, options.num_texts, path)
        preflight.check_segments(spec, config)
    if options.max_seq_length:
        spec = dataclasses.replace(spec, max_seq_length=options.max_seq_length)
    name = weights.name_in(options.model_dir, source.path)
    spec_thresholds, lines = thresholds.for_weights(spec, name)
    for line in lines:
        print(line)
    return thresholds.replace(spec, spec_thresholds)


def _of_texts(spec: TaskSpec, count: int, path: str) -> TaskSpec:
    """The task with rows of so many texts, where its folder does not say it."""
    data = spec.data_options
    trained = int(data.get("num_texts", 1))
    known = not data.get("released") or "num_texts" in data
    if spec.head not in CLASSIFIERS or (known and count != trained):
        raise UserError(
            f"--num_texts={count}: wanted a classifier that another program "
            f"fine-tuned, {path} says {spec.head} of {trained} texts; leave "
            "it out"
        )
    return dataclasses.replace(spec, data_options=data | {"num_texts": count})


def _language_model_spec(
    options: ExportOptions, spiece: str, source: Source, config: EncoderConfig
) -> TaskSpec:
    symbols = vocabulary.read(spiece)
    text = vocabulary.settle(
        symbols, options.text, options.model_dir, source.folder
    )
    print(f"text: {symbols.describe(text)}")
    return TaskSpec(
        task_name="lm",
        head=_PRETRAINING,
        labels=(),
        max_seq_length=options.max_seq_length
        or min(_LENGTH, getattr(config, "max_position_embeddings", _LENGTH)),
        text=text,
        spiece_sha256=symbols.sha256,
    )


if __name__ == "__main__":
    flag_values.define(ExportOptions)
    app.run(main)
