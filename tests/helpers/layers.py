"""Who may import whom: the table of docs/explanation/architecture.md, and its checks.

A check takes the name of a module and its syntax tree and gives the list of
what is wrong, so that `test_layering` can plant a mistake for each.
"""

import ast
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = (
    "common",
    "data",
    "modeling",
    "training",
    "serving",
    "flags",
    "benchmarks",
    "studies",
    "tools",
    "scripts",
    "xlnet_tf2",
)

# Longest prefix wins. L0 can be imported by everybody below the commands.
LAYERS = {
    "common": "L0",
    "common.contract": "L0 contract",
    "data": "L1 data",
    "data.text": "L1 data",
    "data.corpus": "L1 data",
    "data.records": "L2 data",
    "data.pretraining": "L2 data pretraining",
    "data.language_modeling": "L2 data language_modeling",
    "data.finetuning": "L2 data finetuning",
    "modeling": "L2 modeling",
    "modeling.ops": "L1 modeling",
    "modeling.attention": "L1 modeling",
    "modeling.losses": "L1 modeling",
    "modeling.encoders.contract": "L0",
    "modeling.encoders.registry": "L0",
    "modeling.encoders.sizes": "L0",
    "training": "L3 training",
    "training.finetuning": "L3 training finetuning",
    "serving": "L3 serving",
    "flags": "L4",
    "benchmarks": "L5",
    "studies": "L5",
    "tools": "L5",
    "scripts": "L5",
    "xlnet_tf2": "L5",
}
CONTRACT = ("L0", "L0 contract")
# Layer -> layers that it may import, besides its own.
MAY_IMPORT = {
    "L0": (),
    "L0 contract": ("L0",),
    "L1 data": CONTRACT,
    "L2 data": (*CONTRACT, "L1 data"),
    "L2 data pretraining": (*CONTRACT, "L1 data", "L2 data"),
    "L2 data language_modeling": (*CONTRACT, "L1 data", "L2 data"),
    "L2 data finetuning": (*CONTRACT, "L1 data"),
    "L1 modeling": ("L0",),
    "L2 modeling": ("L0", "L1 modeling"),
    "L3 training": (*CONTRACT, "L1 modeling", "L2 modeling"),
    "L3 training finetuning": (
        *CONTRACT,
        "L1 modeling",
        "L2 modeling",
        "L3 training",
        "L1 data",
        "L2 data finetuning",
    ),
    "L3 serving": (
        *CONTRACT,
        "L1 modeling",
        "L2 modeling",
        "L1 data",
        "L2 data finetuning",
    ),
    "L4": CONTRACT,
}
# Layers of a model: they compute, and never touch files. Of an encoder's files
# all are layers but those of its configuration and of its names elsewhere.
CONFIGURATION = ("config", "base_config", "registry", "sizes", "names")
PURE = (
    "modeling.ops",
    "modeling.attention",
    "modeling.losses",
    "modeling.heads",
    "modeling.models.task_model",
    "modeling.models.long_document",
    "modeling.encoders",
)
# Where XLNet itself is meant: its own folder, the package's front, its flags.
XLNET_NAMES = ("XLNetConfig", "XLNetModel")
XLNET_FIELDS = (
    "untie_r",
    "attn_type",
    "same_length",
    "clamp_len",
    "blind_rows",
    "reuse_len",
    "activation_dropout",
    "inner_dropout",
)
XLNET_IS_MEANT = (
    "modeling",
    "modeling.encoders.xlnet",
    "modeling.encoders.transformer_xl",  # its fields have the same names
    "modeling.reference",
    "flags.training.model_flags",
    "flags.plan_flags",
    "training.recurrent.memory_sweep",  # it evaluates one with other values
    "serving.generation.decoder",  # it runs XLNet's layers one by one
    "benchmarks",
    "studies",
    "tools",
    "scripts",
)


def source_files() -> list[pathlib.Path]:
    """Every file of the product."""
    files = [p for p in ROOT.glob("*.py")]
    for package in PACKAGES:
        files.extend(ROOT.glob(f"{package}/**/*.py"))
    return sorted(files)


@functools.cache
def tree_of(path: pathlib.Path) -> ast.Module:
    """The syntax tree of a file, parsed once for all tests of a process."""
    return ast.parse(path.read_text(encoding="utf-8"))


@functools.cache
def trees() -> dict[str, ast.Module]:
    """Module -> syntax tree, of the whole product."""
    return {module_name(path): tree_of(path) for path in source_files()}


def module_name(path: pathlib.Path) -> str:
    """Dotted name of a file below the root."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(p for p in parts if p != "__init__")


def is_command(tree: ast.Module) -> bool:
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
    for node in tree.body if top_level_only else ast.walk(tree):
        if isinstance(node, ast.Import):
            found.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
            found.update(f"{node.module}.{a.name}" for a in node.names)
    return found


def under(name: str, prefixes) -> bool:
    """Whether a module is one of the prefixes or lies below one."""
    return any(name == p or name.startswith(p + ".") for p in prefixes)


def layer_of(name: str, modules: set[str]) -> str | None:
    """The layer of an imported name; None for what is no module of ours."""
    while name and name not in modules:
        name = name.rpartition(".")[0]
    if not name or name.split(".")[0] not in PACKAGES:
        return None
    last = name.rpartition(".")[2]
    # Options and configurations are dataclasses without behaviour.
    if last.endswith(("options", "settings", "config")):
        return "L0 contract" if under(name, ("data",)) else "L0"
    found = [p for p in LAYERS if under(name, (p,))]
    return LAYERS[max(found, key=len)] if found else None


# --- Checks: (module, tree, names of all modules) -> what is wrong ------------


def check_directions(name, tree, modules) -> list[str]:
    """Imports go down, and stay on their side."""
    package = name.split(".")[0]
    if package not in PACKAGES or is_command(tree):
        return []
    own = layer_of(name, modules | {name})
    if own == "L5":
        return []
    wrong, found = [], imports(tree)
    ours = found & modules
    for target in sorted(found):
        # `from package import module` depends on the module alone.
        if any(m.startswith(target + ".") for m in ours):
            continue
        layer = layer_of(target, modules)
        if layer in (None, own) or layer in MAY_IMPORT[own]:
            continue
        wrong.append(f"{name} ({own}) imports {target} ({layer})")
    return wrong


def check_commands(name, tree, modules, commands=()) -> list[str]:
    """Nobody imports a command."""
    used = imports(tree) & set(commands)
    return [f"{name} imports the command {c}" for c in sorted(used)]


def check_keras(name, tree, modules) -> list[str]:
    """`data` never imports Keras."""
    if not under(name, ("data", "common.contract")):
        return []
    found = {n.split(".")[0] for n in imports(tree)} & {"tf_keras", "keras"}
    return [f"{name} imports {n}" for n in sorted(found)]


def check_pure(name, tree, modules) -> list[str]:
    """Layers never touch files."""
    if not under(name, PURE) or name.endswith(CONFIGURATION):
        return []
    wrong = [
        f"{name} imports {n}"
        for n in sorted(imports(tree))
        if n in ("common.files", "os", "pathlib", "io", "json", "shutil")
    ]
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = ast.unparse(node.func)
            if called == "open" or called.startswith("tf.io."):
                wrong.append(f"{name} calls {called}")
    return wrong


def check_flags(name, tree, modules) -> list[str]:
    """FLAGS are read in `flags` and in commands only."""
    if under(name, ("flags",)) or "." not in name or is_command(tree):
        return []
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    names |= {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    return [f"{name} reads FLAGS"] if "FLAGS" in names else []


def check_forms(name, tree, modules) -> list[str]:
    """No relative import; nothing rebinds absl's `flags`."""
    wrong = []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level:
            wrong.append(f"{name} has a relative import")
        if isinstance(node, ast.Import):
            if "flags" in [alias.name for alias in node.names]:
                wrong.append(f"{name} rebinds `flags`")
    return wrong


def check_encoder_names(name, tree, modules) -> list[str]:
    """Nothing names XLNet's classes or fields but where XLNet is meant."""
    own = name == "modeling" or under(name, XLNET_IS_MEANT[1:])
    if own or not under(name, PACKAGES):
        return []
    found = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    found |= {n.split(".")[-1] for n in imports(tree)}
    wrong = [f"{name} names {n}" for n in XLNET_NAMES if n in found]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in XLNET_FIELDS:
            if ast.unparse(node.value).split(".")[-1] == "config":
                wrong.append(f"{name} reads config.{node.attr}")
    return wrong


def check_graphs(name, tree, modules) -> list[str]:
    """No function is rewritten by AutoGraph before it is traced.

    Nothing here needs it, and it takes twenty times as long as the trace.
    """
    plain = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            options = {k.arg: ast.unparse(k.value) for k in node.keywords}
            if options.get("autograph") == "False":
                plain |= {node.func, *node.args}
    return [
        f"{name}:{node.lineno} traces with AutoGraph"
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and ast.unparse(node) == "tf.function"
        and node not in plain
    ]


CHECKS = (
    check_graphs,
    check_directions,
    check_keras,
    check_pure,
    check_flags,
    check_forms,
    check_encoder_names,
)


def cycles(graph: dict[str, set[str]]) -> list[str]:
    """Cycles of imports, each as "a -> b -> a"."""
    done, stack, found = set(), [], []

    def visit(name):
        if name in stack:
            found.append(" -> ".join([*stack[stack.index(name) :], name]))
            return
        if name in done or name not in graph:
            return
        stack.append(name)
        for other in sorted(graph[name] - {name}):
            visit(other)
        stack.pop()
        done.add(name)

    for name in sorted(graph):
        visit(name)
    return found


# --- Sizes, and names that nobody uses -----------------------------------------

MAX_FILE, MAX_FUNCTION = 420, 65  # lines


def check_sizes(name: str, source: str, tree: ast.Module) -> list[str]:
    """Files and functions that are too long to be read at once."""
    wrong = []
    if (count := source.count("\n")) > MAX_FILE:
        wrong.append(f"{name} has {count} lines")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            count = node.end_lineno - node.lineno + 1
            if count > MAX_FUNCTION:
                wrong.append(f"{name}.{node.name} has {count} lines")
    return wrong


@functools.cache
def _words(tree: ast.Module) -> set[str]:
    """Names that a file reads: by name, attribute, import or reference."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.alias):
            found.add(node.name.rpartition(".")[2])
        elif isinstance(node, ast.keyword):
            found.add(node.arg)
        elif isinstance(node, ast.JoinedStr):
            # References f"{MODULE}:name", and "module:name".
            found |= _words_of_text(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= _words_of_text(node.value)
    return found


def _words_of_text(text: str) -> set[str]:
    short = text if len(text) < 80 else ""
    return set(re.findall(r"[:.\s](\w+)", short))


def _public_names(tree: ast.Module):
    """(name, dotted name) of what a file offers; overridden methods aside."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name, node.name
        elif isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name):
                    yield target.id, target.id
        if isinstance(node, ast.ClassDef) and not node.bases:
            for part in node.body:
                if isinstance(part, ast.FunctionDef):
                    yield part.name, f"{node.name}.{part.name}"


def unused_names(trees: dict[str, ast.Module], others: str) -> list[str]:
    """Public names that no file of the product uses.

    Args:
      trees: module -> syntax tree, of the whole product.
      others: text of files that are no Python (shell scripts, documentation).
    """
    used = set(re.findall(r"\w+", others)).union(*map(_words, trees.values()))
    return [
        f"{module}.{dotted}"
        for module, tree in trees.items()
        for name, dotted in _public_names(tree)
        if not name.startswith(("_", "pytest_")) and name not in used
    ]
