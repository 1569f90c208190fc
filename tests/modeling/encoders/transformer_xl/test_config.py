"""Configurations: exact counts of parameters, wrong values."""

import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.heads.causal_lm import CausalLanguageModel
from tests.modeling.encoders.transformer_xl.toy_models import sizes, toy

CUTOFFS = (20_000, 40_000, 200_000)
LM1B = dict(vocab_size=793_471, cutoffs=(60_000, 100_000, 640_000), div_val=4)
WT103 = dict(
    vocab_size=267_735,
    cutoffs=CUTOFFS,
    untie_r=True,
    proj_share_all_but_first=True,
)
LM1B |= dict(untie_r=True, proj_same_dim=False)
COUNTS = {
    151_119_838: WT103 | sizes(16, 410, 10, 41, 2100),
    285_205_322: WT103 | dict(div_val=4) | sizes(18, 1024, 16, 64, 4096),
    41_055_436: dict(vocab_size=204) | sizes(12, 512, 8, 64, 2048),
    40_964_635: dict(vocab_size=27) | sizes(12, 512, 8, 64, 2048),
    277_231_820: dict(vocab_size=204) | sizes(24, 1024, 8, 128, 3072),
    277_050_395: dict(vocab_size=27) | sizes(24, 1024, 8, 128, 3072),
    355_749_746: LM1B | sizes(18, 1024, 8, 128, 4096),
    466_962_290: LM1B | sizes(20, 1024, 8, 128, 6144),
    838_078_062: LM1B | sizes(24, 1280, 16, 80, 8192),
}
QUICK = (151_119_838, 41_055_436)


@pytest.mark.long
@pytest.mark.parametrize(
    "count",
    [
        pytest.param(n, marks=() if n in QUICK else pytest.mark.slow)
        for n in COUNTS
    ],
)
def test_parameter_counts_are_the_originals(count):
    # In a graph variables have shapes and no values.
    with tf.Graph().as_default():
        model = CausalLanguageModel(TransformerXLConfig(**COUNTS[count]))
        found = sum(v.shape.num_elements() for v in model.variables)
    assert found == count


@pytest.mark.parametrize(
    "changes,message",
    [
        (dict(cutoffs=(18, 7)), "must rise and lie below.*31"),
        (dict(cutoffs=(7, 31)), "must rise and lie below"),
        (dict(cutoffs=(), div_val=2), "needs `cutoffs`"),
        (dict(div_val=9), "width 12 // 9\\^2 = 0"),
        (dict(d_model=9), "must be even"),
        (dict(memory_start="ones"), "memory_start.*hidden.*zeros"),
        (dict(dropatt=1.0), r"must be in \[0, 1\)"),
        (dict(cutoffs=("7",)), "whole number"),
    ],
)
def test_a_wrong_configuration_is_one_line(changes, message):
    with pytest.raises(UserError, match=message) as caught:
        toy(**changes)
    assert "\n" not in str(caught.value)
