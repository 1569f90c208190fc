"""Collections by their id in the catalogue of `ir_datasets`.

    clueweb09/en/trec-web-2009, msmarco-passage/dev, beir/scifact/test, ...

The package is imported here alone, and fetches what the data set's licence and
the network allow.
"""

import contextlib
from collections.abc import Iterator

from common import optional
from common.errors import UserError
from data.finetuning.ranking.documents import Document

FLAG = "--dataset"
REQUIREMENTS = "requirements-irdatasets.txt"
# Of `--topic_fields`, in the catalogue's words; a title has many names there.
FIELDS = {"desc": "description", "narr": "narrative"}
FETCHED = 512  # documents that are asked for at a time


@contextlib.contextmanager
def _named(name: str) -> Iterator[None]:
    """What the package raises, in one line."""
    try:
        yield
    except (OSError, RuntimeError, KeyError, AttributeError) as e:
        why = " ".join(str(e).split()) or type(e).__name__
        raise UserError(
            f"{FLAG}={name} cannot be read ({why[:200]}): check the id in "
            "the catalogue of ir_datasets, its licence and the network, or "
            "give --topics_file, --documents and --qrels_file"
        ) from e


def _open(name: str, part: str):
    """The data set, which must have a part: docs, queries or qrels."""
    tool = optional.load("ir_datasets", "document ranking", REQUIREMENTS)
    with _named(name):
        dataset = tool.load(name)
        if getattr(dataset, f"has_{part}")():
            return dataset
    raise UserError(
        f"{FLAG}={name} has no {part}: give the id of a test set that has "
        "queries, judgements (qrels) and documents"
    )


def topics(
    name: str, fields: tuple[str, ...] = ("title",)
) -> Iterator[tuple[int, str, str]]:
    """(ordinal, id, text) of every query; `fields`, where it has several.

    Raises UserError: it cannot be read, or a query lacks a field.
    """
    dataset = _open(name, "queries")
    with _named(name):
        for number, query in enumerate(dataset.queries_iter(), start=1):
            yield number, query.query_id, _text(name, query, fields)


def _text(name: str, query, fields: tuple[str, ...]) -> str:
    parts = []
    for field in fields:
        text = getattr(query, FIELDS.get(field, ""), None)
        if field == "title":
            text = query.default_text()
        if text is None:
            raise UserError(
                f"{FLAG}={name}: query {query.query_id!r} has no "
                f"{FIELDS[field]}: leave it out of --topic_fields"
            )
        parts.append(text)
    return " ".join(parts)


def qrels(name: str) -> Iterator[tuple[int, str, str, int]]:
    """(ordinal, query, document, grade) of every judgement."""
    dataset = _open(name, "qrels")
    with _named(name):
        for number, row in enumerate(dataset.qrels_iter(), start=1):
            yield number, row.query_id, row.doc_id, int(row.relevance)


def documents(name: str, wanted: set[str] | None = None) -> Iterator[Document]:
    """All documents; or the wanted ones that it has, by id, in that order.

    Single documents are looked up, so that the candidates of a run are found
    without reading tens of millions of others.
    """
    dataset = _open(name, "docs")
    with _named(name):
        if wanted is None:
            for number, document in enumerate(dataset.docs_iter(), start=1):
                yield _document(name, number, document)
            return
        store, names = dataset.docs_store(), sorted(wanted)
        for at in range(0, len(names), FETCHED):
            part = names[at : at + FETCHED]
            texts = store.get_many(part)
            for number, key in enumerate(part, start=at + 1):
                if key in texts:
                    yield _document(name, number, texts[key])


def _document(name: str, number: int, document) -> Document:
    text = " ".join(document.default_text().split())
    return Document(document.doc_id, text, f"{FLAG}={name}", number)
