"""RACE folders -> questions: `train|dev|test / middle|high / *.txt`."""

import dataclasses
import os
import re
from collections.abc import Sequence

from common import checks, encodings
from common.contract import symbols
from common.errors import UserError
from common.process import memory
from data.finetuning.examples import BadRows
from data.finetuning.features import pair_features
from data.finetuning.features.pair_features import Sequence1D
from data.finetuning.tables import table_files as task_readers

LEVELS = ("middle", "high")
ANSWERS = "ABCD"
NUM_OPTIONS = 4


@dataclasses.dataclass(frozen=True)
class RaceExample:
    """One question."""

    guid: str  # "level/file/number" of the question
    article: str
    options: tuple[str, ...]  # question + option, four texts
    label: int  # index of the right one, -1 when the file gives none
    level: str


def read_race(
    data_dir: str,
    split: str,
    bad: BadRows,
    levels: tuple[str, ...] = LEVELS,
    labelled: bool = True,
) -> list[RaceExample]:
    """All questions of a split, middle first, files by name.

    Without `labelled` answers are not looked at. Raises UserError: no such
    folder, no usable question, or see `BadRows`.
    """
    examples: list[RaceExample] = []
    folders = [os.path.join(data_dir, split, level) for level in levels]
    names_in = {f: task_readers.text_files(f) for f in folders}
    for level, (folder, names) in zip(levels, names_in.items(), strict=True):
        for name in names or ():
            path = os.path.join(folder, name)
            examples.extend(_read_file(path, level, bad, labelled))
    if all(names is None for names in names_in.values()):
        raise UserError(
            f"`{data_dir}` has no folder {split}/middle or {split}/high; wanted "
            "the layout RACE/train/high/1.txt"
        )
    if not examples:
        raise UserError(f"`{data_dir}/{split}` holds no usable question")
    return examples


def _read_file(
    path: str, level: str, bad: BadRows, labelled: bool
) -> list[RaceExample]:
    """The questions of one passage, which a file holds as a JSON object."""
    before = bad.count
    text = task_readers.read_text(path, bad)
    if bad.count > before:
        return []
    memory.check_json(text, path)
    try:
        value = checks.parse_json(text)
    except (ValueError, RecursionError) as e:
        line = getattr(e, "lineno", 1)
        bad.report(f"{path}:{line}", f"no valid JSON ({e})")
        return []
    if isinstance(value, dict) and not labelled:
        value.pop("answers", None)
    problem = _file_problem(value)
    if problem:
        bad.report(f"{path}:1", problem)
        return []
    stem = os.path.splitext(os.path.basename(path))[0]
    examples = []
    answers = value.get("answers")
    for i, (question, options) in enumerate(
        zip(value["questions"], value["options"], strict=True)
    ):
        answer = answers[i] if answers is not None else None
        problem = _question_problem(question, options)
        if answers is not None and not problem:
            problem = _answer_problem(answer)
        if problem:
            bad.report(f"{path}:1", f"question {i}: {problem}")
            continue
        if empty := _empty_texts(question, options):
            bad.note(f"{path}:1", f"question {i}: empty: {empty}")
        examples.append(
            RaceExample(
                f"{level}/{stem}/{i}",
                value["article"],
                tuple(question_with_option(question, o) for o in options),
                ANSWERS.index(answer) if answer else -1,
                level,
            )
        )
    return examples


def _file_problem(value: object) -> str | None:
    """What leaves no question of a passage usable."""
    if not isinstance(value, dict):
        return f"wanted a JSON object, found {type(value).__name__}"
    article, questions = value.get("article"), value.get("questions")
    options, answers = value.get("options"), value.get("answers")
    if not isinstance(article, str) or not article.strip():
        return "wanted a non-empty string 'article'"
    if not isinstance(questions, list):
        return "wanted a list of strings 'questions'"
    if not isinstance(options, list) or len(options) != len(questions):
        return f"wanted {len(questions)} lists in 'options'"
    if answers is not None and (
        not isinstance(answers, list) or len(answers) != len(questions)
    ):
        return f"wanted {len(questions)} 'answers'"
    return encodings.half_pair(article)


def _question_problem(question: object, options: object) -> str | None:
    if not isinstance(question, str):
        return f"wanted a string, found {question!r:.60}"
    if (
        not isinstance(options, list)
        or len(options) != NUM_OPTIONS
        or not all(isinstance(o, str) for o in options)
    ):
        return f"wanted {NUM_OPTIONS} strings in 'options'"
    return encodings.half_pair(question, *options)


def _answer_problem(answer: object) -> str | None:
    if isinstance(answer, str) and answer in tuple(ANSWERS):
        return None
    return f"wanted A, B, C or D, found {answer!r:.60}"


def _empty_texts(question: str, options: list[str]) -> str:
    """Names of the texts of a question that hold none, which it can do with."""
    names = ("question", *(f"option {a}" for a in ANSWERS))
    texts = zip(names, (question, *options), strict=True)
    return ", ".join(name for name, text in texts if not text.strip())


def question_with_option(question: str, option: str) -> str:
    """A cloze question takes the option at `_`; others are followed by it.

    >>> question_with_option("He went to the ___ today.", "island")
    'He went to the island today.'
    """
    gaps = re.split("_+", question)  # RACE draws one `_` a gap, others a line
    if len(gaps) > 1:
        return option.join(gaps)
    return " ".join([question, option])


def option_sequences(
    passage: Sequence[int],
    options: Sequence[Sequence[int]],
    max_length: int,
    max_qa_length: int,
    ids: symbols.SymbolIds,
    accumulate_options: bool = False,
    layout: str = symbols.CLS_LAST,
) -> list[Sequence1D]:
    """Inputs `passage SEP question+option SEP CLS`, unpadded, one per option.

    Only the last `max_qa_length` tokens of each question + option are kept, as
    in the original; the passage is cut at its end, then the pair rule holds.
    `accumulate_options` is for parity only, with CLS last: the original appends
    each option's tokens to the list that holds the passage (an alias), so
    option k sees the options before it.
    """
    context = list(passage)
    sequences = []
    for option in options:
        tail = list(option)[-max_qa_length:] if max_qa_length else []
        if not accumulate_options:
            sequences.append(
                pair_features.join_segments(
                    [context, tail], max_length, ids, layout
                )
            )
            continue
        sequence, context = _grown(context, tail, max_length, ids)
        sequences.append(sequence)
    return sequences


def _grown(
    context: list[int], tail: list[int], max_length: int, ids: symbols.SymbolIds
) -> tuple[Sequence1D, list[int]]:
    """The original's step: the list of the passage is the list of the input.

    A cut makes a copy, so the passage grows only when all fits. Segment ids
    count what the list held before this option as the passage.
    """
    room = max_length - 3
    fits = len(context) + len(tail) <= room
    sequence = pair_features.join_segments([context, tail], max_length, ids)
    return sequence, (sequence.ids if fits else context)
