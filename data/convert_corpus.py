"""Command: public text layouts -> one sentence per line, documents apart.

    python -m data.convert_corpus --layout=wikitext \\
        --input_glob=wikitext-103/wiki.train.tokens --output_file=wiki.txt
    python -m data.convert_corpus --layout=book --input_glob='novels/*.txt' \\
        --output_file=novels.txt

`wikitext`: a line ` = Title = ` starts a document, deeper headings are left
out, a line is a paragraph, the tokenizer's `@-@` and spaces before punctuation
are taken back. `book`: a file is a document, lines are joined, an empty line
ends a paragraph. Paragraphs end with `<eop>` when --paragraphs is given.
"""

import re
from collections.abc import Iterator

from common import files
from data import corpus
from data.options import ConvertOptions
from data.symbols import EOP
from flags import app, convert_flags

# A sentence ends at . ! ? (and closing marks) before white space and what may
# begin the next one. Abbreviations before a name are cut, too: harmless here.
_SENTENCE = re.compile(
    r"(?<=[.!?][\"')\]”’])\s+(?=\S)|(?<=[.!?])\s+(?=[^a-z\s])"
)
_TITLE = re.compile(r"^ ?= [^=].*[^=] = ?$")
_HEADING = re.compile(r"^ ?(= ){2,}.*( =){2,} ?$")
_JOINED = re.compile(r" @([-,.])@ ")
_BEFORE = re.compile(r" ([.,;:!?)\]%]|'s\b|n't\b)")
_AFTER = re.compile(r"([(\[$]) ")


def sentences(paragraph: str) -> list[str]:
    """Cuts a paragraph; the text stays as it is but for white space."""
    return [s for s in _SENTENCE.split(" ".join(paragraph.split())) if s]


def wikitext_paragraphs(lines: Iterator[str]) -> Iterator[str | None]:
    """Paragraphs of a WikiText file, None where a document ends."""
    for line in lines:
        line = line.rstrip("\n")
        if _TITLE.match(line):
            yield None
        if not line.strip() or _HEADING.match(line) or _TITLE.match(line):
            continue
        line = _JOINED.sub(r"\1", line)
        yield _AFTER.sub(r"\1", _BEFORE.sub(r"\1", line))
    yield None


def book_paragraphs(lines: Iterator[str]) -> Iterator[str | None]:
    """Paragraphs of a plain text file, which is one document."""
    paragraph = []
    for line in lines:
        if line.strip():
            paragraph.append(line.strip("\ufeff\n"))
        elif paragraph:
            yield " ".join(paragraph)
            paragraph = []
    if paragraph:
        yield " ".join(paragraph)
    yield None


def convert(options: ConvertOptions) -> int:
    """Writes the output file; returns the number of documents."""
    read = {"wikitext": wikitext_paragraphs, "book": book_paragraphs}
    documents, begun = 0, False
    with files.atomic_open(options.output_file, "w") as out:
        for path in corpus.list_files(options.input_glob):
            with corpus.open_text(path) as f:
                text = corpus.decode_lines(path, f)
                for paragraph in read[options.layout](text):
                    if paragraph is None:
                        if begun:
                            out.write("\n")
                            documents += 1
                        begun = False
                        continue
                    found = sentences(paragraph)
                    end = f" {EOP}\n" if options.paragraphs else "\n"
                    out.write("\n".join(found) + end)
                    begun = True
    return documents


def main() -> None:
    """Converts what the flags say."""
    options = convert_flags.from_flags()
    count = convert(options)
    print(f"{options.output_file}: {count} documents")


if __name__ == "__main__":
    convert_flags.define()
    app.run(main)
