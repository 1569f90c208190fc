"""Seeds, tiers and the reference folder."""

import gc
import os
import pathlib
import random
import time
import zlib

import numpy as np
import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")


def _seed(name: str) -> None:
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


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup(fixturedef, request):
    """Fixtures draw the same numbers whichever test needs them first."""
    _seed(fixturedef.argname)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item):
    """Tests draw the same numbers alone, in any order and on any machine."""
    _seed(item.name)


# Seconds since 1970 after which no slow test starts: CI has a limit, and a slow
# machine that runs into it says nothing about the tests that did run.
SLOW_UNTIL = float(os.environ.get("XLNET_SLOW_UNTIL", "inf"))
_LATE = "no slow test starts after XLNET_SLOW_UNTIL"


def pytest_runtest_setup(item):
    """Slow tests start in time or not at all."""
    if item.get_closest_marker("slow") and time.time() > SLOW_UNTIL:
        pytest.skip(_LATE)


def pytest_terminal_summary(terminalreporter):
    """Says how many did not."""
    skipped = terminalreporter.stats.get("skipped", [])
    if late := sum(_LATE in str(report.longrepr) for report in skipped):
        terminalreporter.write_line(f"NOT RUN: {late} tests, {_LATE}")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Marks that follow from the fixtures that a test asks for.

    `shared` marks what asks for the reference folder, and asks for it. Tests
    that share a fixture of their module run in one process (`--dist
    loadgroup`): such fixtures train models.
    """
    for item in items:
        if "shared" in item.fixturenames:
            item.add_marker("shared")
        elif item.get_closest_marker("shared"):
            item.fixturenames.insert(0, "shared")
        if _shares_a_fixture(item):
            item.add_marker(pytest.mark.xdist_group(item.module.__name__))


def pytest_collection_finish():
    """Collections of garbage pass over what is loaded, and come less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


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
