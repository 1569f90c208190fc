"""run_classifier.py's flags: whose task it is."""

import pytest
from absl import flags

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning.classifier.task import check_trained
from flags import other_names
from flags.tasks import classifier_flags, race_flags, tagger_flags
from tests.flags.fresh_flags import remove_ours


@pytest.fixture
def parse():
    """Registers a command's flags anew and reads a command line."""

    def run(module, *arguments):
        remove_ours()
        module.define()
        flags.FLAGS(["x", "--model_dir=m", *arguments])

    yield run
    remove_ours()
    flags.FLAGS.unparse_flags()


def trained(name="sst-2", head="classification"):
    return TaskSpec(name, head, ("0", "1"), 16, TextSettings(), "")


def test_a_trained_model_says_its_task(parse):
    parse(classifier_flags)
    found = classifier_flags.from_flags(trained("sts-b", "regression"))
    assert (found.task_name, found.head) == ("sts-b", "regression")
    with pytest.raises(UserError, match="--task_name must be given"):
        classifier_flags.from_flags(None)
    with pytest.raises(UserError, match="is of squad .* not for run_class"):
        classifier_flags.from_flags(trained("squad", "span"))
    parse(classifier_flags, "--task_name=cola")
    assert classifier_flags.from_flags(trained()).task_name == "cola"


@pytest.mark.parametrize(
    "arguments", [["--labels=--1,-2"], ["--labels", "--1,-2"]]
)
def test_labels_may_look_like_flags(parse, arguments):
    for module, more in ((classifier_flags, [trained()]), (tagger_flags, [])):
        parse(module, "--data_dir=d", *arguments)
        assert other_names.hint(arguments, flags.FLAGS) is None
        assert module.from_flags(*more).labels == ("--1", "-2")


@pytest.mark.parametrize("name", ["sst-2", "tsv", "jsonl", "tfds:a"])
def test_a_model_reads_its_task_or_a_table(name):
    check_trained(name, trained())
    check_trained(name, trained("csv"))


def test_another_official_task_is_refused():
    with pytest.raises(UserError, match="--task_name=cola: .* for sst-2; leav"):
        check_trained("cola", trained())


def test_an_export_of_race_reads_no_text(parse):
    parse(race_flags, "--do_export")
    assert race_flags.from_flags().data_dir == ""
    parse(race_flags, "--do_eval")
    with pytest.raises(UserError, match="--data_dir must be given"):
        race_flags.from_flags()
