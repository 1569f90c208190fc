"""This project's own steps: the ones that the commands run."""

import functools
import itertools

# isort: off
import common  # noqa: F401  before TensorFlow, as in every command

# isort: on
import numpy as np
import tensorflow as tf

from benchmarks.systems import workloads
from benchmarks.systems.workloads import Workload
from common.contract.symbols import SymbolIds
from data.finetuning.features import batches as finetune_batches
from modeling import ClassificationModel
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import new_config
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.models.half_precision import in_bfloat16
from modeling.models.long_document import LongDocument
from training import strategy as strategy_lib
from training.finetuning.ranking.vectors import EncoderVectors
from training.objectives.build import build_objective
from training.run_options import OptimizerOptions, StrategyOptions
from training.step import static_lengths
from training.step.batch_split import BatchSplit
from training.step.learner import build_learner
from training.step.train_step import Trainer

OPTIMIZER = OptimizerOptions(learning_rate=1e-5, weight_decay=0.01, clip=1.0)
LM_OPTIMIZER = OptimizerOptions(learning_rate=2.5e-4, clip=0.25)


def lm_config(w: Workload) -> TransformerXLConfig:
    """The left-to-right architecture of a workload."""
    return TransformerXLConfig(
        vocab_size=w.vocab,
        d_model=w.width,
        n_layer=w.layers,
        n_head=w.heads,
        d_head=w.head_size,
        d_inner=w.inner,
        cutoffs=w.cutoffs,
        untie_r=True,
        mem_len=w.memory,
        memory_start="zeros",
        dropout=w.dropout,
        dropatt=0.0,
    )


def config(w: Workload, options: dict | None = None) -> EncoderConfig:
    """The architecture of a workload; `options` as `build`'s."""
    options = options or {}
    kind = options.get("model_type", w.model_type)
    sizes = dict(
        d_model=w.width, n_layer=w.layers, n_head=w.heads, d_inner=w.inner
    )
    if kind == "xlnet":
        train_memory = w.kind == "pretrain" and w.memory
        sizes |= {
            "d_head": w.head_size,
            "mem_len": w.memory if train_memory else None,
            "reuse_len": w.reuse if train_memory else None,
        }
    else:
        sizes["max_position_embeddings"] = max(512, w.length)
    if kind == "albert":
        sizes["embedding_size"] = workloads.ALBERT_EMBEDDING
    if kind != "modernbert":  # which has none in its base size
        sizes |= {"dropout": w.dropout, "dropatt": w.dropout}
    return new_config(kind, w.vocab, sizes | options.get("config", {}))


def build(workload: Workload, options: dict):
    """A step function of the workload.

    Args:
      workload: what is measured.
      options: `jit`, `precision` (of inference also "bfloat16", the type
        that the weights are kept in), `deterministic`; `model_type` instead of
        the workload's; `segments`, the length of segments that carry memory;
        `local_layers` instead of an encoder; `batches`: "padded", "packed",
        or by length.
    """
    precision = options.get("precision", "float32")
    if precision == "bfloat16" and workload.kind != "inference":
        raise ValueError(
            "precision `bfloat16` is of inference, received kind "
            f"{workload.kind!r}: take `mixed_bfloat16`"
        )
    run = StrategyOptions(
        precision="float32" if precision == "bfloat16" else precision,
        jit_compile=bool(options.get("jit")),
        deterministic=options.get("deterministic", True),
        seed=workload.seed,
    )
    strategy = strategy_lib.setup(run)
    makers = {
        "pretrain": functools.partial(_train, head="pretraining"),
        "finetune": functools.partial(_train, head="classification"),
        "language_model": functools.partial(_train, head="language_model"),
        "inference": _inference,
        "lengths": _lengths,
        "embed": _embed,
        "train_lengths": _lengths,
    }
    return makers[workload.kind](workload, run, strategy, options)


def _learner(w: Workload, strategy, head: str, options: dict, **more):
    causal = head == "language_model"
    if head == "classification":
        more["num_labels"] = w.labels
    objective = build_objective(
        head, lm_config(w) if causal else config(w, options), **more
    )
    return build_learner(
        objective,
        strategy,
        BatchSplit(w.batch, groups=objective.row_groups),
        LM_OPTIMIZER if causal else OPTIMIZER,
        train_steps=100_000,
    )


def _trainer(w: Workload, run: StrategyOptions, strategy, head, options):
    """The training step of a head on one endless synthetic batch."""
    learner = _learner(w, strategy, head, options)
    make = {
        "pretraining": workloads.pretrain_batch,
        "classification": workloads.finetune_batch,
        "language_model": workloads.lm_batch,
    }[head]
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


def _train(w: Workload, run: StrategyOptions, strategy, options, head: str):
    trainer = _trainer(w, run, strategy, head, options)
    one = tf.constant(1)

    def step():
        trainer.train(one)
        return trainer.last[0, 0]

    return step


def _inference(w: Workload, run: StrategyOptions, strategy, options):
    segment = options.get("segments")
    architecture = config(w, options)
    if segment:
        architecture = architecture.with_memory(segment)
    make = functools.partial(
        ClassificationModel, architecture, num_labels=w.labels
    )
    with strategy.scope():
        model = make()
        if options.get("precision") == "bfloat16":
            model = in_bfloat16(make, model)
    read = LongDocument(model, segment) if segment else model
    if options.get("local_layers"):
        read = _local_layers(w)
    batch = {k: tf.constant(v) for k, v in workloads.finetune_batch(w).items()}

    @tf.function(jit_compile=run.jit_compile, autograph=False)
    def infer():
        logits = read(
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


def _local_layers(w: Workload):
    """L local layers of a ModernBERT below a classifier, no global one."""
    every = w.layers + 1  # the first is always global: it is left out
    model = ClassificationModel(
        config(
            w.replace(layers=every),
            {"model_type": "modernbert", "config": {"global_every": every}},
        ),
        num_labels=w.labels,
    )
    encoder = model.encoder

    def read(input_ids, segment_ids, input_mask):
        del segment_ids
        h = encoder.embeddings(input_ids)
        _, near = encoder.surroundings(input_ids, input_mask)
        for block in encoder.blocks[1:]:
            h = block(h, near)
        return model.logits(encoder.final_norm(h), input_mask)

    return read


def _lengths(w: Workload, run: StrategyOptions, strategy, options):
    """Examples of real lengths; one "step" is one pass over them.

    In batches of like lengths (`--length_buckets=auto`), or, by
    `options["batches"]`, in input order, "padded" or "packed" (`--pack`).
    """
    kind = options.get("batches")
    learner = _learner(
        w, strategy, "classification", options, pack=kind == "packed"
    )
    batches = _batches(w, kind, learner.objective.pads_left)
    if w.kind == "lengths":
        return _passes(batches, learner, run.jit_compile)
    shapes = {k: list(v.shape) for k, v in batches[0].items()}
    for name in ("input_ids", "segment_ids", "input_mask"):
        shapes[name][-1] = w.length if kind else None
    dataset = tf.data.Dataset.from_generator(
        lambda: itertools.cycle(batches),
        output_signature={
            name: tf.TensorSpec(shape, batches[0][name].dtype)
            for name, shape in shapes.items()
        },
    )
    trainer = Trainer(learner, dataset, w.seed, run.jit_compile)
    steps = tf.constant(len(batches))

    def step():
        trainer.train(steps)
        return trainer.last[-1, 0]

    return step


def _batches(w: Workload, kind: str | None, pads_left: bool) -> list[dict]:
    """The sample as batches of the classifier's fields."""
    random = np.random.default_rng(w.seed)
    lengths = workloads.row_lengths(w)
    buckets = finetune_batches.bucket_lengths("auto", w.length)
    if kind:
        buckets = (w.length,)
    batches = []
    for rows in finetune_batches.evaluation_batches(
        lengths, w.batch, sort_by_length=not kind
    ):
        width = finetune_batches.fitting_length(lengths[rows].max(), buckets)
        column = np.arange(width)[::-1] if pads_left else np.arange(width)
        shape = [w.batch, width]
        batches.append(
            {
                "input_ids": random.integers(9, w.vocab, shape).astype("int32"),
                "segment_ids": np.zeros(shape, np.int32),
                "input_mask": (column < lengths[rows, None]).astype(np.int32),
                "example_weight": np.ones([w.batch], np.float32),
                "label_ids": random.integers(0, w.labels, [w.batch]),
            }
        )
    return batches


def _passes(batches: list[dict], learner, jit: bool):
    """As in an evaluation there is one trace per length."""
    objective, model = learner.objective, learner.model

    @tf.function(jit_compile=jit, autograph=False)
    def infer(batch):
        return static_lengths.by_length(
            objective, batch, lambda b: objective.predict(model, b), jit
        )["logits"]

    tensors = [
        {k: tf.constant(v) for k, v in batch.items()} for batch in batches
    ]

    def step():
        return float(sum(infer(b).numpy()[:, 0].sum() for b in tensors))

    return step


def _embed(w: Workload, run: StrategyOptions, strategy, options):
    """Frozen vectors of every layer, as `run_ranking.py` makes them."""
    del run
    with strategy.scope():
        model = ClassificationModel(config(w, options), num_labels=w.labels)
    layers = range(w.layers + 1)
    source = EncoderVectors(model, SymbolIds(), layers, w.batch)
    rows = workloads.texts(w)
    return lambda: float(source.embed(rows)[-1].sum())
