"""This project's own steps: the ones that the commands run."""

import functools

# isort: off
import common  # noqa: F401  before TensorFlow, as in every command

# isort: on
import numpy as np
import tensorflow as tf

from benchmarks import workloads
from benchmarks.workloads import Workload
from data.finetuning import batches as finetune_batches
from data.symbols import SymbolIds
from modeling import ClassificationModel, XLNetConfig
from training import strategy as strategy_lib
from training.batch_split import BatchSplit
from training.finetuning.ranking.vectors import EncoderVectors
from training.learner import build_learner
from training.objectives.build import build_objective
from training.options import OptimizerOptions, StrategyOptions
from training.train_step import Trainer

OPTIMIZER = OptimizerOptions(learning_rate=1e-5, weight_decay=0.01, clip=1.0)


def config(w: Workload) -> XLNetConfig:
    """The architecture of a workload."""
    train_memory = w.kind == "pretrain" and w.memory
    return XLNetConfig(
        vocab_size=w.vocab,
        d_model=w.width,
        n_layer=w.layers,
        n_head=w.heads,
        d_head=w.head_size,
        d_inner=w.inner,
        dropout=w.dropout,
        dropatt=w.dropout,
        mem_len=w.memory if train_memory else None,
        reuse_len=w.reuse if train_memory else None,
    )


def build(workload: Workload, options: dict):
    """A step function of the workload; `options`: jit, precision."""
    run = StrategyOptions(
        precision=options.get("precision", "float32"),
        jit_compile=bool(options.get("jit")),
        deterministic=options.get("deterministic", True),
        seed=workload.seed,
    )
    strategy = strategy_lib.setup(run)
    makers = {
        "pretrain": functools.partial(_train, head="pretraining"),
        "finetune": functools.partial(_train, head="classification"),
        "inference": _inference,
        "lengths": _lengths,
        "embed": _embed,
    }
    return makers[workload.kind](workload, run, strategy)


def trainer(w: Workload, run: StrategyOptions, strategy, head: str) -> Trainer:
    """The training step of a head on one endless synthetic batch."""
    options = {} if head == "pretraining" else {"num_labels": w.labels}
    objective = build_objective(head, config(w), **options)
    learner = build_learner(
        objective,
        strategy,
        BatchSplit(w.batch, groups=objective.row_groups),
        OPTIMIZER,
        train_steps=100_000,
    )
    make = (
        workloads.pretrain_batch
        if head == "pretraining"
        else workloads.finetune_batch
    )
    batch = make(w) | (
        {"reset_memory": np.zeros([w.batch], bool)} if learner.memory else {}
    )
    dataset = tf.data.Dataset.from_tensors(
        {k: tf.constant(v) for k, v in batch.items()}
    ).repeat()
    return Trainer(
        learner,
        strategy.experimental_distribute_dataset(dataset),
        w.seed,
        run.jit_compile,
    )


def _train(w: Workload, run: StrategyOptions, strategy, head: str):
    made = trainer(w, run, strategy, head)
    one = tf.constant(1)

    def step():
        made.train(one)
        return made.last[0, 0]

    return step


def _classifier(w: Workload):
    return ClassificationModel(config(w), num_labels=w.labels)


def _inference(w: Workload, run: StrategyOptions, strategy):
    with strategy.scope():
        model = _classifier(w)
    batch = {k: tf.constant(v) for k, v in workloads.finetune_batch(w).items()}

    @tf.function(jit_compile=run.jit_compile, autograph=False)
    def infer():
        logits = model(
            batch["input_ids"],
            segment_ids=batch["segment_ids"],
            input_mask=batch["input_mask"],
        )
        return tf.reduce_mean(
            tf.nn.sparse_softmax_cross_entropy_with_logits(
                batch["label_ids"], logits
            )
        )

    return lambda: infer().numpy()


def _lengths(w: Workload, run: StrategyOptions, strategy):
    """Examples of real lengths, in the batches of `--length_buckets=auto`.

    One "step" is one pass over the sample; results go back to input order. As
    in an evaluation there is one trace per length.
    """
    with strategy.scope():
        model = _classifier(w)
    random = np.random.default_rng(w.seed)
    lengths = workloads.row_lengths(w)
    ids = random.integers(9, w.vocab, [len(lengths), w.length])
    ids = ids.astype(np.int32)
    buckets = finetune_batches.bucket_lengths("auto", w.length)
    batches = finetune_batches.evaluation_batches(
        lengths, w.batch, sort_by_length=True
    )

    @tf.function(jit_compile=run.jit_compile, autograph=False)
    def infer(ids, mask):
        return model(ids, segment_ids=tf.zeros_like(ids), input_mask=mask)

    def step():
        out = np.zeros([len(lengths)], np.float32)
        for rows in batches:
            longest = lengths[rows].max()
            width = finetune_batches.fitting_length(longest, buckets)
            inside = np.arange(width)[None] >= width - lengths[rows, None]
            mask = tf.constant(inside, tf.int32)
            logits = infer(tf.constant(ids[rows, -width:]), mask)
            out[rows] = logits.numpy()[:, 0]
        return float(out.sum())

    return step


def _embed(w: Workload, run: StrategyOptions, strategy):
    """Frozen vectors of every layer, as `run_ranking.py` makes them."""
    del run
    with strategy.scope():
        model = _classifier(w)
    layers = range(w.layers + 1)
    source = EncoderVectors(model, SymbolIds(), layers, w.batch)
    rows = workloads.texts(w)
    return lambda: float(source.embed(rows)[-1].sum())
