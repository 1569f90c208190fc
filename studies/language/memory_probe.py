"""What memory is for: an answer that lies farther back than a segment.

    python -m studies.language.memory_probe --output_dir=OUT/probe

A text of chapters: each introduces a name (one token) and asks for it once, g
tokens later (a question, then the name). Nothing else tells it, so accuracy is
1 / names ("chance") wherever the introduction is out of sight; in sight, the last
name before the question is the answer. All encoders read the same tokens, in
segments of T, and learn the answers alone: XLNet predicts them in the query
stream, Transformer-XL from the question, BERT and ModernBERT from [MASK].
Accuracy is counted by the number of segments between introduction and answer; 0
is the same segment, which every encoder sees.

Letters: B rows, T segment, M memory, P answers of a segment at most, V vocabulary.
"""

import dataclasses
import os
import time

import numpy as np
from absl import flags

from common import figures, files, locks
from flags import app
from studies.language import identity

FLAGS = flags.FLAGS
_FILLERS = 16
SEGMENTS = 5  # answers lie at most so many segments back


@dataclasses.dataclass(frozen=True)
class Task:
    """The text and how long a model reads it.

    Attributes:
      names: to introduce; chance is 1 / names.
      rows: B, endless rows of text.
      segment: T.
      steps: segments of training.
      eval_steps: segments that accuracy is measured on.
      learning_rate: of Adam, falling to 0.
    """

    names: int = 16
    rows: int = 20
    segment: int = 16
    steps: int = 4000
    eval_steps: int = 600
    learning_rate: float = 2e-3

    @property
    def reach(self) -> int:
        """The largest gap."""
        return SEGMENTS * self.segment

    @property
    def question_id(self) -> int:
        """After the names; then fillers and the mask."""
        return self.names

    @property
    def mask_id(self) -> int:
        """The last id."""
        return self.names + 1 + _FILLERS

    @property
    def vocab_size(self) -> int:
        """V."""
        return self.mask_id + 1


@dataclasses.dataclass(frozen=True)
class Probe:
    """A model of the comparison.

    Attributes:
      encoder: `model_type`.
      memory: M, in segments.
      length: of a row that the model reads at once, in segments; B is smaller
        by this factor.
    """

    encoder: str
    memory: int = 0
    length: int = 1


PROBES = {
    "XLNet, M = 4 T": Probe("xlnet", memory=4),
    "XLNet, M = T": Probe("xlnet", memory=1),
    "XLNet, no memory": Probe("xlnet"),
    "Transformer-XL, M = 4 T": Probe("transformer_xl", memory=4),
    "Transformer-XL, no memory": Probe("transformer_xl"),
    "BERT": Probe("bert"),
    "ModernBERT": Probe("modernbert"),
    "BERT, rows of 5 T": Probe("bert", length=SEGMENTS),
}


def text(task: Task, steps: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Endless rows of text.

    Returns:
      ids int32 [B, steps * T], and at every answer the number of tokens since
      its introduction, elsewhere 0, int32 of the same shape. The question is
      the token before the answer, in the answer's segment.
    """
    rng = np.random.default_rng(seed)
    shape = (task.rows, steps * task.segment)
    ids = rng.integers(task.question_id + 1, task.mask_id, size=shape)
    gaps = np.zeros_like(ids)
    for row in range(task.rows):
        start = int(rng.integers(task.segment))
        while True:
            gap = int(rng.integers(2, task.reach + 1))
            end = start + gap
            if end % task.segment == 0:  # the question would be before it
                gap += 1 if gap == 2 else -1
                end = start + gap
            if end >= shape[1]:
                break
            name = int(rng.integers(task.names))
            ids[row, start] = ids[row, end] = name
            ids[row, end - 1] = task.question_id
            gaps[row, end] = gap
            start = end + 1 + int(rng.integers(4))
    return ids.astype(np.int32), gaps.astype(np.int32)


def segments_back(gaps: np.ndarray, segment: int) -> np.ndarray:
    """Segments between introduction and answer, -1 where no answer is."""
    position = np.arange(gaps.shape[1])
    back = position // segment - (position - gaps) // segment
    return np.where(gaps > 0, back, -1)


def batches(task: Task, probe: Probe, ids: np.ndarray, back: np.ndarray):
    """Cuts rows of text into what a model reads at once.

    Yields:
      ids int32 [b, t]; positions of the answers int32 [b, P], 0 in unused
      slots; their weights float32 [b, P]; `back` at the answers int32 [b, P].
      b = B / length, t = length * T: as many tokens for every model.
    """
    rows, length = task.rows // probe.length, probe.length * task.segment
    slots = length // 2
    # Further lanes of a model with longer rows lie behind each other.
    lane = ids.shape[1] * probe.length
    ids, back = ids.reshape(rows, lane), back.reshape(rows, lane)
    for start in range(0, lane, length):
        piece = back[:, start : start + length]
        order = np.argsort(piece < 0, axis=1, kind="stable")[:, :slots]
        answers = np.take_along_axis(piece, order, 1)
        used = answers >= 0
        yield (
            ids[:, start : start + length],
            np.where(used, order, 0).astype(np.int32),
            used.astype(np.float32),
            answers.astype(np.int32),
        )


def make_config(task: Task, probe: Probe):
    """Two layers; the widths are equal for all encoders."""
    from modeling.encoders import registry

    fields = {
        "vocab_size": task.vocab_size,
        "d_model": 64,
        "n_layer": 2,
        "n_head": 4,
        "d_inner": 128,
        "dropout": 0.0,
        "dropatt": 0.0,
        "init_std": 0.05,
    }
    if probe.encoder in ("xlnet", "transformer_xl"):
        fields |= {"d_head": 16, "untie_r": True}
        fields["mem_len"] = probe.memory * task.segment or None
    if probe.encoder == "bert":
        fields["max_position_embeddings"] = probe.length * task.segment
    return registry.config_from_dict({"model_type": probe.encoder} | fields)


class Runner:
    """One model over a text, memory carried along.

    Args:
      task: the text.
      probe: which model.
      seed: of its weights.
    """

    def __init__(self, task: Task, probe: Probe, seed: int):
        import tensorflow as tf
        import tf_keras

        from modeling.heads.causal_lm import CausalLanguageModel
        from modeling.heads.language_model import PretrainingModel

        tf_keras.utils.set_random_seed(seed)
        config = make_config(task, probe)
        self._task, self._probe = task, probe
        causal = probe.encoder == "transformer_xl"
        self.model = (CausalLanguageModel if causal else PretrainingModel)(
            config
        )
        falling = tf_keras.optimizers.schedules.PolynomialDecay(
            task.learning_rate, task.steps, end_learning_rate=0.0
        )
        self._adam = tf_keras.optimizers.Adam(falling, global_clipnorm=1.0)
        self._run = tf.function(self._step, autograph=False)

    def _logits(self, ids, positions, weights, memory):
        """Scores [b, P, V] of the answers, and the encoder's output."""
        import tensorflow as tf

        encoder = self._probe.encoder
        if encoder == "transformer_xl":
            output = self.model(ids, **memory)
            # Predicted by the question, the token before.
            before = tf.maximum(positions - 1, 0)
            hidden = tf.gather(output.sequence_output, before, batch_dims=1)
            return self.model.log_probs(hidden), output
        target = tf.reduce_max(
            tf.one_hot(positions, ids.shape[1]) * weights[:, :, tf.newaxis], 1
        )  # [b, t]
        if encoder == "xlnet":
            # All else is context: it comes first in the factorization order.
            order = tf.cumsum(target, axis=1) * target
            output = self.model(
                ids,
                ranks=tf.cast(order, tf.int32),
                is_target=target,
                target_positions=positions,
                **memory,
            )
            return self.model.lm_logits(output.query_output), output
        output = self.model(tf.where(target > 0, self._task.mask_id, ids))
        hidden = tf.gather(output.sequence_output, positions, batch_dims=1)
        return self.model.lm_logits(hidden), output

    def _step(self, ids, positions, weights, memory, training):
        import tensorflow as tf

        goals = tf.gather(ids, positions, batch_dims=1)
        with tf.GradientTape() as tape:
            logits, output = self._logits(ids, positions, weights, memory)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                goals, logits
            )
            loss = tf.reduce_sum(losses * weights) / tf.maximum(
                tf.reduce_sum(weights), 1
            )
        if training:
            variables = self.model.trainable_variables
            gradients = tape.gradient(loss, variables)
            self._adam.apply_gradients(
                (g, v)
                for g, v in zip(gradients, variables, strict=True)
                if g is not None  # the mask of a stream without memory, say
            )
        guess = tf.argmax(logits, -1, output_type=tf.int32)
        if memory:
            memory = {
                "memory": output.new_memory,
                "memory_length": output.new_memory_length,
            }
        return loss, tf.equal(guess, goals), memory

    def _empty_memory(self):
        import tensorflow as tf

        config, rows = self.model.config, self._task.rows
        if not self._probe.memory:
            return {}
        shape = [rows, config.mem_len, config.d_model]
        return {
            "memory": (tf.zeros(shape),) * config.n_layer,
            "memory_length": tf.zeros([rows], tf.int32),
        }

    def run(self, steps: int, seed: int, training: bool):
        """Reads a new text.

        Args:
          steps: segments of it.
          seed: of the text.
          training: whether the model learns.

        Returns:
          Losses float32 [reads], and of every answer whether it is right and
          how many segments back its introduction lies, two arrays [answers].
        """
        ids, gaps = text(self._task, steps, seed)
        back = segments_back(gaps, self._task.segment)
        memory = self._empty_memory()
        losses, right, distances = [], [], []
        for *batch, answers in batches(self._task, self._probe, ids, back):
            loss, hits, memory = self._run(*batch, memory, training)
            used = answers >= 0
            losses.append(float(loss))
            right.append(hits.numpy()[used])
            distances.append(answers[used])
        return losses, np.concatenate(right), np.concatenate(distances)


def accuracies(task: Task, probe: Probe, seed: int) -> np.ndarray:
    """Trains a model; its accuracy on new text [SEGMENTS + 1] by distance."""
    runner = Runner(task, probe, seed)
    runner.run(task.steps, 1000 + seed, training=True)
    _, right, back = runner.run(task.eval_steps, 9000 + seed, training=False)
    asked = np.bincount(back, minlength=SEGMENTS + 1)
    hits = np.bincount(back, weights=right, minlength=SEGMENTS + 1)
    return hits / asked


def _lines(results: dict[str, list[np.ndarray]]) -> list[str]:
    """The table as TSV: a row for each model and seed."""
    header = ["model", "seed", *(f"{k} back" for k in range(SEGMENTS + 1))]
    lines = ["\t".join(header)]
    for name, of_seeds in results.items():
        for seed, values in enumerate(of_seeds):
            numbers = [f"{value:.4f}" for value in values]
            lines.append("\t".join([name, str(seed), *numbers]))
    return lines


def read(path: str) -> dict[str, list[np.ndarray]]:
    """What an earlier run of the command finished, by model."""
    results: dict[str, list[np.ndarray]] = {}
    if not files.exists(path):
        return results
    for line in files.read_bytes(path).decode().splitlines()[1:]:
        name, _, *numbers = line.split("\t")
        results.setdefault(name, []).append(np.array(numbers, float))
    return results


def main() -> None:
    """Measures what the folder lacks.

    Raises:
      UserError: it is of another task, or another process works in it.
    """
    task = Task(steps=FLAGS.steps)
    files.make_directory(FLAGS.output_dir)
    with locks.held(FLAGS.output_dir):
        facts = dataclasses.asdict(task)
        identity.settle(FLAGS.output_dir, facts, "memory_probe.tsv")
        measure(task)


def measure(task: Task) -> None:
    """Trains what is missing, writes the table after each model, draws it."""
    stem = os.path.join(FLAGS.output_dir, "memory_probe")
    results = read(f"{stem}.tsv")
    print(f"T = {task.segment}, chance {1 / task.names:g}")
    # Seed by seed, so that a run that ends early compares all models.
    for seed in range(FLAGS.seeds):
        for name, probe in PROBES.items():
            of_seeds = results.setdefault(name, [])
            if len(of_seeds) > seed:
                continue
            start = time.process_time()
            of_seeds.append(accuracies(task, probe, seed))
            shown = " ".join(f"{value:.3f}" for value in of_seeds[-1])
            spent = time.process_time() - start
            print(f"{name}, seed {seed}: {shown} ({spent:.0f} CPU seconds)")
            files.write_text(f"{stem}.tsv", "\n".join(_lines(results)) + "\n")
    for written in (f"{stem}.tsv", *draw(results, task, stem)):
        print(f"wrote {written}")


def draw(results: dict[str, list[np.ndarray]], task: Task, stem: str):
    """Mean accuracy by distance as PNG and SVG, a panel per model; the paths.

    Args:
      results: name -> accuracies by distance, one array a seed.
      task: what the models were trained on.
      stem: path of the figure without its ending.
    """
    figure, axes = figures.new(2, -(-len(results) // 2), figsize=(11, 5))
    places = np.arange(SEGMENTS + 1)
    for axis, (name, of_seeds) in zip(
        axes.ravel(), results.items(), strict=False
    ):
        values = np.stack(of_seeds)
        spread = values.std(0, ddof=1) if len(values) > 1 else None
        axis.errorbar(places, values.mean(0), spread, fmt="o-", ms=4, capsize=3)
        axis.axhline(1 / task.names, color="grey", linestyle=":")
        axis.set(title=name, ylim=(0, 1.05), xticks=places)
        axis.set_xlabel("segments back")
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy")
    seeds = max(map(len, results.values()))
    figures.caption(
        figure,
        f"n = {seeds} seeds, {task.steps} segments of {task.segment} in "
        f"{task.rows} rows. Points: means; bars: one standard deviation. "
        "Dotted: chance.",
        f"python -m studies.language.memory_probe --seeds={seeds}",
    )
    return figures.save(figure, stem)


if __name__ == "__main__":
    flags.DEFINE_integer("steps", Task.steps, "Of training, per model.", 1)
    flags.DEFINE_integer("seeds", 5, "Of text and weights.", 1)
    flags.DEFINE_string(
        "output_dir", None, "Takes table and figure.", required=True
    )
    app.run(main)
