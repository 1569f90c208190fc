"""The site names every page once, and the pages' links lead somewhere."""

import ast
import re
import subprocess

from scripts import readability
from tests.conftest import ROOT

DOCS = ROOT / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "measured" not in p.parts)


def test_every_page_is_named_once():
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").split("\nnav:\n")[1]
    named = re.findall(r": (\S+\.md)$", nav, re.M)
    assert sorted(named) == [p.relative_to(DOCS).as_posix() for p in PAGES]


def test_links_and_pictures_of_pages_exist():
    missing = []
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text):
            if "://" not in target and not (page.parent / target).exists():
                missing.append((page.name, target))
    assert not missing


def test_every_page_is_linked_by_another():
    fronts = [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    linked = {
        (page.parent / target).resolve()
        for page in [*fronts, *PAGES]
        for target in re.findall(
            r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")
        )
        if (page.parent / target).resolve() != page.resolve()
    }
    assert not [p.name for p in PAGES if p.resolve() not in linked]


def test_pages_that_files_of_the_repository_name_exist():
    """In messages, comments and the pages in front."""
    listed = subprocess.run(
        ["git", "grep", "-hoIE", r"\bdocs/[a-z_/]+\.(md|ipynb)"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    named = set(listed.split())
    assert len(named) > 20
    assert not [name for name in named if not (ROOT / name).exists()]


def test_folders_of_pages_hold_few_names():
    for folder in (DOCS, *(p.parent for p in PAGES)):
        names = [p for p in folder.iterdir() if p.suffix != ".ipynb"]
        assert len(names) <= 15, folder


def test_the_search_needs_no_network():
    """A script of our own stands in place of the one that is downloaded."""
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    (path,) = re.findall(r"polyfills:.*\n    - (\S+)", config)
    assert "iframe-worker" in path and (DOCS / path).is_file()


# Names, and what every reader of such pages knows.
KNOWN = set(
    "API ASCII CPU CR CRLF GPU HTML HTTP IPv4 IPv6 JSON LF LayerNorm NUL NaN "
    "PCI PNG REST SHA SVG TPU URL UTF "
    "AG AM AMD AdamW AutoGraph BooksCorpus CISI ClueWeb ClueWeb09 CoNLL DBpedia "
    "DaskRunner DirectRunner EPYC FDFA GPT GeGLU GermEval HDF5 IMDB LangChain MiniLM "
    "MinHash ModernBERT NVIDIA NewsQA NumPy ONNX OpenAI PyTorch RoBERTa SARA "
    "SavedModel SciPy SentencePiece SignatureDef StableHLO TensorBoard "
    "TensorFlow TFRecord WikiExtractor WikiText WordPiece XL XLM XLNet".split()
)
# Of the text around: flags, files, placeholders, names in Python.
WORDS = set(
    "CHANGELOG CONTRIBUTING ConfigureDistributedTpuOp FLAGS GET HEAD IMAGE InvalidArgumentError KeyError "
    "NAME NOT ONE PATH SECURITY TYPE TpuExecutable UNUSED".split()
)


def test_every_abbreviation_is_in_the_glossary():
    """Once for all pages, outside of code."""
    glossary = (DOCS / "reference/glossary.md").read_text(encoding="utf-8")
    unknown = set()
    for path in readability.pages(ROOT):
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.S)
        text = re.sub(r"^    .*$", "", text, flags=re.M)
        text = re.sub(r"\]\([^)]*\)", "]", text)
        for word in re.findall(r"\b[A-Z][A-Za-z0-9]*[A-Z][A-Za-z0-9]*", text):
            both = {word, word.removesuffix("s")}
            if both & (KNOWN | WORDS):
                continue
            named = rf"^\| .*\b({'|'.join(both)})\b.* \| "
            if not re.search(named, glossary, re.M):
                unknown.add((path.name, word))
    assert not unknown


def test_readme_is_one_screen():
    lines = (ROOT / "README.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 50


def test_every_diagram_is_on_a_page():
    text = "".join(p.read_text(encoding="utf-8") for p in PAGES)
    drawn = [p.name for p in (DOCS / "figures").glob("*.svg")]
    assert drawn and all(f"figures/{name}" in text for name in drawn)


def test_the_reading_order_names_files_that_exist():
    page = (ROOT / "docs/explanation/model.md").read_text()
    order = page.split("## Reading order")[1].split("\n## ")[0]
    paths = [
        path
        for row in re.findall(r"^\| (`.*?) \|", order, re.M)
        for path in re.findall(r"`([^`]+)`", row)
    ]
    assert len(paths) > 20
    missing = [p for p in paths if not (ROOT / "modeling" / p).is_file()]
    assert missing == []


def test_the_walks_name_functions_that_exist():
    """`path.py:name`, or `path.py:Class.name` that the class itself has."""
    page = (DOCS / "explanation/architecture.md").read_text(encoding="utf-8")
    named = re.findall(r"`([\w/]+\.py):([\w.]+)`", page)
    assert len(named) > 15
    sources = [
        source
        for folder in ("data", "flags", "modeling", "training")
        for source in (ROOT / folder).rglob("*.py")
    ]
    missing = [
        (path, name)
        for path, name in named
        if not any(
            name in _functions(source)
            for source in sources
            if source.as_posix().endswith("/" + path)
        )
    ]
    assert not missing


def _functions(source) -> set[str]:
    """Names of a file's functions; those of classes as `Class.name`."""
    found = set()
    for node in ast.parse(source.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            found |= {
                f"{node.name}.{part.name}"
                for part in node.body
                if isinstance(part, ast.FunctionDef)
            }
        elif isinstance(node, ast.FunctionDef):
            found.add(node.name)
    return found


def test_the_tests_that_pages_name_exist():
    tests = [
        f"/{p.relative_to(ROOT)}" for p in ROOT.rglob("tests/**/test_*.py")
    ]
    named = {
        (page.name, name)
        for page in PAGES
        for name in re.findall(
            r"`([\w/]*test_\w+\.py)`", page.read_text(encoding="utf-8")
        )
    }
    assert len(named) > 20
    assert not [
        (page, name)
        for page, name in named
        if not any(path.endswith(f"/{name}") for path in tests)
    ]
