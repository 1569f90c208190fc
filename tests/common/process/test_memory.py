"""What limits memory: the process, its groups, the machine."""

import resource

import pytest

from common.errors import UserError
from common.process import memory


def test_a_limit_of_the_process_counts(monkeypatch):
    used = memory._fields("/proc/self/status")["VmSize"]
    limits = {resource.RLIMIT_AS: used + 1000}

    def getrlimit(kind):
        return limits.get(kind, resource.RLIM_INFINITY), 0

    monkeypatch.setattr(resource, "getrlimit", getrlimit)
    left, name = memory.room()
    assert left <= 1000 and name == "ulimit -v"
    with pytest.raises(UserError, match="ulimit -v leaves 0.0 GiB"):
        memory.check_libraries()


@pytest.mark.parametrize("limit, left", [("5000", 3700), ("max", None)])
def test_a_limit_of_the_group_counts(tmp_path, limit, left):
    (tmp_path / "memory.max").write_text(limit + "\n")
    (tmp_path / "memory.current").write_text("2000\n")
    (tmp_path / "memory.stat").write_text("anon 9\ninactive_file 700\n")
    found = memory._left(str(tmp_path), "memory.max", "memory.current")
    assert found == left
    assert memory._left(str(tmp_path / "x"), "a", "b") is None
