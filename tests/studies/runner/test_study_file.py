"""The file of options of a study: what is in ours, what is refused."""

import tomllib

import pytest

from common.errors import UserError
from studies.kinds.registry import load
from tests.benchmarks.squad_scores import scores
from tests.conftest import ROOT
from tests.studies.toy_studies import default_options


def test_flags_of_all_are_of_pretraining_and_tasks(options):
    text = options.read_text()
    options.write_text(f"all = {{ train_steps = 1, precision = 'x' }}\n{text}")
    given = load(str(options), {})
    for command, steps in (
        (given.pretrain, 9),
        (given.tasks["one"], 5),
        (given.tasks["two"], 4),
    ):
        # Its own flags win.
        assert {"--precision=x", f"--train_steps={steps}"} < set(
            command.words()
        )
    assert not given.records.flags


@pytest.mark.parametrize(
    "old, new, message",
    [
        ('reference = "b"', 'reference = "z"', "one of a, b, c, found 'z'"),
        ("speed_steps", "sped_steps", "sped_steps"),
        ("digits = 1", 'digits = "1"', "'two': `digits` must be whole number"),
        ("digits = 1", "digits = -1", "`digits` must be >= 0"),
        ('metric = "accuracy"', "metric = []", "`metric` must be text, found"),
        ("scale = 100.0", "scale = true", "`scale` must be number, found True"),
        ("speed_steps = 1", "all = [{}]", "all. must be a table, found"),
        ("speed_steps = 1", "start = 3", "`start` must be a folder, found 3"),
        ("speed_steps = 1", "corpus = [{}]", "`command` must be a table"),
        (
            "tasks.one = { ",
            "tasks.one = { search = 'a/b', ",
            "tasks.one.search must be a table, found 'a/b'",
        ),
        ("speed_steps = 1", "speed_steps = -1", "`speed_steps` must be >= 0"),
        ("speed_steps = 1", 'kind = "x"', "one of study, gains, learning, sea"),
        ('name = "a first"', 'name = "a", start = "x"', "of weights, random"),
        (
            'name = "a first", drop = ["only_b"]',
            'name = "a", start = "random"',
            "of the study is",
        ),
        (
            'name = "a first"',
            'name = "a", start = "random"',
            "is instead of a pretraining",
        ),
        (
            'name = "b second"',
            'name = "b", start = "random"',
            "is instead of a",
        ),
        (
            'name = "a first"',
            'name = "a", without = ["three"]',
            "a task must be one of one, two, found 'three'",
        ),
        (
            'name = "c wrong"',
            'name = "c wrong", without = ["two"]',
            "claim 'c is better': row 'c wrong' is without 'two', of which col",
        ),
        ("pretrain = {", "# pretrain = {", "row 'a first': .pretrain. is mi"),
        ('of = "two"', 'of = "three"', "pretrain, one, two"),
        (
            'more = ["c"]',
            'more = ["d"]',
            "a row must be one of a, b, c, found 'd'",
        ),
        (
            "pretrain_seeds = 2",
            "pretrain_seeds = 0",
            "`pretrain_seeds` must be >= 1",
        ),
        ('"c wrong"', '"a wrong"', "different names"),
        ("finetune_seeds = 3", "finetune_seeds =", "no TOML"),
        ('name = "loss"', 'name = "{loss}"', "{loss} is not known"),
        ('records = { command = "', 'records = { com = "', "'command' is"),
        ('name = "loss"', 'name = "{"', "'{': braces stand around one of text"),
        ('name = "loss"', 'name = "a {0}"', "braces stand around one of text"),
        ('name = "loss"', 'name = "{text.x}"', "'{text.x}': braces stand"),
        ("train_steps = 9", 'train_steps = "many"', "stub.py: `train_steps` m"),
        ("train_steps = 5", "train_steps = 0", "from 1 on, found 0"),
        (
            "train_steps = 4",
            "train_steps = 4, search = { train_steps = [4, 1.5] }",
            "tasks.two.search: `train_steps` must be a whole number .* 1.5",
        ),
        # The runner gives these: those of the file had no effect.
        ("only_b = 1", "only_b = 1, seed = 7", "'a first': pretraining: `seed"),
        (
            "only_b = 1",
            "only_b = 1, data_dir = 'x'",
            "`data_dir` is set by the runner: le",
        ),
        ("speed_steps = 1", "all = { seed = 3 }", "tasks.one: `seed` is set"),
        (
            "train_steps = 4",
            "train_steps = 4, model_dir = 'x'",
            "tasks.two: `m",
        ),
        (
            "seq_len = 3",
            "output_dir = 'x'",
            "row 'b second': `records`: `output_dir` is set by the runner",
        ),
        ("records = {", "records = { output_dir = 'x',", r".records.: `output"),
        # Ended in a stack trace.
        (
            'name = "b second"',
            'name = "b second", tasks = { one = { init_checkpoint = "x" } }',
            "row 'b second': task 'one': `init_checkpoint` is set by the",
        ),
        ('["only_b"]', '["onlyb"]', "`drop` must be one of train_steps, only"),
        ("{ one = 0.5 }", "{ won = 0.5 }", "a column must be one of loss, one"),
    ],
)
def test_options_that_are_wrong_are_one_line(
    options,
    old,
    new,
    message,
):
    text = options.read_text()
    assert old in text
    options.write_text(text.replace(old, new, 1))
    with pytest.raises(UserError, match=message):
        load(str(options), {"text": "t"})


def test_a_file_of_other_bytes_than_text_is_refused(options):
    """Its names had another sign for each of them."""
    options.write_bytes(options.read_bytes() + b"# caf\xe9\n")
    with pytest.raises(UserError, match="options.toml is no TOML: .*0xe9"):
        load(str(options), {"text": "t"})


@pytest.mark.parametrize(
    "old, new",
    [
        (" train_steps = 9,", ""),
        ("speed_steps = 1", "speed_steps = 0"),
        (
            'drop = ["only_b"], paper = { one = 0.5 }',
            'start = "random"',
        ),
    ],
)
def test_equal_seconds_need_what_they_follow_from(options, old, new):
    text = options.read_text().replace(
        "records = { seq_len = 3 }", 'seconds_of = "a"'
    )
    options.write_text(f'start = "x"\n{text}')
    assert load(str(options), {"text": "t"}).equal_seconds
    assert old in text
    options.write_text(f'start = "x"\n{text.replace(old, new)}')
    wanted = "'b second': `seconds_of` needs `speed_steps` .* row 'a first'"
    with pytest.raises(UserError, match=wanted):
        load(str(options), {"text": "t"})


def test_chosen_tasks_leave_the_papers_numbers_of_other_columns(options):
    given = load(str(options), {"text": "t"})
    assert given.chosen(["one"]).rows[0].paper == {"one": 0.5}
    assert given.chosen(["two"]).rows[0].paper == {}


def test_claims_are_made_of_columns_that_move_where_nothing_is_answered():
    given = default_options()
    found = scores()
    shown = {
        c.name: c.scale * found[c.metric]
        for c in given.columns
        if c.of == "squad2"
    }
    assert shown == {
        "SQuAD2.0 F1": 60.0,  # the share of questions without an answer
        "SQuAD2.0 EM": 60.0,
        "answerable F1": 50.0,
    }
    one_column = [c.columns[0] for c in given.claims if len(c.columns) == 1]
    assert one_column == ["common loss", "answerable F1"]
    for claim in given.claims:
        assert claim.columns == ("common loss",) or "answerable F1" in (
            claim.columns
        )
        assert not {"SQuAD2.0 F1", "SQuAD2.0 EM"} & set(claim.columns)


def test_the_paper_is_whole_in_the_file_of_options():
    with open(ROOT / "studies" / "options" / "ablation.toml", "rb") as f:
        raw = tomllib.load(f)
    given = default_options()
    keys = "1 2 3 4 5 5b 6 7 8 9 10 11 12 0".split()
    assert [row.key for row in given.rows] == keys
    assert sum(bool(row["paper"]) for row in raw["rows"] if "paper" in row) == 8
    assert len(given.claims) == 7
    # BERT learns a vector per position, of those that pretraining shows it.
    longest = given.records.flags["seq_len"]
    tuned = [task for task in given.tasks.values() if not task.in_place]
    assert len(tuned) == 2
    for task in tuned:
        assert task.flags["max_seq_length"] <= longest
    assert given.first["vocabulary"].words()[:3] == (
        *("-m", "data.train_sentencepiece", "--input_glob=t"),
    )
