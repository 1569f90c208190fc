"""An encoder -> a SavedModel that gives texts their vectors."""

import dataclasses

from common.contract.symbols import CLS_FIRST
from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.heads import ENCODER
from data.text.opening import AnyTokenizer
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.registry import spec_of
from modeling.heads.embedding import EmbeddingModel
from serving.export.exporter import export_restored
from serving.generation import sentence_folder
from serving.generation.language_model import load_tokenizer
from serving.generation.options import ModelOptions
from serving.options import EMBEDDING, SIMILARITIES, ExportOptions

_LONGEST = 512  # tokens, where neither flag nor folder says less


def export_embedding(
    output_dir: str, options: ExportOptions, source: checkpoints.Source
) -> str:
    """Writes a new version folder, as `exporter.export_model` does.

    `source` is any checkpoint with an encoder that reads rows with CLS. Raises
    UserError: it has none, or neither `pooling` nor a sentence-transformers
    folder says how to pool.
    """
    source = dataclasses.replace(source, part=ENCODER)
    config = checkpoints.source_config(source)
    layout = spec_of(config.model_type).capabilities.layout
    if layout == "stream":
        raise UserError(
            f"{source.path}: wanted an encoder of rows with CLS, found "
            f"model_type {config.model_type!r}: a left-to-right model is "
            "exported by --task=lm"
        )
    tokenizer = load_tokenizer(
        ModelOptions(
            options.checkpoint,
            options.spiece_model_file,
            options.text,
            options.checkpoint_choice,
        )
    )
    head_options, length, similarity = _rule(options, layout, tokenizer)
    places = getattr(config, "max_position_embeddings", None)
    spec = TaskSpec(
        task_name=EMBEDDING,
        head=EMBEDDING,
        labels=(),
        max_seq_length=min(length, places or length),
        text=tokenizer.settings,
        spiece_sha256=tokenizer.sha256,
        head_options=head_options,
        data_options={"layout": layout, "similarity": similarity}
        | head_options,
    )

    def build() -> EmbeddingModel:
        return EmbeddingModel(config.with_memory(None), **head_options)

    return export_restored(
        output_dir, build, spec, tokenizer.path, source, options
    )


def _rule(
    options: ExportOptions, layout: str, tokenizer: AnyTokenizer
) -> tuple[dict, int, str]:
    """(arguments of `EmbeddingModel`, tokens of a row, one of SIMILARITIES)."""
    length = options.max_seq_length or _LONGEST
    # Also with --pooling, which says nothing of the length.
    length = min(length, sentence_folder.longest(options.checkpoint) or length)
    if options.pooling:
        return {"pooling": options.pooling}, length, SIMILARITIES[0]
    rule = sentence_folder.read(options.checkpoint, tokenizer)
    if rule is None:
        raise UserError(
            f"{options.checkpoint} holds no {sentence_folder.MODULES}, which "
            "would say how one vector is made of a text: give --pooling"
        )
    if layout != CLS_FIRST:
        raise UserError(
            f"{options.checkpoint}: sentence vectors are of an encoder that "
            "has CLS first (bert, albert, modernbert); give --pooling"
        )
    print(f"vectors: {options.checkpoint} says {rule}")
    fields = {
        "pooling": rule.pooling,
        "normalize": rule.normalize,
        "with_symbols": True,
        "dimensions": rule.dimensions,
    }
    return fields, length, rule.similarity
