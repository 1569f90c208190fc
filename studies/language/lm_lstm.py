"""An LSTM in the place of the Transformer-XL, trained by the same loop.

    python -m studies.language.lm_lstm --data_dir=STREAMS --model_dir=OUT \\
        --n_layer=2 --d_model=192 --d_inner=480 --seq_len=32 --dropout=0.2

The flags are those of `run_lm.py`: embedding and (adaptive) softmax are its
own, tied, of width --d_model; layers are `tf_keras.layers.LSTM` of --d_inner
cells, the last of --d_model. As in AWD-LSTM (Merity et al. 2017), dropout has
one mask per row for all T (embeddings, between layers, before the softmax), and
states are carried from segment to segment without gradient. There is no
DropConnect and no averaging. A training evaluates nothing; --mode=eval prints what
`run_lm.py --mode=eval` does, of the newest checkpoint. Settings that an LSTM does
not follow are refused.
"""

import dataclasses

# isort: off
import common  # noqa: F401  before TensorFlow, as in every command

# isort: on
import tensorflow as tf
import tf_keras
from absl import flags

from common.errors import UserError
from data.language_modeling import run_data
from flags import app
from flags.training import causal_lm_flags, common_flags, transformer_xl_flags
from modeling.checkpoints import native
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from modeling.encoders.transformer_xl.embeddings import AdaptiveEmbedding
from modeling.heads.adaptive_softmax import AdaptiveSoftmax
from modeling.ops import dropout
from training import loop, strategy
from training.checkpointing.checkpoints import RunCheckpoints
from training.jobs.causal_lm_job import evaluation_lines
from training.jobs.causal_lm_options import CausalLMOptions
from training.jobs.pretraining_job import known_config
from training.objectives.contract import LossOutput, Memory
from training.objectives.language_model import LanguageModelObjective
from training.run import TrainRequest, run_training
from training.run_options import RunOptions


class LSTMLanguageModel(tf_keras.Model):
    """Embedding, LSTM layers, softmax tied to the embedding.

    Args:
      config: L layers of `d_inner` cells, the last of D.
    """

    def __init__(self, config: TransformerXLConfig):
        super().__init__()
        self.embedding = AdaptiveEmbedding(config)
        self.softmax = AdaptiveSoftmax(config)
        self.recurrent = []
        width = config.d_model
        for size in layer_sizes(config):
            layer = tf_keras.layers.LSTM(
                size, return_sequences=True, return_state=True
            )
            layer.build((None, None, width))
            self.recurrent.append(layer)
            width = size
        self.embedding.build(None)
        self.softmax.build(None)
        self.built = True

    def variables_by_name(self) -> dict[str, tf.Variable]:
        """Names of Transformer-XL's: the optimizer's groups know them."""
        by_name = {
            f"transformer/{name}": self._at("embedding", path)
            for name, path in self.embedding.variable_paths().items()
        }
        by_name |= {
            f"transformer/adaptive_softmax/{name}": self._at("softmax", path)
            for name, path in self.softmax.variable_paths().items()
        }
        for i, layer in enumerate(self.recurrent):
            scope = f"transformer/layer_{i}/ff"
            kernel, recurrent, bias = layer.weights
            by_name[f"{scope}/layer_1/kernel"] = kernel
            by_name[f"{scope}/layer_2/kernel"] = recurrent
            by_name[f"{scope}/layer_1/bias"] = bias
        return by_name

    def _at(self, owner: str, path: str) -> tf.Variable:
        name, *key = path.split("/")
        value = getattr(getattr(self, owner), name)
        if not key:
            return value
        return value[key[0] if isinstance(value, dict) else int(key[0])]


def layer_sizes(config: TransformerXLConfig) -> list[int]:
    """Cells of every layer."""
    return [config.d_inner] * (config.n_layer - 1) + [config.d_model]


class LSTMObjective(LanguageModelObjective):
    """The batches and the loss of `run_lm.py`; memory holds the states.

    A layer's states h and c lie in M = 2 * d_inner / D slots of width D.

    Args:
      config: see `LSTMLanguageModel`.

    Raises:
      UserError: a width that does not fill slots.
    """

    name = "lstm"
    shown_metrics = {"perplexity": "ppl"}

    def __init__(self, config: TransformerXLConfig):
        super().__init__()
        if 2 * config.d_inner % config.d_model or (
            config.d_inner < config.d_model
        ):
            raise UserError(
                f"--d_inner={config.d_inner} must be a multiple of half of "
                f"--d_model={config.d_model}, and not below it"
            )
        self.memory_len = 2 * config.d_inner // config.d_model
        self.config = config.replace(mem_len=self.memory_len)

    def build_model(self):
        """An `LSTMLanguageModel`."""
        return LSTMLanguageModel(self.config)

    def named_variables(self, model):
        """Every variable."""
        return model.variables_by_name()

    def loss(self, model, batch, memory, training, seed):
        """Sums over the tokens of the batch; perplexity is exp(loss)."""
        weights = tf.cast(batch["target_weights"], tf.float32)  # [B, T]
        rate, seed = self.config.dropout, seed if training else None
        x = model.embedding(batch["input_ids"])  # [B, T, D]
        x = _locked(x, rate, seed, 0)
        kept, layers = tf.cast(memory.length > 0, x.dtype), []
        for i, layer in enumerate(model.recurrent):
            state = self._unpack(memory.layers[i] * kept[:, None, None], layer)
            x, *state = layer(x, initial_state=state)  # [B, T, cells]
            layers.append(self._pack(state))
            x = _locked(x, rate, seed, i + 1)
        losses = model.softmax.token_losses(
            tf.reshape(x, [-1, self.config.d_model]),
            tf.reshape(batch["target_ids"], [-1]),
            model.embedding,
        )
        losses = tf.reshape(losses, tf.shape(weights))
        total, count = tf.reduce_sum(losses * weights), tf.reduce_sum(weights)
        filled = tf.fill([tf.shape(x)[0]], self.memory_len)
        return LossOutput(
            total,
            count,
            {"lm_loss": (total, count)},
            {},
            Memory(tuple(layers), filled),
        )

    def _unpack(self, slots, layer):
        """[B, M, D] -> h and c, [B, cells] each."""
        flat = tf.reshape(slots, [tf.shape(slots)[0], -1])
        return tf.split(flat[:, : 2 * layer.units], 2, 1)

    def _pack(self, state):
        """h and c -> [B, M, D]."""
        flat = tf.stop_gradient(tf.concat(state, 1))
        missing = self.memory_len * self.config.d_model - flat.shape[1]
        flat = tf.pad(flat, [[0, 0], [0, missing]])
        return tf.reshape(flat, [-1, self.memory_len, self.config.d_model])


def _locked(x, rate, seed, number):
    """Dropout of [B, T, D] with one mask for all T."""
    if seed is None or not rate:
        return x
    ones = tf.ones([tf.shape(x)[0], 1, x.shape[-1]], x.dtype)
    return x * dropout.masked(ones, dropout.fold(seed, number), rate)


def trained_model(objective: LSTMObjective, options: RunOptions):
    """A model with the weights of the newest checkpoint; nothing is written.

    Raises:
      UserError: there is none, or it is of other sizes.
    """
    with strategy.setup(options.strategy).scope():
        model = objective.build_model()
        saved = RunCheckpoints(
            options.model_dir, {"model": model}, 0, chief=False
        )
        path = saved.latest()
        if path is None:
            raise UserError(
                f"{options.model_dir} holds no checkpoint: train first"
            )
        saved.restore(path)
        variables = objective.named_variables(model)
        arrays = {name: v.numpy() for name, v in variables.items()}
        for name, value in native.with_averages(path, arrays).items():
            variables[name].assign(value)
    return model


FLAGS = flags.FLAGS
MODES = ("train", "train_and_eval", "eval")
# Settings of `run_lm.py` that are followed; of others the default is.
_FOLLOWED = (
    *("data_dir", "mode", "seq_len", "order"),
    *("eval_split", "eval_seq_len", "protocol"),
)
_NOT_HERE = ("recipe", "init_checkpoint", "eval_every", "recompute_layers")
# Of the architecture's settings those of its layers and tables.
_SIZES = (
    *("n_layer", "d_model", "d_inner", "d_embed", "cutoffs", "div_val"),
    *("proj_share_all_but_first", "proj_same_dim", "dropout"),
    *("init_method", "init_std", "init_range", "proj_init_std"),
)


def given() -> dict[str, bool]:
    """Flags without a meaning here -> whether they say something."""
    sizes = (*transformer_xl_flags.SIZES, *transformer_xl_flags.FREE)
    return {name: bool(FLAGS[name].value) for name in _NOT_HERE} | {
        name: FLAGS[name].present for name in sizes if name not in _SIZES
    }


def check(what: CausalLMOptions, given: dict) -> None:
    """UserError: a mode or a setting that would be ignored.

    `given` are values of flags by name, false where they say nothing.
    """
    if what.mode not in MODES:
        raise UserError(
            f"--mode must be one of {', '.join(MODES)} for an LSTM, received "
            f"{what.mode}"
        )
    wrong = [name for name, value in given.items() if value]
    wrong += [f"eval_{name}" for name in what.eval_changes]
    plain = CausalLMOptions(what.data_dir)
    for field in dataclasses.fields(what):
        name = field.name
        if name in (*_FOLLOWED, "eval_changes"):
            continue
        if getattr(what, name) != getattr(plain, name):
            wrong.append(name)
    if wrong:
        raise UserError(
            f"--{wrong[0]}: wanted a setting that an LSTM follows; leave it out"
        )


def objective_of(
    data: run_data.StreamData,
    config: TransformerXLConfig,
    known: EncoderConfig | None,
) -> LSTMObjective:
    """The objective of a model that knows its vocabulary.

    Raises UserError: what `known`, of the folder, was trained with is another.
    """
    if known:
        data.check_model(known.extra, "the model")
    return LSTMObjective(config.replace(extra=config.extra | data.marks()))


def main() -> None:
    """Trains, or evaluates what was trained."""
    what = causal_lm_flags.from_flags()
    check(what, given())
    options = common_flags.from_flags(init_require="all")
    data = run_data.open_data(what.data_dir)
    config = transformer_xl_flags.from_flags(data.vocabulary.size)
    objective = objective_of(data, config, known_config(options))
    length, split = what.seq_len or 32, what.eval_split
    if what.mode == "eval":
        counts = data.manifest.split_counts
        held_out = data.evaluation_batches(
            split, what.eval_seq_len or length, what.protocol, True
        )
        model = trained_model(objective, options)
        found = loop.evaluate(objective, held_out, options, model=model)
        _, lines = evaluation_lines(
            found.metrics["lm_loss"],
            round(found.counts["lm_loss"]),
            split,
            counts(split).tokens,
            counts(split).rates,
        )
        print("\n".join(lines))
        return
    data.check_length("train", length)
    must_match = data.must_match() | what.must_match() | {"seq_len": length}
    run_training(
        TrainRequest(
            objective,
            data.train_batches(options.strategy.seed, length, what.order),
            options,
            must_match=must_match,
            flags=common_flags.all_flags(),
            notes=data.lines(options.train_batch_size, length),
        )
    )


if __name__ == "__main__":
    causal_lm_flags.define()
    app.run(main)
