"""Bad rows, labels, rows of predictions, and some of the examples."""

import dataclasses

import numpy as np
import pytest

from common.errors import UserError
from data.finetuning import examples as task_examples
from data.finetuning.examples import (
    SHOWN_LABELS,
    SHOWN_PROBLEMS,
    BadRows,
    describe_labels,
    some_of,
)
from data.finetuning.options import (
    FeatureOptions,
    RaceDataOptions,
    TaggingDataOptions,
)
from tests.helpers.runs import classifier as run_classifier
from tests.helpers.runs import race as run_race
from tests.helpers.runs import squad as run_squad
from tests.helpers.runs.classifier import make_options
from tests.helpers.runs.tagger import write_sentences


def test_the_first_bad_row_ends_or_all_are_counted():
    with pytest.raises(UserError, match="f:3: empty; correct the row or give"):
        BadRows().report("f:3", "empty")
    bad = BadRows(skip=True)
    for number in range(SHOWN_PROBLEMS + 2):
        bad.report(f"f:{number}", "empty")
    assert bad.count == SHOWN_PROBLEMS + 2
    title, *lines = bad.summary().split("\n  ")
    assert title == f"skipped {bad.count} bad rows:"
    assert lines[0] == "f:0: empty" and lines[-1] == "... and 2 more"
    assert len(lines) == SHOWN_PROBLEMS + 1


def test_labels_are_counted_in_their_order():
    line = describe_labels(("no", "yes", "maybe"), ["yes", "no", "yes"])
    assert line == "labels (3): 'no' 1, 'yes' 2, 'maybe' 0"
    names = tuple(f"label of {i}" for i in range(SHOWN_LABELS + 2))
    line = describe_labels(names, names)
    assert f"{names[SHOWN_LABELS - 1]!r} 1, and 2 more" in line
    assert names[SHOWN_LABELS] not in line and "note" not in line


@pytest.mark.parametrize(
    "one, other",
    [
        ("1", "1.0"),
        ("B-per", "B-PER"),
        ("gr\u00f6\u00dfe", "gro\u0308\u00dfe"),
        ("no", "no\u200b"),
        ("not so", "not\u00a0so"),
    ],
)
def test_labels_that_look_alike_are_noted(one, other):
    _, note = describe_labels(("x", one, other), ()).split("\n")
    assert note.startswith(f"note: the labels {one!a} and {other!a} look alike")


def test_what_is_said_of_a_file_is_said_once_and_first():
    bad = BadRows()
    assert bad.summary() == ""
    bad.note("f:2", "no text")
    for _ in range(2):
        bad.say("columns: a, b")
    assert bad.summary().split("\n") == [
        "columns: a, b",
        "1 rows are used as they are:",
        "  f:2: no text",
    ]


@pytest.mark.parametrize(
    "text, kind, label, problem",
    [
        (" b ", "classification", "b", None),
        ("", "classification", None, "the label is empty"),
        ("c", "classification", None, "unknown label 'c', wanted one of a, b"),
        ("2.5", "regression", 2.5, None),
        ("nan", "regression", None, "wanted a finite number"),
        ("x", "regression", None, "wanted a number as label, found 'x'"),
        ("1_0", "regression", None, "wanted a number as label, found '1_0'"),
        ("b | a", "multi_label", ("b", "a"), None),
        ("", "multi_label", (), None),
        ("a|a", "multi_label", None, "a label is given twice in 'a|a'"),
        ("a|c", "multi_label", None, "unknown label 'c'"),
        ("['a', 'b']", "multi_label", None, "found the list \"['a', 'b']\""),
        ('["a"]', "multi_label", None, "wanted names with '|' between them"),
        ("[]", "multi_label", None, "found the list '[]'"),
        ("[a]", "multi_label", None, "unknown label '[a]'"),
    ],
)
def test_labels_of_every_kind(text, kind, label, problem):
    found = task_examples.parse_label(text, kind, {"a": 0, "b": 1})
    assert found[0] == label
    assert found[1] is None if problem is None else problem in found[1]


@pytest.mark.parametrize("kind", ["classification", "multi_label"])
def test_a_label_is_one_line(kind):
    """The list of an export's labels had a line too many."""
    parse = task_examples.parse_label
    for name in ("a\nb", "a\rb", "a\u2028b"):
        label, problem = parse(name, kind)
        assert label is None and "holds a line break" in problem
        assert parse(name, kind, {"a": 0, "c": 1})[1] == problem
    # Of a model that was trained with it.
    assert parse("a\nb", kind, {"a\nb": 0})[1] is None
    assert parse(" a b\n", kind)[1] is None
    assert parse("[a, b]", kind, {"[a, b]": 0})[1] is None


def test_rows_without_an_id_have_their_number_in_the_file():
    bad = BadRows(skip=True)
    bad.report("before", "of another file")
    rows = [
        ("f:1", ["x"], "a", "", None),
        ("f:2", ["y"], "c", "", None),
        ("f:3", ["z"], None, "", None),
        ("f:4", ["w"], "b", "id-7", None),
        ("f:5", ["v"], "b", "", "a problem"),
    ]
    found = task_examples.collect(rows, bad, "classification", {"a": 0, "b": 1})
    assert [(e.guid, e.label) for e in found] == [
        ("0", "a"),
        ("2", None),
        ("id-7", "b"),
    ]
    assert bad.count == 3


def test_shares_name_the_likeliest():
    rows = task_examples.share_rows(
        ["x", "y"], ("a", "b", "c"), np.array([[0.2, 0.5, 0.3], [0.6, 0, 0.4]])
    )
    assert rows[0] == ["guid", "prediction", "p(a)", "p(b)", "p(c)"]
    assert rows[1] == ["x", "b", "0.200000", "0.500000", "0.300000"]
    assert rows[2][:2] == ["y", "a"]


def test_fewer_examples_are_a_part_of_more_in_file_order():
    every = list(range(40))
    few, more = (task_examples.some_of(every, n, 3) for n in (6, 17))
    assert len(few) == 6 and set(few) < set(more)
    assert few == sorted(few) and more == sorted(more)
    assert task_examples.some_of(every, 0, 3) == every
    assert task_examples.some_of(every, 6, 4) != few
    with pytest.raises(UserError, match="--train_examples=41: .* have 40;"):
        task_examples.some_of(every, 41, 3)


def test_parts_are_in_order_seeded_and_nested():
    rows = [f"row {i}" for i in range(500)]
    assert some_of(rows, 0, 3) == rows and some_of(rows, 500, 3) == rows
    few, more = some_of(rows, 50, 3), some_of(rows, 200, 3)
    assert len(few) == 50 and set(few) < set(more)
    assert few == sorted(few, key=rows.index)
    assert some_of(rows, 50, 3) == few != some_of(rows, 50, 4)
    # No end of the file is preferred.
    places = [rows.index(r) for s in range(40) for r in some_of(rows, 50, s)]
    assert sum(places) / len(places) == pytest.approx(249.5, abs=12)
    with pytest.raises(UserError, match="=501: the training data have 500"):
        some_of(rows, 501, 0)


def _options(folder, **changes):
    options = make_options(folder, do_train=True, do_eval=True, **changes)
    strategy = dataclasses.replace(options.run.strategy, seed=7)
    return dataclasses.replace(
        options, run=options.run.replace(strategy=strategy)
    )


@pytest.mark.shared
def test_a_part_of_a_classification_set(tmp_path, spiece_model):
    run_classifier.write_task(tmp_path)

    def job(**changes):
        options = _options(tmp_path, **changes)
        return run_classifier.make_job(tmp_path, spiece_model, options)

    part, whole = job(train_examples=12), job()
    assert [len(j.train.examples) for j in (part, whole)] == [12, 30]
    assert part.spec().labels == whole.spec().labels == ("no", "yes")
    # A resumed run cannot have another part; the dev split is as ever.
    hashes = {j.must_match()["train_data"] for j in (part, whole)}
    assert len(hashes) == 2
    assert len(part.lengths(part.evals["dev"])) == 11
    with pytest.raises(UserError, match="=31: the training data have 30"):
        job(train_examples=31)


@pytest.mark.shared
def test_a_part_of_squad_race_and_tags(tmp_path, golden, spiece_model):
    from data.finetuning.race.task import RaceTask
    from data.finetuning.tagging.task import TaggingTask

    options = _options(tmp_path, train_examples=5)
    job = run_squad.make_job(golden, spiece_model, options)
    split = job.read("train", "train")
    whole = run_squad.make_job(golden, spiece_model, _options(tmp_path))
    every = [
        q.question_id for q in whole.read("train", "train").examples.questions
    ]
    found = [q.question_id for q in split.examples.questions]
    assert found == some_of(every, 5, 7) and job.mixture is None
    assert set(split.windows.windows.question) == set(range(5))
    weighted = run_squad.make_job(
        golden,
        spiece_model,
        options,
        train_file=f"{golden}/squad/train.json,{golden}/squad/train.json",
        train_weights=(1.0, 2.0),
    )
    with pytest.raises(UserError, match="leave --train_weights out"):
        weighted.read("train", "train")

    run_race.write_race(tmp_path)
    features = FeatureOptions(spiece_model, 72)
    job = RaceTask(RaceDataOptions(str(tmp_path)), features, options).load()
    assert job.train.table.num_examples == 5
    assert len(job.lengths(job.evals["dev"])) == 12

    write_sentences(tmp_path)
    features = FeatureOptions(spiece_model, 16)
    job = TaggingTask(TaggingDataOptions(str(tmp_path)), features, options)
    assert len(job.read("train", "train").examples) == 5
    assert len(job.read("dev", "eval").examples) == 9


@pytest.mark.shared
def test_an_evaluation_on_the_training_data_has_all_of_it(
    tmp_path, spiece_model
):
    from data.finetuning.race.task import RaceTask
    from data.finetuning.tagging.task import TaggingTask

    options = _options(tmp_path, train_examples=5)
    run_classifier.write_task(tmp_path)
    rows = run_classifier.make_job(
        tmp_path, spiece_model, options, eval_split="train"
    )
    run_race.write_race(tmp_path)
    questions = RaceTask(
        RaceDataOptions(str(tmp_path), eval_split="train"),
        FeatureOptions(spiece_model, 72),
        options,
    ).load()
    write_sentences(tmp_path)
    path = str(tmp_path / "train.conll")
    tags = TaggingTask(
        TaggingDataOptions(train_file=path, eval_file=path),
        FeatureOptions(spiece_model, 16),
        options,
    ).load()
    for job, count in ((rows, 30), (questions, 16), (tags, 40)):
        (evaluated,) = job.evals.values()
        counts = [len(s.examples) for s in (job.train, evaluated)]
        assert counts == [5, count]
