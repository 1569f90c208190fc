"""Command: how long a pretraining stayed on the unigram plateau, as JSON.

    python -m studies.plateau --model_dir=RUN

Writes RUN/plateau.json: `step`, by which the model left the plateau
(`training.reporting.loss_log`; the steps of the run, where it did not), the
same as a `share` of the steps, whether it `left`, and how far below the unigram
entropy its last losses lie (`gain`, nats per target). A study has it as a task
(`studies/options/plateau.toml`).
"""

import os

from absl import flags

from common import files
from common.errors import UserError
from data.pretraining.manifest import PretrainingManifest
from flags import app
from training.reporting import loss_log

FLAGS = flags.FLAGS
FILE_NAME = "plateau.json"


def measured(model_dir: str, unigram_entropy: float) -> dict[str, float]:
    """The numbers of the file; `unigram_entropy` in nats per target."""
    names, rows = loss_log.read(model_dir)
    _, losses = loss_log.of_targets(names, rows)
    step = loss_log.plateau_end(model_dir, unigram_entropy)
    steps = int(rows[-1, 0])
    last = losses[-loss_log.PLATEAU_STEPS :].mean()
    return {
        "step": step or steps,
        "share": (step or steps) / steps,
        "left": int(step is not None),
        "gain": unigram_entropy - float(last),
    }


def write(model_dir: str) -> str:
    """Writes the file of a run of run_pretrain.py; returns its path.

    Raises UserError where the folder is of no such run.
    """
    from training.reporting import run_record

    path = os.path.join(model_dir, run_record.FILE_NAME)
    record = files.read_json_object(path, "wanted the --model_dir of a run")
    data_dir = (record.get("flags") or {}).get("data_dir")
    if not data_dir:
        raise UserError(f"{path}: wanted `data_dir` among the flags of a run")
    manifest = PretrainingManifest.load(data_dir)
    numbers = measured(model_dir, manifest.unigram_entropy)
    path = os.path.join(model_dir, FILE_NAME)
    files.write_json(path, numbers)
    return path


def main() -> None:
    """Writes the file and prints it."""
    path = write(FLAGS.model_dir)
    print(f"wrote {path}: {files.read_json_object(path, 'numbers')}")


if __name__ == "__main__":
    flags.DEFINE_string(
        "model_dir", None, "Folder of a run of run_pretrain.py.", required=True
    )
    app.run(main)
