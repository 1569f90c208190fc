"""Command: text to ids beside the package `tokenizers`, as JSON.

    python -m benchmarks.compare.tokenizers --input_glob=wikitext-2/train.txt

Each vocabulary cuts the same lines in batches, ours and the package's in turn,
in one process with one thread; tokens per second of CPU time, from a tokenizer
that has seen no text to arrays of ids (the package's: lists). `encode` is the
package's call per text, `spans` are our ids with the characters of each. Without
--vocabularies four are trained on the text: WordPiece as BERT's, byte-level BPE
as ModernBERT's and GPT-2's, and SentencePiece's Unigram as ALBERT's and as
XLNet's. The package reads these as the `tokenizer.json` that our exports hold.
"""

import json
import os
import statistics
import tempfile
import time
from collections.abc import Callable

import sentencepiece
import tokenizers
from absl import flags

from common.contract import symbols
from common.process import workers
from data.corpus import documents as corpus
from data.finetuning.features import tokens as task_tokens
from data.text.opening import AnyTokenizer, open_tokenizer
from data.text.released import hf_tokenizer
from data.text.tokenizer import Tokenizer
from flags import app

FLAGS = flags.FLAGS
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
PLAIN = {"add_special_tokens": False}  # of calls of the package
# Pieces of BERT's, ModernBERT's and ALBERT's files.
SIZES = {"wordpiece": 30522, "bpe": 50280, "unigram": 30000}
# Symbols of ALBERT's files and of ours.
SPIECES = {
    "albert": {
        "pad_id": 0,
        "unk_id": 1,
        "bos_id": -1,
        "eos_id": -1,
        "control_symbols": "[CLS],[SEP],[MASK]",
    },
    "xlnet": {
        "control_symbols": "<cls>,<sep>,<pad>,<mask>,<eod>",
        "user_defined_symbols": "<eop>",
    },
}


def define() -> None:
    """Registers the flags."""
    flags.DEFINE_string(
        "input_glob", None, "Text of the benchmark.", required=True
    )
    flags.DEFINE_list(
        "vocabularies",
        [],
        "Files: vocab.txt, tokenizer.json or spiece.model.",
    )
    flags.DEFINE_integer("rounds", 5, "Turns; the medians count.", 1)
    flags.DEFINE_integer("most_lines", 0, "Lines that are cut; 0 = all.", 0)


def train(folder: str, lines: list[str]) -> list[str]:
    """A vocabulary of each kind, in folders of their own; their paths."""
    parts, trainers = tokenizers.pre_tokenizers, tokenizers.trainers
    wordpiece = tokenizers.Tokenizer(
        tokenizers.models.WordPiece(unk_token="[UNK]")
    )
    wordpiece.normalizer = tokenizers.normalizers.BertNormalizer()
    wordpiece.pre_tokenizer = parts.BertPreTokenizer()
    bpe = tokenizers.Tokenizer(tokenizers.models.BPE())
    bpe.normalizer = tokenizers.normalizers.NFC()
    bpe.pre_tokenizer = parts.ByteLevel(add_prefix_space=False)
    about = {"special_tokens": SPECIAL, "show_progress": False}
    alphabet = {"initial_alphabet": parts.ByteLevel.alphabet()}
    paths = []
    for name, tokenizer, trainer in (
        ("wordpiece", wordpiece, trainers.WordPieceTrainer),
        ("bpe", bpe, trainers.BpeTrainer),
    ):
        more = alphabet if name == "bpe" else {}
        size = SIZES[name]
        tokenizer.train_from_iterator(
            lines, trainer(vocab_size=size, **about, **more)
        )
        os.mkdir(os.path.join(folder, name))
        paths.append(os.path.join(folder, name, "tokenizer.json"))
        tokenizer.save(paths[-1])
    for name, about in SPIECES.items():
        os.mkdir(os.path.join(folder, name))
        prefix = os.path.join(folder, name, "spiece")
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_prefix=prefix,
            vocab_size=SIZES["unigram"],
            hard_vocab_limit=False,
            minloglevel=2,
            **about,
        )
        paths.append(f"{prefix}.model")
    return paths


def package_of(tokenizer: AnyTokenizer) -> tokenizers.Tokenizer:
    """The package's object with the same rules, which has seen no text."""
    if isinstance(tokenizer, Tokenizer):
        content = hf_tokenizer.build(tokenizer, symbols.CLS_FIRST).decode()
    else:
        content = json.dumps(tokenizer.rules)
    package = tokenizers.Tokenizer.from_str(content)
    package.no_padding()
    package.no_truncation()
    package.post_processor = None
    package.encode_special_tokens = isinstance(tokenizer, Tokenizer)
    return package


def calls_of(path: str, batches: list[list[str]]) -> dict[str, Callable]:
    """What is measured, with tokenizers that have seen no text."""
    ours, spans = open_tokenizer(path), open_tokenizer(path)
    package = package_of(ours)
    return {
        "ours": lambda: [row for b in batches for row in ours.encode_batch(b)],
        "package": lambda: [
            encoding.ids
            for b in batches
            for encoding in package.encode_batch(b, **PLAIN)
        ],
        "encode": lambda: [
            package.encode(text, **PLAIN).ids for b in batches for text in b
        ],
        "spans": lambda: [spans.encode_spans_batch(b) for b in batches],
    }


def measure(path: str, lines: list[str]) -> dict:
    """Rates of one vocabulary."""
    batches = workers.split_chunks(lines, task_tokens.CHUNK_TEXTS)
    seconds: dict[str, list[float]] = {}
    for _ in range(FLAGS.rounds):
        rows = {}
        for name, call in calls_of(path, batches).items():
            start = time.process_time()
            rows[name] = call()
            taken = time.process_time() - start
            seconds.setdefault(name, []).append(taken)
    pairs = list(zip(rows["ours"], rows["package"], strict=True))
    number = sum(len(ids) for ids, _ in pairs)
    ratios = [
        theirs / ours
        for ours, theirs in zip(
            seconds["ours"], seconds["package"], strict=True
        )
    ]
    return {
        "vocabulary": os.path.join(*path.split(os.sep)[-2:]),
        "tokens": number,
        "texts": len(lines),
        "texts_with_other_ids": sum(a.tolist() != b for a, b in pairs),
        "tokens_per_cpu_second": {
            name: round(number / statistics.median(values))
            for name, values in seconds.items()
        },
        "ours_over_package": round(statistics.median(ratios), 2),
    }


def main() -> None:
    """Measures and prints."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read at every call
    lines = []
    for path in corpus.list_files(FLAGS.input_glob):
        with corpus.open_text(path) as f:
            read = corpus.decode_lines(path, corpus.read_line_bytes(f, path))
            lines += [line.strip() for line in read if not line.isspace()]
    if FLAGS.most_lines:
        lines = lines[: FLAGS.most_lines]
    with tempfile.TemporaryDirectory() as folder:
        paths = FLAGS.vocabularies or train(folder, lines)
        rows = [measure(path, lines) for path in paths]
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    print(json.dumps({"megabytes": megabytes, "rows": rows}, indent=2))


if __name__ == "__main__":
    define()
    app.run(main)
