"""A folder that looks like site-packages with TensorFlow's TPU build."""

import pathlib

LIBRARY = "tensorflow/libtensorflow_cc.so.2"


def package(folder: pathlib.Path, name: str, version: str, files=()) -> None:
    """The metadata of an installed package; `files` are (name, size)."""
    info = folder / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"
    )
    lines = [f"{n},sha256=x,{size}" for n, size in files]
    lines.append(f"{info.name}/RECORD,,")
    (info / "RECORD").write_text("\n".join(lines) + "\n")


def environment(
    folder: pathlib.Path, tensorflow="2.20.0", libtpu="0.0.21", size=7
) -> pathlib.Path:
    """A TPU build whose library has 7 bytes, or `size` when overwritten.

    Importing its TensorFlow aborts the process, as with a wrong libtpu.
    """
    package(folder, "tensorflow-tpu", tensorflow, [(LIBRARY, 7), ("a b.so", 2)])
    if libtpu:
        package(folder, "libtpu", libtpu)
    (folder / "tensorflow").mkdir()
    (folder / "tensorflow" / "__init__.py").write_text(
        "import os\n\nos.abort()\n"
    )
    (folder / LIBRARY).write_bytes(b"x" * size)
    (folder / "a b.so").write_bytes(b"xy")
    return folder
