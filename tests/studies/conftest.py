"""A small study whose command is a stub."""

import pytest

from tests.studies.toy_studies import OPTIONS, STUB


@pytest.fixture
def options(tmp_path):
    stub = tmp_path / "stub.py"
    stub.write_text(STUB)
    path = tmp_path / "options.toml"
    path.write_text(OPTIONS.replace("STUB", f"-S -E {stub}"))
    return path
