"""Command: peak memory of run_ranking.py while collections grow.

    python -m benchmarks.ranking_memory --documents=20000,200000

Documents of random words are written as JSONL; candidates are given as a run,
so that nothing indexes the collection. Each row is a process of its own that
embeds the candidates' documents with a small encoder of random weights. Rows
differ in the collection and, twice, in how many of its documents are
candidates: files grow, memory must not.
"""

import json
import os
import subprocess
import sys
import tempfile

import numpy as np
from absl import flags

from common import files
from common.errors import UserError
from data.finetuning.ranking import runs
from flags import app

FLAGS = flags.FLAGS
ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONFIG = {
    "model_type": "bert",
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}
WORDS, LENGTH, DEPTH = 5000, 150, 100


def define() -> None:
    """Registers the benchmark's flags."""
    flags.DEFINE_list("documents", ["20000", "200000"], "Collection sizes.")
    flags.DEFINE_list(
        "queries", ["20", "80"], "Queries, of 100 candidates each."
    )
    flags.DEFINE_string(
        "spiece_model_file", None, "Vocabulary of the benchmark.", required=True
    )


def write(folder: str, documents: int, queries: int) -> None:
    """Documents, queries, judgements and a run, all random."""
    rng = np.random.default_rng(0)
    words = np.array([f"word{i}" for i in range(WORDS)])
    with files.atomic_open(os.path.join(folder, "documents.jsonl"), "w") as f:
        for i in range(documents):
            text = " ".join(rng.choice(words, LENGTH))
            f.write(json.dumps({"id": f"d{i}", "text": text}) + "\n")
    chosen = rng.permutation(documents)[: queries * DEPTH]
    chosen = np.resize(chosen, (queries, DEPTH))
    run = {
        f"q{q}": {f"d{i}": float(-r) for r, i in enumerate(row)}
        for q, row in enumerate(chosen.tolist())
    }
    runs.write(os.path.join(folder, "given.run"), run, "random")
    texts = {
        "topics.tsv": [f"{q}\t{' '.join(rng.choice(words, 4))}" for q in run],
        "qrels": [f"{q} 0 {next(iter(d))} 1" for q, d in run.items()],
    }
    for name, lines in texts.items():
        files.write_text(os.path.join(folder, name), "\n".join(lines) + "\n")


def measure(folder: str, spiece: str) -> dict:
    """Peak MB of one run, and MB of the vectors that it wrote."""
    out = os.path.join(folder, "out")
    command = [sys.executable, os.path.join(ROOT, "run_ranking.py")]
    for flag, name in (
        ("topics_file", "topics.tsv"),
        ("documents", "documents.jsonl"),
        ("qrels_file", "qrels"),
        ("run_file", "given.run"),
        ("model_config_path", "config.json"),
        ("model_dir", "out"),
    ):
        command.append(f"--{flag}={os.path.join(folder, name)}")
    command += ["--ranker=cosine", f"--spiece_model_file={spiece}"]
    command += ["--max_doc_length=256", "--progress=none"]
    # A process between, whose only child is the run.
    code = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], "
        "check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *command],
        capture_output=True,
        text=True,
    )
    if done.returncode:
        # The command's own line stands before the trace of what started it.
        said = [x for x in done.stderr.splitlines() if x.startswith("error: ")]
        raise UserError(said[0][7:] if said else done.stderr.strip())
    vectors = os.path.join(out, "embeddings")
    written = sum(
        os.path.getsize(os.path.join(vectors, n)) for n in os.listdir(vectors)
    )
    return {
        "peak_mb": int(done.stdout.splitlines()[-1]) / 1024,
        "vectors_mb": written / 2**20,
    }


def main() -> None:
    """Prints a table."""
    from data.text.tokenizer import Tokenizer

    spiece = FLAGS.spiece_model_file
    size = Tokenizer(spiece).vocab_size
    sizes = [int(n) for n in FLAGS.documents]
    asked = [int(n) for n in FLAGS.queries]
    rows = [(n, asked[0]) for n in sizes] + [(sizes[0], q) for q in asked[1:]]
    print("| documents | embedded | vectors, MB | peak, MB |")
    print("|---|---|---|---|")
    for documents, queries in rows:
        with tempfile.TemporaryDirectory() as folder:
            write(folder, documents, queries)
            config = CONFIG | {"vocab_size": size}
            files.write_json(os.path.join(folder, "config.json"), config)
            row = measure(folder, spiece)
        embedded = min(documents, queries * DEPTH)
        print(
            f"| {documents} | {embedded} | {row['vectors_mb']:.0f} | "
            f"{row['peak_mb']:.0f} |",
            flush=True,
        )


if __name__ == "__main__":
    define()
    app.run(main)
