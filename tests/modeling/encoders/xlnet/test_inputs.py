"""The many ways to call the backbone become one form, or one line."""

import numpy as np
import pytest
import tensorflow as tf

from modeling.encoders.xlnet import inputs

IDS = np.zeros((2, 4), np.int32)
RANKS = np.array([[1, 0, 3, 2], [0, 1, 2, 3]])
TARGETS = np.array([[0, 1, 0, 1], [1, 0, 0, 0]])


def check(**arguments):
    return inputs.check(input_ids=IDS, **arguments)


def test_a_mapping_is_positions_and_used_rows():
    mapping = np.zeros((2, 3, 4), np.float32)
    mapping[0, 0, 3] = mapping[0, 1, 1] = mapping[1, 0, 0] = 1
    found = check(target_mapping=mapping, ranks=RANKS)
    assert found.target_positions.numpy().tolist() == [[3, 1, 0], [0, 0, 0]]
    assert found.used_rows.numpy().tolist() == [[1, 1, 0], [1, 0, 0]]
    assert found.query_input is None
    # Who is a target follows from the mapping.
    same = check(target_mapping=mapping, ranks=RANKS, is_target=TARGETS)
    np.testing.assert_array_equal(found.perm_mask, same.perm_mask)


def test_ranks_hide_what_comes_later_and_a_target_itself():
    mask = check(ranks=RANKS, is_target=TARGETS).perm_mask.numpy()
    limit = RANKS + 1 - TARGETS
    wanted = limit[:, :, None] <= RANKS[:, None, :]
    np.testing.assert_array_equal(mask, wanted)


def test_documents_hide_each_other():
    documents = np.array([[1, 1, 2, 2], [1, 2, 2, 0]])
    mask = check(documents=documents).perm_mask.numpy()
    assert mask[0].astype(int).tolist() == [
        *[[0, 0, 1, 1]] * 2,
        *[[1, 1, 0, 0]] * 2,
    ]
    both = check(documents=documents, perm_mask=np.ones((2, 4, 4)))
    assert both.perm_mask.numpy().all()


def test_sizes_are_known_where_they_can_be():
    found = check(memory=tf.zeros([2, 5, 3]), memory_length=[1, 2])
    assert (found.batch_size, found.query_len, found.memory_len) == (2, 4, 5)
    assert found.memory_length == [1, 2]
    bare = check(memory_length=[1, 2])
    assert bare.memory_len == 0 and bare.memory_length is None

    @tf.function(
        input_signature=[tf.TensorSpec([None, 4], tf.int32)], autograph=False
    )
    def run(ids):
        form = inputs.check(input_ids=ids)
        assert form.query_len == 4 and tf.is_tensor(form.batch_size)
        return form.batch_size

    assert int(run(np.zeros((6, 4), np.int32))) == 6


@pytest.mark.parametrize(
    "arguments, words",
    [
        ({"ranks": RANKS, "perm_mask": np.zeros((2, 4, 4))}, "not both"),
        ({"ranks": RANKS}, "`ranks` need `is_target`"),
        (
            {
                "target_positions": [[1], [2]],
                "target_mapping": np.zeros((2, 1, 4)),
            },
            "not both",
        ),
        (
            {"documents": IDS, "memory": np.zeros((2, 5, 3))},
            "exclude each other",
        ),
    ],
)
def test_what_contradicts_itself(arguments, words):
    with pytest.raises(ValueError, match=words):
        check(**arguments)
    with pytest.raises(ValueError, match="even batch .* received 3 rows"):
        inputs.check(input_ids=np.zeros((3, 4)), bi_data=True)
