"""Lines of a file with their log-probabilities, an object for each."""

from collections.abc import Sequence
from typing import Any

from common import encodings, summary
from common.errors import UserError
from data.text.lm_vocabulary import Vocabulary
from data.text.units import UnknownSymbolError
from serving.generation.causal_scoring import CausalScorer


def read_lines(path: str) -> list[str]:
    """All lines of a file without their ends, blank ones too.

    Raises UserError: it cannot be read, is no UTF-8 text in lines, or all of it
    is blank.
    """
    lines = encodings.read_texts(path, "input_file")
    if not any(line.strip() for line in lines):
        raise UserError(f"--input_file={path} holds no line to score")
    return lines


def score_lines(
    vocabulary: Vocabulary,
    scorer: CausalScorer,
    lines: Sequence[str],
    line_end: bool = True,
    path: str = "--input_file",
) -> list[dict[str, Any]]:
    """An object for each line, in order; see docs/guides/language_modeling.md.

    A blank line is a line as every other. Raises UnknownSymbolError with `path`
    and line: text that the vocabulary cannot say.
    """
    rows = []
    for number, line in enumerate(lines, start=1):
        try:
            rows.append(vocabulary.encode_line(line, line_end))
        except UnknownSymbolError as e:
            where = f"{path}:{number}: "
            raise UnknownSymbolError(e.symbol, where) from e
    scores = scorer.score([ids for ids, _ in rows])
    has_end = line_end and vocabulary.eos_id is not None
    scored_rows = []
    for number, line in enumerate(lines, start=1):
        (ids, first), log_probs = rows[number - 1], scores[number - 1]
        count = len(log_probs)
        total = float(log_probs.sum(dtype="float64")) if count else 0.0
        scored_rows.append(
            {
                "line": number,
                "text": line,
                "tokens": [vocabulary.symbol(int(i)) for i in ids[1:]],
                "log_probs": [round(float(x), 6) for x in log_probs],
                "log_prob": round(total, 5),
                "num_tokens": len(ids),
                "num_scored": count,
                "perplexity": perplexity(total, count),
                "first_token_scored": first,
                "line_end_scored": has_end,
            }
        )
    return scored_rows


def perplexity(log_prob: float, count: int) -> float | None:
    """Of `count` tokens with a sum of log-probabilities; None = no token."""
    return summary.perplexity(-log_prob / count) if count else None
