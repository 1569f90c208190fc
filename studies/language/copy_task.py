"""A copy task with a gap: what a model must have seen to solve it.

    python -m studies.language.copy_task --output_dir=OUT/copy

Rows are blocks of a key, then filler with questions at random places; the target
of a question is the key of its block, g tokens ago. Nothing but the key tells the
answer, and a block is longer than anything a model sees, so accuracy by gap is
1 / keys ("chance") wherever the key is out of sight. The models have one layer:
with memory M and equally many keys for each position they see M tokens back,
without memory the tokens before in their segment.

Letters: B rows, T segment, M memory, g gap.
"""

import dataclasses
import os

import numpy as np
from absl import flags

from common import figures, files
from flags import app

FLAGS = flags.FLAGS
_FILLERS = 4


@dataclasses.dataclass(frozen=True)
class Task:
    """The task and how long it is trained on.

    Attributes:
      keys: symbols to recall; chance is 1 / keys.
      block: tokens from a key to the next.
      questions: share of the other tokens that ask.
      rows: B.
      segment: T.
      eval_steps: segments that accuracy is measured on.
      seed: of the text and the weights.
    """

    keys: int = 8
    block: int = 40
    questions: float = 0.3
    rows: int = 16
    segment: int = 8
    steps: int = 400
    eval_steps: int = 200
    learning_rate: float = 0.01
    seed: int = 0

    @property
    def vocab_size(self) -> int:
        """Keys, fillers, the question."""
        return self.keys + _FILLERS + 1


def text(task: Task, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Segments of B endless rows.

    Returns:
      ids int32 [steps, B, T], and the gap of each question, 0 elsewhere, int32
      of the same shape. The target of a question is the row's token so many
      places before.
    """
    rng = np.random.default_rng(seed)
    length = steps * task.segment
    shape = (task.rows, length)
    # Rows start at other places of a block.
    offset = rng.integers(task.block, size=(task.rows, 1))
    position = (np.arange(length) + offset) % task.block  # [B, n]
    ids = rng.integers(task.keys, task.vocab_size - 1, size=shape)
    asks = rng.random(shape) < task.questions
    ids = np.where(asks, task.vocab_size - 1, ids)
    ids = np.where(position == 0, rng.integers(task.keys, size=shape), ids)
    known = position <= np.arange(length)  # the row's first key is there
    gaps = np.where(asks & known, position, 0)

    def cut(x):
        x = x.reshape(task.rows, steps, task.segment)
        return np.ascontiguousarray(x.swapaxes(0, 1), np.int32)

    return cut(ids), cut(gaps)


def answers(ids: np.ndarray, gaps: np.ndarray) -> np.ndarray:
    """int32 [steps, B, T]: the key that a question asks for, 0 elsewhere."""
    steps, rows, length = ids.shape
    line = ids.swapaxes(0, 1).reshape(rows, -1)
    gap = gaps.swapaxes(0, 1).reshape(rows, -1)
    answer_ids = np.take_along_axis(line, np.arange(line.shape[1]) - gap, 1)
    answer_ids = np.where(gap > 0, answer_ids, 0).reshape(rows, steps, length)
    return np.ascontiguousarray(answer_ids.swapaxes(0, 1), np.int32)


def make_config(task: Task, memory: int, encoding: str):
    """One layer, wide enough; M = 0 is a model without recurrence."""
    from modeling.encoders.transformer_xl.config import TransformerXLConfig

    return TransformerXLConfig(
        vocab_size=task.vocab_size,
        d_model=32,
        n_layer=1,
        n_head=2,
        d_head=16,
        d_inner=64,
        encoding=encoding,
        max_positions=memory + task.segment,
        mem_len=memory,
        same_length=memory > 0,
        untie_r=True,
        dropout=0.0,
        init_std=0.1,
    )


class _Runner:
    """One model over segments, memory carried along."""

    def __init__(self, config, task: Task):
        import tensorflow as tf
        import tf_keras

        from modeling.heads.causal_lm import CausalLanguageModel

        tf_keras.utils.set_random_seed(task.seed)
        self.model = CausalLanguageModel(config)
        self._task = task
        self._adam = tf_keras.optimizers.Adam(task.learning_rate)
        self._run = tf.function(self._step, autograph=False)

    def _step(self, ids, goals, gaps, layers, length, training):
        import tensorflow as tf

        model = self.model
        asked = tf.cast(gaps > 0, tf.float32)
        with tf.GradientTape() as tape:
            if layers:
                output = model.read_on(ids, layers, length)
                layers = output.new_memory
                length = output.new_memory_length
            else:
                output = model(ids)
            hidden = output.sequence_output
            losses = model.token_losses(hidden, goals) * asked
            loss = tf.reduce_sum(losses) / tf.maximum(tf.reduce_sum(asked), 1)
        if training:
            variables = model.trainable_variables
            gradients = tape.gradient(loss, variables)
            self._adam.apply_gradients(zip(gradients, variables, strict=True))
            return loss, layers, length
        guess = tf.argmax(model.log_probs(hidden), -1, output_type=tf.int32)
        return guess, layers, length

    def run(self, ids, gaps, training: bool) -> np.ndarray:
        """Losses [steps] in training, else guesses [steps, B, T]."""
        import tensorflow as tf

        config, rows = self.model.config, self._task.rows
        shape = [rows, config.mem_len or 0, config.d_model]
        layers = (tf.zeros(shape),) * config.n_layer if config.mem_len else ()
        length = tf.zeros([rows], tf.int32)
        outputs = []
        for step in zip(ids, answers(ids, gaps), gaps, strict=True):
            out, layers, length = self._run(*step, layers, length, training)
            outputs.append(out.numpy())
        return np.stack(outputs)


def accuracy_by_gap(task: Task, memory: int, encoding: str) -> np.ndarray:
    """Trains a model; its accuracy [block] on new text, by gap (0: nan)."""
    runner = _Runner(make_config(task, memory, encoding), task)
    runner.run(*text(task, task.steps, task.seed + 1), training=True)
    ids, gaps = text(task, task.eval_steps, task.seed + 2)
    right = runner.run(ids, gaps, training=False) == answers(ids, gaps)
    asked = np.bincount(gaps.ravel(), minlength=task.block)
    solved = np.bincount(
        gaps.ravel(), weights=right.ravel(), minlength=task.block
    )
    accuracy = solved / np.maximum(asked, 1)
    accuracy[asked == 0] = np.nan
    accuracy[0] = np.nan
    return accuracy


def main() -> None:
    """Trains the models, prints accuracy by gap, draws it."""
    task = Task(
        segment=FLAGS.segment,
        steps=FLAGS.steps,
        seed=FLAGS.seed,
    )
    models = {
        f"recurrence, M = {FLAGS.memory}": (FLAGS.memory, "relative"),
        "no recurrence": (0, "relative"),
        "absolute positions": (0, "absolute"),
    }
    accuracies = {}
    for name, (memory, encoding) in models.items():
        # Twice what the model sees; longer blocks only ask more in vain.
        own = dataclasses.replace(task, block=2 * (memory + task.segment))
        accuracies[name] = accuracy_by_gap(own, memory, encoding)
    print(f"T = {task.segment}, chance {1 / task.keys:g}")
    rows = [["gap", *accuracies]]
    for gap in range(1, max(map(len, accuracies.values()))):
        rows.append(
            [str(gap)]
            + [
                f"{a[gap]:.3f}" if gap < len(a) else ""
                for a in accuracies.values()
            ]
        )
    lines = ["\t".join(row) for row in rows]
    print("\n".join(lines))
    if FLAGS.output_dir:
        path = os.path.join(FLAGS.output_dir, "copy_task.tsv")
        files.write_text(path, "\n".join(lines) + "\n")
        stem = os.path.join(FLAGS.output_dir, "copy_task")
        for written in (path, *draw(accuracies, task, stem)):
            print(f"wrote {written}")


def draw(found: dict[str, np.ndarray], task: Task, stem: str) -> list[str]:
    """Accuracy by gap as PNG and SVG; the paths.

    A panel for each model: two of them behave alike, and one line would hide
    the other.
    """
    figure, axes = figures.new(
        len(found), 1, figsize=(6.5, 1 + 1.6 * len(found))
    )
    longest = max(map(len, found.values()))
    for axis, (name, accuracy) in zip(axes[:, 0], found.items(), strict=True):
        gaps = np.arange(1, len(accuracy))
        axis.plot(gaps, accuracy[1:], "o-", ms=4)
        axis.axhline(1 / task.keys, color="grey", linestyle=":")
        axis.set(ylabel="accuracy", ylim=(-0.05, 1.1), xlim=(0, longest))
        axis.set_title(name, fontsize=10)
    axes[-1, 0].set_xlabel("tokens since the key")
    figures.caption(
        figure,
        f"One model each (n = 1, seed {task.seed}), {task.steps} steps. "
        "No bars. Dotted: chance.",
        "python -m studies.language.copy_task",
    )
    return figures.save(figure, stem)


if __name__ == "__main__":
    flags.DEFINE_integer("memory", 16, "M of the model with recurrence.", 1)
    flags.DEFINE_integer("segment", 8, "T.", 2)
    flags.DEFINE_integer("steps", 400, "Of training, per model.", 1)
    flags.DEFINE_integer("seed", 0, "Of text and weights.", 0)
    flags.DEFINE_string("output_dir", "", "Takes table and figure.")
    app.run(main)
