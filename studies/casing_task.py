"""A tagging task on real text: give lower-cased words their case and punctuation.

    python -m studies.casing_task --input_glob='TEXT/*.txt' --output_dir=CASING

Every text teaches it, so a tagger can be tried on any language with capitals:
each word, in lower case, has a tag of its case (l, U = capital first, A = all
capitals, M = mixed) and of the mark that follows it (none, comma, period,
question, exclamation). A word alone says little: see docs/guides/tasks/tagging.md.
"""

import os
import re

from absl import flags

from common import files
from common.errors import UserError
from data.corpus import documents as corpus
from flags import app

FLAGS = flags.FLAGS
MARKS = {",": "comma", ".": "period", "?": "question", "!": "exclamation"}
_WORD = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*|\d+|[,.?!]")
MIN_WORDS, MAX_WORDS = 5, 200


def tag(word: str, mark: str) -> str:
    """Tag of a word and of the mark after it, "" for none.

    >>> tag("Ada", ","), tag("the", "")
    ('U-comma', 'l')
    """
    case = "M"
    if word.lower() == word:
        case = "l"
    elif word.upper() == word and len(word) > 1:
        case = "A"
    elif word[0].upper() == word[0] and word[1:].lower() == word[1:]:
        case = "U"
    return f"{case}-{MARKS[mark]}" if mark else case


def rows(line: str) -> list[tuple[str, str]]:
    """(lower-cased word, tag) of a line.

    >>> rows("Ada, who left. No!")
    [('ada', 'U-comma'), ('who', 'l'), ('left', 'l-period'), ('no', 'U-exclamation')]
    """
    words = _WORD.findall(line)
    result = []
    for word, mark in zip(words, [*words[1:], ""], strict=False):
        if word not in MARKS:
            result.append(
                (word.lower(), tag(word, mark if mark in MARKS else ""))
            )
    return result


def split_of(number: int) -> str:
    """Every tenth line is held out for dev, the next for test."""
    return {8: "dev", 9: "test"}.get(number % 10, "train")


def main() -> None:
    """Reads the files and writes train, dev and test."""
    texts: dict[str, list[str]] = {"train": [], "dev": [], "test": []}
    number = 0
    for path in corpus.list_files(FLAGS.input_glob):
        with corpus.open_text(path) as f:
            lines_of_file = corpus.read_line_bytes(f, path)
            for line in corpus.decode_lines(path, lines_of_file):
                pairs = rows(line)
                if not MIN_WORDS <= len(pairs) <= MAX_WORDS:
                    continue
                if number >= FLAGS.max_lines:
                    break
                lines = "".join(f"{w}\t{t}\n" for w, t in pairs)
                texts[split_of(number)].append(lines)
                number += 1
    if not all(texts.values()):
        raise UserError(
            f"{FLAGS.input_glob} holds {number} lines of {MIN_WORDS} to "
            f"{MAX_WORDS} words; wanted ten or more"
        )
    for split, lines in texts.items():
        path = os.path.join(FLAGS.output_dir, f"{split}.conll")
        files.write_text(path, "\n".join(lines) + "\n")
        print(f"wrote {path}: {len(lines)} texts")


if __name__ == "__main__":
    flags.DEFINE_string(
        "input_glob", None, "Text files, plain or .gz.", required=True
    )
    flags.DEFINE_string("output_dir", None, "Folder to write.", required=True)
    flags.DEFINE_integer("max_lines", 20000, "Lines to use.", lower_bound=10)
    app.run(main)
