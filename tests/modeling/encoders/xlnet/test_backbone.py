"""Rows of several documents: each gets what it gets in a row of its own."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import XLNetConfig
from modeling.encoders.xlnet.backbone import XLNetModel
from tests.modeling.golden import golden_util

V, T = 23, 9
CONFIG = XLNetConfig(
    vocab_size=V,
    d_model=10,
    n_layer=2,
    n_head=2,
    d_head=3,
    d_inner=14,
    dropout=0.0,
    dropatt=0.0,
)
# Documents of each packed row by their lengths; the rest is padding.
ROWS = ((3, 5), (9,), (2, 4, 2), (6, 3))


def places():
    """(packed row, first place, length) of each document."""
    return [
        (row, sum(lengths[:i]), length)
        for row, lengths in enumerate(ROWS)
        for i, length in enumerate(lengths)
    ]


def packed_inputs():
    rng = np.random.default_rng(2)
    shape = [len(ROWS), T]
    documents = np.full(shape, -1, np.int32)
    for number, (row, first, length) in enumerate(places()):
        documents[row, first : first + length] = number
    return {
        "input_ids": rng.integers(1, V, shape).astype(np.int32),
        "segment_ids": rng.integers(0, 2, shape).astype(np.int32),
        "perm_mask": rng.integers(0, 2, [*shape, T]).astype(np.int32),
        "query_input": rng.integers(0, 2, shape).astype(np.int32),
    }, documents


def own_rows(inputs):
    """The documents in rows of their own, padded on the left.

    The backward half of the packed rows becomes the backward half of these: a
    row of padding fills the forward half up.
    """
    found = places()
    half = len(ROWS) // 2
    forward = [p for p in found if p[0] < half]
    backward = [p for p in found if p[0] >= half]
    count = 2 * max(len(forward), len(backward))
    rows = {
        k: np.zeros([count, *v.shape[1:]], v.dtype) for k, v in inputs.items()
    }
    mask = np.zeros([count, T], np.int32)
    at = {}
    for start, group in ((0, forward), (count // 2, backward)):
        for i, (row, first, length) in enumerate(group, start):
            ours, theirs = slice(T - length, T), slice(first, first + length)
            mask[i, ours] = 1
            for name, value in inputs.items():
                if name == "perm_mask":
                    rows[name][i, ours, ours] = value[row, theirs, theirs]
                else:
                    rows[name][i, ours] = value[row, theirs]
            at[row, first, length] = i
    return rows | {"input_mask": mask}, at


def outputs(model, inputs, spans, weights):
    """([document, own stream values], gradients) of a weighted sum."""
    with tf.GradientTape() as tape:
        output = model(**inputs)
        found = [
            tf.concat([s[row, first : first + length] for s in output[:2]], -1)
            for row, first, length in spans
        ]
        total = tf.add_n(
            [tf.reduce_sum(x * w) for x, w in zip(found, weights, strict=True)]
        )
    return found, tape.gradient(total, model.trainable_variables)


@pytest.mark.long
@pytest.mark.parametrize("bi_data", [False, True])
@pytest.mark.parametrize("attn_type", ["bi", "uni"])
def test_documents_of_a_row_equal_rows_of_their_own(attn_type, bi_data):
    model = XLNetModel(CONFIG.replace(attn_type=attn_type))
    for i, variable in enumerate(model.trainable_variables):
        noise = tf.random.stateless_normal(variable.shape, [3, i])
        variable.assign_add(0.3 * noise)
    rng = np.random.default_rng(7)
    spans = places()
    weights = [
        rng.normal(size=[length, 2 * CONFIG.d_model]).astype(np.float32)
        for _, _, length in spans
    ]
    inputs, documents = packed_inputs()
    rows, at = own_rows(inputs)
    packed = inputs | {"documents": documents, "bi_data": bi_data}
    found, gradients = outputs(model, packed, spans, weights)
    apart = [(at[span], T - span[2], span[2]) for span in spans]
    rows["bi_data"] = bi_data
    wanted, wanted_gradients = outputs(model, rows, apart, weights)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=2e-6)
    for a, b in zip(gradients, wanted_gradients, strict=True):
        a, b = (np.asarray(tf.convert_to_tensor(x)) for x in (a, b))
        np.testing.assert_allclose(a, b, atol=3e-6 * max(1, abs(b).max()))


def test_documents_and_memory_exclude_each_other():
    model = XLNetModel(CONFIG.replace(mem_len=4))
    inputs, documents = packed_inputs()
    memory = [tf.zeros([len(ROWS), 4, CONFIG.d_model])] * CONFIG.n_layer
    with pytest.raises(ValueError, match="`documents` and `memory` exclude"):
        model(inputs["input_ids"], documents=documents, memory=memory)


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


@pytest.mark.shared
def test_no_case_is_left_out(data):
    stored = {k.split("/")[1] for k in data if k.startswith("case/")}
    assert stored == set(CASES)


@pytest.mark.long
@pytest.mark.shared
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
