"""First-stage retrieval by BM25 (L1)."""

from collections.abc import Iterable

import numpy as np

from common.errors import UserError
from data.finetuning.ranking import extras
from data.finetuning.ranking.documents import Document
from data.finetuning.ranking.runs import Run


def bm25(
    documents: Iterable[Document],
    topics: dict[str, str],
    depth: int = 100,
    k1: float = 0.9,
    b: float = 0.4,
    stop_words: str = "en",
) -> Run:
    """The best documents of each query by BM25 (Lucene's form).

    Of the documents their ids and words are kept, not their texts' strings.

    Args:
      documents: the collection, read once.
      topics: query id -> text.
      depth: documents per query; those without a word of it are none.
      k1, b: of BM25.
      stop_words: "en" leaves English ones out, "" keeps all.

    Raises:
      UserError: no document, a document id twice, the package is missing.
    """
    tool = extras.load("bm25s")
    # bm25s splits at what is no word; words of one letter are left out.
    tokenizer = tool.tokenization.Tokenizer(stopwords=stop_words or None)
    names: list[str] = []
    seen: set[str] = set()

    def texts():
        for document in documents:
            if document.id in seen:
                raise UserError(
                    f"{document.path}:{document.number}: the document "
                    f"{document.id!r} comes a second time: keep one of them"
                )
            seen.add(document.id)
            names.append(document.id)
            yield document.text

    ids = [
        np.asarray(tokens, np.int32)
        for tokens in tokenizer.streaming_tokenize(texts(), allow_empty=False)
    ]
    if not names:
        raise UserError("--documents holds no document")
    index = tool.BM25(k1=k1, b=b)
    index.index(
        (ids, tokenizer.get_vocab_dict()),
        show_progress=False,
        leave_progress=False,
    )
    return _search(index, tokenizer, names, topics, depth)


def _search(index, tokenizer, names, topics, depth: int) -> Run:
    run: Run = {}
    words = tokenizer.streaming_tokenize(
        topics.values(), update_vocab="never", allow_empty=False
    )
    for query, ids in zip(topics, words, strict=True):
        if not ids:
            continue
        scores = np.asarray(index.get_scores(ids))
        found = np.flatnonzero(scores > 0)
        best = sorted(
            ((float(scores[i]), names[i]) for i in found), reverse=True
        )
        run[query] = {name: score for score, name in best[:depth]}
    return {query: scores for query, scores in run.items() if scores}
