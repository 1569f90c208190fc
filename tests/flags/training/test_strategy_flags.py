"""The strategy that flags and numbers mean."""

import pytest

from common.errors import UserError
from flags.training import common_flags, strategy_flags


@pytest.mark.parametrize(
    "arguments,message",
    [
        (["--use_tpu", "--distribution_strategy=mirrored"], "contradict"),
        (["--use_bfloat16", "--precision=mixed_float16"], "contradict"),
        (["--use_tpu", "--tpu=a", "--master=b"], "--master=b contradict"),
        (
            ["--num_virtual_replicas=2", "--distribution_strategy=one_device"],
            "num_virtual_replicas",
        ),
    ],
)
def test_contradictions_are_refused(parse, arguments, message):
    parse(*arguments)
    with pytest.raises(UserError, match=message):
        strategy_flags.from_flags()


def test_strategy_follows_from_the_numbers(parse):
    parse("--num_virtual_replicas=2")
    assert strategy_flags.from_flags().distribution_strategy == "mirrored"
    parse("--worker_hosts=a:1,b:2", "--task_index=0")
    name = strategy_flags.from_flags().distribution_strategy
    assert name == "multi_worker_mirrored"
    assert common_flags.all_flags()["worker_hosts"] == "a:1,b:2"
