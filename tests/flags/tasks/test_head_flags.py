"""What a table's label is, by the flags."""

import pytest

from common.errors import UserError
from flags.tasks import head_flags
from run_classifier import COMMAND as CLASSIFIER


@pytest.mark.parametrize(
    "arguments, head",
    [
        ([], "classification"),
        (["--is_regression"], "regression"),
        (["--multi_label"], "multi_label"),
    ],
)
def test_a_flag_says_the_head(parse, arguments, head):
    parse(CLASSIFIER, "--task_name=tsv", *arguments)
    assert head_flags.from_flags() == head == CLASSIFIER.data_options().head


def test_two_heads_exclude_each_other(parse):
    parse(CLASSIFIER, "--task_name=tsv", "--is_regression", "--multi_label")
    with pytest.raises(UserError, match="one of --is_regression and --multi_l"):
        head_flags.from_flags()
