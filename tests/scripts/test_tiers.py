"""Slow tests start in time or not at all."""

import tomllib

import pytest

from tests import conftest


@pytest.mark.parametrize("slow", [True, False])
def test_only_slow_tests_are_left_out_when_time_is_over(
    request, monkeypatch, slow
):
    item = request.node
    if slow:
        item.add_marker("slow")
    conftest.pytest_runtest_setup(item)  # there is time
    monkeypatch.setattr(conftest, "SLOW_UNTIL", 1.0)
    if not slow:
        conftest.pytest_runtest_setup(item)
        return
    with pytest.raises(pytest.skip.Exception, match="XLNET_SLOW_UNTIL"):
        conftest.pytest_runtest_setup(item)


def test_marks_of_plugins_are_known_without_them():
    """`tools.mutants` runs tests without xdist; unknown marks end a run."""
    text = (conftest.ROOT / "pyproject.toml").read_text(encoding="utf-8")
    options = tomllib.loads(text)["tool"]["pytest"]["ini_options"]
    known = {line.partition(":")[0] for line in options["markers"]}
    assert {"slow", "bench", "xdist_group"} <= known
