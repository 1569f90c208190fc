"""The original's functions one by one."""

import pytest

from tests.modeling.golden import golden_util


@pytest.fixture(scope="module")
def units(golden):
    return golden_util.load(golden, "units")
