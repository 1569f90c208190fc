"""Every command of tutorials and guides is run, by some test, or says why not."""

import re

import pytest

from tests.conftest import ROOT
from tests.scripts.pages import guide_commands, marks


def test_every_command_is_run_or_has_a_reason():
    kinds = [guide_commands.check_of(c)[0] for c in guide_commands.listed()]
    assert kinds.count("run") > 50 and kinds.count("tested") > 15


@pytest.mark.long
def test_the_table_names_tests_and_commands_that_exist():
    texts = [command.text for command in guide_commands.listed()]
    for kind in ("tested", "no_command", "not_run"):
        for key in guide_commands.CHECKS[kind]:
            assert any(key in text for text in texts), key
    for test in guide_commands.CHECKS["tested"].values():
        path, name = test.split("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), test
    for page, table in guide_commands.CHECKS["run"].items():
        own = [
            c.text for c in guide_commands.listed() if c.page == f"docs/{page}"
        ]
        for key in table:
            assert any(key in text for text in own), (page, key)


def test_a_page_says_which_commands_no_test_runs():
    pages = marks.marked_pages()
    texts = [path.read_text(encoding="utf-8") for path in pages]
    assert sum(text.count("*No test runs `") for text in texts) > 20
    for path, text in zip(pages, texts, strict=True):
        assert marks.written(path) == text, (
            "python -m tests.scripts.pages.marks"
        )


def test_a_mark_stands_behind_the_block_with_the_command():
    block = (
        "```bash\npip install x\n\ndocker build .\npython run_lm.py\n```\n\n"
    )
    first, second = marks.chunks(f"Words.\n\n{block}")
    assert first == "Words.\n\n" and second == block
    assert marks.marks_of("a.md", first) == ""
    lines = marks.marks_of("a.md", block).split("\n\n")
    assert lines[0].startswith(
        "*No test runs `pip`: it needs the package index"
    )
    assert lines[1] == "*No test runs `docker`: it needs Docker.*"


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    return guide_commands.World(tmp_path_factory.mktemp("world"))


@pytest.mark.slow
@pytest.mark.parametrize("page", guide_commands.CHECKS["run"])
def test_commands_of_a_page_run_one_after_the_other(world, tmp_path, page):
    """As they stand on the page, with smaller numbers."""
    world.prepare(page, tmp_path)
    for command in guide_commands.listed():
        if command.page != f"docs/{page}":
            continue
        kind, more = guide_commands.check_of(command)
        if kind != "run":
            continue
        words = guide_commands.shortened(command, more)
        done = guide_commands.run(*words, cwd=tmp_path)
        assert done.returncode == 0, (command.text, done.stderr[-3000:])


@pytest.mark.slow
def test_the_examples_of_python_run(tmp_path, monkeypatch):
    """Those of docs/guides/training.md, as they stand there."""
    page = ROOT / "docs/guides/training.md"
    text = page.read_text().split("## From Python")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, str(page), "exec"), names)
    assert names["result"].finished and names["result"].step == 20
    assert 0.0 <= names["result"].evaluations[-1][1]["error"] <= 1.0
    assert names["outputs"].shape == names["logits"].shape == (64, 2)
    assert len(names["history"].history["loss"]) == 2
