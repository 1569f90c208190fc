"""Small corpora and builds for the tests of the data factory."""

import fcntl
import shutil

import numpy as np
import sentencepiece

from data import demo_corpus
from data.corpus.options import DemoCorpusOptions
from data.pretraining.build import build
from data.pretraining.options import BuildOptions
from tests.helpers import commands

WORDS = (
    "the a of tower lamp river keeper market gate house stands lives turns "
    "slowly northern unbelievable internationalization in 1,953 2000, by"
).split()


def write_corpus(path, documents=40, seed=0, longest=9):
    """Random documents of 1..longest sentences; every document differs."""
    rng = np.random.default_rng(seed)
    lines = []
    for number in range(documents):
        lines.append(f"document {number} begins .")
        for _ in range(rng.integers(longest)):
            words = rng.choice(WORDS, rng.integers(3, 18))
            lines.append(" ".join(words) + " .")
        lines.append("")
    path.write_text("\n".join(lines))
    return str(path)


def put_demo_corpus(folder) -> None:
    """What `python -m data.demo_corpus --max_megabytes=1` makes of no folder.

    It is made once for all test processes; the command finds it finished.
    """
    place = commands.environment() / "demo_corpus"
    with open(f"{place}.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        demo_corpus.write_corpus(DemoCorpusOptions(str(place), 1.0))
    shutil.copytree(place, folder)


def train_spiece(folder, corpus, vocab_size=120):
    """A vocabulary with the original's layout."""
    prefix = str(folder / "spiece")
    sentencepiece.SentencePieceTrainer.train(
        input=corpus,
        model_prefix=prefix,
        vocab_size=vocab_size,
        model_type="bpe",
        control_symbols="<cls>,<sep>,<pad>,<mask>,<eod>",
        user_defined_symbols="<eop>,.,-",
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return prefix + ".model"


def run(folder, name="out", quiet=True, **changes):
    """Builds a small data set in `folder`; returns its manifest."""
    corpus = folder / "corpus.txt"
    if not corpus.exists():
        write_corpus(corpus)
    model = folder / "spiece.model"
    if not model.exists():
        train_spiece(folder, str(corpus))
    values = {
        "input_glob": str(corpus),
        "spiece_model_file": str(model),
        "output_dir": str(folder / name),
        "seq_len": 48,
        "reuse_len": 20,
        "segments_per_lane": 5,
        "block_megabytes": 0.004,
        "seed": 3,
    }
    log = (lambda line: None) if quiet else print
    return build(BuildOptions(**(values | changes)), log)
