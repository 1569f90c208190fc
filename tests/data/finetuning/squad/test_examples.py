"""SQuAD JSON: both versions, and every field that can be wrong."""

import gzip
import json
import lzma

import pytest

from common.errors import UserError
from data.finetuning.examples import BadRows
from data.finetuning.squad import examples as squad_examples
from data.finetuning.squad.examples import SquadFile, SquadQuestion
from tests.helpers.runs import squad as run_squad
from tests.helpers.runs.classifier import CONFIG, make_options


def write(tmp_path, qas, context="A b c d."):
    value = {"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}
    path = tmp_path / "q.json"
    path.write_text(json.dumps(value))
    return str(path)


GOOD = {
    "id": "q",
    "question": "b?",
    "answers": [
        {"text": "b c", "answer_start": 2},
        {"text": "c", "answer_start": 4},
    ],
}


def test_version_1_has_no_is_impossible(tmp_path):
    file = squad_examples.read_squad(write(tmp_path, [GOOD]), True, BadRows())
    assert not file.version_2
    question = file.questions[0]
    assert (question.answer, question.answer_start, question.answerable) == (
        "b c",
        2,
        True,
    )
    assert file.gold_answers() == {"q": ["b c", "c"]}


def test_version_2_ignores_plausible_answers(tmp_path):
    impossible = GOOD | {"is_impossible": True, "plausible_answers": []}
    file = squad_examples.read_squad(
        write(tmp_path, [impossible]), True, BadRows()
    )
    assert file.version_2
    assert file.gold_answers() == {"q": []}


def test_ids_may_be_numbers(tmp_path):
    """As those of GermanQuAD."""
    wrong = {"answers": [{"text": "d.", "answer_start": 7}], "id": 9}
    path = write(tmp_path, [GOOD | {"id": 51870}, GOOD | wrong])
    file = squad_examples.read_squad(path, True, BadRows(skip=True))
    assert file.gold_answers() == {"51870": ["b c", "c"]}
    assert file.unusable == {"9": ["d."]}
    path = write(tmp_path, [GOOD | {"id": 7}, GOOD | {"id": "7"}])
    with pytest.raises(UserError, match="the id '7' is used twice"):
        squad_examples.read_squad(path, True, BadRows())


@pytest.mark.parametrize("place", [{}, {"answer_start": None}])
def test_an_evaluation_needs_no_place_of_an_answer(tmp_path, place):
    path = write(tmp_path, [GOOD | {"answers": [{"text": "c"} | place]}])
    (question,) = squad_examples.read_squad(path, False, BadRows()).questions
    assert (question.answers, question.answer_start) == (("c",), -1)
    with pytest.raises(UserError, match="'text' and 'answer_start' in each"):
        squad_examples.read_squad(path, True, BadRows())
    path = write(tmp_path, [GOOD | {"answers": [{"answer_start": 0}]}])
    with pytest.raises(UserError, match="wanted 'text' in each answer"):
        squad_examples.read_squad(path, False, BadRows())


@pytest.mark.parametrize(
    "change, problem",
    [
        ({"id": 3.5}, "wanted a string or a whole number 'id'"),
        ({"id": True}, "wanted a string or a whole number 'id'"),
        ({"id": ""}, "wanted a string or a whole number 'id'"),
        ({"question": " "}, "non-empty string 'question'"),
        ({"question": "b \ud83d?"}, r"\ud83d is half of a surrogate pair"),
        ({"id": "\udc00"}, r"\udc00 is half of a surrogate pair"),
        ({"is_impossible": "no"}, "neither true nor false"),
        ({"answers": {}}, "wanted a list 'answers'"),
        ({"answers": []}, "needs an answer"),
        ({"answers": [{"text": "b"}]}, "'answer_start' in each answer"),
        ({"answers": [{"text": "", "answer_start": 0}]}, "the answer is empty"),
        ({"answers": [{"text": "d.", "answer_start": 7}]}, "do not fit"),
        ({"answers": [{"text": "b", "answer_start": -1}]}, "do not fit"),
    ],
)
def test_bad_questions_name_their_place(tmp_path, change, problem):
    path = write(tmp_path, [GOOD, GOOD | {"id": "r"} | change])
    with pytest.raises(
        UserError, match="article 0 paragraph 0 question 1"
    ) as e:
        squad_examples.read_squad(path, True, BadRows())
    assert problem in str(e.value)
    bad = BadRows(skip=True)
    assert len(squad_examples.read_squad(path, True, bad).questions) == 1
    assert bad.count == 1


def test_a_question_without_an_answer_is_noted_among_others(tmp_path):
    """Other formats have no `is_impossible`: such questions stay wrong."""
    bare = {"id": "r", "question": "c?", "answers": []}
    bad = BadRows()
    path = write(tmp_path, [GOOD, bare])
    file = squad_examples.read_squad(path, False, bad)
    assert not file.version_2 and len(file.questions) == 2
    assert "q.json: article 0 paragraph 0 question 1: 'r': any" in bad.noted[0]
    assert len(bad.noted) == 1 and "'is_impossible': true" in bad.summary()
    bad = BadRows()  # a test set
    squad_examples.read_squad(write(tmp_path, [bare]), False, bad)
    assert not bad.noted


def test_a_paragraph_with_half_a_surrogate_pair_is_left_out(tmp_path):
    path = write(tmp_path, [GOOD], "A b c d. \ud83d")
    with pytest.raises(UserError, match=r"article 0 paragraph 0: \\ud83d is"):
        squad_examples.read_squad(path, True, BadRows())
    with pytest.raises(UserError, match="holds no usable question"):
        squad_examples.read_squad(path, True, BadRows(skip=True))
    # Two halves are one character.
    path = write(tmp_path, [GOOD], "A b c d. \U0001f600")
    assert "\\ud83d" in (tmp_path / "q.json").read_text()
    assert squad_examples.read_squad(path, True, BadRows()).questions


def test_ids_are_unique_and_files_hold_squad(tmp_path):
    with pytest.raises(UserError, match="used twice"):
        squad_examples.read_squad(
            write(tmp_path, [GOOD, GOOD]), True, BadRows()
        )
    path = tmp_path / "x.json"
    for content, problem in (
        ("[1]", "wanted SQuAD's"),
        ('{"data":\n [}', ":2: no valid JSON"),
        ('{"data": []}', "no usable question"),
    ):
        path.write_text(content)
        with pytest.raises(UserError, match=problem):
            squad_examples.read_squad(str(path), True, BadRows())


@pytest.mark.shared
def test_shared_cuts_count_as_listed(shared):
    for name, questions, impossible in (
        ("train-v1.1", 2214, 0),
        ("dev-v1.1", 758, 0),
        ("train-v2.0", 4600, 2432),
        ("dev-v2.0", 1478, 736),
    ):
        path = shared / "data" / "squad" / f"{name}.json.xz"
        file = squad_examples.read_squad(str(path), True, BadRows())
        assert len(file.questions) == questions
        assert sum(not q.answerable for q in file.questions) == impossible
        assert file.version_2 == name.endswith("v2.0")


TEXT = "The red tower stood by the river all winter. "


def read_cards(path, training, bad):
    """`paragraph|question|answer` a line; no answer = unanswerable."""
    paragraphs, questions = [], []
    with open(path) as f:
        for number, line in enumerate(f):
            text, asked, answer = line.rstrip("\n").split("|")
            start = text.find(answer) if answer else -1
            if answer and start < 0:
                bad.report(f"{path}:{number + 1}", "the answer is not there")
                continue
            questions.append(
                SquadQuestion(
                    f"card-{number}",
                    asked,
                    len(paragraphs),
                    (answer,) if answer else (),
                    start,
                    bool(answer),
                )
            )
            paragraphs.append(text)
    return SquadFile(tuple(paragraphs), tuple(questions), True)


@pytest.mark.long
@pytest.mark.shared
def test_a_question_answering_format_is_a_reader(
    tmp_path, spiece_model, monkeypatch
):
    """Its file goes through windows, training, evaluation and predictions."""
    from training.finetuning.driver import Driver

    monkeypatch.setitem(squad_examples.READERS, ".cards", read_cards)
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | {"n_layer": 1}))
    lines = (f"{TEXT * 2}|What stood by the river?|red tower", f"{TEXT}|Why?|")
    for name in ("train", "dev"):
        (tmp_path / f"{name}.cards").write_text("\n".join(lines) + "\n")
    options = make_options(
        tmp_path,
        steps=1,
        do_train=True,
        do_eval=True,
        run={"train_batch_size": 2},
    )
    files = {
        f"{flag}_file": str(tmp_path / f"{name}.cards")
        for flag, name in (("train", "train"), ("predict", "dev"))
    }
    job = run_squad.make_job(
        tmp_path, spiece_model, options, 32, doc_stride=8, **files
    ).load()
    results = Driver(job, options, say=lambda line: None).run()["dev"]
    assert (results["HasAns_total"], results["NoAns_total"]) == (1, 1)
    folder = tmp_path / "model/predictions"
    answers = json.loads((folder / "predictions.json").read_text())
    assert list(answers) == ["card-0", "card-1"]
    (tmp_path / "dev.cards").write_text(f"{TEXT}|Who?|nobody\n")
    with pytest.raises(UserError, match="dev.cards:1: the answer is not"):
        squad_examples.read_file(files["predict_file"], False, BadRows())


OPEN = {"": open, ".gz": gzip.open, ".xz": lzma.open}


def write_packed(path, question_id):
    qas = [{"id": question_id, "question": "b?", "answers": []}]
    value = {"data": [{"paragraphs": [{"context": "A b.", "qas": qas}]}]}
    suffix = path.suffix if path.suffix in OPEN else ""
    with OPEN[suffix](path, "wb") as f:
        f.write(json.dumps(value).encode())


def read_id(path):
    file = squad_examples.read_file(str(path), False, BadRows())
    return file.questions[0].question_id


@pytest.mark.parametrize("suffix", ["", ".gz", ".xz"])
def test_a_file_is_found_by_its_published_name(tmp_path, suffix):
    write_packed(tmp_path / f"dev-v2.0.json{suffix}", "q")
    assert read_id(tmp_path / "dev-v2.0.json") == "q"
    assert read_id(tmp_path / f"dev-v2.0.json{suffix}") == "q"


def test_the_name_itself_comes_first_and_its_ending_chooses(
    tmp_path, monkeypatch
):
    for suffix, name in (("", "plain"), (".gz", "gz"), (".xz", "xz")):
        write_packed(tmp_path / f"dev.json{suffix}", name)
    assert read_id(tmp_path / "dev.json") == "plain"
    assert read_id(tmp_path / "dev.json.xz") == "xz"
    (tmp_path / "dev.json").unlink()
    assert read_id(tmp_path / "dev.json") == "gz"
    seen = []
    monkeypatch.setitem(
        squad_examples.READERS, ".cards", lambda path, *_: seen.append(path)
    )
    write_packed(tmp_path / "x.cards.gz", "cards")
    squad_examples.read_file(str(tmp_path / "x.cards"), False, BadRows())
    assert seen == [str(tmp_path / "x.cards.gz")]
    write_packed(tmp_path / "x.gz", "capitals")
    (tmp_path / "x.gz").rename(tmp_path / "X.CARDS.GZ")
    squad_examples.read_file(str(tmp_path / "X.CARDS.GZ"), False, BadRows())
    assert seen[1:] == [str(tmp_path / "X.CARDS.GZ")]


def test_a_file_that_is_nowhere_says_what_was_tried(tmp_path):
    path = tmp_path / "train-v2.0.json"
    with pytest.raises(UserError) as e:
        squad_examples.read_file(str(path), True, BadRows())
    (line,) = str(e.value).splitlines()
    for name in (path, f"{path}.gz", f"{path}.xz"):
        assert f"{name} " in f"{line} "
    # A folder of that name is none.
    path.mkdir()
    with pytest.raises(UserError, match="not a file that can be read"):
        squad_examples.read_file(str(path), True, BadRows())


def test_gold_answers_of_a_file():
    question = SquadQuestion("q", "?", 0, ("a",), 0, True)
    assert SquadFile(("p",), (question,), False).labelled
    bare = SquadQuestion("q", "?", 0, (), -1, True)
    assert not SquadFile(("p",), (bare,), False).labelled
    assert SquadFile(("p",), (bare,), True).labelled
