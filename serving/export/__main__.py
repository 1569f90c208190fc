"""Exports a model directory.

    python -m serving.export --model_dir=DIR [--task=lm] [--output_dir=DIR]
    python -m serving.export --model_dir=DIR --task=embedding [--pooling=mean]

A fine-tuned directory says in `task.json` what it is; a pretraining run has
none: give --task=lm (and --spiece_model_file where no copy lies there). Any
encoder gives vectors of texts: --task=embedding.
"""

import dataclasses
import os

from common import files, hub, text_settings, vocabulary
from common.errors import UserError
from data import task_spec
from data.finetuning import thresholds
from data.task_spec import TaskSpec
from flags import app, export_flags
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import weights
from modeling.encoders.contract import EncoderConfig
from modeling.half_precision import in_bfloat16
from serving.export import export_model
from serving.export.causal import export_causal
from serving.export.embedding import HEAD as EMBEDDING
from serving.export.embedding import export_embedding
from serving.generation.causal import is_causal, load_causal
from serving.generation.options import ModelOptions
from serving.options import ExportOptions
from training.objectives.build import build_objective
from training.objectives.contract import Objective

LANGUAGE_MODEL = ("lm", "pretraining")
_LENGTH = 512  # rows of language models, where nothing else is said


def main() -> None:
    """The command."""
    options = export_flags.from_flags()
    options = dataclasses.replace(
        options,
        checkpoint=options.checkpoint or options.model_dir,
        model_dir=weights.home_of(options.model_dir),
    )
    source = checkpoints.resolve(options.checkpoint, options.checkpoint_choice)
    output_dir = options.output_dir or os.path.join(options.model_dir, "export")
    if not options.output_dir and hub.origin(options.model_dir):
        raise UserError(
            "--output_dir is needed: the folder of --model_dir is in the cache "
            "of the hub"
        )
    if options.task in LANGUAGE_MODEL and options.precision != "float32":
        raise UserError(
            "--precision is for fine-tuned models: leave it out, a language "
            "model is exported in float32"
        )
    if options.task in LANGUAGE_MODEL and is_causal(source.path):
        lm = load_causal(
            ModelOptions(
                options.checkpoint,
                options.spiece_model_file,
                checkpoint_choice=options.checkpoint_choice,
            )
        )
        path = export_causal(output_dir, lm, options.model_name, options.check)
        print(f"exported language_model to {path}")
        return
    if options.pooling and options.task != EMBEDDING:
        raise UserError(
            f"--pooling={options.pooling} is for --task={EMBEDDING}"
        )
    if options.task == EMBEDDING:
        path = export_embedding(output_dir, options, source)
        print(f"exported {EMBEDDING} to {path}")
        return
    spiece = options.spiece_model_file or vocabulary.find_or_refuse(
        options.model_dir
    )
    config = checkpoints.source_config(source)
    spec = _read_spec(options, spiece, source, config)
    files.check_output(os.path.join(output_dir, "1"))
    build = _build_objective(spec, config).build_model
    model = build()
    print(checkpoints.restore(model, source, require="all"))
    print(source.line)
    if options.precision != "float32":
        model = in_bfloat16(build, model)
    path = export_model(
        output_dir,
        model,
        spec,
        spiece,
        options.model_name,
        options.check,
        checkpoints.description(source),
    )
    print(f"exported {spec.head} to {path}")


def _build_objective(spec: TaskSpec, config: EncoderConfig) -> Objective:
    return build_objective(
        spec.head,
        config,
        segments=spec.data_options.get("segment_recurrence", 0),
        segment_len=spec.max_seq_length,
        **spec.head_options,
    )


def _read_spec(
    options: ExportOptions,
    spiece: str,
    source: checkpoints.Source,
    config: EncoderConfig,
) -> TaskSpec:
    if options.task in LANGUAGE_MODEL:
        found = vocabulary.read(spiece)
        text = vocabulary.settle(
            found, options.text, options.model_dir, source.folder
        )
        print(f"text: {found.describe(text)}")
        spec = TaskSpec(
            task_name="lm",
            head="pretraining",
            labels=(),
            max_seq_length=options.max_seq_length
            or min(
                _LENGTH, getattr(config, "max_position_embeddings", _LENGTH)
            ),
            text=text,
            spiece_sha256=found.sha256,
        )
        return spec
    path = os.path.join(options.model_dir, task_spec.FILE_NAME)
    if not task_spec.find_folder(options.model_dir):
        raise UserError(
            f"{path} does not exist: give the --model_dir of a fine-tuning "
            "run, or --task=lm for one of run_pretrain.py"
        )
    spec = TaskSpec.read(options.model_dir)
    if options.task and options.task not in (spec.task_name, spec.head):
        raise UserError(
            f"--task={options.task}, but {path} says {spec.task_name} with the "
            f"head {spec.head}: leave --task out or give another --model_dir"
        )
    text_settings.resolve(options.text, spec.text, path)
    if options.max_seq_length:
        spec = dataclasses.replace(spec, max_seq_length=options.max_seq_length)
    name = weights.name_in(options.model_dir, source.path)
    found, lines = thresholds.for_weights(spec, name)
    for line in lines:
        print(line)
    return thresholds.replace(spec, found)


if __name__ == "__main__":
    export_flags.define()
    app.run(main)
