"""Kills commands at random moments (`WHAT`).

    python -m tools.soak.kill_commands --output_dir=OUT --kills=10

Each command runs once undisturbed; then it is started again and again and
killed (SIGKILL) after a random share of that time, so often as is asked for,
and let end. What it wrote must be the same: every file byte for byte; of
checkpoints and SavedModels every tensor (TensorFlow numbers the functions of a
graph anew in each process). Nothing half-written may be left.
`tools.soak.kill_runs` does it to pretraining.
"""

import argparse
import contextlib
import dataclasses
import glob
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np

from tools.faults import world
from tools.soak import killing, starting

# Time stamps, process ids, commands; and what is compared by its tensors.
_OTHER = ("run.json", "checkpoint", "saved_model.pb", "fingerprint.pb")
_OTHER_ENDS = (".index", ".v2")
_DOCUMENTS = 1000  # of the builder
_ROWS = 600  # of the prediction
WHAT = (
    *("builder", "finetuning", "ranking", "cross_encoder"),
    *("prediction", "export", "average", "conversion", "filter", "vocabulary"),
    *("ensemble", "lm_data", "lm", "embedding"),
    *("squad", "race", "tagging", "multitask"),
)
_READ_AN_EXPORT = ("prediction", "ensemble")
_READ_ROWS = (*_READ_AN_EXPORT, "embedding")
_READ_A_MODEL = ("export", "average", "conversion", *_READ_ROWS)


@dataclasses.dataclass(frozen=True)
class Outcome:
    """What a killed command came to.

    Attributes:
      what: which command.
      kills: how often it was killed.
      starts: how often it was started.
      differing: files or tensors that differ, or that one side lacks.
      left: half-written files.
    """

    what: str
    kills: int
    starts: int
    seconds: float
    differing: list[str]
    left: list[str]


def commands(folder: str) -> dict[str, tuple[list[str], str]]:
    """What -> (arguments, flag of its output); inputs are made.

    Returns:
      The flag ends in `{}`, the place of the path.
    """
    killing.make_data(folder)
    spiece = os.path.join(folder, "spiece.model")
    text = os.path.join(folder, "corpus.txt")
    task = os.path.join(folder, "task")
    config = os.path.join(folder, "config.json")
    ranking = os.path.join(folder, "ranking_data")
    if not os.path.exists(config):
        killing.write_text(text, _DOCUMENTS)
        world.write_task(task)
        world.write_ranking(ranking)
        world.write_config(config)
    builder = ["-m", "data.create_pretraining_data", f"--input_glob={text}"]
    builder += [f"--spiece_model_file={spiece}", "--seq_len=24"]
    builder += ["--reuse_len=12", "--bi_data", "--block_megabytes=0.05"]
    tune = ["run_classifier.py", "--task_name=tsv", f"--data_dir={task}"]
    settings = [f"--spiece_model_file={spiece}", "--max_seq_length=24"]
    settings += [f"--model_config_path={config}", "--train_batch_size=4"]
    settings += ["--train_steps=60", "--save_steps=5", "--iterations=5"]
    settings += ["--progress=none", "--do_train", "--do_eval"]
    rank = ["run_ranking.py", f"--topics_file={ranking}/topics.tsv"]
    rank += [f"--documents={ranking}/documents.jsonl", "--depth=9"]
    rank += [f"--qrels_file={ranking}/qrels", "--folds=3", "--seeds=1"]
    rank += [f"--spiece_model_file={spiece}", "--max_query_length=5"]
    rank += [f"--model_config_path={config}", "--progress=none"]
    pool = ["--max_doc_length=12", "--epochs=2", "--train_embeddings"]
    cross = ["--ranker=cross_encoder", "--max_seq_length=16"]
    cross += ["--train_steps=8", "--train_batch_size=4", "--iterations=2"]
    cross += ["--save_steps=2"]
    model = os.path.join(folder, "model")
    export = ["-m", "serving.export", f"--model_dir={model}", "--nocheck"]
    rows = os.path.join(folder, "rows.txt")
    exported = os.path.join(folder, "exported")
    asked = [f"--input_file={rows}", "--predict_batch_size=2"]
    embed = ["-m", "serving.embed", f"--checkpoint={model}", asked[0]]
    predict = ["-m", "serving.predict", f"--saved_model_dir={exported}"]
    both = ["-m", "serving.ensemble", f"--ensemble={exported}"]
    return {
        "builder": (builder, "output_dir={}"),
        "finetuning": (tune + settings, "model_dir={}"),
        "ranking": (rank + pool, "model_dir={}"),
        "cross_encoder": (rank + cross, "model_dir={}"),
        "export": (export, "output_dir={}"),
        "prediction": (predict + asked, "output_file={}"),
        "ensemble": (both + asked, "output_file={}"),
        "embedding": (embed, "output_file={}/a.npz"),
        **_task_commands(folder, settings),
        **_file_commands(folder, model, text),
    }


def _task_commands(
    folder: str, settings: list[str]
) -> dict[str, tuple[list[str], str]]:
    """`commands` that tune on other tasks than texts with a label."""
    squad, race, tags = (
        os.path.join(folder, name) for name in ("squad.json", "race", "tags")
    )
    if not os.path.exists(squad):
        world.write_race(race)
        world.write_tags(tags)
        world.write_squad(squad)
    spans = ["run_squad.py", f"--train_file={squad}", "--doc_stride=8"]
    spans += [f"--predict_file={squad}", "--max_query_length=4"]
    read = ["run_tagger.py", f"--train_file={tags}", f"--eval_file={tags}"]
    several = ["run_multitask.py", "--task_name=tsv"]
    several += [f"--data_dir={folder}/task"]
    choices = ["run_race.py", f"--data_dir={race}"]
    tuned = {
        "squad": spans,
        "race": choices,
        "tagging": [*read, "--doc_stride=8"],
        "multitask": several,
    }
    return {
        what: (command + settings, "model_dir={}")
        for what, command in tuned.items()
    }


def _file_commands(
    folder: str, model: str, text: str
) -> dict[str, tuple[list[str], str]]:
    """`commands` of models and files that need no task."""
    average = ["-m", "modeling.average_checkpoints", f"--model_dir={model}"]
    convert = ["-m", "modeling.convert_checkpoint", f"--input={model}"]
    convert += ["--from_format=native", "--to_format=hf"]
    keep = ["-m", "data.filter_corpus", f"--input_glob={text}"]
    pieces = ["-m", "data.train_sentencepiece", f"--input_glob={text}"]
    streams = ["-m", "data.create_lm_data", f"--train_glob={text}"]
    read = ["run_lm.py", f"--data_dir={folder}/streams", *world.SIZES]
    read += ["--mem_len=12", "--seq_len=12", *world.TRAIN, "--train_steps=60"]
    return {
        "lm_data": ([*streams, "--unit=byte"], "output_dir={}"),
        "lm": ([*read, "--save_steps=5", "--iterations=5"], "model_dir={}"),
        "average": ([*average, "--last=3"], "output={}"),
        "conversion": (convert, "output={}"),
        "filter": ([*keep, "--min_characters=40"], "output_file={}"),
        "vocabulary": ([*pieces, "--vocab_size=200"], "model_prefix={}/s"),
    }


def prepare(folder: str, what: str) -> None:
    """The model and the export that later commands read."""
    commands_by_kind = commands(folder)
    if what in _READ_A_MODEL:
        _once(commands_by_kind["finetuning"], os.path.join(folder, "model"))
    if what == "lm":
        _once(commands_by_kind["lm_data"], os.path.join(folder, "streams"))
    if what in _READ_AN_EXPORT:
        _once(commands_by_kind["export"], os.path.join(folder, "exported"))
    if what in _READ_ROWS:
        with open(os.path.join(folder, "rows.txt"), "w") as f:
            for i in range(_ROWS):
                f.write(" ".join(world.WORDS[i % 200 :][:5]) + "\n")


def _once(command: tuple[list[str], str], output: str) -> None:
    if not os.path.exists(output):
        if _start(command, output).wait() != 0:
            raise RuntimeError(f"it failed: see {output}.log")


def _start(command: tuple[list[str], str], output: str):
    arguments, flag = command
    if "/" in flag:  # a file in the folder that is compared
        os.makedirs(output, exist_ok=True)
    arguments = [*arguments, "--" + flag.format(output)]
    return starting.start(arguments, output + ".log")


def soak(folder: str, what: str, kills: int, seed: int) -> Outcome:
    """An undisturbed run of a command and a killed one, compared.

    Raises:
      RuntimeError: a run failed.
    """
    prepare(folder, what)
    command = commands(folder)[what]
    whole, killed = (
        os.path.join(folder, f"{what}_{name}") for name in ("whole", "killed")
    )
    for path in (whole, killed):
        _remove(path)
    begin = time.monotonic()
    if _start(command, whole).wait() != 0:
        raise RuntimeError(f"the run failed: see {whole}.log")
    seconds = time.monotonic() - begin
    if not _files(whole):
        raise RuntimeError(f"the run wrote nothing: see {whole}.log")
    rng = random.Random(seed)
    done = starts = 0
    differing, left = [], []
    while not starts or done < kills:
        _remove(killed)  # it ended before all kills: another round
        counts = _round(command, killed, kills - done, seconds, rng)
        done, starts = done + counts[0], starts + counts[1]
        differing += starting.in_fork(differences, whole, killed)
        left += leftovers(killed)
    return Outcome(what, done, starts, round(seconds, 1), differing, left)


def _round(command, output, kills, seconds, rng) -> tuple[int, int]:
    """Starts a command until it ends; (kills, starts)."""
    done = starts = 0
    while True:
        process = _start(command, output)
        starts += 1
        with contextlib.suppress(subprocess.TimeoutExpired):
            # A resumed run has less to do.
            share = rng.uniform(0.1, 0.8) if done < kills else None
            status = process.wait(share and share * seconds)
            if status and not _says_complete(output):
                raise RuntimeError(f"the run failed: see {output}.log")
            return done, starts
        process.send_signal(signal.SIGKILL)
        process.wait()
        done += 1


def _says_complete(output: str) -> bool:
    """A prediction that was killed after its last row is complete."""
    with open(output + ".log", encoding="utf-8") as f:
        return "exists and is complete" in f.read().splitlines()[-1]


def _remove(path: str) -> None:
    for path_of_output in glob.glob(path + "*"):
        if os.path.isdir(path_of_output):
            shutil.rmtree(path_of_output)
        else:
            os.remove(path_of_output)


def differences(a: str, b: str) -> list[str]:
    """Files and tensors that are not the same in two outputs."""
    names = []
    files = [_digests(path) for path in (a, b)]
    for name in sorted(files[0].keys() | files[1].keys()):
        if files[0].get(name) != files[1].get(name):
            names.append(name)
    tensors = [_tensors(path) for path in (a, b)]
    for name in sorted(tensors[0].keys() | tensors[1].keys()):
        if tensors[0].get(name) != tensors[1].get(name):
            names.append(name)
    return names


def _files(path: str) -> list[str]:
    if os.path.isfile(path):
        return [path]
    return sorted(
        os.path.join(folder, name)
        for folder, _, names in os.walk(path)
        for name in names
    )


def _digests(path: str) -> dict[str, str]:
    """Relative name -> SHA-256 of the files that must be equal."""
    digests = {}
    for name in _files(path):
        base = os.path.basename(name)
        other = base in _OTHER or base.endswith(_OTHER_ENDS)
        if other or ".data-" in base or ".tfevents." in base:
            continue
        with open(name, "rb") as f:
            digest = hashlib.sha256(f.read()).hexdigest()
        digests[os.path.relpath(name, path)] = digest
    return digests


def _tensors(path: str) -> dict[str, bytes]:
    """Checkpoint and tensor -> its bytes."""
    import tensorflow as tf

    tensors = {}
    for index in (n for n in _files(path) if n.endswith(".index")):
        reader = tf.train.load_checkpoint(index.removesuffix(".index"))
        where = os.path.relpath(index, path)
        for name in reader.get_variable_to_shape_map():
            if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
                value = np.asarray(reader.get_tensor(name))
                tensors[f"{where}: {name}"] = value.tobytes()
    return tensors


def leftovers(path: str) -> list[str]:
    """Half-written files in an output and beside it."""
    parent, base = os.path.split(path)
    beside = [os.path.join(parent, n) for n in os.listdir(parent)]
    beside = [n for n in beside if base in os.path.basename(n) and n != path]
    names = [n for n in beside if not n.endswith((".log", ".report.json"))]
    if os.path.isdir(path):
        names += [
            os.path.join(folder, name)
            for folder, folders, file_names in os.walk(path)
            for name in [*folders, *file_names]
            if ".tmp-" in name or "_temp" in name or name.startswith(".")
        ]
    return sorted(names)


def main() -> None:
    """Prints the outcomes; exit status 1 when something differs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output_dir", required=True)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--what", default=",".join(WHAT))
    a = parser.parse_args()
    wrong = False
    starting.preload()
    print(
        "| command | kills | starts | undisturbed | differing | left behind |"
    )
    print("|---|---|---|---|---|---|")
    for what in a.what.split(","):
        o = soak(os.path.abspath(a.output_dir), what, a.kills, a.seed)
        wrong |= bool(o.differing or o.left)
        print(
            f"| {what} | {o.kills} | {o.starts} | {o.seconds} s | "
            f"{', '.join(o.differing) or 'nothing'} | "
            f"{', '.join(o.left) or 'nothing'} |",
            flush=True,
        )
    if wrong:
        sys.exit(1)


if __name__ == "__main__":
    main()
