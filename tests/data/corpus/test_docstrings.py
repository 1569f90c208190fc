"""Prose out of docstrings."""

import ast
import contextlib
import pathlib

from data.corpus import docstrings

DOCSTRING = """Return the mean of an array.

The mean is taken over the flattened array by default, otherwise over
the specified axis. See `numpy.sum` for e.g. The sum of all entries.

Parameters
----------
a : array_like
    Array containing numbers whose mean is desired by the caller.

>>> mean([1, 2])
1.5

```python
print("never part of the text that is kept here.")
```
"""


def test_clean_keeps_sentences_and_drops_code_and_fields():
    assert docstrings.clean(DOCSTRING) == [
        "Return the mean of an array.",
        "The mean is taken over the flattened array by default, otherwise "
        "over the specified axis.",
        "See numpy.sum for e.g. The sum of all entries.",
    ] + ["Array containing numbers whose mean is desired by the caller."]


def test_roles_links_and_urls_are_unwrapped():
    text = (
        "Use :func:`~pkg.module.name` or the [user guide](http://x.y/z) to "
        "learn about ``fit`` here."
    )
    assert docstrings.clean(text) == [
        "Use pkg.module.name or the user guide to learn about fit here."
    ]


def test_fragments_tables_and_symbols_are_no_prose():
    for text in (
        "too short.",
        "A title without a stop",
        "1 + 2 = 3; 4 + 5 = 9; [0, 1], {2: 3} and so on it goes x.",
        "word " * 90 + "end.",
    ):
        assert not docstrings.is_prose(text.strip())


def test_half_of_a_surrogate_pair_is_no_prose():
    """No file can hold it; a source names it by an escape."""
    source = (
        b'"""The half \\ud800 is of no use alone. It has a pair of its own."""'
    )
    (text,) = docstrings.docstrings_of(source)
    assert docstrings.clean(text) == ["It has a pair of its own."]


def test_docstrings_come_in_file_order_without_importing(tmp_path):
    path = tmp_path / "m.py"
    path.write_text(
        '"""Module."""\nraise SystemExit\n'
        'class A:\n    """Class."""\n    def f(self):\n        """Method."""\n'
        'def g():\n    """Function."""\n'
    )
    assert docstrings.docstrings(str(path)) == [
        "Module.",
        "Class.",
        "Method.",
        "Function.",
    ]


def test_a_file_that_does_not_parse_gives_nothing(tmp_path):
    path = tmp_path / "m.py"
    path.write_bytes(b"def (:\n")
    assert docstrings.docstrings(str(path)) == []


def test_walk_sources_is_sorted_and_leaves_tests_out(tmp_path):
    for name in ("p/b.py", "p/__init__.py", "p/a/c.py", "p/tests/t.py"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("")
    names = [m for m, _ in docstrings.walk_sources(str(tmp_path), "p")]
    assert names == ["p", "p.b", "p.a.c"]


NESTED = b"""
if a:
    def in_if(): "1"
elif b:
    def in_elif(): "2"
else:
    class InElse:
        "3"
try:
    def in_try(): "4"
except E:
    def in_except(): "5"
else:
    def in_no_error(): "6"
finally:
    def in_finally(): "7"
for x in (lambda: "none"), [y for y in z]:
    async def in_for(): "8"
else:
    def after_for(): "9"
with a as b:
    match c:
        case 1:
            def in_case(): "10"
while a:
    def in_while():
        "11"
        @(lambda f: f)
        def deeper(): "12"
"""


def test_definitions_are_found_wherever_a_statement_may_stand():
    assert docstrings.docstrings_of(NESTED) == [str(i) for i in range(1, 13)]


def test_statements_are_those_of_ast_walk_in_its_order():
    folder = pathlib.Path(contextlib.__file__).parent
    paths = sorted(folder.glob("c*.py"))
    assert len(paths) > 10
    for source in [NESTED, *(path.read_bytes() for path in paths)]:
        tree = ast.parse(source)
        kinds = ast.stmt | ast.mod | ast.excepthandler | ast.match_case
        wanted = [node for node in ast.walk(tree) if isinstance(node, kinds)]
        assert docstrings._statements(tree) == wanted
