"""Imports go in one direction: the table of docs/architecture.md, from the AST."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = (
    "common",
    "data",
    "modeling",
    "training",
    "serving",
    "flags",
    "benchmarks",
)
CONTRACT = {
    "data.schema",
    "data.symbols",
    "data.finetuning.task_settings",
    "data.task_spec",
}
# The pretraining reader and builder, which serving has no business with.
PRETRAINING_PREFIXES = (
    "data.pretrain",
    "data.create_pretraining",
    "data.builder",
)


def source_files() -> list[pathlib.Path]:
    files = [p for p in ROOT.glob("*.py")]
    for package in PACKAGES:
        files.extend(ROOT.glob(f"{package}/**/*.py"))
    return sorted(files)


def module_name(path: pathlib.Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def is_command(path: pathlib.Path, tree: ast.Module) -> bool:
    """A file that ends in `if __name__ == "__main__"`."""
    return any(
        isinstance(node, ast.If)
        and "__name__" in ast.unparse(node.test)
        and "__main__" in ast.unparse(node.test)
        for node in tree.body
    )


def imports(tree: ast.Module, top_level_only: bool = False) -> set[str]:
    """Dotted names that a file imports (`from a import b` gives a and a.b)."""
    found = set()
    nodes = tree.body if top_level_only else ast.walk(tree)
    for node in nodes:
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative import"
            found.add(node.module)
            found.update(f"{node.module}.{a.name}" for a in node.names)
    return found


def ours(names: set[str]) -> set[str]:
    return {n for n in names if n.split(".")[0] in (*PACKAGES, "tests")}


def is_contract(name: str) -> bool:
    """A name in the L0 part of data/: its modules or something in them."""
    return name == "data" or any(
        name == c or name.startswith(c + ".") for c in CONTRACT
    )


def allowed(package: str, name: str) -> bool:
    """Whether library code of `package` may import `name`."""
    target = name.split(".")[0]
    if target == "common":
        return True
    if package == "common":
        return False
    if package in ("data", "modeling"):
        return target == package
    if package == "training":
        return target in ("training", "modeling") or is_contract(name)
    if package == "serving":
        if target == "data":
            return not name.startswith(PRETRAINING_PREFIXES)
        return target in ("serving", "modeling")
    if package == "flags":
        return (
            target == "flags"
            or name.split(".")[-1][0].isupper()
            or (
                target in ("data", "modeling", "training", "serving")
                and is_l0(name)
            )
        )
    return True


def is_l0(name: str) -> bool:
    parts = name.split(".")
    return (
        len(parts) == 1
        or is_contract(name)
        or parts[1] in ("config", "recipes")
        or parts[1].endswith("options")
    )


FILES = source_files()


@pytest.mark.parametrize("path", FILES, ids=module_name)
def test_imports_go_in_one_direction(path):
    tree = ast.parse(path.read_text())
    package = path.relative_to(ROOT).parts[0]
    if package.endswith(".py") or package == "benchmarks":
        return  # commands may import anything
    if is_command(path, tree):
        return
    wrong = sorted(n for n in ours(imports(tree)) if not allowed(package, n))
    assert not wrong, f"{module_name(path)} imports {wrong}"


def test_commands_are_imported_by_nobody():
    trees = {p: ast.parse(p.read_text()) for p in FILES}
    commands = {
        module_name(p)
        for p, tree in trees.items()
        if is_command(p, tree) or p.parent == ROOT
    }
    assert "data.demo_corpus" in commands
    for path, tree in trees.items():
        used = imports(tree) & commands
        assert not used, f"{module_name(path)} imports the command {used}"


def test_data_never_imports_keras_and_layers_never_touch_files():
    for path in FILES:
        name = module_name(path)
        tree = ast.parse(path.read_text())
        if name.startswith("data"):
            assert not any(
                n.split(".")[0] in ("tf_keras", "keras") for n in imports(tree)
            ), name


def test_no_import_rebinds_the_flags_of_absl():
    for path in FILES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                assert "flags" not in [a.name for a in node.names], path


def test_flags_are_read_in_flags_and_commands_only():
    for path in FILES:
        tree = ast.parse(path.read_text())
        package = path.relative_to(ROOT).parts[0]
        if package == "flags" or package.endswith(".py"):
            continue
        if is_command(path, tree):
            continue
        names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
        attributes = {
            n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)
        }
        assert "FLAGS" not in names | attributes, module_name(path)


def test_no_cycles():
    modules = {module_name(path) for path in FILES}
    graph = {}
    for path in FILES:
        tree = ast.parse(path.read_text())
        found = ours(imports(tree, top_level_only=True)) & modules
        # `from package import module` depends on the module alone.
        parents = {n.rpartition(".")[0] for n in found}
        graph[module_name(path)] = found - parents
    done, stack = set(), []

    def visit(name):
        if name in stack:
            cycle = stack[stack.index(name) :] + [name]
            pytest.fail(" -> ".join(cycle))
        if name in done or name not in graph:
            return
        stack.append(name)
        for other in graph[name]:
            if other != name:
                visit(other)
        stack.pop()
        done.add(name)

    for name in graph:
        visit(name)
