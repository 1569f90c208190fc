"""Flags of `serving.embed`, `fill_mask`, `generate` and `score`."""

from flags import flag_values, text_flags
from serving.generation.options import (
    EmbedOptions,
    FillOptions,
    GenerateOptions,
    ModelOptions,
    SamplingOptions,
    ScoreOptions,
)


def _define(*classes: type) -> None:
    """Registers a command's flags and those of its model."""
    flag_values.define(ModelOptions)
    text_flags.define()
    for cls in classes:
        flag_values.define(cls)


def _model_from_flags() -> ModelOptions:
    return flag_values.build(ModelOptions, text=text_flags.from_flags())


def define_generate() -> None:
    """Registers the flags of `serving.generate`."""
    _define(GenerateOptions, SamplingOptions)


def generate_from_flags():
    """(GenerateOptions, SamplingOptions, ModelOptions)."""
    return (
        flag_values.build(GenerateOptions),
        flag_values.build(SamplingOptions),
        _model_from_flags(),
    )


def define_fill() -> None:
    """Registers the flags of `serving.fill_mask`."""
    _define(FillOptions)


def fill_from_flags():
    """(FillOptions, ModelOptions)."""
    return flag_values.build(FillOptions), _model_from_flags()


def define_score() -> None:
    """Registers the flags of `serving.score`."""
    _define()
    flag_values.define(ScoreOptions, text=())


def score_from_flags():
    """(ScoreOptions, ModelOptions)."""
    return flag_values.build(ScoreOptions), _model_from_flags()


def define_embed() -> None:
    """Registers the flags of `serving.embed`."""
    _define(EmbedOptions)


def embed_from_flags():
    """(EmbedOptions, ModelOptions)."""
    return flag_values.build(EmbedOptions), _model_from_flags()
