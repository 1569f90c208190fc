"""English prose from the documentation texts of an installed Python.

Source files are read with `ast` and never imported. `clean` turns a docstring
into sentences: code, tables, parameter lists and markup are left out, so that
what remains is running text.
"""

import ast
import os
import re
import warnings
from collections.abc import Iterator

from common import encodings

_CODE_LINE = re.compile(r"^\s*(>>>|\.\.\.|\$|\.\. |:\w+.*:|[-=~^*+#|`]{3,})")
_FIELD_LINE = re.compile(r"^\s*[\w*.\[\]]+\s*(\([^)]*\))?\s*:(\s|$)")
_LIST_MARK = re.compile(r"^\s*(?:[-*•]|\d+[.)])\s+")
_ROLE = re.compile(r":[\w:]+:`~?([^`<]+?)(?:\s*<[^>]*>)?`")
_LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
_URL = re.compile(r"https?://\S+|<https?:[^>]*>")
_TICKS = re.compile(r"`+([^`]*)`+_*")
_SPACE = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'(])")
_WORD = re.compile(r"[A-Za-z][a-z]+")
# After these a full stop does not end a sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|Eq|Fig|No|Vol|pp|al|Dr|Mr|Ref|resp)\.)$"
)

MIN_WORDS = 5
MAX_WORDS = 80
MIN_LETTER_RATIO = 0.75


def walk_sources(root: str, package: str) -> Iterator[tuple[str, str]]:
    """Yields (dotted module name, path) of a package or a module, sorted.

    `package` is a folder or a single `.py` file below `root`. Tests are left
    out: they repeat each other.
    """
    single = os.path.join(root, f"{package}.py")
    if os.path.isfile(single):
        yield package, single
        return
    for folder, folders, names in os.walk(os.path.join(root, package)):
        folders[:] = sorted(
            f for f in folders if "test" not in f and f != "__pycache__"
        )
        for name in sorted(names):
            if not name.endswith(".py") or "test" in name:
                continue
            path = os.path.join(folder, name)
            dotted = os.path.relpath(path, root)[:-3].replace(os.sep, ".")
            yield dotted.removesuffix(".__init__"), path


def docstrings(path: str) -> list[str]:
    """Docstrings of a source file in file order; none if it does not parse."""
    with open(path, "rb") as f:
        return docstrings_of(f.read())


def docstrings_of(source: bytes) -> list[str]:
    """Docstrings of a source text in its order; none if it does not parse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # invalid escapes in old sources
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []  # the last two: nested too deep
    numbered_texts = []
    for node in _statements(tree):
        if isinstance(
            node,
            ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef,
        ):
            text = ast.get_docstring(node)
            if text:
                numbered_texts.append((getattr(node, "lineno", 0), text))
    return [text for _, text in sorted(numbered_texts, key=lambda x: x[0])]


def _statements(tree: ast.Module) -> list[ast.AST]:
    """The module and its statements at any depth, in the order of `ast.walk`.

    Expressions, nine of ten nodes, define nothing that has a docstring.
    """
    nodes: list[ast.AST] = [tree]
    for node in nodes:  # grows
        for field in ("body", "handlers", "orelse", "finalbody", "cases"):
            nodes.extend(getattr(node, field, ()))
    return nodes


def clean(docstring: str) -> list[str]:
    """Sentences of running text in a docstring, in order."""
    sentences: list[str] = []
    for paragraph in _paragraphs(docstring):
        sentences.extend(prose(paragraph))
    return sentences


def prose(paragraph: str) -> list[str]:
    """Sentences of a paragraph that are running text, without markup."""
    return [s for s in split_sentences(_strip_markup(paragraph)) if is_prose(s)]


def _paragraphs(docstring: str) -> list[str]:
    """Blocks of plain lines; code blocks, headings and fields are dropped."""
    blocks: list[list[str]] = [[]]
    fenced = False
    for line in docstring.expandtabs(4).splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            fenced = not fenced
            blocks.append([])
        elif fenced:
            continue
        elif not line.strip():
            blocks.append([])
        elif _CODE_LINE.match(line) or _FIELD_LINE.match(line):
            blocks.append([])
        elif _LIST_MARK.match(line):
            blocks.append([_LIST_MARK.sub("", line)])
        else:
            blocks[-1].append(line)
    return [" ".join(lines) for lines in blocks if lines]


def _strip_markup(text: str) -> str:
    text = _ROLE.sub(r"\1", text)
    text = _LINK.sub(r"\1", text)
    text = _URL.sub("", text)
    text = _TICKS.sub(r"\1", text)
    text = text.replace("**", "").replace("::", ":")
    return _SPACE.sub(" ", text).strip()


def split_sentences(text: str) -> list[str]:
    """Splits at a stop followed by a capital, but not after abbreviations."""
    sentences: list[str] = []
    for part in _SENTENCE_END.split(text):
        if sentences and _ABBREVIATION.search(sentences[-1]):
            sentences[-1] += " " + part
        else:
            sentences.append(part)
    return sentences


def is_prose(sentence: str) -> bool:
    """True for a sentence of words: ends in a stop, mostly letters."""
    if not sentence or sentence[-1] not in ".!?" or not sentence[0].isalnum():
        return False
    if encodings.half_pair(sentence):  # a source may name one
        return False
    words = _WORD.findall(sentence)
    if not MIN_WORDS <= len(words) or len(sentence.split()) > MAX_WORDS:
        return False
    letters = sum(map(str.isalpha, sentence)) + sentence.count(" ")
    return letters >= MIN_LETTER_RATIO * len(sentence)
