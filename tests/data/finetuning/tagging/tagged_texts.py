"""Tagged texts and pieces by hand."""

from data.finetuning.tagging import examples as tagging
from data.finetuning.tagging.examples import TaggedText


def spans_example(text, *spans):
    return TaggedText(
        "0",
        text,
        tuple((s, e) for s, e, _ in spans),
        tuple(t for _, _, t in spans),
        False,
        "x:1",
    )


def words_example(tokens, tags):
    text, units = tagging.join_tokens(tokens)
    return TaggedText("0", text, units, tuple(tags), True, "x:1")
