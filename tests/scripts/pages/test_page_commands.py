"""Every command of the pages exists, and its flags exist and parse."""

import collections
import json
import re
import subprocess
import sys

import pytest

from flags.training import pretrain_flags
from tests.conftest import ROOT
from tests.flags.fresh_flags import parsed
from tests.helpers import pages

# Placeholders, other programs' commands, programs without flags.
OTHERS = {
    "COMMAND",
    "data.*",
    "venv",
    "data_utils",
    "train_gpu",
    "benchmarks.lm_generation",
    "scripts/tpu/lock",
    "scripts/flags_page",
    "scripts/measured_tables",
    "scripts/messages_page",
    "scripts/readability",
    "scripts/pages/diagrams",
    "scripts/pages/notebooks",
    "scripts.pages.measured_figures",
    "scripts.pages.widths",
    "tests.scripts.pages.marks",
}
WRITTEN = ("flags.md", "troubleshooting.md")  # by programs
FOLDERS = ("benchmarks", "studies", "tools")  # many load TensorFlow


def by_program() -> dict[str, list[pages.Command]]:
    """The project's commands with flags, of all pages."""
    found = collections.defaultdict(list)
    for page in pages.pages():
        for command in pages.commands_of(page):
            if command.words[0] == "python" and command.program not in OTHERS:
                found[command.program].append(command)
    return found


def errors_of(programs: dict[str, list[pages.Command]]) -> list[tuple]:
    """(page, command, what is wrong with it)."""
    asked = {
        name: [command.arguments for command in commands]
        for name, commands in programs.items()
    }
    done = subprocess.run(
        [sys.executable, "-m", "tests.helpers.pages"],
        input=json.dumps(asked),
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    answers = dict(json.loads(s) for s in lines if s.startswith("["))
    found = []
    for name, commands in programs.items():
        assert len(answers[name]) == len(commands), (name, done.stderr)
        for command, error in zip(commands, answers[name], strict=True):
            if error:
                found.append((command.page, command.text, error))
    return found


def test_every_program_of_the_pages_exists():
    """Scripts of a shell among them."""
    missing = [
        name for name in by_program() if pages.source_of(name) is None
    ] + [
        (command.page, command.program)
        for page in pages.pages()
        for command in pages.commands_of(page)
        if command.words[0] == "bash" and not (ROOT / command.program).is_file()
    ]
    assert not missing


def test_pages_with_the_server_install_its_packages():
    with_server = [
        page
        for page in pages.pages()
        if any(c.program == "serving.serve" for c in pages.commands_of(page))
        and page.parent.name in ("guides", "serving", "tutorials")
    ]
    assert len(with_server) >= 3
    for page in with_server:
        text = page.read_text(encoding="utf-8")
        assert "pip install -r requirements-serve.txt" in text, page


@pytest.mark.long
def test_flags_of_the_product_exist_and_parse():
    programs = {
        name: commands
        for name, commands in by_program().items()
        if name.split(".")[0] not in FOLDERS
    }
    assert len(programs) > 25
    assert not errors_of(programs)


@pytest.mark.slow
def test_flags_of_studies_and_benchmarks_exist_and_parse():
    programs = {
        name: commands
        for name, commands in by_program().items()
        if name.split(".")[0] in FOLDERS
    }
    assert len(programs) > 20
    assert not errors_of(programs)


@pytest.mark.parametrize(
    "page", ["guides/tpu.md", "tutorials/notebooks/tpu.md"]
)
def test_pretrainings_on_a_tpu_are_runs_that_fit_it(page):
    """Batch, steps and warm-up of the script's recipe are those of a pod."""
    script = (ROOT / "scripts/tpu/pretrain.sh").read_text(encoding="utf-8")
    recipe = re.search(r"RECIPE:-(\w+)", script)[1]
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    examples = re.findall(
        r"^ *(CREATE=1 .*?) bash scripts/tpu/pretrain.sh\b(.*)$",
        re.sub(r" *\\\n *", " ", text),
        re.M,
    )
    assert len(examples) == 3
    for variables, arguments in examples:
        given = ["--data_dir=r", "--model_dir=m", f"--recipe={recipe}"]
        given += [word for word in arguments.split() if word != "--dry_run"]
        with parsed(pretrain_flags.define, *given):
            pretrain_flags.apply_recipe()
            options = pretrain_flags.run_from_flags()
        kind = re.search(r"\bTYPE=v3-(\d+)", variables)
        cores = int(kind[1]) if kind else 8
        # So many rows of Large fit a core: docs/explanation/tpu_plans.md.
        assert options.train_batch_size == 8 * cores


def wrong_values(text: str, listed: str) -> list[tuple[str, str]]:
    """(flag, value) of `--flag=value` that no command has among its choices.

    `listed` is docs/reference/flags.md. A bar separates several values.
    """
    choices = collections.defaultdict(set)
    free = set()  # flags that take any value in one of the commands
    row = r"^\| `--(\w+)`(?:<a [^|]*)? \| ([^|]*)\|"
    for name, kind in re.findall(row, listed, re.M):
        of = re.search(r"(?:^|\s)of (.*)", kind.strip())
        if of:
            choices[name] |= set(re.split(", ?", of[1]))
        else:
            free.add(name)
    return [
        (name, value)
        for name, values in re.findall(r"`--(\w+)=([^\s`]+)", text)
        if name in choices.keys() - free
        for value in values.split("|")
        if value not in choices[name]
    ]


def test_values_of_flags_in_the_text_are_choices():
    listed = (ROOT / "docs/reference/flags.md").read_text(encoding="utf-8")
    assert wrong_values("`--runner=bean` `--runner=local|beam`", listed) == [
        ("runner", "bean")
    ]
    found = [
        (page.name, name, value)
        for page in pages.pages()
        if page.name not in WRITTEN
        for name, value in wrong_values(
            page.read_text(encoding="utf-8"), listed
        )
        # The option of that name of Beam.
        if (name, value.endswith("Runner")) != ("runner", True)
    ]
    assert not found


def test_a_wrong_flag_is_found():
    wrong = pages.Command("a.md", "python run_lm.py --data_dir=D --mod=eval")
    surplus = pages.Command("a.md", "python run_lm.py eval")
    value = pages.Command("a.md", "python run_lm.py --mode=evil")
    found = errors_of({"run_lm": [wrong, surplus, value]})
    assert [text for _, text, _ in found] == [
        wrong.text,
        surplus.text,
        value.text,
    ]


def test_commands_are_read_from_blocks_and_from_the_text(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "ROOT", tmp_path)
    page = tmp_path / "a.md"
    page.write_text(
        "Give `python -m data.inspect\n--data_dir=R` or `python` alone.\n\n"
        "    A=1 python run_lm.py --mode=eval \\\n        --data_dir=R  # why\n"
        "```\n$ bash scripts/x.sh > log\n```\n"
        "    python run_lm.py --seed=${SEED:-7}\n"
    )
    found = pages.commands_of(page)
    assert [(c.program, c.arguments) for c in found] == [
        ("run_lm", ["--mode=eval", "--data_dir=R"]),
        ("scripts/x.sh", []),
        ("run_lm", ["--seed=7"]),
        ("data.inspect", ["--data_dir=R"]),
    ]
