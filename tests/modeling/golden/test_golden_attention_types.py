"""`uni`, `same_length`, `clamp_len`, both directions, masks: the original."""

import pytest
import tensorflow as tf

from modeling import XLNetModel
from tests.modeling.golden import golden_util

pytestmark = pytest.mark.shared

# name: (config changes, call changes); memory is fed unless told otherwise.
CASES = {
    f"uni_sl{int(same)}_cl{clamp}_mems{int(fed)}": (
        dict(attn_type="uni", same_length=same, clamp_len=clamp),
        dict(fed=fed),
    )
    for same in (False, True)
    for clamp in (-1, 3)
    for fed in (False, True)
} | {
    "uni_noseg": (
        dict(attn_type="uni", reuse_len=0),
        dict(segments=False),
    ),
    "uni_bidata_cl3": (
        dict(attn_type="uni", clamp_len=3, reuse_len=4),
        dict(bi_data=True),
    ),
    "uni_inputmask": (dict(attn_type="uni", reuse_len=3), dict(pad=True)),
    "bi_cl3": (dict(clamp_len=3, reuse_len=4), {}),
    "bi_bidata_cl3": (dict(clamp_len=3, reuse_len=4), dict(bi_data=True)),
    "bi_nomask_mems": ({}, {}),
    "bi_inputmask_permmask": (
        dict(mem_len=2, reuse_len=4),
        dict(pad=True, perm=True),
    ),
    "bi_memlen_none": (dict(mem_len=None), {}),
}


@pytest.fixture(scope="module")
def data(golden):
    return golden_util.load(golden, "attn_types")


def test_no_case_is_left_out(data):
    stored = {k.split("/")[1] for k in data if k.startswith("case/")}
    assert stored == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_attention_type(golden, data, name):
    changes, call = CASES[name]
    config = golden_util.config(golden, **({"mem_len": 6} | changes))
    model = XLNetModel(config)
    golden_util.assign(model, golden, "xlnet_tiny.ckpt")
    memory = tuple(
        tf.transpose(data[f"in/mems_{i}"], [1, 0, 2]) for i in range(3)
    )
    output = model(
        data["in/input_ids"],
        segment_ids=data["in/segment_ids"]
        if call.get("segments", True)
        else None,
        input_mask=1 - data["in/input_mask"] if call.get("pad") else None,
        perm_mask=tf.transpose(data["in/perm_mask"], [2, 0, 1])
        if call.get("perm")
        else None,
        memory=memory if call.get("fed", True) else None,
        bi_data=call.get("bi_data", False),
    )
    golden_util.assert_close(
        tf.transpose(output.sequence_output, [1, 0, 2]),
        data[f"case/{name}/output"],
    )
    if config.mem_len is None:
        assert output.new_memory is None
        return
    for i, new in enumerate(output.new_memory):
        golden_util.assert_close(
            tf.transpose(new, [1, 0, 2]), data[f"case/{name}/new_mems_{i}"]
        )
