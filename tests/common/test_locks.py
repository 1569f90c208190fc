"""One process per output; what a killed one left is nobody's."""

import errno
import fcntl
import json
import os
import platform
import threading
import time

import numpy as np
import pytest

from common import locks
from common.errors import UserError
from data.finetuning.features import cache
from tests.helpers.holding import another_process_holds


def test_the_second_process_stops_and_says_who_holds_it(tmp_path):
    folder = tmp_path / "run"
    with another_process_holds(folder) as other:
        with pytest.raises(UserError) as e:
            with locks.held(str(folder)):
                pass
        for part in (str(folder), str(other.pid), platform.node(), "since 20"):
            assert part in str(e.value)
        with locks.held(str(tmp_path / "other")):
            pass
    with locks.held(str(folder)):  # it ended
        assert (folder / ".lock").exists()
        with locks.held(str(folder)):  # a part of this run
            pass
        assert (folder / ".lock").exists()
    # Folders that nothing was written to are gone, too.
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_nobodys(tmp_path):
    path = tmp_path / "a.jsonl"
    with another_process_holds(path, is_folder=False) as other:
        other.kill()
        other.wait()
        assert (tmp_path / ".a.jsonl.lock").exists()
        with locks.held(str(path), is_folder=False):
            left = json.loads((tmp_path / ".a.jsonl.lock").read_text())
            assert left["pid"] == os.getpid()
        assert list(tmp_path.iterdir()) == []


def test_a_new_file_is_one_process_own(tmp_path):
    path = tmp_path / "folder" / "a.jsonl"
    with another_process_holds(path, is_folder=False) as other:
        with pytest.raises(UserError, match=f"a.jsonl is in use .*{other.pid}"):
            with locks.new_file(str(path)):
                pass
    with locks.new_file(str(path)), locks.new_file(""):
        path.write_text("x")
    assert list(path.parent.iterdir()) == [path]
    with pytest.raises(UserError, match="a.jsonl exists and is complete"):
        with locks.new_file(str(path)):
            pass
    with pytest.raises(UserError, match="would replace the input"):
        with locks.new_file(str(path), ["", str(path)]):
            pass


def test_leftovers_behind_a_link_stay(tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir()
    (victim / "a").touch()
    (tmp_path / ".out.tmp-7").symlink_to(victim)
    (tmp_path / ".out.tmp-8").mkdir()
    (tmp_path / ".other.tmp-8").mkdir()
    locks.remove_leftovers(str(tmp_path), "out")
    found = sorted(path.name for path in tmp_path.iterdir())
    assert found == [".other.tmp-8", "victim"]
    assert (victim / "a").exists()


def _fifo(target, path):
    del target
    os.mkfifo(path)


@pytest.mark.parametrize("plant", [os.symlink, os.link, _fifo])
@pytest.mark.parametrize("is_folder", [True, False])
def test_a_planted_lock_harms_no_other_file(tmp_path, plant, is_folder):
    victim = tmp_path / "victim"
    victim.write_text("mine")
    folder = tmp_path / "out"
    folder.mkdir()
    output = folder if is_folder else folder / "a.jsonl"
    path = locks.lock_path(str(output), is_folder)
    plant(victim, path)
    with pytest.raises(UserError, match="remove it") as e:
        with locks.held(str(output), is_folder):
            pass
    assert path in str(e.value) and "\n" not in str(e.value)
    assert victim.read_text() == "mine" and os.path.lexists(path)


def test_a_dangling_link_makes_no_file(tmp_path):
    os.symlink(tmp_path / "new", tmp_path / ".lock")
    with pytest.raises(UserError, match="is a link"):
        with locks.held(str(tmp_path)):
            pass
    assert os.listdir(tmp_path) == [".lock"]


def test_folders_of_two_names_are_one(tmp_path):
    (tmp_path / "a").mkdir()
    os.symlink(tmp_path / "a", tmp_path / "b")
    with locks.held(str(tmp_path / "a")), locks.held(str(tmp_path / "b")):
        assert os.listdir(tmp_path / "a") == [".lock"]


@pytest.fixture
def without_locks(monkeypatch):
    def flock(*unused):
        raise OSError(errno.EOPNOTSUPP, "none here")

    monkeypatch.setattr(fcntl, "flock", flock)


def test_without_locks_of_the_system_the_file_says_who(tmp_path, without_locks):
    path = tmp_path / ".lock"
    with another_process_holds(tmp_path) as other:
        with pytest.raises(UserError, match=f"process {other.pid} "):
            with locks.held(str(tmp_path)):
                pass
        who = json.loads(path.read_text())
    for stale in (
        who,  # it ended
        who | {"pid": os.getppid()},  # its number was given to another one
        {"pid": "x"},
        [],
    ):
        path.write_text(json.dumps(stale))
        with locks.held(str(tmp_path)):
            pass
        assert not path.exists()
    path.write_text(json.dumps(who | {"host": "elsewhere"}))
    with pytest.raises(UserError, match="host elsewhere"):
        with locks.held(str(tmp_path)):
            pass


def test_a_feature_cache_waits_for_the_one_that_is_being_made(tmp_path, capsys):
    made = []

    def build():
        made.append(1)
        return {"x": np.arange(3)}

    path = cache.cache_path(str(tmp_path), "train", {"a": 1})
    with another_process_holds(path, is_folder=False) as other:
        found = []
        thread = threading.Thread(
            target=lambda: found.append(
                cache.cached(str(tmp_path), "train", {"a": 1}, build)
            )
        )
        thread.start()
        deadline = time.monotonic() + 20
        said = ""
        while "waiting" not in said and time.monotonic() < deadline:
            time.sleep(0.01)
            said += capsys.readouterr().err
        assert f"waiting for process {other.pid}" in said
        assert not made
        cache.save(path, {"a": 1}, {"x": np.arange(3)})
    thread.join()
    arrays, hit = found[0]
    assert hit and not made and arrays["x"].tolist() == [0, 1, 2]


def test_object_stores_get_a_note(monkeypatch):
    store, said = {}, []
    monkeypatch.setattr(locks.files, "write_text", store.__setitem__)
    monkeypatch.setattr(locks.files, "remove", store.__delitem__)

    def read(path):
        if path not in store:
            raise OSError(path)
        return store[path].encode()

    monkeypatch.setattr(locks.files, "read_bytes", read)
    where = "gs://b/run/.lock"
    with locks.held("gs://b/run", say=said.append):
        assert json.loads(store[where])["pid"] == os.getpid()
        with locks.held("gs://b/run", say=said.append):  # a part of this run
            pass
        left = store[where]
    assert not store and not said
    store[where] = left  # its writer was killed, or runs elsewhere
    with locks.held("gs://b/run", say=said.append):
        pass
    assert len(said) == 1 and "object stores have no locks" in said[0]
    assert f"process {os.getpid()} " in said[0]
