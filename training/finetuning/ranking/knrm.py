"""Trains K-NRM's weights on frozen features; a fitted one as a model.

K + 1 numbers are learned, so seeds and layers train side by side in one step:
each has its own weights, order of pairs and early stopping, and none sees the
others. Features are standardised while training; the weights that come out are
those of the formula. Letters: S seeds, Y layers, K features, B pairs of a step.
"""

import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tf_keras

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from data.text.tokenizer import Tokenizer
from modeling.encoders.registry import spec_of
from modeling.heads import kernel_pooling, ranking_losses
from modeling.heads.kernel_ranking import KernelRankingModel
from training.finetuning.ranking.kernel_features import FeatureMaker, idf
from training.finetuning.ranking.options import RankerOptions
from training.finetuning.ranking.vectors import EncoderVectors


@dataclasses.dataclass(frozen=True)
class Learned:
    """What one fold learned."""

    w: np.ndarray  # float32 [S, K], of the features as they are
    b: np.ndarray  # float32 [S]
    # int [S], place in the features' layers: the best on validation
    layer: np.ndarray
    dev: np.ndarray  # float [S], validation NDCG of that
    epochs: np.ndarray  # int [S], passes after which it was reached

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, for a file."""
        return dataclasses.asdict(self)


class Trainer:
    """Fits weights fold after fold with one compiled step.

    Its seeds count from `first_seed` on.
    """

    def __init__(
        self,
        options: RankerOptions,
        num_layers: int,
        num_features: int,
        first_seed: int = 0,
    ):
        self.options = options
        self._seeds = range(first_seed, first_seed + options.seeds)
        shape = [options.seeds, num_layers, num_features]
        self._w = tf.Variable(tf.zeros(shape))
        self._b = tf.Variable(tf.zeros(shape[:2]))
        self._optimizer = tf_keras.optimizers.Adam(
            options.learning_rate, epsilon=options.adam_epsilon
        )
        self._optimizer.build([self._w, self._b])
        self._fresh = [v.numpy() for v in self._optimizer.variables]
        table = tf.TensorSpec([None, *shape[1:]], tf.float32)
        order = tf.TensorSpec([shape[0], None, options.batch_size, 2], tf.int32)
        self._run = tf.function(
            self._epoch, input_signature=[table, order], autograph=False
        )

    def fit(
        self,
        train: dict[str, np.ndarray],
        pairs: dict[str, np.ndarray],
        dev: dict[str, np.ndarray],
        ndcg: Callable[[Sequence[np.ndarray]], float],
    ) -> dict[str, np.ndarray]:
        """`Learned.arrays()` of a fold.

        By query, features are [candidates, Y, K], and (better, worse) places
        [n, 2], of which some query has one. `ndcg` is the mean NDCG of the
        validation queries' scores, in their order.
        """
        x = np.concatenate(list(train.values()))  # [N, Y, K]
        starts = np.cumsum([0, *[len(v) for v in train.values()]])
        chosen = np.concatenate(
            [pairs[q] + s for q, s in zip(train, starts[:-1], strict=True)]
        )  # [pairs, 2]
        mean = x.mean(0, dtype=np.float64)  # [Y, K]
        deviation = np.maximum(x.std(0, dtype=np.float64), 1e-6)
        table = tf.constant((x - mean) / deviation, tf.float32)
        held = [
            ((v - mean) / deviation).astype(np.float32) for v in dev.values()
        ]
        self._reset()
        best = _Best(self._w.shape[:2], self.options.patience)
        for epoch in range(1, self.options.epochs + 1):
            self._run(table, self._order(chosen, epoch))
            w, b = self._w.numpy(), self._b.numpy()
            best.see(epoch, w, b, _validate(held, w, b, best.open, ndcg))
            if not best.open.any():
                break
        return best.learned(mean, deviation).arrays()

    def _reset(self) -> None:
        """Small uniform w, b = 0; of each seed its own.

        A tenth of Glorot's limit, which the authors use on plain features: on
        standardised ones a seed that begins with a wrong sign of the
        candidates' score would need several passes to turn it.
        """
        num_features = self._w.shape[-1]
        limit = 0.1 * np.sqrt(6.0 / (num_features + 1))
        fresh = [
            np.random.default_rng((seed, 0)).uniform(
                -limit, limit, self._w.shape[1:]
            )
            for seed in self._seeds
        ]
        self._w.assign(np.array(fresh, np.float32))
        self._b.assign(tf.zeros_like(self._b))
        for variable, value in zip(
            self._optimizer.variables, self._fresh, strict=True
        ):
            variable.assign(value)

    def _order(self, pairs: np.ndarray, epoch: int) -> np.ndarray:
        """int32 [S, steps, B, 2]: all pairs once, the last batch filled up."""
        size = self.options.batch_size
        steps = -(-len(pairs) // size)
        orders = []
        for seed in self._seeds:
            rng = np.random.default_rng((seed, epoch))
            order = np.resize(rng.permutation(len(pairs)), steps * size)
            orders.append(pairs[order].reshape(steps, size, 2))
        return np.array(orders, np.int32)

    def _epoch(self, table, order):
        def train(step):
            rows = tf.gather(table, order[:, step])  # [S, B, 2, Y, K]
            with tf.GradientTape() as tape:
                value = kernel_pooling.score(
                    rows,
                    self._w[:, tf.newaxis, tf.newaxis],
                    self._b[:, tf.newaxis, tf.newaxis],
                )  # [S, B, 2, Y]
                losses = ranking_losses.hinge(value[:, :, 0], value[:, :, 1])
                # The sum over seeds and layers keeps them apart.
                loss = tf.reduce_sum(tf.reduce_mean(losses, 1))
            variables = [self._w, self._b]
            gradients = tape.gradient(loss, variables)
            self._optimizer.apply_gradients(
                zip(gradients, variables, strict=True)
            )
            return (step + 1,)

        steps = tf.shape(order)[1]
        tf.while_loop(lambda step: step < steps, train, [tf.constant(0)])


class _Best:
    """The best weights so far of every seed and layer."""

    def __init__(self, shape, patience: int):
        self.dev = np.full(shape, -1.0)
        self.epochs = np.zeros(shape, np.int64)
        self.open = np.ones(shape, bool)
        self.patience = patience
        self.w = self.b = None

    def see(self, epoch: int, w, b, dev: np.ndarray) -> None:
        """Takes what is better; closes what has not been for too long."""
        if self.w is None:
            self.w, self.b = w.copy(), b.copy()
        better = self.open & (dev > self.dev)
        self.w[better], self.b[better] = w[better], b[better]
        self.dev[better], self.epochs[better] = dev[better], epoch
        self.open &= epoch - self.epochs < self.patience

    def learned(self, mean: np.ndarray, deviation: np.ndarray) -> Learned:
        """The best layer of each seed, its weights for plain features."""
        layer = self.dev.argmax(1)  # [S]
        seeds = np.arange(len(layer))
        w = self.w[seeds, layer] / deviation[layer]  # [S, K]
        b = self.b[seeds, layer] - (w * mean[layer]).sum(-1)
        return Learned(
            w.astype(np.float32),
            b.astype(np.float32),
            layer,
            self.dev[seeds, layer],
            self.epochs[seeds, layer],
        )


def _validate(held, w, b, chosen, ndcg) -> np.ndarray:
    """[S, Y]; -1 where it is not asked for."""
    values = [
        np.tanh(np.einsum("nyk,syk->syn", x, w) + b[:, :, None]) for x in held
    ]
    ndcgs = np.full(w.shape[:2], -1.0)
    for index in np.argwhere(chosen):
        ndcgs[tuple(index)] = ndcg([v[tuple(index)] for v in values])
    return ndcgs


HEAD = "ranking"


def build_model(
    learned: Learned,
    maker: FeatureMaker,
    options: RankerOptions,
) -> KernelRankingModel:
    """The model, with its encoder, of a fold's first seed; weights are fresh.

    Raises UserError: the vectors are no encoder's.
    """
    source = maker.vectors
    if not isinstance(source, EncoderVectors):
        raise UserError(
            f"--do_export needs --vectors=encoder, received {options.vectors}"
        )
    return KernelRankingModel(
        source.encoder.config,
        maker.kernels.mu,
        maker.kernels.sigma,
        source.layers[int(learned.layer[0])],
        options.with_candidate_score,
    )


def fill_model(
    model: KernelRankingModel,
    learned: Learned,
    maker: FeatureMaker,
    options: RankerOptions,
) -> None:
    """What `build_model` gave gets the weights of that fold's first seed."""
    source, layer = maker.vectors, int(learned.layer[0])
    for ours, theirs in zip(
        model.encoder.variables, source.encoder.variables, strict=True
    ):
        ours.assign(theirs)
    model.kernel_weights.assign(learned.w[0])
    model.kernel_bias.assign(learned.b[0])
    if options.center:
        model.kernel_center.assign(maker.mean[layer, 0])
    if maker.counts is not None:
        counts, documents = maker.counts
        values = [
            idf(counts.get(piece, 0), documents)
            for piece in range(model.config.vocab_size)
        ]
        model.kernel_piece_weights.assign(np.array(values, np.float32))


def export_spec(
    tokenizer: Tokenizer, options: RankerOptions, model_type: str
) -> TaskSpec:
    """task.json of the export."""
    return TaskSpec(
        task_name="ranking",
        head=HEAD,
        labels=(),
        max_seq_length=options.max_doc_length + 2,
        text=tokenizer.settings,
        spiece_sha256=tokenizer.sha256,
        data_options={
            "ranker": "knrm",
            "max_query_length": options.max_query_length,
            "max_doc_length": options.max_doc_length,
            "layout": spec_of(model_type).capabilities.layout,
        },
    )
