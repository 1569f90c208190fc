"""Places of connections and turns of requests, by address."""

import collections

import pytest

pytest.importorskip("fastapi")

from serving.web import addresses
from serving.web.addresses import Connections, Turns, owner


def test_an_address_at_its_bound_takes_its_own_place():
    """Not one of the address that has most that wait."""
    gone: list[str] = []
    places = Connections(9, 2)
    for name in ("a1", "a2", "b1", "b2"):
        assert places.enter(name[0])
        if name != "a2":
            places.waits(Waiting(gone, name), name[0])
    assert places.enter("a") and gone == ["a1"]


class Waiting:
    def __init__(self, gone, name):
        self.give_way = lambda: gone.append(name)


def test_places_of_waiting_connections():
    gone: list[str] = []
    refusals: list[None] = []
    places = Connections(5, 3, lambda: refusals.append(None))
    names = ["a1", "a2", "b1", "b2", "a3"]
    made = {name: Waiting(gone, name) for name in names}
    for name in names:
        assert places.enter(name[0])
        places.waits(made[name], name[0])
    places.works(made["a1"], "a")
    assert places.enter("a") and gone == ["a2"]
    places.leave("a")
    assert places.enter("c") and gone == ["a2", "b1"]  # as many, the first
    places.leave("b")
    places.works(made["b2"], "b")
    places.works(made["a3"], "a")
    assert not places.enter("d") and not places.enter("a")
    assert (places.total, len(refusals)) == (5, 2)
    for name in "aaabc":
        places.leave(name)
    assert places.total == 0 and places._open == collections.Counter()


def test_an_address_may_ask_as_often_as_its_rate():
    now = [100.0]
    rates = Turns(4.0, clock=lambda: now[0])
    assert [rates.seconds("a") for _ in range(6)] == [0.0] * 4 + [0.25] * 2
    assert rates.seconds("b") == 0.0
    now[0] += 0.25  # one more; what was refused costs nothing
    assert [rates.seconds("a") for _ in range(2)] == [0.0, 0.25]
    now[0] += 60.0  # no more than at first
    assert [rates.seconds("a") for _ in range(5)] == [0.0] * 4 + [0.25]
    assert [Turns(0.0).seconds("a") for _ in range(9)] == [0.0] * 9
    slow = Turns(0.5, clock=lambda: now[0])
    assert [slow.seconds("a"), slow.seconds("a")] == [0.0, 2.0]


def test_few_addresses_are_remembered(monkeypatch):
    monkeypatch.setattr(addresses, "_MOST_NAMES", 3)
    rates = Turns(1.0, clock=lambda: 5.0)
    for name in ("a", "b", "c"):
        assert rates.seconds(name) == 0.0
    assert rates.seconds("a") == 1.0
    assert rates.seconds("d") == 0.0  # "b" has not asked for longest
    assert set(rates._paid) == {"c", "a", "d"}


def test_an_ipv6_network_is_one_address():
    assert owner("2001:db8:1:2:3::4") == owner("2001:db8:1:2:ffff::1%eth0")
    assert owner("2001:db8:1:3::4") != owner("2001:db8:1:2::4")
    assert owner("::ffff:192.0.2.1") == owner("192.0.2.1") == "192.0.2.1"


def test_mistakes_are_answered_at_a_bounded_rate():
    now = [100.0]
    turns = Turns(10.0, burst=3, most=0.5, clock=lambda: now[0])
    waits = [turns.seconds() for _ in range(10)]
    wanted = [0.0, 0.0, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.5, 0.5]
    assert waits == pytest.approx(wanted)
    now[0] += 0.6  # one turn and a bit later than the last
    assert turns.seconds() == pytest.approx(0.0)
    now[0] += 60.0
    again = [turns.seconds() for _ in range(4)]
    assert again == pytest.approx([0.0, 0.0, 0.0, 0.1])
