"""What users of Keras expect of a task model: fit, evaluate, predict, dicts."""

import numpy as np
import pytest
import tensorflow as tf
import tf_keras

from modeling import ClassificationModel, XLNetConfig


def make_model():
    tf_keras.utils.set_random_seed(5)
    config = XLNetConfig(
        vocab_size=11, d_model=6, n_layer=1, n_head=2, d_head=3, d_inner=8
    )
    model = ClassificationModel(config, num_labels=2)
    model.compile(
        tf_keras.optimizers.Adam(1e-2),
        tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        ["accuracy"],
        jit_compile=False,
    )
    return model


def make_rows(count=24):
    rng = np.random.default_rng(2)
    ids = rng.integers(3, 11, (count, 5)).astype(np.int32)
    rows = {
        "input_ids": ids,
        "segment_ids": np.zeros_like(ids),
        "input_mask": np.ones_like(ids),
    }
    return rows, (ids == 7).any(1).astype(np.int32)


@pytest.mark.slow
def test_fit_evaluate_and_predict_take_dictionaries():
    """With dropout 0.1, the default, and no seed given."""
    rows, labels = make_rows()
    model = make_model()
    first = model.evaluate(rows, labels, verbose=0)[0]
    fitted = model.fit(rows, labels, batch_size=8, epochs=6, verbose=0)
    losses = fitted.history["loss"]
    assert losses[-1] < losses[0]
    assert model.evaluate(rows, labels, verbose=0)[0] < first
    guesses = model.predict(rows, batch_size=5, verbose=0)
    assert guesses.shape == (24, 2)
    direct = model(**{k: tf.constant(v) for k, v in rows.items()})
    np.testing.assert_allclose(guesses, direct, atol=1e-5)
    # Without the optional fields: one text, nothing padded.
    ids = {"input_ids": rows["input_ids"], "input_mask": None}
    np.testing.assert_allclose(model(ids), direct, atol=1e-5)
    # The seed of dropout is Keras' own: the same once more, and not constant.
    again = make_model()
    again.fit(rows, labels, batch_size=8, epochs=6, verbose=0)
    np.testing.assert_allclose(
        again.predict(rows, verbose=0), guesses, atol=1e-5
    )
    batch = {k: v[:8] for k, v in rows.items()}
    model.optimizer.learning_rate.assign(0.0)
    two = [model.train_on_batch(batch, labels[:8])[0] for _ in range(2)]
    assert two[0] != two[1]
    # A call of one's own that trains still needs a seed.
    with pytest.raises(ValueError, match="seed"):
        model(rows, training=True)


@pytest.mark.long
def test_a_fitted_model_is_saved_and_comes_back(tmp_path):
    """As a folder (SavedModel) and as a `.keras` file."""
    rows, labels = make_rows(count=4)
    model = make_model()
    model.fit(rows, labels, verbose=0)
    model.evaluate(rows, labels, verbose=0)
    wanted = model.predict(rows, verbose=0)
    for name in ("folder", "file.keras"):
        path = str(tmp_path / name)
        model.save(path)
        again = tf_keras.models.load_model(path)
        assert isinstance(again, ClassificationModel)
        np.testing.assert_allclose(again(rows), wanted, atol=1e-6)
    model.fit(rows, labels, verbose=0)  # goes on as before
