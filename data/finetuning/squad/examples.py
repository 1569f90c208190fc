"""SQuAD 1.1 and 2.0 JSON -> paragraphs and questions, checked field by field."""

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from common import encodings
from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.squad import answer_places
from data.finetuning.tables import table_files as task_readers

_LACKS_ANSWER = (
    "an answerable question needs an answer, another one 'is_impossible': true"
)


@dataclasses.dataclass(frozen=True)
class SquadQuestion:
    """One question."""

    question_id: str
    text: str
    paragraph: int  # index into the paragraphs
    # all gold texts, in file order; empty = unanswerable
    answers: tuple[str, ...]
    answer_start: int  # character of the first gold answer, -1 without one
    # `is_impossible` is absent or false (v1.1 has no such field)
    answerable: bool
    # one past the answer's last character in the paragraph, which may write it
    # in another length; None = as long as the answer
    answer_end: int | None = None

    @property
    def answer(self) -> str:
        """The first gold answer, "" without one."""
        return self.answers[0] if self.answers else ""


@dataclasses.dataclass(frozen=True)
class SquadFile:
    """All paragraphs and questions of a file, in file order."""

    paragraphs: tuple[str, ...]
    questions: tuple[SquadQuestion, ...]
    version_2: bool  # some question says `is_impossible`
    # id -> gold texts of questions that were left out as bad rows; the v1.1
    # evaluation counts them as wrong
    unusable: dict[str, list[str]] = dataclasses.field(default_factory=dict)

    @property
    def labelled(self) -> bool:
        """Some question has a gold answer or says that it has none."""
        return self.version_2 or any(q.answers for q in self.questions)

    def lengths(self) -> np.ndarray:
        """int [questions]: characters of each one's paragraph."""
        sizes = [len(self.paragraphs[q.paragraph]) for q in self.questions]
        return np.array(sizes, np.int64)

    def gold_answers(self) -> dict[str, list[str]]:
        """Question id -> gold texts, as the evaluation wants them."""
        return {q.question_id: list(q.answers) for q in self.questions}


def read_squad(path: str, training: bool, bad: BadRows) -> SquadFile:
    """Reads a SQuAD file.

    To train on, answerable questions need an answer whose text is at its
    `answer_start` (`data.finetuning.squad.answer_places`). Raises UserError: no
    JSON, no SQuAD layout, no question, or see `BadRows`.
    """
    value = task_readers.read_json(path)
    if not isinstance(value, dict) or not isinstance(value.get("data"), list):
        raise UserError(
            f'{path}: wanted SQuAD\'s {{"data": [...]}}, found '
            f"{type(value).__name__}"
        )
    paragraphs: list[str] = []
    questions: list[SquadQuestion] = []
    seen: set[str] = set()
    unusable: dict[str, list[str]] = {}
    version_2, without = False, []  # places of questions that lack an answer
    for where, context, qas in _paragraphs(path, value["data"], bad):
        paragraphs.append(context)
        for number, qa in enumerate(qas):
            at = f"{where} question {number}"
            problem, question = _question(
                qa, context, len(paragraphs) - 1, training
            )
            if question and question.question_id in seen:
                problem = f"the id {question.question_id!r} is used twice"
            if problem:
                bad.report(at, problem)
                unusable |= _gold_of(qa)
                continue
            seen.add(question.question_id)
            version_2 |= "is_impossible" in qa
            questions.append(question)
            if question.answerable and not question.answers:
                without.append(f"{at}: {question.question_id!r}")
    if not questions:
        raise UserError(f"{path}: holds no usable question")
    unusable = {q: golds for q, golds in unusable.items() if q not in seen}
    file = SquadFile(tuple(paragraphs), tuple(questions), version_2, unusable)
    for at in without if file.labelled else ():
        bad.note(at, f"any answer to it counts as wrong: {_LACKS_ANSWER}")
    return file


# Ending of a file, before .gz or .xz -> (path, training, bad rows) -> the file.
READERS: dict[str, Callable[[str, bool, BadRows], SquadFile]] = {
    ".json": read_squad,
}


def read_file(path: str, training: bool, bad: BadRows) -> SquadFile:
    """Questions of a file, read by its ending; SQuAD's layout by default.

    The file, or that of its name with .gz or .xz. Raises UserError: there is
    none, or what the reader refuses.
    """
    path = task_readers.packed(path)
    name, _ = task_readers.unpacked_name(path)
    reader = READERS.get(os.path.splitext(name)[1], read_squad)
    return reader(path, training, bad)


def join_files(parts: Sequence[SquadFile]) -> SquadFile:
    """Several files as one, in order, for training.

    An id that two files use gets the number of its file.
    """
    if len(parts) == 1:
        return parts[0]
    used = Counter(q.question_id for part in parts for q in part.questions)
    questions: list[SquadQuestion] = []
    before = 0
    for number, part in enumerate(parts):
        for q in part.questions:
            name = q.question_id
            if used[name] > 1:
                name = f"{number}:{name}"
            questions.append(
                dataclasses.replace(
                    q, question_id=name, paragraph=q.paragraph + before
                )
            )
        before += len(part.paragraphs)
    return SquadFile(
        tuple(p for part in parts for p in part.paragraphs),
        tuple(questions),
        any(part.version_2 for part in parts),
    )


def _gold_of(qa: object) -> dict[str, list[str]]:
    """id -> gold texts of a question, as far as they can be read."""
    if not isinstance(qa, dict) or not (name := _id_of(qa)):
        return {}
    answers = qa.get("answers")
    answers = answers if isinstance(answers, list) else []
    return {name: [a["text"] for a in answers if _has_text(a)]}


def _id_of(qa: dict) -> str:
    """A question's id as text, "" without one; some sets number theirs."""
    name = qa.get("id")
    if type(name) is int:
        return str(name)
    return name if isinstance(name, str) else ""


def _paragraphs(path: str, articles: list, bad: BadRows):
    """(where, context, questions) of every sound paragraph."""
    for a, article in enumerate(articles):
        where = f"{path}: article {a}"
        entries = (
            article.get("paragraphs") if isinstance(article, dict) else None
        )
        if not isinstance(entries, list):
            bad.report(where, "wanted a list under 'paragraphs'")
            continue
        for p, entry in enumerate(entries):
            at = f"{where} paragraph {p}"
            if (
                not isinstance(entry, dict)
                or not isinstance(entry.get("context"), str)
                or not isinstance(entry.get("qas"), list)
            ):
                bad.report(at, "wanted a string 'context' and a list 'qas'")
                continue
            if problem := encodings.half_pair(entry["context"]):
                bad.report(at, problem)
                continue
            yield at, entry["context"], entry["qas"]


def _question(
    qa: object, context: str, paragraph: int, training: bool
) -> tuple[str | None, SquadQuestion | None]:
    """(problem, question): one of both is None."""
    if not isinstance(qa, dict):
        return "wanted an object", None
    name, text = _id_of(qa), qa.get("question")
    if not name:
        return "wanted a string or a whole number 'id'", None
    if not isinstance(text, str) or not text.strip():
        return f"{name!r}: wanted a non-empty string 'question'", None
    impossible = qa.get("is_impossible", False)
    if not isinstance(impossible, bool):
        return f"{name!r}: 'is_impossible' is neither true nor false", None
    answers = qa.get("answers", [])
    if not isinstance(answers, list):
        return f"{name!r}: wanted a list 'answers'", None
    sound, wanted = _has_text, "'text'"
    if training:  # an evaluation compares texts
        sound, wanted = _sound_answer, "'text' and 'answer_start'"
    if not all(map(sound, answers)):
        return f"{name!r}: wanted {wanted} in each answer", None
    texts = tuple(a["text"] for a in answers)
    if problem := encodings.half_pair(name, text, *texts):
        return f"{name!r}: {problem}", None
    if impossible:
        answers, texts = [], ()
    elif training:
        problem = _training_problem(answers, context)
        if problem:
            return f"{name!r}: {problem}", None
    placed = bool(answers) and _sound_answer(answers[0])
    start = answers[0]["answer_start"] if placed else -1
    end = None
    if answers and training:
        end = answer_places.end_of(context, texts[0], start)
    return None, SquadQuestion(
        name, text, paragraph, texts, start, not impossible, end
    )


def _has_text(answer: object) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("text"), str)


def _sound_answer(answer: object) -> bool:
    return (
        _has_text(answer)
        and isinstance(answer.get("answer_start"), int)
        and not isinstance(answer["answer_start"], bool)
    )


def _training_problem(answers: list, context: str) -> str | None:
    if not answers:
        return _LACKS_ANSWER
    first = answers[0]
    return answer_places.problem(context, first["text"], first["answer_start"])
