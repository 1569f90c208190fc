"""Console entry points: every command has one, and nothing else is started."""

import tomllib

import pytest

from tests.helpers import layers
from tests.helpers.tree_commands import INTERNAL, commands_of_the_tree
from xlnet_tf2 import commands

# Modules of the library, a command that another one starts, and no modules.
OTHERS = (
    "common.files",
    "flags.app",
    "modeling",
    "serving.export.exporter",
    *INTERNAL,
    "scripts.flags_page",
    "this",
    "serving.nothing",
    "run_nothing",
    "",
)


def tree() -> set[str]:
    """Every command, from the syntax of the sources."""
    found = {name.removesuffix(".__main__") for name in commands_of_the_tree()}
    return found - set(INTERNAL)


def test_every_command_has_an_entry_point():
    wanted = {}
    for module in tree():
        last = module.split(".")[-1].removeprefix("run_")
        function = module.replace(".", "_")
        wanted["xlnet-" + last.replace("_", "-")] = function
        assert getattr(commands, function).args == (module,)
    with open(layers.ROOT / "pyproject.toml", "rb") as f:
        scripts = tomllib.load(f)["project"]["scripts"]
    assert scripts == {
        name: f"xlnet_tf2.commands:{function}"
        for name, function in wanted.items()
    }
    for name in ("serving_nothing", "run_nothing", "nothing_at_all"):
        with pytest.raises(AttributeError):
            getattr(commands, name)


def test_modules_are_those_that_define_flags_and_run():
    assert set(commands.modules().values()) == tree()
    first = next(iter(commands.modules().items()))
    assert first == ("run_classifier", "run_classifier")
    assert commands.modules()["serving_export"] == "serving.export"


def test_a_command_is_started_as_python_does_it(monkeypatch):
    started = []

    def start(module, **how):
        started.append((module, how))

    monkeypatch.setattr(commands.runpy, "run_module", start)
    commands.data_inspect()
    commands.run("run_lm")
    how = {"run_name": "__main__", "alter_sys": True}
    assert started == [("data.inspect", how), ("run_lm", how)]


@pytest.mark.parametrize("module", OTHERS)
def test_other_modules_are_not_started(monkeypatch, module):
    monkeypatch.setattr(
        commands.runpy, "run_module", lambda *a, **k: pytest.fail("started")
    )
    with pytest.raises(SystemExit) as info:
        commands.run(module)
    # Python prints it on standard error and ends with status 1.
    line = info.value.code
    assert line.startswith(f"error: {module!r} is no command: wanted one of ")
    assert "\n" not in line
    known = line.split("wanted one of ")[1].split(", ")
    assert set(known) == tree() and known[0] == "run_classifier"


@pytest.mark.parametrize(
    "name", [module.replace(".", "_") for module in OTHERS if module]
)
def test_other_modules_have_no_function(name):
    with pytest.raises(AttributeError, match=f"'{name}' is no command: ") as e:
        getattr(commands, name)
    assert "run_classifier, " in str(e.value)
    assert "serving_export, " in str(e.value)


def test_a_planted_module_is_a_command_where_it_ends_as_one(
    tmp_path, monkeypatch
):
    """A helper that calls `app.run` inside a function is none."""
    start = 'if __name__ == "__main__":\n'
    for name, text in (
        ("run_new.py", ""),
        ("data/new.py", f"x = 1\n\n\n{start}    app.run(main)\n"),
        (
            "data/deep/__main__.py",
            f"\n{start}    define()\n    app.run(main)\n",
        ),
        ("data/deep/inner.py", f"\n{start}    app.run(main)\n"),
        ("flags/app.py", "def run():\n    app.run(call)\n"),
        ("flags/check.py", f"\n{start}    print(1)\n"),
        ("tools/new.py", f"\n{start}    app.run(main)\n"),
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.setattr(commands.xlnet_tf2, "ROOT", str(tmp_path))
    assert commands.modules.__wrapped__() == {
        "run_new": "run_new",
        "data_new": "data.new",
        "data_deep": "data.deep",
    }
