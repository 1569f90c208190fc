"""Transformer-XL beside an n-gram model and an LSTM, on one text in one time.

    python -m studies.language.lm_baselines --data_path=wikitext-2 --output_dir=OUT
    python -m studies.language.lm_baselines --output_dir=OUT --table

The text (`train.txt`, `valid.txt`, or these as .xz) is read as words, as
WikiText is, and as characters by text8's rules. Every system has the same ids,
`<unk>` and line ends among them, and predicts every token of the valid split
but the first. Systems that train get --minutes of a quiet machine with
--threads cores: each is timed in short turns that alternate, and it then
trains so many steps, however long that takes here. --clock=wall takes the
fastest ten steps; --clock=cpu the CPU time of a step over the cores, for a
machine that has other work (it flatters systems that leave a core idle).

Each piece of work is kept in OUT/results.json and done once, and training keeps
checkpoints: killed at any moment, the same command goes on. SIGTERM reaches what
is training first, which saves. Other --minutes make other rows; another text,
seed, clock or number of threads is for another folder.
"""

import contextlib
import functools
import hashlib
import lzma
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import psutil
from absl import flags

from common import files, locks
from common.errors import UserError
from common.process import last_line
from data.language_modeling import build
from data.language_modeling.manifest import StreamManifest
from data.language_modeling.options import LMDataOptions
from data.language_modeling.stream import TokenStream
from flags import app
from studies import folders
from studies.language import identity
from studies.language.kneser_ney import KneserNey

FLAGS = flags.FLAGS
SPLITS = ("train", "valid")
UNITS = ("word", "char")
# Orders of the n-gram models; one is the issue of the table, the other what
# characters need.
ORDERS = {"word": (3,), "char": (3, 8)}
COMMANDS = {"ours": ["run_lm.py"], "lstm": ["-m", "studies.language.lm_lstm"]}
TIMED_STEPS, LOOP = 60, 10

# Equal parameters, and 1,024 tokens per update. Both have the adaptive softmax:
# the full one of 33,278 words costs more than all layers of such models.
_ALL = {
    "train_batch_size": 16,
    "clip": 0.25,
    "decay_method": "cos",
    "min_lr_ratio": 0.01,
    "eval_batch_size": 8,
}
_WORDS = {"cutoffs": "2000,10000", "d_model": 192, "dropout": 0.2}
_CHARACTERS = {"d_model": 160, "dropout": 0.0}
RECIPES = {
    "word/ours": _ALL
    | _WORDS
    | {"n_layer": 4, "n_head": 4, "d_head": 48, "d_inner": 768}
    | {"seq_len": 64, "mem_len": 128, "untie_r": True}
    | {"learning_rate": 1e-3, "warmup_steps": 200},
    "word/lstm": _ALL
    | _WORDS
    | {"n_layer": 2, "d_inner": 480, "seq_len": 32, "train_batch_size": 32}
    | {"learning_rate": 2e-3, "warmup_steps": 100},
    "char/ours": _ALL
    | _CHARACTERS
    | {"n_layer": 4, "n_head": 4, "d_head": 40, "d_inner": 640}
    | {"seq_len": 128, "mem_len": 128, "train_batch_size": 8}
    | {"learning_rate": 1.5e-3, "warmup_steps": 200, "untie_r": True},
    "char/lstm": _ALL
    | _CHARACTERS
    | {"n_layer": 2, "d_inner": 400, "seq_len": 64}
    | {"learning_rate": 3e-3, "warmup_steps": 100},
}

_DIGITS = dict(
    zip(
        "0123456789",
        "zero one two three four five six seven eight nine".split(),
        strict=True,
    )
)


def text8(text: str) -> str:
    """A text in text8's 27 symbols.

    The last steps of its script (M. Mahoney, "About the test data"): lower
    case, digits spelled out, everything but a to z becomes one space.

    >>> text8("In 1984 , <unk>!")
    'in one nine eight four unk '
    """
    text = re.sub("[0-9]", lambda m: f" {_DIGITS[m[0]]} ", text.lower())
    return re.sub("[^a-z]+", " ", text)


def read_split(folder: str, split: str) -> str:
    """The text of `SPLIT.txt` or `SPLIT.txt.xz`.

    Raises:
      UserError: there is neither, or it is not UTF-8.
    """
    path = os.path.join(folder, f"{split}.txt")
    if not files.exists(path):
        path += ".xz"
    if not files.exists(path):
        raise UserError(
            f"--data_path={folder}: wanted {split}.txt or {split}.txt.xz, "
            "found neither"
        )
    data = files.read_bytes(path)
    try:
        if path.endswith(".xz"):
            data = lzma.decompress(data)
        return data.decode("utf-8")
    except (lzma.LZMAError, UnicodeDecodeError) as e:
        raise UserError(f"{path} is damaged: {e}") from e


class Results:
    """What is done, in OUT/results.json: name -> numbers."""

    def __init__(self, folder: str):
        self.path = os.path.join(folder, "results.json")
        self.rows: dict[str, dict] = {}
        if files.exists(self.path):
            self.rows = files.read_json_object(
                self.path, "remove the file to measure again"
            )

    def once(self, name: str, work) -> dict:
        """The row `name`; made by `work()` where it is not there yet."""
        if name not in self.rows:
            print(f"== {name}", flush=True)
            self.rows[name] = work()
            files.write_json(self.path, self.rows)
        return self.rows[name]


def streams(unit: str) -> str:
    """Builds the records of a unit; their folder."""
    folder = os.path.join(FLAGS.output_dir, unit)
    globs = {}
    for split in SPLITS:
        path = os.path.join(folder, f"{split}.txt")
        globs[f"{split}_glob"] = path
        if not files.exists(path):
            text = read_split(FLAGS.data_path, split)
            files.write_text(path, text if unit == "word" else text8(text))
    output = os.path.join(folder, "streams")
    line_end = "eos" if unit == "word" else "none"
    build.build(
        LMDataOptions(
            output, unit=unit, line_end=line_end, vocab_from="all", **globs
        )
    )
    return output


def measure_n_grams(data_dir: str, order: int) -> dict:
    """Trains and evaluates on the streams of a folder."""
    manifest = StreamManifest.load(data_dir)
    train, valid = (TokenStream(manifest, split) for split in SPLITS)
    model = KneserNey(train.read(0, len(train)), manifest.vocab_size, order)
    log_probs = model.log_probs(valid.read(0, len(valid)))[1:]
    return _row(manifest, -log_probs.mean(), len(log_probs)) | {
        "parameters": model.grams
    }


def _row(manifest: StreamManifest, nats: float, predicted: int) -> dict:
    """A loss on the valid split in every unit."""
    rates = manifest.split_counts("valid").rates(float(nats))
    return {"predicted_tokens": predicted, "nats_per_token": nats} | rates


def command(system: str, data_dir: str, model_dir: str, **changes) -> list:
    """What trains or evaluates a system, `UNIT/ours` or `UNIT/lstm`."""
    flags = RECIPES[system] | changes
    flags |= {
        "data_dir": data_dir,
        "model_dir": model_dir,
        "intra_op_threads": FLAGS.threads,
        "inter_op_threads": FLAGS.threads,
        "seed": FLAGS.seed,
    }
    words = [f"--{name}={value}" for name, value in flags.items()]
    return [sys.executable, *COMMANDS[system.split("/")[1]], *words]


@contextlib.contextmanager
def started(words: list, **how):
    """A command that runs beside this one and that SIGTERM ends first."""
    with subprocess.Popen(
        words, stderr=subprocess.STDOUT, env=_environment(), **how
    ) as process:
        old = signal.signal(signal.SIGTERM, lambda *_: process.terminate())
        try:
            yield process
        finally:
            process.terminate()  # nothing where it has ended
            signal.signal(signal.SIGTERM, old)


def run(words: list, log: str) -> str:
    """Runs a command, adds its output to a file and returns it.

    Raises:
      UserError: it fails; the message has its last line.
    """
    with open(log, "a", encoding="utf-8") as f:
        start = f.tell()
        print("$", *words[1:], file=f, flush=True)
        with started(words, stdout=f) as process:
            code = process.wait()
    with open(log, encoding="utf-8") as f:
        f.seek(start)
        said = f.read()
    if code:
        raise UserError(f"{log}: {last_line.of(code, said)}")
    return said


def time_steps(unit: str, data_dir: str) -> dict:
    """Seconds per step of all systems of a unit, in alternating turns."""
    systems = [name for name in RECIPES if name.startswith(unit + "/")]
    loops: dict[str, list] = {name: [] for name in systems}
    folder = os.path.join(FLAGS.output_dir, unit, "timing")
    for turn in range(FLAGS.turns):
        for name in systems if turn % 2 == 0 else systems[::-1]:
            shutil.rmtree(folder, ignore_errors=True)
            words = command(
                name,
                data_dir,
                folder,
                mode="train",
                train_steps=TIMED_STEPS,
                warmup_steps=0,
                iterations=LOOP,
                save_steps=0,
            )
            loops[name] += time_loops(words)
    shutil.rmtree(folder, ignore_errors=True)
    step_times = {}
    for name, rows in loops.items():
        wall, cpu = np.asarray(rows).T / LOOP
        seconds = {"wall": wall.min(), "cpu": np.median(cpu) / FLAGS.threads}
        step_times[name] = {
            "step_seconds": float(seconds[FLAGS.clock]),
            "clock": FLAGS.clock,
            "wall_seconds": wall.tolist(),
            "cpu_seconds": cpu.tolist(),
        }
    return step_times


def time_loops(words: list) -> list[tuple[float, float]]:
    """(wall, CPU) seconds of every host loop of a training but the first two.

    Raises:
      UserError: it fails.
    """
    marks, line = [], ""
    with started(words, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("step "):
                used = psutil.Process(process.pid).cpu_times()
                marks.append((time.monotonic(), used.user + used.system))
        failed = process.wait() != 0
    if failed or len(marks) < 3:
        raise UserError(f"{words[1]} failed when timed: {line.strip()}")
    # The first loop traces, the second follows it.
    return [tuple(x) for x in np.diff(marks, axis=0)[1:].tolist()]


def _environment() -> dict[str, str]:
    return dict(os.environ, TF_CPP_MIN_LOG_LEVEL="3", PYTHONUNBUFFERED="1")


def train(system: str, data_dir: str, step_seconds: float) -> dict:
    """Trains for the minutes and evaluates; goes on where it was stopped."""
    steps = max(int(FLAGS.minutes * 60 / step_seconds) // LOOP * LOOP, LOOP)
    model_dir = os.path.join(
        FLAGS.output_dir, f"{system}-{FLAGS.minutes:g}-minutes"
    )
    how = functools.partial(
        command,
        system,
        data_dir,
        model_dir,
        train_steps=steps,
        warmup_steps=min(RECIPES[system]["warmup_steps"], steps // 4),
        iterations=50,
        save_steps=200,
        max_save=1,
    )
    log = f"{model_dir}.log"
    said = run(how(mode="train"), log)
    if f"trained to step {steps} " not in said:
        raise UserError(
            f"{log}: stopped before step {steps}; the same command resumes"
        )
    said += run(how(mode="eval"), log)
    manifest = StreamManifest.load(data_dir)
    nats = float(re.findall(r"valid: nats_per_token (\S+)", said)[-1])
    predicted = int(re.findall(r"valid: predicted (\d+)", said)[-1])
    parameters = re.findall(r"parameters +([\d,]+)", said)[-1]
    sizes = RECIPES[system]
    tokens = steps * sizes["train_batch_size"] * sizes["seq_len"]
    return _row(manifest, nats, predicted) | {
        "parameters": int(parameters.replace(",", "")),
        "steps": steps,
        "step_seconds": step_seconds,
        "minutes": FLAGS.minutes,
        "epochs": tokens / manifest.split_counts("train").tokens,
    }


COLUMNS = (
    ("parameters", "parameters", "{:,d}"),
    ("steps", "steps", "{:,d}"),
    ("step_seconds", "s per step", "{:.3f}"),
    ("minutes", "minutes", "{:g}"),
    ("epochs", "epochs", "{:.2f}"),
    ("token_perplexity", "perplexity", "{:.2f}"),
    ("bits_per_character", "bits per character", "{:.3f}"),
)


def table(rows: dict[str, dict]) -> str:
    """Markdown; perplexity is per token, `<unk>` and line ends included."""
    titles = ["system", *(title for _, title, _ in COLUMNS)]
    lines = [titles, ["---"] * len(titles)]
    for name, row in sorted(rows.items()):
        if "nats_per_token" in row:
            cells = [
                form.format(row[key]) if key in row else ""
                for key, _, form in COLUMNS
            ]
            lines.append([name, *cells])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def measure(results: Results) -> None:
    """Everything that is not done yet; UserError: the rest is of other facts."""
    facts = {n: FLAGS[n].value for n in ("seed", "clock", "threads", "turns")}
    for split in SPLITS:
        text = read_split(FLAGS.data_path, split).encode()
        facts[split] = hashlib.sha256(text).hexdigest()
    identity.settle(FLAGS.output_dir, facts, "results.json")
    folders = {unit: streams(unit) for unit in FLAGS.units}
    for unit, folder in folders.items():
        for order in ORDERS[unit]:
            results.once(
                f"{unit}/{order}-gram, modified Kneser-Ney",
                functools.partial(measure_n_grams, folder, order),
            )
    times = {
        unit: results.once(
            f"{unit}: seconds per step on {FLAGS.threads} threads",
            functools.partial(time_steps, unit, folder),
        )
        for unit, folder in folders.items()
    }
    for unit, folder in folders.items():
        for name, timing in times[unit].items():
            results.once(
                f"{name}, {FLAGS.minutes:g} minutes",
                functools.partial(train, name, folder, timing["step_seconds"]),
            )


def main() -> None:
    """Measures what is missing and prints the table."""
    results = Results(folders.local_folder(FLAGS.output_dir))
    if not FLAGS.table:
        if not FLAGS.data_path:
            raise UserError(
                "give --data_path, a folder with train.txt and valid.txt, or "
                "--table to print what is done"
            )
        with locks.held(FLAGS.output_dir):
            results = Results(FLAGS.output_dir)
            measure(results)
    print(table(results.rows))


if __name__ == "__main__":
    flags.DEFINE_string("data_path", "", "Folder of train.txt and valid.txt.")
    flags.DEFINE_string("output_dir", None, "Folder of results.", required=True)
    flags.DEFINE_multi_enum("units", list(UNITS), UNITS, "Which tables.")
    flags.DEFINE_float(
        "minutes", 60, "Training of a system on a quiet machine.", 0
    )
    flags.DEFINE_integer("threads", 2, "Cores.", 1)
    flags.DEFINE_enum(
        "clock", "wall", ["wall", "cpu"], "What a step's time is taken from."
    )
    flags.DEFINE_integer("turns", 3, "Turns of each system when timed.", 1)
    flags.DEFINE_integer("seed", 0, "Of weights and dropout.", 0)
    flags.DEFINE_bool("table", False, "Only print what is done.")
    app.run(main)
