"""`pip install .`: one package, its commands, and nothing beside it."""

import configparser
import os
import re
import subprocess
import sys
import tomllib
import zipfile

import pytest

from tests.helpers import layers

with open(layers.ROOT / "pyproject.toml", "rb") as f:
    PROJECT = tomllib.load(f)


def test_all_places_name_the_same_versions_of_python():
    versions = re.findall(r"\d\.\d+", PROJECT["project"]["requires-python"])
    (first, major), (last, after) = (map(int, v.split(".")) for v in versions)
    assert first == last
    wanted = [f"{first}.{minor}" for minor in range(major, after)]
    say = f"Python {', '.join(wanted[:-1])} or {wanted[-1]}"
    for page in (
        "README.md",
        "docs/tutorials/install.md",
        "docs/tutorials/first_model.md",
    ):
        assert say in (layers.ROOT / page).read_text(), page
    setup = (layers.ROOT / "scripts/setup.sh").read_text()
    assert " ".join(f"python{v}" for v in wanted) in setup
    assert f"no {say} found" in setup
    bounds = re.findall(r"\((\d), (\d+)\)", setup)
    assert [".".join(b) for b in bounds] == [wanted[0], wanted[-1]]
    quoted = ", ".join(f'"{v}"' for v in wanted)
    work = (layers.ROOT / ".github/workflows/ci.yml").read_text()
    assert f"python: [{quoted}]" in work


def test_long_names_are_the_library_itself():
    """In a checkout; below, where it is installed."""
    import xlnet_tf2.common.errors
    from xlnet_tf2.common.errors import UserError

    import common.errors
    from xlnet_tf2 import common as package

    assert UserError is common.errors.UserError
    assert xlnet_tf2.common.errors is common.errors and package is common
    assert common.errors.__spec__.name == "common.errors"
    with pytest.raises(ModuleNotFoundError):
        import xlnet_tf2.benchmarks


def python(where, *arguments, path=""):
    """A process outside the checkout."""
    environment = dict(os.environ) | {"PYTHONPATH": str(path)}
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=where,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.slow
def test_the_wheel(tmp_path):
    pytest.importorskip("setuptools")
    pytest.importorskip("wheel")
    source = tmp_path / "source"
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=layers.ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    for name in filter(None, tracked):
        if name.startswith(("tests/", "docs/")):
            continue
        target = source / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((layers.ROOT / name).read_bytes())
    made = python(
        tmp_path,
        *("-m", "pip", "wheel", "--no-build-isolation", "--no-deps"),
        *("--no-index", "--wheel-dir", tmp_path / "wheels", source),
    )
    assert made.returncode == 0, made.stdout + made.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "site")
    tops = {name.split("/")[0] for name in names}
    info = next(t for t in tops if t.endswith(".dist-info"))
    assert tops == {"xlnet_tf2", info}
    library = {
        n.removeprefix("xlnet_tf2/library/")
        for n in names
        if n.startswith("xlnet_tf2/library/")
    }
    folders = ("common", "data", "flags", "modeling", "serving", "training")
    wanted = {
        n
        for n in tracked
        if n.startswith(tuple(f"{f}/" for f in folders))
        or re.fullmatch(r"run_\w+\.py", n)
    }
    assert library == wanted and "serving/web/page.html" in library
    assert "data/corpus/registry/sources.toml" in library
    scripts = configparser.ConfigParser()
    scripts.read(tmp_path / "site" / info / "entry_points.txt")
    found = dict(scripts["console_scripts"])
    assert found == PROJECT["project"]["scripts"]
    metadata = (tmp_path / "site" / info / "METADATA").read_text()
    assert "Requires-Dist: tensorflow==" in metadata
    assert "Requires-Dist: fastapi==" in metadata
    assert 'extra == "serve"' in metadata

    site = tmp_path / "site"
    # A `data` folder where the user works is not in the way.
    (tmp_path / "data").mkdir()
    code = (
        "import xlnet_tf2.common.errors as e, sys; import common; "
        "assert e.UserError is common.errors.UserError; print(common.__file__)"
    )
    done = python(tmp_path, "-c", code, path=site)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(str(site / "xlnet_tf2" / "library"))
    shown = python(
        tmp_path,
        "-c",
        "import sys; sys.argv[1:] = ['--layout=book', '--input_glob=a.txt', "
        "'--output_file=b.txt']; from xlnet_tf2.commands import "
        "data_convert_corpus as run; run()",
        path=site,
    )
    assert shown.returncode == 1
    assert "a.txt" in shown.stderr and "Traceback" not in shown.stderr
    # Another package of that name is said, not mixed in.
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / "__init__.py").touch()
    clash = python(tmp_path, "-c", "import xlnet_tf2", path=site)
    assert "take that off sys.path, or rename it" in clash.stderr
