"""Command: our pretraining defaults beside the original's objective.

    python -m studies.learning --output_dir=OUT --input_glob='text/*.txt'
    python -m studies.learning --output_dir=OUT ... --table

One text, one vocabulary, one architecture and as many steps: once with records
of our defaults, once with `--sampler=original`, the released code's targets and
order. Both are evaluated on the same held-out targets while they learn: those
that the original's rule draws, in text that neither has seen; at the end on
ours, too. Then the steps of both, ours and the Model Garden's, are timed in
turn, and the curves are drawn over seconds as well: ours at our pace, the
original's objective at the Model Garden's. Writes `table.md`, `results.json`,
`learning.png` (and .svg). Killed at any moment, the same command goes on.
"""

import dataclasses
import json
import os
import re

import numpy as np
from absl import flags

from benchmarks.compare import harness
from benchmarks.compare.harness import System
from benchmarks.systems.workloads import Workload
from common import figures, files, locks, summary
from common.errors import UserError
from flags import app
from studies.runner import jobs
from studies.runner.jobs import Job, Jobs, as_flags

FLAGS = flags.FLAGS
OURS, ORIGINAL = "ours", "original"
RULES = {OURS: (), ORIGINAL: ("--sampler=original",)}
_SYSTEMS = {
    OURS: "benchmarks.systems.ours",
    ORIGINAL: "benchmarks.systems.garden",
}
_LOSS = "lm_loss"


@dataclasses.dataclass(frozen=True)
class Curve:
    """One pretraining.

    Attributes:
      steps: int64 [K], at which it was evaluated.
      losses: float64 [K], nats per target of the original's rule.
      on_ours: nats per target of our rule, at the end; None = not known.
    """

    steps: np.ndarray
    losses: np.ndarray
    on_ours: float | None = None

    def at(self, step: float) -> float:
        """The loss at a step, between two evaluations on the line.

        >>> Curve(np.array([0, 10]), np.array([8.0, 6.0])).at(5)
        7.0
        """
        return float(np.interp(step, self.steps, self.losses))


class Learning(Jobs):
    """The jobs of one comparison."""

    def run(self) -> dict[str, list[Curve]]:
        """Data and pretraining; the curves that are there, by rule."""
        for job in self.data_jobs():
            result = self.do(job)
            if "error" in result and not self.only_read:
                raise UserError(
                    f"{job.name} failed: {result['error']} "
                    f"(see {self.path(job.name, 'log.txt')})"
                )
        names = [(rule, seed) for seed in range(FLAGS.seeds) for rule in RULES]
        first = [self.pretraining(*name) for name in names]
        self.do_all([*first, *(self.on_ours(*name) for name in names)])
        return {
            rule: [
                self.curve(rule, seed)
                for seed in range(FLAGS.seeds)
                if "error" not in self.results[f"{rule}-{seed}"]
            ]
            for rule in RULES
        }

    def data_jobs(self) -> list[Job]:
        """Text, vocabulary, and records of both rules."""
        listed, text = [], FLAGS.input_glob
        if not text:
            text = self.path("corpus", "pretrain.txt")
            words = ("-m", "data.demo_corpus")
            words += (f"--output_dir={self.path('corpus')}",)
            listed.append(Job("corpus", (words,)))
        spiece = self.path("vocabulary", "spiece")
        values = {"input_glob": text, "model_prefix": spiece}
        values |= {"vocab_size": FLAGS.vocab_size}
        words = ("-m", "data.train_sentencepiece", *as_flags(values))
        listed.append(Job("vocabulary", (words,)))
        for rule, more in RULES.items():
            values = {
                "input_glob": text,
                "spiece_model_file": f"{spiece}.model",
                "output_dir": self.records(rule),
                "seq_len": FLAGS.seq_len,
                "reuse_len": FLAGS.seq_len // 2,
                "bi_data": True,
                "dev_fraction": FLAGS.dev_fraction,
            }
            words = ("-m", "data.create_pretraining_data", *as_flags(values))
            listed.append(Job(f"records-{rule}", ((*words, *more),)))
        return listed

    def records(self, rule: str) -> str:
        """Folder of a rule's records."""
        return self.path(f"records-{rule}", "data")

    def _words(self, rule: str, seed: int, held_out: str, mode: str):
        values = {
            "n_layer": FLAGS.layers,
            "d_model": FLAGS.width,
            "n_head": FLAGS.heads,
            "d_inner": 4 * FLAGS.width,
            "d_head": FLAGS.width // FLAGS.heads,
            "mem_len": FLAGS.seq_len // 2,
            "data_dir": self.records(rule),
            "eval_data_dir": self.records(held_out),
            "model_dir": self.path(f"{rule}-{seed}", "model"),
            "mode": mode,
            "train_steps": FLAGS.steps,
            "train_batch_size": FLAGS.batch_size,
            "eval_batch_size": FLAGS.batch_size,
            "eval_steps": FLAGS.eval_steps,
            "eval_every": FLAGS.eval_every,
            "learning_rate": FLAGS.learning_rate,
            "warmup_steps": min(FLAGS.steps // 9, 100),
            "clip": 1.0,
            "iterations": min(FLAGS.eval_every, 50),
            "save_steps": 500,
            "dropout": 0.0,
            "dropatt": 0.0,
            "init_std": FLAGS.init_std,
            "seed": seed,
            "progress": "lines",
        }
        return ("run_pretrain.py", *as_flags(values))

    def pretraining(self, rule: str, seed: int) -> Job:
        """Trains on a rule's records, evaluated on the original's targets."""
        name = f"{rule}-{seed}"
        words = self._words(rule, seed, ORIGINAL, "train_and_eval")
        log = self.path(name, "model", "evaluations.jsonl")
        return Job(name, (words,), {"value": (log, _LOSS)})

    def on_ours(self, rule: str, seed: int) -> Job:
        """Evaluates what was trained on our targets; the log has the loss."""
        words = self._words(rule, seed, OURS, "eval")
        return Job(f"{rule}-{seed}/on_ours", (words,))

    def curve(self, rule: str, seed: int) -> Curve:
        """Of a pretraining that is done."""
        path = self.path(f"{rule}-{seed}", "model", "evaluations.jsonl")
        rows = [json.loads(x) for x in _text(path).splitlines()]
        last = None
        if "error" not in self.results[f"{rule}-{seed}/on_ours"]:
            log = self.path(f"{rule}-{seed}", "on_ours", "log.txt")
            losses = re.findall(rf"^{_LOSS} (\S+)", _text(log), re.M)
            last = float(losses[-1]) if losses else None
        return Curve(
            np.array([row["step"] for row in rows]),
            np.array([row[_LOSS] for row in rows]),
            last,
        )

    def step_seconds(self) -> dict[str, float]:
        """Of our step and of the Model Garden's, in turn; {} without either.

        Raises:
          UserError: one of them fails.
        """
        path = self.path("speed.json")
        if files.exists(path):
            return files.read_json_object(path, "remove it to time again")
        if self.only_read or not FLAGS.speed_rounds:
            return {}
        print("timing both steps", flush=True)
        systems = []
        for rule, module in _SYSTEMS.items():
            manifest = os.path.join(self.records(rule), "manifest.json")
            options = files.read_json_object(manifest, "make it anew")[
                "options"
            ]
            sizes = {"predict": options["num_predict"]}
            systems.append(System(rule, module, sizes=sizes))
        workload = Workload(
            layers=FLAGS.layers,
            batch=FLAGS.batch_size,
            length=FLAGS.seq_len,
            memory=FLAGS.seq_len // 2,
            vocab=FLAGS.vocab_size,
            width=FLAGS.width,
            heads=FLAGS.heads,
            inner=4 * FLAGS.width,
            dropout=0.0,
        )
        seconds = {}
        for result in harness.compare(systems, workload, FLAGS.speed_rounds):
            if result.error:
                raise UserError(f"timing {result.name}: {result.error}")
            seconds[result.name] = float(np.median(result.seconds))
        files.write_json(path, seconds)
        return seconds


def _text(path: str) -> str:
    return files.read_bytes(path).decode("utf-8", "replace")


def _cell(values: list[float]) -> str:
    if not values:
        return "not run"
    of = summary.describe(values)
    return f"{of['mean']:.3f} ± {of['sd']:.3f} ({of['n']:d})"


def equal_seconds(steps: int, seconds: dict[str, float]) -> dict[str, float]:
    """Steps of each rule when the faster one has done all of them.

    >>> equal_seconds(900, {"ours": 0.1, "original": 0.3})
    {'ours': 900.0, 'original': 300.0}
    """
    return {r: steps * min(seconds.values()) / s for r, s in seconds.items()}


def table(
    curves: dict[str, list[Curve]], seconds: dict[str, float], steps: int
) -> str:
    """Markdown: losses at equal steps, and at equal seconds."""
    head = ["records", "held out, original's targets", "held out, our targets"]
    ends = {
        "steps": dict.fromkeys(RULES, float(steps)),
        "seconds": equal_seconds(steps, seconds),
    }
    reached = ends["seconds"]
    if seconds:
        head += ["s per step", "steps in equal seconds", "held out then"]
    lines = [head, ["---"] * len(head)]
    for rule, rule_curves in curves.items():
        lasts = [float(c.losses[-1]) for c in rule_curves]
        ours = [c.on_ours for c in rule_curves if c.on_ours is not None]
        row = [rule, _cell(lasts), _cell(ours)]
        if seconds:
            row += [f"{seconds[rule]:.3f}", f"{reached[rule]:,.0f}"]
            row.append(_cell([c.at(reached[rule]) for c in rule_curves]))
        lines.append(row)
    text = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return text + "\n" + "".join(f"{x}\n" for x in sentences(curves, ends))


def sentences(
    curves: dict[str, list[Curve]], ends: dict[str, dict[str, float]]
) -> list[str]:
    """Ours less the original's, with standard errors where there are seeds.

    Args:
      ends: what is equal -> the step of each rule; {} = not known.
    """
    if not all(curves.values()):
        return ["The comparison needs a run of both."]
    texts = []
    for budget, steps in ends.items():
        if not steps:
            continue
        losses = {r: [c.at(steps[r]) for c in curves[r]] for r in RULES}
        text = f"At equal {budget}, ours less the original's objective: "
        if min(map(len, losses.values())) > 1:
            less, error = summary.gain(losses[OURS], losses[ORIGINAL])
            text += f"{less:+.3f} ± {error:.3f} nats per target."
        else:
            less = losses[OURS][0] - losses[ORIGINAL][0]
            text += f"{less:+.3f} nats per target (one run each)."
        texts.append(text)
    return texts


def draw(
    curves: dict[str, list[Curve]], seconds: dict[str, float], stem: str
) -> list[str]:
    """Held-out loss over steps and, where they are timed, over seconds."""
    paces = {"steps": dict.fromkeys(RULES, 1.0)}
    if seconds:
        paces["seconds of training, ours and the Model Garden's pace"] = seconds
    figure, (row,) = figures.new(1, len(paces), figsize=(5.5 * len(paces), 4))
    names = {OURS: "our defaults", ORIGINAL: "the original's objective"}
    for axes, (label, pace) in zip(row, paces.items(), strict=True):
        for color, (rule, rule_curves) in enumerate(curves.items()):
            for i, curve in enumerate(rule_curves):
                axes.plot(
                    curve.steps * pace[rule],
                    curve.losses,
                    color=f"C{color}",
                    label=names[rule] if i == 0 else None,
                )
        axes.set(xlabel=label, ylabel="held-out loss, nats per target")
        axes.legend()
    row[-1].set_xlim(left=0)
    counts = sorted({len(own) for own in curves.values()})
    figures.caption(
        figure,
        f"One line per seed, n = {' to '.join(map(str, counts))} seeds of each "
        "colour. No bars.",
        "python -m studies.learning",
    )
    return figures.save(figure, stem)


def main() -> None:
    """Runs what is missing and writes the table."""
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    with locks.held(FLAGS.output_dir):
        learning = Learning(
            FLAGS.output_dir, workers=FLAGS.workers, only_read=FLAGS.table
        )
        curves = learning.run()
        seconds = learning.step_seconds()
        text = table(curves, seconds, FLAGS.steps)
        files.write_text(learning.path("table.md"), text)
        curves_of = {
            rule: [
                {k: np.asarray(v).tolist() for k, v in vars(c).items()}
                for c in rule_curves
            ]
            for rule, rule_curves in curves.items()
        }
        files.write_json(
            learning.path("results.json"),
            {"curves": curves_of, "seconds": seconds},
        )
        paths = [learning.path("table.md")]
        if any(curves.values()):
            paths += draw(curves, seconds, learning.path("learning"))
    print(
        f"\n{text}\n{learning.hours():.2f} hours of jobs; wrote {', '.join(paths)}"
    )


def define() -> None:
    """Registers the flags."""
    jobs.define()
    flags.DEFINE_string(
        "input_glob", "", "Text to pretrain on; default: the embedded corpus."
    )
    flags.DEFINE_float("dev_fraction", 0.03, "Of the text, held out.", 0.0, 0.5)
    flags.DEFINE_integer("vocab_size", 8000, "Pieces.", 32)
    flags.DEFINE_integer("seq_len", 128, "T; half of it is memory.", 16)
    flags.DEFINE_integer("layers", 3, "L.", 1)
    flags.DEFINE_integer("heads", 4, "N.", 1)
    flags.DEFINE_integer("width", 192, "D.", 16)
    flags.DEFINE_float("init_std", 0.05, "Of first weights.", 0.0)
    flags.DEFINE_integer("steps", 900, "Of pretraining.", 1)
    flags.DEFINE_integer("batch_size", 16, "Rows per step.", 2)
    flags.DEFINE_float("learning_rate", 1e-3, "Of pretraining.")
    flags.DEFINE_integer("seeds", 2, "Pretrainings of each.", 1)
    flags.DEFINE_integer("eval_every", 50, "Steps between evaluations.", 1)
    flags.DEFINE_integer("eval_steps", 8, "Held-out batches; -1 = all.", -1)
    flags.DEFINE_integer(
        "speed_rounds", 20, "Steps of both that are timed; 0 = none.", 0
    )


if __name__ == "__main__":
    define()
    app.run(main)
