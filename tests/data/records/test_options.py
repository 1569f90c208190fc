"""Values that no build can have."""

import types

import pytest

from common.errors import UserError
from data.records.options import check_factory

GOOD = dict(
    seed=0, num_workers=1, block_megabytes=0.5, runner="local", beam_options=""
)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"seed": -1}, "--seed must be >= 0"),
        ({"num_workers": 0}, "--num_workers must be >= 1"),
        ({"block_megabytes": 0.0}, "--block_megabytes must be > 0"),
        ({"runner": "spark"}, "--runner must be one of local, beam"),
        (
            {"beam_options": "--x"},
            "--beam_options is of --runner=beam, found l",
        ),
    ],
)
def test_the_flag_is_named(change, message):
    check_factory(types.SimpleNamespace(**GOOD))
    with pytest.raises(UserError, match=message):
        check_factory(types.SimpleNamespace(**(GOOD | change)))
