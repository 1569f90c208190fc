"""The command."""

import pytest

from common.errors import UserError
from modeling import explain_dependencies
from modeling.command_options import DependencyOptions
from tests.helpers import commands


@pytest.mark.slow
def test_command():
    done = commands.run("-m", "modeling.explain_dependencies")
    assert done.returncode == 0, done.stderr
    assert "log p(York | New is a city)" in done.stdout


@pytest.fixture
def shown(monkeypatch, capsys):
    """What it prints with these options."""

    def run(**options):
        monkeypatch.setattr(
            explain_dependencies.flag_values,
            "build",
            lambda kind: kind(**options),
        )
        explain_dependencies.main()
        return capsys.readouterr().out.splitlines()

    return run


def test_without_flags_it_is_the_papers_example(shown):
    lines = shown()
    assert lines == shown(text="New York is a city", targets=("New", "York"))
    assert any("log p(York | New is a city)" in line for line in lines)
    assert lines[-1].split() == ["of", "20", "covered", "12", "16", "16", "1"]


def test_targets_are_predicted_in_the_order_given(shown):
    lines = shown(text="a b c", targets=("a", "3"))
    assert any("log p(a | b) + log p(c | a b)" in line for line in lines)
    with pytest.raises(UserError, match="--targets"):
        shown(text="a b c", targets=("d",))
    assert DependencyOptions().targets == ("New", "York")
