"""The Model Garden's XLNet, built through its public constructors only."""

import functools

import numpy as np
import tensorflow as tf
import tf_keras
from official.nlp.modeling import models, networks

from benchmarks.systems import workloads
from benchmarks.systems.workloads import Workload

LEARNING_RATE, WEIGHT_DECAY, CLIP = 1e-5, 0.01, 1.0


def network(w: Workload, two_stream: bool) -> tf_keras.layers.Layer:
    """`XLNetBase` of the workload's sizes."""
    return networks.XLNetBase(
        vocab_size=w.vocab,
        num_layers=w.layers,
        hidden_size=w.width,
        num_attention_heads=w.heads,
        head_size=w.head_size,
        inner_size=w.inner,
        dropout_rate=w.dropout,
        attention_dropout_rate=w.dropout,
        attention_type="bi",
        bi_data=two_stream,
        initializer=tf_keras.initializers.RandomNormal(stddev=0.02),
        two_stream=two_stream,
        tie_attention_biases=False,
        memory_length=w.memory if two_stream and w.memory else None,
        reuse_length=w.reuse if two_stream and w.memory else 0,
        inner_activation="gelu",
    )


def build(workload: Workload, options: dict):
    """A step function of the workload; `options`: jit, precision."""
    tf.keras.utils.set_random_seed(workload.seed)
    if options.get("precision"):
        tf_keras.mixed_precision.set_global_policy(options["precision"])
    makers = {
        "pretrain": _pretrain,
        "finetune": functools.partial(_classifier, train=True),
        "inference": functools.partial(_classifier, train=False),
        "lengths": functools.partial(_classifier, train=False),
    }
    return makers[workload.kind](workload, bool(options.get("jit")))


class _Update:
    """AdamW and clipping by the global norm, the fused kernel of tf_keras."""

    def __init__(self, variables):
        self.variables = variables
        self.optimizer = tf_keras.optimizers.legacy.Adam(LEARNING_RATE)
        self.decayed = [
            v
            for v in variables
            if not any(k in v.name for k in ("bias", "norm", "Norm"))
        ]

    def __call__(self, tape, loss):
        gradients = tape.gradient(loss, self.variables)
        pairs = [
            (tf.convert_to_tensor(g), v)
            for g, v in zip(gradients, self.variables, strict=True)
            if g is not None
        ]
        clipped, _ = tf.clip_by_global_norm([g for g, _ in pairs], CLIP)
        for v in self.decayed:
            v.assign_sub(LEARNING_RATE * WEIGHT_DECAY * v)
        self.optimizer.apply_gradients(
            zip(clipped, [v for _, v in pairs], strict=True)
        )


def _pretrain(w: Workload, jit: bool):
    model = models.XLNetPretrainer(network(w, two_stream=True))
    memory = [
        tf.Variable(tf.zeros([w.batch, w.memory, w.width]))
        for _ in range(w.layers if w.memory else 0)
    ]
    batch = workloads.pretrain_batch(w)
    masks = workloads.explicit_masks(batch, w.length)
    inputs = {
        "input_word_ids": tf.constant(batch["input_ids"]),
        "input_type_ids": tf.constant(batch["segment_ids"]),
        "permutation_mask": tf.constant(masks["perm_mask"]),
        "target_mapping": tf.constant(masks["target_mapping"]),
        "masked_tokens": tf.constant(masks["is_target"].astype(np.float32)),
    }
    targets = tf.constant(batch["target_ids"])
    update = []

    def forward():
        extra = {"state": [m.value() for m in memory]} if memory else {}
        logits, state = model(inputs | extra, training=True)
        logits = tf.reshape(tf.cast(logits, tf.float32), [-1, w.vocab])
        loss = tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels=tf.reshape(targets, [-1]), logits=logits
            )
        )
        return loss, state

    @tf.function(jit_compile=jit, autograph=False)
    def train():
        with tf.GradientTape() as tape:
            loss, state = forward()
        update[0](tape, loss)
        for old, new in zip(memory, state or [], strict=False):
            old.assign(tf.cast(new, old.dtype))
        return loss

    forward()  # creates the variables
    update.append(_Update(model.trainable_variables))
    return lambda: train().numpy()


def _classifier(w: Workload, jit: bool, train: bool):
    model = models.XLNetClassifier(
        network(w, two_stream=False),
        num_classes=w.labels,
        summary_type="last",
        dropout_rate=w.dropout,
    )
    if w.kind == "lengths":
        return _lengths(w, model, jit)
    batch = workloads.finetune_batch(w)
    inputs = {
        "input_word_ids": tf.constant(batch["input_ids"]),
        "input_type_ids": tf.constant(batch["segment_ids"]),
        "input_mask": tf.constant(1.0 - batch["input_mask"]),
    }
    labels = tf.constant(batch["label_ids"])
    update = []

    def loss_of(training):
        logits = tf.cast(model(inputs, training=training), tf.float32)
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        )

    @tf.function(jit_compile=jit, autograph=False)
    def run():
        if not train:
            return loss_of(False)
        with tf.GradientTape() as tape:
            loss = loss_of(True)
        update[0](tape, loss)
        return loss

    loss_of(False)
    if train:
        update.append(_Update(model.trainable_variables))
    return lambda: run().numpy()


def _lengths(w: Workload, model, jit: bool):
    """Examples of real lengths, all padded to T as the Model Garden does.

    One "step" is one full pass over the sample in batches of B.
    """
    random = np.random.default_rng(w.seed)
    count = len(np.loadtxt(w.lengths, dtype=np.int64, ndmin=1))
    ids = random.integers(9, w.vocab, [count, w.length]).astype(np.int32)
    lengths = np.minimum(np.loadtxt(w.lengths, dtype=np.int64), w.length)
    blocked = (np.arange(w.length)[None] < w.length - lengths[:, None]).astype(
        np.float32
    )

    @tf.function(jit_compile=jit, autograph=False)
    def run(ids, blocked):
        return model(
            {
                "input_word_ids": ids,
                "input_type_ids": tf.zeros_like(ids),
                "input_mask": blocked,
            },
            training=False,
        )

    def step():
        total = 0.0
        for i in range(0, count - count % w.batch, w.batch):
            rows = slice(i, i + w.batch)
            total += float(run(ids[rows], blocked[rows])[0, 0])
        return total

    return step
