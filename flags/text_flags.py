"""Flags of how text is normalised (docs/guides/corpora.md)."""

from absl import flags

from common.vocabularies import text_settings
from common.vocabularies.text_settings import TextChoice

FLAGS = flags.FLAGS


_RECORDED = "as recorded with the vocabulary, which this must agree with"


def define(default: str = _RECORDED) -> None:
    """Registers --text_rule, --uncased and --keep_accents."""
    flags.DEFINE_enum(
        "text_rule",
        None,
        text_settings.RULES,
        "How text is normalised: composed (all marks are kept) or original "
        f"(NFKD, all marks are dropped); default: {default}.",
    )
    flags.DEFINE_bool(
        "uncased", None, "Lower-case text; part of the text settings, too."
    )
    flags.DEFINE_bool(
        "keep_accents",
        None,
        "Another name: --keep_accents is --text_rule=composed, "
        "--nokeep_accents is --text_rule=original.",
    )


def from_flags() -> TextChoice:
    """What was said; nothing for flags that were not given."""
    return text_settings.choose(
        FLAGS.text_rule, FLAGS.uncased, FLAGS.keep_accents
    )
