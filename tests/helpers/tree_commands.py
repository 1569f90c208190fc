"""Every command of the product, from the sources."""

from tests.helpers import layers

# Started by another command alone, with inputs that this one made.
INTERNAL = ("serving.export.reload_check",)


def commands_of_the_tree():
    """Every command of the product, by the name that `python -m` takes."""
    found = set()
    for path in layers.source_files():
        name = layers.module_name(path)
        package = name.split(".")[0]
        if package in ("benchmarks", "studies", "tools", "scripts"):
            continue
        if layers.is_command(layers.tree_of(path)):
            stem = path.relative_to(layers.ROOT).with_suffix("")
            found.add(".".join(stem.parts))
    return found
