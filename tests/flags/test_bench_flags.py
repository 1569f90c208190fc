"""What a benchmark needs, and how often it measures."""

import os
import sys

import pytest

from common.errors import UserError
from flags import bench_flags
from flags.bench_flags import BenchOptions
from tests.conftest import ROOT
from tests.flags.fresh_flags import parsed


@pytest.mark.parametrize(
    "arguments, rounds",
    [([], 9), (["--quick"], 5), (["--quick", "--rounds=2"], 2)],
)
def test_fewer_rounds_when_it_is_to_be_quick(arguments, rounds):
    with parsed(bench_flags.define, *arguments):
        assert bench_flags.from_flags().rounds == rounds


@pytest.mark.parametrize(
    "values, message",
    [
        ({"data_dir": "d"}, "--data_dir needs --spiece_model_file"),
        ({"torch_python": os.devnull}, "must be a Python interpreter, found"),
        ({"checkout": "/"}, "--checkout must be a folder of this project"),
        (
            {"suites": ("speed",)},
            "--suites must be one of pretrain, .* 'speed'",
        ),
        ({"rounds": 0}, "--rounds must be >= 1"),
    ],
)
def test_what_is_missing_is_named(values, message):
    with pytest.raises(UserError, match=message):
        BenchOptions(**values)


def test_this_checkout_and_this_python_will_do():
    options = BenchOptions(checkout=str(ROOT), torch_python=sys.executable)
    assert options.suites == bench_flags.SUITES
