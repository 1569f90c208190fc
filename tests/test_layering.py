"""Imports go in one direction: docs/explanation/architecture.md, from the AST."""

import ast
import pathlib

import pytest

from tests.helpers import layers

FILES = layers.source_files()
MODULES = {layers.module_name(path) for path in FILES}
TEST_FILES = [*layers.ROOT.glob("tests/**/test_*.py")]


@pytest.mark.long
@pytest.mark.parametrize("check", layers.CHECKS, ids=lambda c: c.__name__)
def test_the_product_keeps_the_rule(check):
    wrong = [
        w for n, tree in layers.trees().items() for w in check(n, tree, MODULES)
    ]
    assert not wrong, "\n".join(wrong)


def command_names() -> set[str]:
    return {
        name
        for name, tree in layers.trees().items()
        if layers.is_command(tree)
        or "." not in name
        and name.startswith("run_")
    }


@pytest.mark.long
def test_commands_are_imported_by_nobody():
    commands = command_names()
    assert "data.demo_corpus" in commands
    wrong = [
        w
        for name, tree in layers.trees().items()
        for w in layers.check_commands(name, tree, MODULES, commands)
    ]
    assert not wrong, "\n".join(wrong)


def test_no_cycles():
    graph = {}
    for name, tree in layers.trees().items():
        found = layers.imports(tree, top_level_only=True) & MODULES
        # `from package import module` depends on the module alone.
        parents = {n.rpartition(".")[0] for n in found}
        graph[name] = found - parents
    assert layers.cycles(graph) == []


# A mistake for every rule: module, a line that breaks it, part of the message.
PLANTED = (
    (
        "common.files",
        "from common.contract import symbols",
        "common.contract.symbols",
    ),
    ("common.contract.schema", "from data.text import tokenizer", "L1 data"),
    (
        "data.finetuning.options",
        "import data.finetuning.features.table",
        "L2 data",
    ),
    ("data.text.tokenizer", "from data.records import manifest", "L2 data"),
    ("data.text.tokenizer", "from modeling import losses", "L1 modeling"),
    (
        "data.records.build",
        "from data.finetuning.features import cache",
        "finetuning",
    ),
    ("data.records.build", "import training.loop", "L3"),
    ("data.records.build", "from data.pretraining import lanes", "pretraining"),
    (
        "data.language_modeling.build",
        "from data.pretraining import lanes",
        "L2",
    ),
    ("data.finetuning.features.table", "import tf_keras", "tf_keras"),
    ("modeling.ops.shapes", "from modeling import task_model", "L2 modeling"),
    (
        "modeling.attention.masks",
        "import modeling.encoders.xlnet.backbone",
        "L2",
    ),
    (
        "modeling.heads.pooling",
        "from common.contract import symbols",
        "L0 contract",
    ),
    ("modeling.heads.pooling", "from training import loop", "L3 training"),
    ("modeling.heads.pooling", "from common import files", "common.files"),
    ("modeling.ops.shapes", "open('x')", "calls open"),
    ("modeling.encoders.bert.layer", "open('x')", "calls open"),
    ("modeling.ops.shapes", "tf.io.gfile.exists('x')", "calls tf.io"),
    ("training.loop", "from data.records import manifest", "L2 data"),
    (
        "training.loop",
        "from data.finetuning.features import table",
        "finetuning",
    ),
    ("training.loop", "from training.finetuning import driver", "finetuning"),
    ("training.loop", "from serving import limits", "L3 serving"),
    ("training.finetuning.driver", "from data.pretraining import reader", "L2"),
    ("serving.exported.limits", "from data.records import manifest", "L2 data"),
    ("serving.exported.limits", "from training import loop", "L3 training"),
    ("serving.exported.limits", "from flags import serve_flags", "L4"),
    ("flags.serving.serve_flags", "from serving import limits", "L3 serving"),
    ("flags.serving.serve_flags", "from data.text import tokenizer", "L1 data"),
    ("training.loop", "x = FLAGS.seed", "reads FLAGS"),
    ("training.loop", "from . import run", "relative"),
    ("training.loop", "tf.function(run)", "AutoGraph"),
    ("training.loop", "tf.function(run, autograph=True)", "AutoGraph"),
    ("training.loop", "import flags", "rebinds"),
    ("training.loop", "from modeling import XLNetConfig", "names XLNetConfig"),
    ("modeling.models.task_model", "y = XLNetModel", "names XLNetModel"),
    ("training.loop", "y = a.config.untie_r", "reads config.untie_r"),
)


@pytest.mark.parametrize("name, line, message", PLANTED)
def test_a_planted_mistake_is_found(name, line, message):
    assert name in MODULES, "the planted module moved: name its new place"
    tree = ast.parse(ast.unparse(layers.trees()[name]) + "\n" + line)
    wrong = [w for c in layers.CHECKS for w in c(name, tree, MODULES)]
    assert any(message in w for w in wrong), wrong


def test_a_planted_import_of_a_command_is_found():
    tree = ast.parse("from data import demo_corpus")
    found = layers.check_commands("data.x", tree, MODULES, command_names())
    assert found == ["data.x imports the command data.demo_corpus"]


def test_a_planted_cycle_is_found():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}
    assert layers.cycles(graph) == ["a -> b -> c -> a"]


# What may be longer, and why.
LONG = {
    "modeling.attention.relative.attend": "its gradient stands beside it",
}


def test_files_and_functions_stay_short():
    wrong = [
        w
        for path in FILES
        for w in layers.check_sizes(
            layers.module_name(path), path.read_text(), layers.tree_of(path)
        )
        if w.split()[0] not in LONG
    ]
    assert not wrong, "split by subject: " + "; ".join(wrong)
    source = "def f():\n" + "    pass\n" * layers.MAX_FILE
    assert layers.check_sizes("a", source, ast.parse(source)) == [
        f"a has {layers.MAX_FILE + 1} lines",
        f"a.f has {layers.MAX_FILE + 1} lines",
    ]


MOST_NAMES = 15  # files and folders in one folder
# What may hold more, and why.
CROWDED = {
    "tests/golden/hf_heads": "a file of numbers for every released head",
}


def crowded(paths) -> dict[str, int]:
    """Folders with too many names; `__init__.py` is none."""
    inside = {}
    for path in paths:
        if path.name != "__init__.py":
            for name in (path, *path.parents[:-1]):
                inside.setdefault(str(name.parent), set()).add(name)
    return {k: len(v) for k, v in inside.items() if len(v) > MOST_NAMES}


def test_folders_stay_small_enough_to_be_read():
    paths = [
        path.relative_to(layers.ROOT)
        for house in (*layers.PACKAGES, "tests")
        for path in layers.ROOT.glob(f"{house}/**/*")
        if path.is_file() and "__pycache__" not in path.parts
    ]
    found = crowded(paths)
    assert found.keys() <= CROWDED.keys(), f"make rooms by subject: {found}"
    assert CROWDED.keys() <= found.keys(), "no longer crowded: drop the row"
    planted = [pathlib.PurePath("a", str(n)) for n in range(MOST_NAMES)]
    assert not crowded([*planted, pathlib.PurePath("a/__init__.py")])
    assert crowded([*planted, pathlib.PurePath("a/b.py")]) == {"a": 16}


# What callers of the library use and the product itself does not.
FOR_CALLERS = {
    "scripts.pages.site_links.on_page_content",  # mkdocs calls these two
    "scripts.pages.site_links.on_page_markdown",
    "modeling.encoders.xlnet.config.XLNetConfig.from_json_file",
    "modeling.encoders.xlnet.config.XLNetConfig.to_json_file",
}


@pytest.mark.long
def test_no_public_name_is_used_by_tests_alone():
    scripts = "".join(
        p.read_text() for p in layers.ROOT.glob("scripts/**/*.sh")
    )
    unused = set(layers.unused_names(layers.trees(), scripts)) - FOR_CALLERS
    assert not unused, f"to tests/, or out, or used: {sorted(unused)}"
    planted = ast.parse("LIMIT = 3\ndef nobody_calls_me():\n    return LIMIT")
    found = layers.unused_names(
        layers.trees() | {"common.planted": planted}, scripts
    )
    assert "common.planted.nobody_calls_me" in found


# Files with code and without the mirrored test in what is not installed: a
# number falls when a mirror is written, and never grows. The product has none.
WITHOUT_MIRROR = {"benchmarks": 33, "studies": 4, "tools": 19}


def has_code(tree: ast.Module) -> bool:
    """Whether a file holds more than constants and signatures of protocols."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            last = node.body[-1]
            text = isinstance(last, ast.Expr) and isinstance(
                last.value, ast.Constant
            )
            if not text:  # a docstring or `...` alone is a signature
                return True
    return False


def without_mirror(trees, tests) -> dict[str, list[str]]:
    """Top folder -> files a/b/c.py that lack tests/a/b/test_c.py.

    Args:
      trees: path below the root -> syntax tree, of the product.
      tests: paths below the root.
    """
    lacking = {folder: [] for folder in layers.PACKAGES}
    for path, tree in trees.items():
        mirror = pathlib.PurePath("tests", path.parent, f"test_{path.name}")
        wanted = path.name != "__init__.py" and has_code(tree)
        if len(path.parts) > 1 and wanted and mirror not in tests:
            lacking[path.parts[0]].append(str(path))
    return lacking


def test_every_product_file_has_its_mirrored_test():
    trees = {p.relative_to(layers.ROOT): layers.tree_of(p) for p in FILES}
    tests = {p.relative_to(layers.ROOT) for p in TEST_FILES}
    lacking = without_mirror(trees, tests)
    assert lacking.keys() > WITHOUT_MIRROR.keys()
    for folder, names in lacking.items():
        most = WITHOUT_MIRROR.get(folder, 0)
        assert len(names) <= most, (
            f"{folder}: {len(names)} files without a mirrored test, wanted at "
            f"most {most}; write tests/{folder}/.../test_NAME.py for the new "
            f"one of {', '.join(names)}"
        )


def test_a_planted_file_without_a_mirror_is_named():
    code = ast.parse("def run():\n    return 1")
    trees = {
        pathlib.PurePath("common", name): tree
        for name, tree in (
            ("a/b.py", code),
            ("a/c.py", code),
            ("a/__init__.py", code),
            ("numbers.py", ast.parse("LIMIT = 3")),
            ("shape.py", ast.parse("def run():\n    '''Runs.'''\n    ...")),
        )
    }
    tests = {pathlib.PurePath("tests/common/a/test_b.py")}
    assert without_mirror(trees, tests)["common"] == ["common/a/c.py"]
