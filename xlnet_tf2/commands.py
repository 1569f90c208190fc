"""Console entry points: `xlnet-classifier` is `python run_classifier.py`.

Every command is a function without arguments here, by its module's name with
`_` for `.`; what trains begins with `run_`. `pyproject.toml` gives them their
names. Other modules are not started.
"""

import functools
import pathlib
import runpy

import xlnet_tf2


@functools.cache
def modules() -> dict[str, str]:
    """Function -> module of every command: `run_*.py`, then the library's."""
    root = pathlib.Path(xlnet_tf2.ROOT)
    names = sorted(path.stem for path in root.glob("run_*.py"))
    for folder in xlnet_tf2.LIBRARY:
        for pattern in ("*.py", "*/__main__.py"):
            for path in sorted(root.joinpath(folder).glob(pattern)):
                if _is_command(path):
                    parts = path.relative_to(root).with_suffix("").parts
                    module = ".".join(parts)
                    names.append(module.removesuffix(".__main__"))
    return {module.replace(".", "_"): module for module in names}


def _is_command(path: pathlib.Path) -> bool:
    text = path.read_text(encoding="utf-8")
    _, _, end = text.partition('\nif __name__ == "__main__":')
    return "\n    app.run(" in end


def run(module: str) -> None:
    """What `python -m MODULE` does, with the library of this package.

    Ends with one line on standard error and status 1 where `module` is none of
    the commands.
    """
    if module not in modules().values():
        raise SystemExit(f"error: {_refusal(module, modules().values())}")
    # Worker processes find the command by its name, as `python -m` leaves it.
    runpy.run_module(module, run_name="__main__", alter_sys=True)


def _refusal(name: str, known) -> str:
    return f"{name!r} is no command: wanted one of {', '.join(known)}"


def __getattr__(name: str):
    if name in modules():
        return functools.partial(run, modules()[name])
    raise AttributeError(_refusal(name, modules()))
