"""A threshold is of the weights that it was found with."""

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings
from data.finetuning import thresholds

SPAN, LABEL = thresholds.NAMES


def spec(**data_options):
    text = TextSettings()
    return TaskSpec("x", "span", (), 8, text, "0", {}, data_options)


def test_those_of_other_weights_are_said_and_left_out():
    best = "best/model.ckpt-2"
    kept = thresholds.replace(spec(doc_stride=3), {SPAN: -1.5}, best)
    assert kept.data_options[thresholds.WEIGHTS] == best
    assert thresholds.for_weights(kept, best) == ({SPAN: -1.5}, [])
    found, lines = thresholds.for_weights(kept, "model.ckpt-4")
    assert found == {} and lines == [
        f"note: {SPAN}=-1.5 was found with {best}: not used with model.ckpt-4; "
        "--do_eval finds one"
    ]


def test_files_without_the_name_of_the_weights():
    old = spec(**{LABEL: 0.25})
    assert thresholds.for_weights(old, "model.ckpt-4") == ({LABEL: 0.25}, [])
    assert thresholds.for_weights(spec(), "a") == ({}, [])
    assert thresholds.for_weights(None, "a") == ({}, [])


def test_replacing_leaves_nothing_of_the_old_one():
    kept = thresholds.replace(spec(n=1), {LABEL: 0.25}, "a")
    bare = thresholds.replace(kept, {})
    assert thresholds.of(bare) == {} and bare.data_options["n"] == 1
    assert thresholds.WEIGHTS not in bare.data_options
    other = thresholds.replace(kept, {LABEL: 0.75}, "b")
    assert thresholds.for_weights(other, "b")[0] == {LABEL: 0.75}
