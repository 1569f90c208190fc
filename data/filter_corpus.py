"""Command: leaves out short, foreign, repetitive and repeated documents.

    python -m data.filter_corpus --input_glob=wiki.txt --dry_run
    python -m data.filter_corpus --input_glob=wiki.txt --output_file=clean.txt

Text or JSONL in, one file of text (or JSONL, by its name) out. `--dry_run` only
counts and shows examples. The file appears when it is whole, with a report
beside it. See docs/guides/corpora.md.
"""

from data.corpus import document_filter, documents, next_step
from data.corpus.options import FilterOptions
from flags import app, flag_values

_BELOW = "a share below 1"  # 1 = no filter
_FOLLOWERS = {(_BELOW,): ("boilerplate_documents",)}


def main() -> None:
    """Filters what the flags say."""
    options = flag_values.build(FilterOptions)
    share = "1" if options.max_boilerplate == 1 else _BELOW
    flag_values.check_followed("max_boilerplate", share, _FOLLOWERS)
    report = document_filter.filter_corpus(options)
    for line in report.lines(examples=options.dry_run):
        print(line)
    if not options.dry_run:
        output = options.output_file
        print(f"{output} and {output}{document_filter.REPORT}")
        field = options.text_field if documents.is_jsonl(output) else "text"
        print(next_step.vocabulary(output, field))


if __name__ == "__main__":
    flag_values.define(FilterOptions)
    app.run(main)
