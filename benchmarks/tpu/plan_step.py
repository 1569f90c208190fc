"""The real training steps as functions that `tpu_lowering` can lower.

A step is what `training.step.train_step.Trainer` runs on one replica, here with the
choices it makes on TPU: factored positions, the recomputation behind a barrier.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from benchmarks.tpu import lowering as tpu_lowering
from common.contract import schema
from data.finetuning.features import batches as finetune_batches
from flags.plan_flags import PlanOptions
from modeling.encoders.stack import RecurrentStack
from training import strategy as strategy_lib
from training.objectives.build import build_objective
from training.optim.clipping import clip_factor
from training.run_options import OptimizerOptions, StrategyOptions
from training.step.batch_split import BatchSplit
from training.step.learner import Learner, build_learner
from training.step.train_step import Sums, Trainer

OPTIMIZER = OptimizerOptions(learning_rate=4e-4, weight_decay=0.01)
LM_OPTIMIZER = OptimizerOptions(learning_rate=2.5e-4, clip=0.25)
HEADS = {"pretrain": "pretraining"}  # the others have their tasks' names
OPTIONS = 4  # C of a multiple-choice example
LABELS = 2  # Y


@dataclasses.dataclass
class PlannedStep:
    """A trainer with the shapes of its batch.

    Attributes:
      learner: of the task.
      trainer: of the learner.
      batch: name -> TensorSpec.
      gradient_bytes: of all gradients, float32.
    """

    learner: Learner
    trainer: Trainer
    batch: dict[str, tf.TensorSpec]
    gradient_bytes: int

    def forward_backward(self) -> bytes:
        """HLO of forward, backward and the factor that clips.

        The gradients come out as they are. The update multiplies them while it
        reads them, so a pass of its own would be counted that no step has.
        """
        trainer, learner = self.trainer, self.learner
        names = list(self.batch)

        @tf.function(jit_compile=True, autograph=False)
        def run(*tensors):
            gradients, sums, _ = trainer._compute(
                dict(zip(names, tensors, strict=True)),
                learner.memory.read() if learner.memory else (),
                learner.optimizer.step.read_value(),
                tf.constant(0),
            )
            weight = Sums.unpack(sums, trainer.metric_names).weight
            scale = 1.0 / tf.maximum(weight, 1e-9)
            factor, norm = clip_factor(
                gradients, learner.optimizer.options.clip, scale
            )
            return gradients, factor, sums, norm

        return tpu_lowering.lower(run, *self.batch.values())

    def full(self) -> bytes:
        """HLO of the whole step: optimizer and memory included."""
        names = list(self.batch)

        @tf.function(jit_compile=True, autograph=False)
        def run(*tensors):
            batch = dict(zip(names, tensors, strict=True))
            return self.trainer._replica_step(batch)

        return tpu_lowering.lower(run, *self.batch.values())


def batch_specs(options: PlanOptions) -> dict[str, tf.TensorSpec]:
    """The batch of one core, from `common.contract.schema`."""
    sizes = {
        "B": options.rows,
        "T": options.seq_len,
        "P": options.num_predict,
        "C": OPTIONS,
        "Y": LABELS,
    }
    if options.task == "pretrain":
        fields = schema.PRETRAIN_BATCH
    elif options.task == "language_model":
        fields = schema.LANGUAGE_MODEL_BATCH
    else:
        fields = schema.FINETUNE_BATCH | schema.HEAD_FIELDS[options.task]
    specs = {}
    for name, field in fields.items():
        shape = [sizes[letter] for letter in field.shape.split()]
        if options.task == "multiple_choice" and "T" in field.shape:
            shape.insert(1, OPTIONS)
        specs[name] = tf.TensorSpec(shape, field.dtype, name=name)
    return specs


def prepare(options: PlanOptions) -> PlannedStep:
    """Builds model, optimizer and memory of a plan on this machine's CPU."""
    strategy = strategy_lib.setup(
        StrategyOptions(precision=options.precision, deterministic=False)
    )
    config, more = options.config, {}
    if options.task == "language_model":
        config = config.replace(mem_len=options.mem_len)
    elif options.task == "pretrain":
        config = config.replace(
            mem_len=options.mem_len, reuse_len=options.seq_len // 2
        )
    else:
        config = config.replace(mem_len=None, reuse_len=None)
        more["static_lengths"] = finetune_batches.bucket_lengths(
            options.length_buckets, options.seq_len
        )
    head = HEADS.get(options.task, options.task)
    if head == "classification":
        more["num_labels"] = LABELS
    objective = build_objective(
        head, config, recompute_layers=options.recompute_layers, **more
    )
    learner = build_learner(
        objective,
        strategy,
        BatchSplit(options.rows, groups=objective.row_groups),
        LM_OPTIMIZER if head == "language_model" else OPTIMIZER,
        options.train_steps,
    )
    encoder = learner.model.encoder
    if isinstance(encoder, RecurrentStack):
        encoder.query_shift = encoder.tpu_shift
    encoder.recompute = "layer_barrier" if options.recompute_layers else "order"
    trainer = Trainer(learner, None)
    count = sum(int(np.prod(v.shape)) for v in learner.optimizer.trained)
    return PlannedStep(learner, trainer, batch_specs(options), 4 * count)
