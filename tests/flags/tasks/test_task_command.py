"""What a command of one kind of task reads of its flags."""

import pytest
from absl import flags

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from flags import other_names
from run_classifier import COMMAND as CLASSIFIER
from run_race import COMMAND as RACE
from run_tagger import COMMAND as TAGGER


def trained(name="sst-2", head="classification"):
    return TaskSpec(name, head, ("0", "1"), 16, TextSettings(), "")


@pytest.mark.parametrize(
    "arguments", [["--labels=--1,-2"], ["--labels", "--1,-2"]]
)
def test_labels_may_look_like_flags(parse, arguments):
    for command, more in ((CLASSIFIER, [trained()]), (TAGGER, [])):
        parse(command, "--data_dir=d", *arguments)
        assert other_names.hint(arguments, flags.FLAGS) is None
        assert command.data_options(*more).labels == ("--1", "-2")


def test_an_export_of_race_reads_no_text(parse):
    parse(RACE, "--do_export")
    assert RACE.read()["data"].data_dir == ""
    parse(RACE, "--do_eval")
    with pytest.raises(UserError, match="--data_dir must be given"):
        RACE.read()
