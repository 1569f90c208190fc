"""How a `tokenizer.json` joins two texts, as the package `tokenizers` does."""

import json

import pytest

from common.vocabularies import frames

IDS = {"<s>": 0, "</s>": 2, "<x>": 5}
ROBERTA = {"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0]}
BERT = ROBERTA | {"type": "BertProcessing"}


def template(single: str, pair: str) -> dict:
    """A TemplateProcessing of texts such as `<s> $A </s>`; `:1` = second."""

    def row(text):
        for part in text.split():
            name, _, kind = part.partition(":")
            value = {"id": name.removeprefix("$"), "type_id": int(kind or 0)}
            yield {"Sequence" if "$" in part else "SpecialToken": value}

    used = {part.split(":")[0] for part in pair.split()} & set(IDS)
    return {
        "type": "TemplateProcessing",
        "single": list(row(single)),
        "pair": list(row(pair)),
        "special_tokens": {
            name: {"id": name, "ids": [IDS[name]], "tokens": [name]}
            for name in used
        },
    }


ONE = "<s> $A </s>"
USUAL = template(ONE, "<s> $A </s> $B:1 </s>:1")
TWO = template(ONE, "<s> $A </s> </s> $B </s>")
GEMMA = template(ONE, "<s> $A </s> <s>:1 $B:1 </s>:1")
NAMES = {"model_input_names": ["input_ids", "attention_mask"]}


SEP, TWO_SEP = ("sep",), ("sep", "sep")
BACKEND = {"tokenizer_class": "TokenizersBackend"}
ALBERT = {"tokenizer_class": "AlbertTokenizer"}


@pytest.mark.parametrize(
    "rule, config, between, one_segment",
    [
        (BERT, {}, SEP, False),
        (USUAL, {}, SEP, False),
        ({"type": "Sequence", "processors": [USUAL]}, {}, SEP, False),
        (ROBERTA, {}, TWO_SEP, True),
        (TWO, {}, TWO_SEP, True),
        (GEMMA, {}, ("sep", "cls"), False),
        (GEMMA, NAMES, ("sep", "cls"), True),
        (USUAL, NAMES, SEP, True),
        (USUAL, BACKEND, SEP, True),
        (USUAL, {"tokenizer_class": "DistilBertTokenizerFast"}, SEP, True),
        (TWO, {"model_input_names": ["token_type_ids"]}, TWO_SEP, True),
        (
            USUAL,
            BACKEND | {"model_input_names": ["token_type_ids"]},
            SEP,
            False,
        ),
        (None, {}, SEP, False),
        (None, {"tokenizer_class": "RobertaTokenizerFast"}, TWO_SEP, True),
        # transformers 5 writes the key, and its class tells no segments.
        (USUAL, ALBERT | {"backend": "tokenizers"}, SEP, True),
        (USUAL, ALBERT, SEP, False),
        # Rows that no layout has.
        (template(ONE, "<s> $A $B </s>"), {}, (), True),
        (template(ONE, "<s> $A <x> $B </s>"), {}, SEP, False),
        (template("<s> $A", "<s> $A $B"), {}, SEP, False),
    ],
)
def test_what_joins_two_texts(rule, config, between, one_segment):
    rules = {"post_processor": rule}
    assert frames.joint(rules, config) == (between, one_segment)


@pytest.mark.parametrize("rule", [BERT, ROBERTA, USUAL, TWO, GEMMA])
def test_rows_are_those_of_the_package(rule):
    tokenizers = pytest.importorskip("tokenizers")
    rules = {"post_processor": rule}
    pieces = IDS | {"red": 8, "sea": 9, "<u>": 1}
    package = tokenizers.Tokenizer(
        tokenizers.models.WordLevel(pieces, unk_token="<u>")
    )
    value = json.loads(package.to_str()) | {
        "post_processor": rule
        | {"trim_offsets": True, "add_prefix_space": False}
        if rule is ROBERTA
        else rule
    }
    package = tokenizers.Tokenizer.from_str(json.dumps(value))
    found = package.encode("red", "sea")
    between, one_segment = frames.joint(rules, {})
    ids = {"cls": 0, "sep": 2}
    assert found.ids == [0, 8, *map(ids.get, between), 9, 2]
    kind = int(not one_segment)
    assert found.type_ids[-2:] == [kind] * 2 and found.type_ids[:3] == [0] * 3


def test_symbols_around_one_text():
    frame = frames.read({"post_processor": USUAL})
    assert frame == ("<s>", "</s>", ("sep",), False)
    assert frames.read({"post_processor": None}) is None
    assert frames.read({"post_processor": template("$A", "$A $B")}) is None
    last = frames.read({"post_processor": template("$A </s> <s>", ONE)})
    assert last == ("<s>", "</s>", None, False)


def test_names_of_layouts():
    names = frames.layouts("first")
    assert len(names) == len(set(names)) == 6 and names[0] == "first"
    for name in names:
        joint = frames.joint_of(name, "first")
        assert frames.layout_of("first", *joint) == name
    assert frames.layout_of("first", ["cls"], False) is None
    assert frames.joint_of("last", "first") == (("sep",), False)
