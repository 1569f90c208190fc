"""What trials are drawn from."""

import math
import statistics
import sys

import pytest

from common.errors import UserError
from studies.kinds import space

SPACE = {
    "learning_rate": {"low": 1e-4, "high": 1e-2, "log": True},
    "n_layer": {"low": 2, "high": 7},
    "clip": {"low": 0.5, "high": 1.0},
    "batch": (8, 16, 32),
    "size": {
        "deep": {"pretrain": {"width": 32}, "records": {"seq_len": 64}},
        "wide": {"pretrain": {"width": 96}, "drop": ("tied",)},
    },
}


def test_the_forms_of_a_setting():
    by_name = {s.name: s for s in space.read(SPACE)}
    assert list(by_name) == list(SPACE)
    assert by_name["batch"].values == (8, 16, 32)
    assert by_name["size"].values == ("deep", "wide")
    rate = by_name["learning_rate"]
    assert (rate.low, rate.high, rate.log) == (1e-4, 1e-2, True)
    assert not by_name["clip"].log
    held = {
        "batch": ((8, 32), (9, "8")),
        "size": (("deep", "wide"), ("tall", 0)),
        "n_layer": ((2, 7), (1, 8, "2", None)),
        "learning_rate": ((1e-4, 1e-2, 0.002), (1e-5, 0.02, True)),
    }
    for name, (inside, outside) in held.items():
        assert all(map(by_name[name].holds, inside)), name
        assert not any(map(by_name[name].holds, outside)), name


@pytest.mark.parametrize(
    "entries",
    [
        {"batch": ()},
        {"batch": (8, 8)},
        {"batch": (8, "8")},
        {"batch": ((1,),)},
        {"batch": 8},
        {"batch": {}},
        {"rate": {"low": 1.0}},
        {"rate": {"low": 2.0, "high": 1.0}},
        {"rate": {"low": 1.0, "high": 1.0}},
        {"rate": {"low": 0.0, "high": 1.0, "log": True}},
        {"rate": {"low": 0.1, "high": 1.0, "step": 0.1}},
        {"rate": {"low": 0.1, "high": 1.0, "log": "yes"}},
        {"rate": {"low": "a", "high": "b"}},
        {"rate": {"low": False, "high": True}},
        {"size": {"deep": {}, "wide": 3}},
    ],
)
def test_what_is_no_setting(entries):
    (name,) = entries
    with pytest.raises(UserError, match=rf"^space.{name}: wanted a list"):
        space.read(entries)


def test_an_empty_space():
    with pytest.raises(UserError, match=r"\[space\] must have settings"):
        space.read({})


def test_the_row_of_a_trial():
    read = space.read(SPACE)
    settings = {"learning_rate": 0.002, "n_layer": 3, "clip": 0.5}
    settings |= {"batch": 8, "size": "wide"}
    row = space.row("trial-004", read, settings)
    assert row.name == (
        "trial-004 learning_rate=0.002 n_layer=3 clip=0.5 batch=8 size=wide"
    )
    assert row.key == "trial-004" and row.drop == ("tied",)
    assert row.pretrain == {
        **{"learning_rate": 0.002, "n_layer": 3, "clip": 0.5, "batch": 8},
        "width": 96,
    }
    assert row.records == {} == row.tasks
    other = space.row("trial-005", read, settings | {"size": "deep"})
    assert other.records == {"seq_len": 64} and other.drop == ()


def test_two_settings_of_one_task():
    choices = {
        "rows": {"four": {"tasks": {"eval": {"batch": 4}}}},
        "data": {"short": {"tasks": {"eval": {"data_dir": "S"}}}},
    }
    settings = {"rows": "four", "data": "short"}
    row = space.row("trial-000", space.read(choices), settings)
    assert row.tasks == {"eval": {"batch": 4, "data_dir": "S"}}


@pytest.mark.parametrize(
    "more, flag",
    [
        ({"width": (1, 2)}, "pretrain.width"),
        ({"tied": ("a", "b")}, "pretrain.tied"),
        ({"x": {"y": {"pretrain": {"clip": 2}}}}, "pretrain.clip"),
        ({"x": {"y": {"records": {"seq_len": 2}}}}, "records.seq_len"),
    ],
)
def test_a_flag_has_one_setting(more, flag):
    """The later one would win, and the table would name both."""
    with pytest.raises(UserError, match=f"both set {flag}: keep one"):
        space.read(SPACE | more)


def loss(settings):
    """Least (0) at a rate of 1e-3, n_layer = 5, wide, 16 rows."""
    value = abs(settings["n_layer"] - 5) + abs(settings["batch"] - 16) / 8
    value += 3 * abs(math.log10(settings["learning_rate"]) + 3)
    return value + 3 * (settings["size"] == "deep")


def searched(entries, count, higher=False, together=2, seed=0):
    """Trials of a search and what came of them."""
    read, done = space.read(entries), []
    while len(done) < count:
        drawn = space.draw(read, done, together, higher, seed)
        if not drawn:
            break
        sign = -1 if higher else 1
        done += [(settings, [sign * loss(settings)]) for settings in drawn]
    return done


def test_trials_are_in_the_space_and_differ():
    done = [settings for settings, _ in searched(SPACE, 14)]
    by_name = {s.name: s for s in space.read(SPACE)}
    for settings in done:
        assert list(settings) == list(SPACE)
        for name, value in settings.items():
            assert by_name[name].holds(value)
        assert type(settings["n_layer"]) is int
        # Few digits, for a command line.
        assert len(f"{settings['clip']!r}") <= 5
        assert done.count(settings) == 1


def test_the_same_trials_from_the_same_results():
    read, done = space.read(SPACE), searched(SPACE, 12)
    again = [space.draw(read, done, 2, False, 0) for _ in range(2)]
    assert again[0] == again[1]
    # Another seed, or other results, draws others.
    assert space.draw(read, done, 2, False, 1) != again[0]
    assert searched(SPACE, 12) == done


@pytest.mark.parametrize("higher", [False, True])
def test_it_finds_more_than_chance(higher):
    """The last trials lie below the first ones, which are random."""
    done = searched(SPACE, 40, higher)
    losses = [loss(settings) for settings, _ in done]
    first, last = losses[: space.RANDOM], losses[-space.RANDOM :]
    assert statistics.median(last) < 0.6 * statistics.median(first)
    assert min(losses) < min(first)


def test_failed_trials_are_not_drawn_again():
    read = space.read({"batch": (8, 16)})
    before = [({"batch": 8}, [])]
    assert space.draw(read, before, 2, False, 0) == [{"batch": 16}]
    before += [({"batch": 16}, [1.0])]
    assert space.draw(read, before, 2, False, 0) == []


def test_optuna_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(UserError, match=r"-r requirements-search\.txt"):
        space.draw(space.read(SPACE), [], 1, False, 0)
