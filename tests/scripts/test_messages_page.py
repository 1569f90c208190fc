"""Every message of the code is on the page, with cause and cure."""

import ast

from scripts import messages_page as page
from tests.conftest import ROOT


def test_the_page_is_current():
    found = page.PAGE.read_text(encoding="utf-8")
    assert found == page.page(), "run python scripts/messages_page.py"


def test_every_file_with_messages_has_a_family():
    known = page.families()
    assert len({family["title"] for family in known}) == len(known)
    for path in page.messages():
        assert page.family_of(path, known), path
    for family in known:
        assert family["cause"] and family["cure"], family["title"]


def test_the_longest_path_decides():
    known = [
        {"title": "a", "paths": ["data"]},
        {"title": "b", "paths": ["data/text", "data/x.py"]},
    ]
    assert page.family_of("data/texts.py", known) == "a"
    assert page.family_of("data/text/y.py", known) == "b"
    assert page.family_of("data/x.py", known) == "b"
    assert page.family_of("flags/x.py", known) is None


def test_values_are_left_out_of_a_message():
    """A line that consists of values alone is not on the page."""
    source = "f'--split={a}{b}: ' + 'wanted two' + (f' of {c}' if d else '')"
    node = ast.parse(source, mode="eval").body
    assert page._text(node) == "--split=…: wanted two of …"
    assert not page._text(ast.parse("f'{a}: {b}'", mode="eval").body)


def test_calls_that_say_something_to_the_user():
    for source, said in (
        ("UserError(f'{a}: wanted some text')", True),
        ("errors.UserError(f'{a}: wanted some text')", True),
        ("corpus.CorpusError('wanted some text')", True),
        ("super().__init__(f'{a}: wanted some text')", True),
        ("require(a < b, f'{a}: wanted some text')", True),
        ("checks.require(a, 'wanted some text')", True),
        ("require(config, 'memory', '--segment_recurrence')", False),
        ("ValueError('wanted some text')", False),
        ("UserError()", False),
    ):
        call = ast.parse(source, mode="eval").body
        found = page._message(call)
        assert (
            found is not None and "wanted some" in page._text(found)
        ) is said


def test_kinds_of_errors_are_on_the_page():
    """A class of its own would be left out without a word."""
    for folder in page.FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                bases = map(ast.unparse, getattr(node, "bases", ()))
                assert not {"UserError", "CorpusError"} & set(bases) or (
                    node.name in (*page._KINDS, "UnknownSymbolError")
                ), path


def test_paths_of_the_families_exist():
    paths = [p for family in page.families() for p in family["paths"]]
    missing = [p for p in paths if not (ROOT / p).exists()]
    assert not missing
