"""run_classifier.py's flags: whose task it is."""

import pytest

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from run_classifier import COMMAND as CLASSIFIER


def trained(name="sst-2", head="classification"):
    return TaskSpec(name, head, ("0", "1"), 16, TextSettings(), "")


def test_a_trained_model_says_its_task(parse):
    parse(CLASSIFIER)
    found = CLASSIFIER.data_options(trained("sts-b", "regression"))
    assert (found.task_name, found.head) == ("sts-b", "regression")
    with pytest.raises(UserError, match="--task_name must be given"):
        CLASSIFIER.data_options(None)
    with pytest.raises(UserError, match="is of squad .* not for run_class"):
        CLASSIFIER.data_options(trained("squad", "span"))
    parse(CLASSIFIER, "--task_name=cola")
    assert CLASSIFIER.data_options(trained()).task_name == "cola"
