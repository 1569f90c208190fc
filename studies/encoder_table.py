"""Command: XLNet, BERT, ALBERT and ModernBERT side by side, from one text.

    python -m studies.encoder_table --output_dir=OUT --tasks=demo
    python -m studies.encoder_table --output_dir=OUT --input_glob='text/*.txt' \\
        --tasks=trec,ag,sst-2,imdb,squad --data_dir=DATA --budgets=steps,seconds

Widths are chosen so that all have as many parameters as the XLNet of the given
size; each is pretrained with its own objective on the same text and vocabulary,
for as many steps or for as many seconds as XLNet, and fine-tuned by the
commands themselves, several seeds each. Every job ends in a `result.json`; run
again, finished ones are skipped and the others go on where they stopped. Writes
`table.md` and `results.json`. Held-out losses are of different objectives:
they say whether a model learned, not which one is better.
"""

import os
import shlex
from collections.abc import Iterator

from absl import flags

from common import files, locks
from common.errors import UserError
from common.summary import describe
from flags import app
from studies.encoder_jobs import TASKS, equal_width, parameters, sizes_of
from studies.jobs import Job, Jobs, Speed, as_flags

FLAGS = flags.FLAGS
ENCODERS = ("xlnet", "bert", "albert", "modernbert")
BUDGETS = ("steps", "seconds")


class Table(Jobs):
    """The jobs of one table, in order; `run` does them.

    Args:
      folder: receives everything.
      workers: jobs at a time.
    """

    def __init__(self, folder: str, workers: int = 1):
        super().__init__(folder, workers=workers)
        self.sizes: dict[str, dict] = {}

    def run(self) -> None:
        """Data, sizes, pretraining, tuning; then the table's files."""
        for job in self.data_jobs():
            if "error" in self.do(job):
                raise UserError(
                    f"{job.name} failed: {self.results[job.name]['error']} "
                    f"(see {self.path(job.name, 'log.txt')})"
                )
        self._choose_sizes()
        listed = [
            job
            for budget in FLAGS.budgets
            for encoder in ENCODERS
            for job in self._jobs(encoder, budget)
        ]
        self.do_all(sorted(listed, key=_round))
        files.write_json(
            self.path("results.json"),
            {"sizes": self.sizes, "jobs": self.results},
        )
        text = self.table()
        files.write_text(self.path("table.md"), text)
        print(f"\n{text}wrote {self.path('table.md')}")

    def data_jobs(self) -> Iterator[Job]:
        """Text, vocabulary, and records of both layouts."""
        text = FLAGS.input_glob
        if not text or "demo" in FLAGS.tasks:
            corpus = ("-m", "data.demo_corpus")
            yield Job(
                "corpus", ((*corpus, f"--output_dir={self.path('corpus')}"),)
            )
        text = text or self.path("corpus", "pretrain.txt")
        spiece = self.path("vocabulary", "spiece")
        yield Job(
            "vocabulary",
            (
                ("-m", "data.train_sentencepiece", f"--input_glob={text}")
                + (f"--model_prefix={spiece}",)
                + (f"--vocab_size={FLAGS.vocab_size}",),
            ),
        )
        half = FLAGS.seq_len // 2
        for name, layout in (
            ("records-xlnet", (f"--reuse_len={half}", "--bi_data")),
            ("records", ("--reuse_len=0", "--nobi_data")),
        ):
            yield Job(
                name,
                (
                    ("-m", "data.create_pretraining_data")
                    + (f"--input_glob={text}", "--dev_fraction=0.03")
                    + (f"--spiece_model_file={spiece}.model",)
                    + (f"--output_dir={self.path(name, 'data')}",)
                    + (f"--seq_len={FLAGS.seq_len}", *layout),
                ),
            )

    def _choose_sizes(self) -> None:
        layers, heads = FLAGS.layers, FLAGS.heads
        base = sizes_of("xlnet", FLAGS.width, layers, heads)
        wanted = parameters("xlnet", FLAGS.vocab_size, base)
        for encoder in ENCODERS:
            width = FLAGS.width
            if encoder != "xlnet":
                width = equal_width(
                    encoder, wanted, FLAGS.vocab_size, layers, heads
                )
            sizes = sizes_of(encoder, width, layers, heads)
            count = parameters(encoder, FLAGS.vocab_size, sizes)
            self.sizes[encoder] = sizes | {"parameters": count}
            print(f"{encoder}: width {width}, {count:,} parameters")

    def _jobs(self, encoder: str, budget: str) -> list[Job]:
        """Pretraining with a budget, then every task and seed."""
        name, steps = f"{encoder}-{budget}", FLAGS.pretrain_steps
        if encoder == "xlnet":
            if budget != FLAGS.budgets[0]:
                return []  # with either budget it is the same run
            name = "xlnet-steps"
        elif budget == "seconds":
            own, reference = self._speed(encoder), self._speed("xlnet")
            if not own or not reference:
                return []
            steps = max(1, round(steps * reference.step / own.step))
        home = self.path(name, "pretrained")
        reads = {"value": (f"{home}/evaluations.jsonl", "lm_loss")}
        jobs = [Job(name, (self.pretrain(encoder, home, steps),), reads)]
        for task in FLAGS.tasks:
            for seed in range(FLAGS.seeds):
                jobs.append(
                    self.tune(f"{name}/{task}-{seed}", home, task, seed)
                )
        return jobs

    def _speed(self, encoder: str) -> Speed | None:
        def commands(home, steps):
            return ((*self.pretrain(encoder, home, steps), "--mode=train"),)

        return self.speed(encoder, commands, FLAGS.speed_steps)

    def pretrain(self, encoder: str, home: str, steps: int) -> tuple[str, ...]:
        """The command that pretrains an encoder with its own objective."""
        sizes = {k: v for k, v in self.sizes[encoder].items()}
        del sizes["parameters"]
        records = "records"
        if encoder == "xlnet":
            records = "records-xlnet"
            sizes["mem_len"] = FLAGS.seq_len // 2
        elif encoder != "modernbert":
            sizes["max_position_embeddings"] = 512
        values = sizes | {
            "model_type": encoder,
            "data_dir": self.path(records, "data"),
            "model_dir": home,
            "train_steps": steps,
            "train_batch_size": FLAGS.pretrain_batch_size,
            "eval_batch_size": FLAGS.pretrain_batch_size,
            "learning_rate": FLAGS.pretrain_learning_rate,
            "warmup_steps": min(steps // 9, 100),
            "clip": 1.0,
            "iterations": min(50, steps),
            "save_steps": 500,
            "eval_steps": FLAGS.eval_steps,
            "dropout": 0.0,
            "dropatt": 0.0,
            "init_std": 0.02,
            "progress": "lines",
        }
        more = {"bert": ("--next_sentence",), "albert": ("--sentence_order",)}
        if encoder == "modernbert":
            values["mask_rate"] = 0.3
        return ("run_pretrain.py", *as_flags(values), *more.get(encoder, ()))

    def tune(self, name: str, start: str, task: str, seed: int) -> Job:
        """Fine-tuning of a task with a seed."""
        row = TASKS[task]
        data = self.path("corpus", "classification")
        if row.folder:
            data = os.path.join(FLAGS.data_dir, row.folder)
        home = self.path(name, "run")
        steps = FLAGS.finetune_steps or row.steps
        values = {
            "init_checkpoint": start,
            "model_dir": home,
            "train_steps": steps,
            "train_batch_size": 32,
            "eval_batch_size": 64,
            "learning_rate": FLAGS.finetune_learning_rate,
            "warmup_steps": min(50, steps // 8),
            "save_steps": 0,
            "iterations": min(100, steps),
            "dropout": 0.1,
            "dropatt": 0.1,
            "seed": seed,
            "progress": "lines",
        }
        given = [a.format(data=data) for a in row.arguments]
        own = {a.split("=")[0].removeprefix("--") for a in given}
        values = {k: v for k, v in values.items() if k not in own}
        command = (row.command, *given, *as_flags(values))
        return Job(
            name,
            ((*command, "--do_train", "--do_eval"),),
            {"value": (f"{home}/eval_dev.json", row.metric)},
        )

    def table(self) -> str:
        """Markdown: an encoder and a budget per row."""
        head = ["encoder", "equal", "width", "parameters", "held-out loss"]
        lines = [[*head, *FLAGS.tasks]]
        for budget in FLAGS.budgets:
            for encoder in ENCODERS:
                name = f"{encoder}-{budget}"
                name = "xlnet-steps" if encoder == "xlnet" else name
                sizes = self.sizes[encoder]
                own = self.results.get(name, {"error": "not run"})
                cells = [encoder, budget, str(sizes["d_model"])]
                cells.append(f"{sizes['parameters']:,}")
                cells.append(own.get("error") or f"{own['value']:.3f}")
                for task in FLAGS.tasks:
                    cells.append(self._cell(name, task))
                lines.append(cells)
        lines.insert(1, ["---"] * len(lines[0]))
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def _cell(self, name: str, task: str) -> str:
        """Mean, deviation and number of the seeds that ended."""
        results = [
            self.results.get(f"{name}/{task}-{seed}", {})
            for seed in range(FLAGS.seeds)
        ]
        values = [r["value"] for r in results if "value" in r]
        if not values:
            errors = [r["error"] for r in results if "error" in r]
            return f"failed: {errors[0]}" if errors else "not run"
        found = describe(values)
        return f"{found['mean']:.3f} ± {found['sd']:.3f} ({found['n']})"


def _round(job: Job) -> int:
    """Pretraining first, then seeds in turn: a table is there early."""
    _, _, task = job.name.partition("/")
    return 1 + int(task.rpartition("-")[2]) if task else 0


def main() -> None:
    """Runs what is missing and prints the table."""
    unknown = sorted(set(FLAGS.tasks) - set(TASKS))
    if unknown:
        raise UserError(
            f"--tasks must be some of {', '.join(TASKS)}, found "
            f"{', '.join(unknown)}"
        )
    outside = [name for name in FLAGS.tasks if TASKS[name].folder]
    if outside and not FLAGS.data_dir:
        raise UserError(f"--tasks={','.join(outside)} need --data_dir")
    if set(FLAGS.budgets) - set(BUDGETS) or not FLAGS.budgets:
        raise UserError(
            f"--budgets must be some of {', '.join(BUDGETS)}, found "
            f"{','.join(FLAGS.budgets)}"
        )
    print(f"{shlex.quote(FLAGS.output_dir)}: jobs that are finished stay")
    with locks.held(FLAGS.output_dir):
        Table(FLAGS.output_dir, FLAGS.workers).run()


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string("output_dir", None, "Folder of jobs.", required=True)
    flags.DEFINE_string(
        "input_glob", "", "Text to pretrain on; default: the embedded corpus."
    )
    flags.DEFINE_string(
        "data_dir", "", "Holds trec, ag_news_csv, glue, aclImdb, squad."
    )
    flags.DEFINE_list("tasks", ["demo"], f"Some of {', '.join(TASKS)}.")
    flags.DEFINE_list("budgets", ["steps"], f"Some of {', '.join(BUDGETS)}.")
    flags.DEFINE_integer("seeds", 3, "Fine-tunings per task.", 1)
    flags.DEFINE_integer("vocab_size", 8000, "Pieces.", 32)
    flags.DEFINE_integer("seq_len", 128, "Tokens per row.", 16)
    flags.DEFINE_integer("layers", 4, "Layers of every encoder.", 1)
    flags.DEFINE_integer("heads", 4, "Heads of every encoder.", 1)
    flags.DEFINE_integer("width", 192, "D of XLNet; the others' follow.", 16)
    flags.DEFINE_integer("pretrain_steps", 2000, "Steps of XLNet.", 1)
    flags.DEFINE_integer("pretrain_batch_size", 16, "Rows per step.", 2)
    flags.DEFINE_float("pretrain_learning_rate", 1e-3, "Of pretraining.")
    flags.DEFINE_float("finetune_learning_rate", 3e-4, "Of fine-tuning.")
    flags.DEFINE_integer(
        "finetune_steps", 0, "Steps of every task; 0 = the task's own."
    )
    flags.DEFINE_integer("workers", 1, "Jobs at a time, sharing the cores.", 1)
    flags.DEFINE_integer("eval_steps", 8, "Held-out batches.", 1)
    flags.DEFINE_integer("speed_steps", 20, "Steps that measure speed.", 1)


if __name__ == "__main__":
    define()
    app.run(main)
