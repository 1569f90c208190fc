"""Seeds, tiers and the reference folder."""

import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")

ROOT = pathlib.Path(__file__).resolve().parents[1]
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
