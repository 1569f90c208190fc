"""Who may see whom, shown by gradients: nothing leaks, nothing is blind."""

import numpy as np
import pytest
import tensorflow as tf

from modeling import PretrainingModel, XLNetConfig, XLNetModel
from modeling.checkpoints.names import named_variables
from tests.modeling.properties.influences import influence

CONFIG = XLNetConfig(
    vocab_size=23,
    d_model=12,
    n_layer=2,
    n_head=3,
    d_head=5,
    d_inner=20,
    mem_len=5,
    reuse_len=4,
    init_std=0.3,
)
B, T, M = 2, 7, 3


def _visible(ranks, is_target):
    return ~((ranks + (1 - is_target))[:, :, None] <= ranks[:, None, :])


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("all_targets", [True, False])
def test_targets_see_exactly_what_their_order_allows(seed, all_targets):
    rng = np.random.default_rng(seed)
    model = PretrainingModel(CONFIG)
    ids = rng.permutation(23)[: B * T].reshape(B, T)
    ranks = np.stack([rng.permutation(T) for _ in range(B)])
    is_target = np.ones((B, T), int)
    if not all_targets:
        is_target = (rng.random((B, T)) < 0.5).astype(int)
        ranks = np.where(is_target == 1, ranks, -1)
    positions = np.tile(np.arange(T), (B, 1))
    size = influence(
        model,
        lambda output: output.query_output,
        input_ids=ids,
        ranks=ranks,
        is_target=is_target,
        target_positions=positions,
    )
    visible = _visible(ranks, is_target)
    # Through two layers, a row sees what those it sees see.
    for b, i in zip(*np.nonzero(is_target), strict=True):
        np.testing.assert_array_equal(size[b, i] > 0, visible[b, i])
        assert size[b, i, i] == 0.0


def test_the_query_stream_knows_which_place_it_predicts():
    """The paper's A.1: without the place two targets get one distribution.

    Two targets with the same context are predicted apart because a query row
    attends by its position; a query stream that ignores it cannot.
    """
    model = PretrainingModel(CONFIG)
    call = dict(
        input_ids=np.arange(T)[np.newaxis],
        ranks=np.array([[-1, 0, -1, -1, 0, -1, -1]]),
        is_target=np.array([[0, 1, 0, 0, 1, 0, 0]]),
        target_positions=[[1, 4]],
    )

    def predicted():
        logits = model.lm_logits(model.encoder(**call).query_output)
        return tf.nn.softmax(logits)[0].numpy()

    ours = predicted()
    assert np.abs(ours[0] - ours[1]).max() > 1e-3
    for name, variable in named_variables(model).items():
        if name.endswith("rel_attn/r/kernel"):  # positions count no more
            variable.assign(tf.zeros_like(variable))
    naive = predicted()
    np.testing.assert_allclose(naive[0], naive[1], atol=1e-6)


def test_the_original_form_of_blind_rows_leaks():
    """The first target of an order without context: why ours differs."""
    ids = np.arange(T)[np.newaxis]
    call = dict(
        input_ids=ids,
        ranks=np.arange(T)[np.newaxis],
        is_target=np.ones((1, T)),
        target_positions=[[0]],
    )
    sizes = {}
    for blind_rows in ("zero", "original"):
        model = PretrainingModel(CONFIG, blind_rows=blind_rows)
        sizes[blind_rows] = influence(
            model, lambda output: output.query_output, **call
        )
    assert (sizes["zero"] == 0).all()
    assert (sizes["original"] > 0).any()


def test_content_stream_sees_its_own_token_too():
    rng = np.random.default_rng(0)
    model = PretrainingModel(CONFIG)
    ids = rng.permutation(23)[: B * T].reshape(B, T)
    ranks = np.stack([rng.permutation(T) for _ in range(B)])
    size = influence(
        model,
        lambda output: output.sequence_output,
        input_ids=ids,
        ranks=ranks,
        is_target=np.ones((B, T)),
    )
    visible = _visible(ranks, np.ones((B, T), int)) | np.eye(T, dtype=bool)
    np.testing.assert_array_equal(size > 0, visible)


def test_reuse_part_never_sees_the_second_part():
    """Ranks as the reader makes them: memory carries no later target."""
    model = PretrainingModel(CONFIG)
    reuse = 4
    ids = np.arange(T)[np.newaxis]
    is_target = np.array([[1, 0, 1, 0, 1, 0, 0]])
    ranks = np.array([[1, -1, 0, -1, reuse + 1, reuse, reuse]])
    size = influence(
        model,
        lambda output: tf.concat(output.hidden_states[1:], -1)[..., :12],
        input_ids=ids,
        ranks=ranks,
        is_target=is_target,
        output_hidden_states=True,
    )
    assert (size[0, :reuse, reuse:] == 0).all()
    assert (size[0, reuse:, 1] > 0).all()


def test_causal_model_sees_no_later_token():
    model = PretrainingModel(CONFIG.replace(attn_type="uni"))
    ids = np.arange(B * T).reshape(B, T)
    size = influence(
        model, lambda output: output.sequence_output, input_ids=ids
    )
    np.testing.assert_array_equal(
        size > 0, np.tril(np.ones((T, T), bool))[None].repeat(B, 0)
    )


def test_memory_has_no_gradient():
    model = XLNetModel(CONFIG)
    memory = tuple(
        tf.random.stateless_normal([B, M, 12], [0, i]) for i in (1, 2)
    )
    ids = np.arange(B * T).reshape(B, T)
    with tf.GradientTape(persistent=True) as tape:
        output = model(ids, memory=memory)
        total = tf.add_n([tf.reduce_sum(m) for m in output.new_memory])
    assert all(
        tape.gradient(total, v) is None for v in model.trainable_variables
    )


@pytest.mark.parametrize("attn_type", ["bi", "uni"])
def test_padding_changes_nothing(attn_type):
    model = XLNetModel(CONFIG.replace(attn_type=attn_type))
    rng = np.random.default_rng(1)
    ids = rng.integers(0, 23, (B, T))
    segments = rng.integers(0, 2, (B, T))
    plain = model(ids, segment_ids=segments).sequence_output
    for left, right in ((0, 3), (3, 0), (2, 1)):
        pad = [[0, 0], [left, right]]
        for filler in (0, 5):
            padded = model(
                np.pad(ids, pad, constant_values=filler),
                segment_ids=np.pad(segments, pad, constant_values=4),
                input_mask=np.pad(np.ones_like(ids), pad),
            ).sequence_output
            np.testing.assert_allclose(
                padded[:, left : left + T], plain, atol=2e-5
            )


def test_empty_memory_equals_no_memory():
    """Row by row: 0, 2 or all valid slots, whatever the others hold."""
    model = XLNetModel(CONFIG)
    rng = np.random.default_rng(2)
    ids = rng.integers(0, 23, (3, T))
    ranks = np.stack([rng.permutation(T) for _ in range(3)])
    call = dict(
        ranks=ranks, is_target=np.ones((3, T)), target_positions=[[0, 3, 6]] * 3
    )
    memory = [rng.normal(size=(3, M, 12)).astype(np.float32) for _ in range(2)]
    lengths = [0, 2, M]
    output = model(ids, memory=memory, memory_length=lengths, **call)
    for row, length in enumerate(lengths):
        one = {k: np.asarray(v)[row : row + 1] for k, v in call.items()}
        past = [m[row : row + 1, M - length :] for m in memory]
        alone = model(
            ids[row : row + 1], memory=past if length else None, **one
        )
        for name in ("sequence_output", "query_output"):
            np.testing.assert_allclose(
                getattr(output, name)[row],
                getattr(alone, name)[0],
                atol=2e-5,
                err_msg=f"{name} {length}",
            )
        assert output.new_memory_length[row] == min(length + 4, 5)
