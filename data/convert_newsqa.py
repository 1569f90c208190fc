"""Command: NewsQA's official JSON -> SQuAD 2.0 JSON, offsets as they are.

    python -m data.convert_newsqa --input=combined-newsqa-data-v1.json \\
        --output=newsqa-train.json --split=train

The official file (made with the CNN stories by the authors' own tool; the texts
may not be passed on) is `{"data": [{"storyId", "text", "type", "questions":
[{"q", "consensus", ...}]}]}`. A consensus is a span `{"s", "e"}` of raw
characters (the end excluded), or `{"noAnswer": true}` or `{"badQuestion":
true}`, which are unanswerable here. With the result, run_squad.py trains on
both sets: `--train_file=train-v2.0.json,newsqa-train.json` (XLNet, section 3.3).
"""

import json
import os
from collections import Counter

from absl import flags

from common import encodings, files
from common.checks import plain_name
from common.errors import UserError
from common.process import next_command
from data.finetuning.examples import BadRows
from data.finetuning.tables.table_files import read_json
from flags import app

FLAGS = flags.FLAGS
SPLITS = ("train", "dev", "test", "all")


def convert(
    value: object, path: str, split: str, bad: BadRows
) -> tuple[dict, Counter]:
    """(SQuAD 2.0 value, what was counted) of a NewsQA value.

    Stories whose `type` is not `split` (of `SPLITS`) are left out. Raises
    UserError: another layout, or nothing of this split.
    """
    stories = value.get("data") if isinstance(value, dict) else None
    if not isinstance(stories, list):
        raise UserError(
            f'{path}: wanted NewsQA\'s {{"data": [...]}}, found '
            f"{type(value).__name__}; give combined-newsqa-data-v1.json"
        )
    counts: Counter = Counter()
    articles = []
    for number, story in enumerate(stories):
        where = f"{path}: story {number}"
        problem = _story_problem(story)
        if problem:
            bad.report(where, problem)
            continue
        if split not in ("all", story.get("type")):
            continue
        qas = []
        for index, entry in enumerate(story["questions"]):
            name = f"{story['storyId']}#{index}"
            qa, what = _question(entry, name, story["text"])
            if qa is None:
                bad.report(f"{where} question {index}", what)
                what = "left out"
            else:
                qas.append(qa)
            counts[what] += 1
        paragraph = {"context": story["text"], "qas": qas}
        if qas:
            articles.append(
                {"title": story["storyId"], "paragraphs": [paragraph]}
            )
    if not articles:
        raise UserError(f"{path}: holds no usable question of --split={split}")
    counts["stories"] = len(articles)
    return {"version": "v2.0", "data": articles}, counts


def _story_problem(story: object) -> str | None:
    if not isinstance(story, dict):
        return f"wanted an object, found {type(story).__name__}"
    if not isinstance(story.get("text"), str) or not story["text"].strip():
        return "wanted a non-empty string 'text' (the story; see the module)"
    if not isinstance(story.get("storyId"), str):
        return "wanted a string 'storyId'"
    if not isinstance(story.get("questions"), list):
        return "wanted a list 'questions'"
    return encodings.half_pair(story["text"], story["storyId"])


def _question(entry: object, name: str, text: str):
    """(SQuAD's question, what it is) or (None, what is wrong)."""
    if not isinstance(entry, dict):
        return None, f"wanted an object, found {type(entry).__name__}"
    question, consensus = entry.get("q"), entry.get("consensus")
    if not isinstance(question, str) or not question.strip():
        return None, "wanted a non-empty string 'q'"
    if problem := encodings.half_pair(question):
        return None, problem
    if not isinstance(consensus, dict):
        return None, "wanted an object 'consensus'"
    result = {"id": name, "question": question.strip()}
    for key, what in (("badQuestion", "bad"), ("noAnswer", "no answer")):
        if consensus.get(key) is True:
            return result | {"answers": [], "is_impossible": True}, what
    start, end = consensus.get("s"), consensus.get("e")
    if not all(type(x) is int for x in (start, end)):
        return None, "wanted 's' and 'e', 'noAnswer' or 'badQuestion'"
    if not 0 <= start < end <= len(text):
        return None, (
            f"the answer {start} to {end} does not lie in the story of "
            f"{len(text)} characters"
        )
    answer = text[start:end]
    start += len(answer) - len(answer.lstrip())
    answer = answer.strip()
    if not answer:
        return None, "the answer is white space"
    answers = [{"text": answer, "answer_start": start}]
    return result | {"answers": answers, "is_impossible": False}, "answered"


def main() -> None:
    """Converts what the flags say."""
    plain_name(FLAGS.output, "output")
    files.refuse_input(FLAGS.output, [FLAGS.input])
    bad = BadRows(FLAGS.skip_bad_rows)
    squad, counts = convert(
        read_json(FLAGS.input), FLAGS.input, FLAGS.split, bad
    )
    files.write_text(FLAGS.output, json.dumps(squad, ensure_ascii=False))
    if summary := bad.summary():
        print(summary)
    print(
        f"{FLAGS.output}: {counts['stories']} stories, "
        f"{counts['answered']} questions with an answer, "
        f"{counts['no answer']} without, {counts['bad']} bad questions (as "
        f"without), {counts['left out']} left out"
    )
    folder = os.path.splitext(FLAGS.output)[0]
    print("TRAIN.json and DEV.json are SQuAD's, PRETRAINED is a model's folder")
    print(
        next_command.line(
            *("run_squad.py", f"--train_file=TRAIN.json,{FLAGS.output}"),
            *("--predict_file=DEV.json", "--init_checkpoint=PRETRAINED"),
            *(f"--model_dir={folder}_model", "--do_train", "--do_eval"),
        )
    )


if __name__ == "__main__":
    flags.DEFINE_string(
        "input", None, "combined-newsqa-data-v1.json.", required=True
    )
    flags.DEFINE_string("output", None, "File to write.", required=True)
    flags.DEFINE_enum("split", "train", SPLITS, "Stories of this type.")
    flags.DEFINE_bool(
        "skip_bad_rows", False, "Leave unusable questions out and count them."
    )
    app.run(main)
