"""Seeds, tiers, the reference folder, and what tests leave behind."""

import gc
import os
import pathlib
import random
import shutil
import subprocess
import sys
import time
import warnings
import zlib

import numpy as np
import pytest

import common  # noqa: F401  what TensorFlow reads when it is loaded

FORKS = os.environ.get("XLNET_FORKS")  # of scripts/test.sh
if FORKS and "PYTEST_XDIST_WORKER" in os.environ:
    # Such a process is a fork, and the tests' own ones are not.
    sys.executable = os.path.join(sys.prefix, "bin", "python")


def _seed(name: str) -> int:
    """The same random weights in every process, whatever ran before.

    The initializers of tf_keras take their seeds from Python's generator, or
    from one that `set_random_seed` of an earlier test left behind. TensorFlow's
    own seed stays: setting it drops the resources of eager kernels, and with
    them the vocabularies of tokenizers that fixtures hold.
    """
    from tf_keras.src import backend

    seed = zlib.crc32(name.encode())
    random.seed(seed)
    np.random.seed(seed)
    backend._SEED_GENERATOR.generator = None
    return seed


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    """Fixtures draw the same numbers whichever test needs them first."""
    _seed(fixturedef.argname)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """Tests draw the same numbers alone, in any order and on any machine.

    So do those that draw from a generator of their module.
    """
    state = np.random.default_rng(_seed(item.name)).bit_generator.state
    for value in vars(item.module).values():
        if isinstance(value, np.random.Generator):
            value.bit_generator.state = state


# Seconds since 1970 after which no slow test starts: CI has a limit, and a slow
# machine that runs into it says nothing about the tests that did run.
SLOW_UNTIL = float(os.environ.get("XLNET_SLOW_UNTIL", "inf"))
_LATE = "no slow test starts after XLNET_SLOW_UNTIL"


def pytest_runtest_setup(item):
    """Slow tests start in time or not at all."""
    if item.get_closest_marker("slow") and time.time() > SLOW_UNTIL:
        pytest.skip(_LATE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """After a file of tests, what is left is no longer looked through.

    TensorFlow keeps the graphs of a process. Late in a run of all tests a
    collection passed over millions of objects, which took a second, and code
    that ends a training asks for several (`modeling.ops.graph_memory`).

    Sockets that a library's client keeps until it is collected are no fault of
    the next test.
    """
    result = yield
    if nextitem is None or nextitem.path != item.path:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        gc.freeze()
    return result


def pytest_terminal_summary(terminalreporter, config):
    """Says how many did not, and what lies in the root now."""
    if names := config.stash.get(_LEFT, None):
        terminalreporter.write_line(f"WRITTEN BESIDE THE SOURCES: {names}")
    skipped = terminalreporter.stats.get("skipped", [])
    if late := sum(_LATE in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"NOT RUN: {late} tests, {_LATE}")


_BEFORE = pytest.StashKey[set[str]]()
_LEFT = pytest.StashKey[list[str]]()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session):
    """Looks at the root of the repository; test processes will be forks."""
    option = session.config.option
    if hasattr(session.config, "workerinput"):
        return
    session.config.stash[_BEFORE] = untracked()
    if FORKS and getattr(option, "tx", None):
        option.tx = [f"{tx}//python={FORKS}/bin/python" for tx in option.tx]


def pytest_sessionfinish(session):
    """A run that left files there has failed: tests write to `tmp_path`."""
    if hasattr(session.config, "workerinput"):
        return
    names = sorted(untracked() - session.config.stash[_BEFORE])
    session.config.stash[_LEFT] = names
    if names:
        session.exitstatus = session.exitstatus or pytest.ExitCode.TESTS_FAILED


def untracked() -> set[str]:
    """Names in the root that git neither has nor ignores."""
    if not shutil.which("git"):
        return set()
    done = subprocess.run(
        ["git", "status", "--porcelain", "--untracked-files=normal"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    names = [n[3:] for n in done.stdout.splitlines() if n.startswith("?? ")]
    return {name for name in names if "/" not in name.rstrip("/")}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks that follow from the fixtures that a test asks for.

    `shared` marks what asks for the reference folder, and asks for it. Tests
    that share a fixture of their module run in one process (`--dist
    loadgroup`): such fixtures train models. The longest tests come first: at
    the end one process would wait for the other.
    """
    for item in items:
        if "shared" in item.fixturenames:
            item.add_marker("shared")
        elif item.get_closest_marker("shared"):
            item.fixturenames.insert(0, "shared")
        if _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))
    items.sort(key=lambda item: not _runs_commands(item))


def pytest_collection_finish():
    """Collections of garbage pass over what is loaded, and come less often.

    Exports are compared in forks: a fresh process imports TensorFlow for five
    seconds. tests/serving/export/test_exporter.py starts such a one.
    """
    if exporter := sys.modules.get("serving.export.exporter"):
        exporter.sys = _Forks()
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


class _Forks:
    """Stands for `sys` where only the interpreter is asked for."""

    @property
    def executable(self) -> str:
        """Started when it is used first."""
        from tests.helpers import commands

        return commands.python()


def _runs_commands(item) -> bool:
    """Whole scripts, kills and faults: a minute or more each."""
    folders = ("tests/scripts/", "tests/tools/")
    slow = item.get_closest_marker("slow")
    return slow is not None and item.nodeid.startswith(folders)


def _shares_a_fixture(item) -> bool:
    found = item._fixtureinfo.name2fixturedefs
    return any(
        definition.scope == "module"
        for definitions in found.values()
        for definition in definitions
    )


ROOT = pathlib.Path(__file__).resolve().parents[1]
# Tests get it from the fixture alone: tests/scripts/test_reference_folder.py.
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The reference folder; a missing one fails in CI and skips elsewhere."""
    if not SHARED.is_dir():
        if os.environ.get("XLNET_REQUIRE_SHARED") == "1":
            pytest.fail(f"{SHARED} is missing and XLNET_REQUIRE_SHARED=1")
        pytest.skip("the reference folder is not there")
    return SHARED


@pytest.fixture(scope="session")
def golden(shared: pathlib.Path) -> pathlib.Path:
    """Numbers of the original implementation."""
    return shared / "golden"


@pytest.fixture(scope="session")
def spiece_model(golden: pathlib.Path) -> str:
    """The SentencePiece file that the golden text cases were made with."""
    return str(golden / "text" / "spiece.model")


@pytest.fixture(scope="module")
def units(golden: pathlib.Path) -> dict[str, np.ndarray]:
    """The original's functions one by one."""
    from tests.modeling.golden import golden_util

    return golden_util.load(golden, "units")
