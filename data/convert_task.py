"""Command: a task's training texts -> text to go on pretraining with.

    python -m data.convert_task --task_name=imdb --data_dir=aclImdb \\
        --output_file=imdb.txt
    python -m data.convert_task --task_name=squad \\
        --train_file=train-v1.1.json --output_file=squad.txt
    python -m data.convert_task --task_name=race --data_dir=RACE \\
        --output_file=race.txt

One sentence per line, an empty line between documents, as the builder reads it.
A document is a row's texts, SQuAD's paragraph or RACE's passage with what is
asked of it left out; one that came before is left out. Only training files are
read, and with --dev_fraction none of the rows that `run_classifier.py` holds out
with the same flags (--multi_label and --labels are such).
docs/guides/pretraining.md says what to do with the file.
"""

import os
from collections.abc import Iterable, Iterator

from absl import flags

from common import files
from common.errors import UserError
from common.process import next_command
from data.corpus.options import check_text_name
from data.corpus.sentences import sentences
from data.finetuning.classifier import sets
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.race.examples import read_race
from data.finetuning.squad.examples import read_squad
from data.finetuning.tables.table_files import packed
from flags import app, flag_values
from flags.tasks import head_flags

FLAGS = flags.FLAGS


def texts_of_rows(
    options: ClassifierDataOptions, bad: BadRows
) -> Iterator[tuple[str, ...]]:
    """The texts of each training row of a classification task."""
    for example in sets.open_set(options).read("train", bad):
        yield example.texts


def documents(examples: Iterable[tuple[str, ...]]) -> Iterator[str]:
    """Sentences of each document, a line each; what came before is left out."""
    seen = set()
    for paragraphs in examples:
        lines = [line for text in paragraphs for line in sentences(text)]
        document = "\n".join(lines)
        if document and document not in seen:
            seen.add(document)
            yield document


def convert(examples: Iterable[tuple[str, ...]], path: str) -> dict[str, int]:
    """Writes the documents; counts them, their sentences and words."""
    counts = {"documents": 0, "sentences": 0, "words": 0}
    with files.atomic_open(path, "w") as out:
        for document in documents(examples):
            out.write(document + "\n\n")
            counts["documents"] += 1
            counts["sentences"] += document.count("\n") + 1
            counts["words"] += len(document.split())
        if not counts["documents"]:
            raise UserError("the training files hold no text")
    return counts


def main() -> None:
    """Converts what the flags say."""
    check_text_name(FLAGS.output_file)
    bad = BadRows(FLAGS.skip_bad_rows)
    examples = _read(FLAGS.task_name.lower(), bad)
    counts = convert(examples, FLAGS.output_file)
    if summary := bad.summary():
        print(summary)
    print(
        f"{FLAGS.output_file}: {counts['documents']} documents, "
        f"{counts['sentences']} sentences, {counts['words']} words"
    )
    print("PRETRAINED is the folder of the model that goes on")
    print(
        next_command.line(
            *("-m", "data.create_pretraining_data"),
            f"--input_glob={FLAGS.output_file}",
            "--spiece_model_file=PRETRAINED/spiece.model",
            f"--output_dir={os.path.splitext(FLAGS.output_file)[0]}_records",
        )
    )


def _read(name: str, bad: BadRows) -> Iterable[tuple[str, ...]]:
    if name in ("squad", "race") and FLAGS.dev_fraction:
        raise UserError(f"--dev_fraction is not for --task_name={name}")
    head = head_flags.from_flags()
    if name in ("squad", "race") and head != "classification":
        raise UserError(
            f"--multi_label and --is_regression are not for --task_name={name}"
        )
    head_flags.check(name, head)
    unread = "data_dir" if name == "squad" else "train_file"
    if FLAGS[unread].value:
        raise UserError(
            f"--{unread} is not for --task_name={name}, which would ignore it: "
            "leave it out"
        )
    if name == "squad":
        if not FLAGS.train_file:
            raise UserError("--task_name=squad needs --train_file")
        files.refuse_input(FLAGS.output_file, [FLAGS.train_file])
        path = packed(FLAGS.train_file)
        paragraphs = read_squad(path, False, bad).paragraphs
        return ((text,) for text in paragraphs)
    if not FLAGS.data_dir:
        raise UserError(f"--task_name={name} needs --data_dir")
    if name in ("race", "imdb"):
        _refuse_within(FLAGS.output_file, os.path.join(FLAGS.data_dir, "train"))
    if name == "race":
        questions = read_race(FLAGS.data_dir, "train", bad)
        return ((example.article,) for example in questions)
    folder = files.beginning_with(os.path.join(FLAGS.data_dir, ""))
    files.refuse_input(FLAGS.output_file, folder)
    options = flag_values.build(ClassifierDataOptions, head=head)
    return texts_of_rows(options, bad)


def _refuse_within(output: str, folder: str) -> None:
    """UserError: a text file in this folder is one of the set's texts."""
    inside = os.path.join(os.path.realpath(folder), "")
    if os.path.realpath(output).startswith(inside):
        raise UserError(
            f"--output_file={output} lies in {folder}, whose text files are "
            "the training set: give a place outside of it"
        )


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string(
        "task_name",
        None,
        "squad, race, or a task of run_classifier.py.",
        required=True,
    )
    flags.DEFINE_string(
        "data_dir", "", "The task's files, as when it is tuned."
    )
    flags.DEFINE_string("train_file", "", "squad: its training file.")
    flags.DEFINE_string(
        "output_file", None, "Text file that is written.", required=True
    )
    head_flags.define()
    flag_values.define(
        ClassifierDataOptions,
        *("text_columns", "label_column", "has_header", "label_separator"),
        *("allow_empty_text", "labels", "dev_fraction", "dev_seed"),
    )
    flags.DEFINE_bool(
        "skip_bad_rows", False, "Leave rows out that cannot be read."
    )


if __name__ == "__main__":
    define()
    app.run(main)
