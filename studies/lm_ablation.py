"""What recurrence, encoding and loss are worth: Tables 5 and 8 of Transformer-XL.

    python -m studies.lm_ablation --data_dir=OUT/pieces --output_dir=OUT/ablation
    python -m studies.lm_ablation --data_dir=OUT/pieces \\
        --output_dir=OUT/ablation --table

Trains every row with every seed and sweeps its evaluation memory: "init" is the
perplexity as trained, "best" that of the best memory, "attention" the shortest
attention length that reaches it. Rows of Table 8 have segments that are longer by
what recurrence costs in memory, and see as many more tokens in the same steps. Killed,
the same command goes on; a row that fails is a line of the table. `--run_flag` adds
flags of run_lm.py to all rows.
"""

import dataclasses
import os

from absl import flags

from common import files, locks
from common.errors import UserError
from flags import app
from studies import seed_table
from studies.jobs import RESULT, Job, Jobs, as_flags

FLAGS = flags.FLAGS
# A model that a core trains in a minute, less than once through its text. Weights
# drawn with 1 / sqrt(D): on 2,000 pieces, 400 steps with the 0.02 of large models
# end at perplexity 139, with this at 98, and which row leaves the unigram
# distribution first is luck.
SIZES = {
    "n_layer": 3,
    "d_model": 96,
    "n_head": 4,
    "d_head": 24,
    "d_inner": 384,
    "untie_r": True,
    "init_std": 0.1,
    "dropout": 0.0,
    "train_batch_size": 32,
    "learning_rate": 2e-3,
    "min_lr_ratio": 0.01,
    "iterations": 50,
}


@dataclasses.dataclass(frozen=True)
class Setting:
    """A row.

    Attributes:
      table: of the paper.
      recurrence: memory of T tokens in training.
      encoding: of `--encoding`.
      half: half loss.
      paper: PPL init, PPL best, attention length; () = not in the table.
      stretch: segment length, in those of the other rows.
    """

    table: int
    recurrence: bool
    encoding: str
    half: bool
    paper: tuple[float, ...]
    stretch: float = 1.0

    @property
    def name(self) -> str:
        """Of the row's folder."""
        parts = (
            "recurrence" if self.recurrence else "none",
            self.encoding,
            "half" if self.half else "full",
        )
        longer = "-long" if self.stretch > 1 else ""
        return "-".join(parts) + longer


# Backpropagation length 128 in the paper; Shaw's rows are `shaw`, the form that
# it describes. Vaswani is `absolute`, Al-Rfou `per_layer`.
SETTINGS = (
    Setting(5, True, "relative", False, (27.02, 26.77, 500)),
    Setting(5, True, "shaw", False, (27.94, 27.94, 256)),
    Setting(5, True, "relative", True, (28.69, 28.33, 460)),
    Setting(5, False, "relative", False, (29.59, 29.02, 260)),
    Setting(5, False, "relative", True, (30.10, 30.10, 120)),
    Setting(5, False, "shaw", False, (29.75, 29.75, 120)),
    Setting(5, False, "shaw", True, (30.50, 30.50, 120)),
    Setting(5, False, "absolute", True, (30.97, 30.97, 120)),
    Setting(5, False, "per_layer", True, (31.16, 31.16, 120)),
    Setting(8, False, "relative", False, (28.43, 27.98, 400), 176 / 128),
    Setting(8, False, "relative", True, (28.83, 28.83, 120), 172 / 128),
)
COLUMNS = (
    seed_table.Column("init", "PPL init", higher=False, digits=2),
    seed_table.Column("best", "PPL best", higher=False, digits=2),
    seed_table.Column("attention", "attention length", digits=0),
)


def job_of(setting: Setting, seed: int, jobs: Jobs) -> Job:
    """Trains a row and sweeps its memory; both go on where they stopped."""
    name = f"{setting.name}/seed-{seed}"
    model_dir = jobs.path(name, "model")
    segment = round(FLAGS.segment * setting.stretch)
    shared = {"data_dir": os.path.abspath(FLAGS.data_dir)}
    shared["model_dir"] = model_dir
    training = SIZES | {
        "mode": "train",
        "seq_len": segment,
        "mem_len": segment if setting.recurrence else 0,
        "encoding": setting.encoding,
        "half_loss": setting.half,
        "train_steps": FLAGS.steps,
        "save_steps": FLAGS.save_steps,
        "warmup_steps": FLAGS.steps // 10,
        "max_save": 1,
        "seed": seed,
    }
    sweep = {
        "mode": "sweep",
        "seq_len": segment,
        "sweep_step": FLAGS.segment,
        "sweep_max": FLAGS.sweep_max,
        "eval_batch_size": 16,
    }
    more = tuple(FLAGS.run_flag)
    result = os.path.join(model_dir, "sweep_valid", "sweep.json")
    return Job(
        name,
        tuple(
            ("run_lm.py", *as_flags(shared | own), *more)
            for own in (training, sweep)
        ),
        {
            "init": (result, "init"),
            "best": (result, "best"),
            "attention": (result, "attention_len"),
        },
    )


def rows_of(settings: list[Setting], seeds: list[int], jobs: Jobs) -> list:
    """The table's rows from the jobs that ended."""
    rows = []
    for setting in settings:
        names = [column.name for column in COLUMNS]
        paper = dict(zip(names, setting.paper, strict=True))
        row = seed_table.Row(setting.name, paper=paper)
        for seed in seeds:
            found = jobs.results.get(f"{setting.name}/seed-{seed}")
            for name in names if found else ():
                row.add(name, str(seed), found, name)
        rows.append(row)
    return rows


def chosen() -> list[Setting]:
    """The rows of --tables; Table 8 has two of Table 5, too."""
    found = [s for s in SETTINGS if str(s.table) in FLAGS.tables]
    if "8" in FLAGS.tables and "5" not in FLAGS.tables:
        found = [SETTINGS[0], SETTINGS[2], *found]
    if not found:
        raise UserError(
            f"--tables wants 5, 8 or both, received {','.join(FLAGS.tables)}"
        )
    return found


def main() -> None:
    """Does what is missing, prints and keeps the table."""
    settings = chosen()
    seeds = list(range(FLAGS.seeds))
    os.makedirs(FLAGS.output_dir, exist_ok=True)
    jobs = Jobs(FLAGS.output_dir)
    with locks.held(FLAGS.output_dir):
        # Seed by seed, so that every row has as many.
        for seed in seeds:
            for setting in settings:
                job = job_of(setting, seed, jobs)
                done = files.exists(jobs.path(job.name, RESULT))
                if done or not FLAGS.table:
                    jobs.do(job)
        text = seed_table.table(
            rows_of(settings, seeds, jobs), COLUMNS, SETTINGS[0].name
        )
        path = os.path.join(FLAGS.output_dir, "ablation.md")
        files.write_text(path, text)
    print(text)
    print(f"wrote {path}")


if __name__ == "__main__":
    flags.DEFINE_string("data_dir", None, "Streams.", required=True)
    flags.DEFINE_string("output_dir", None, "Takes all jobs.", required=True)
    flags.DEFINE_list("tables", ["5"], "Of the paper: 5, 8 or both.")
    flags.DEFINE_integer("seeds", 3, "Of every row, from 0 on.", 1)
    flags.DEFINE_integer("steps", 1000, "Of every training.", 1)
    flags.DEFINE_integer("save_steps", 500, "Between checkpoints.", 1)
    flags.DEFINE_integer("segment", 32, "T; the longer rows' in proportion.", 2)
    flags.DEFINE_integer("sweep_max", 512, "Longest memory.", 1)
    flags.DEFINE_multi_string("run_flag", [], "Of run_lm.py, for every row.")
    flags.DEFINE_bool("table", False, "Only print what is done.")
    app.run(main)
