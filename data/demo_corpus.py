"""Command: the embedded default corpus, from text every Python installation has.

    python -m data.demo_corpus --output_dir=quickstart_output/corpus
    python -m data.demo_corpus --output_dir=large --size=large

Writes `pretrain.txt` (one sentence per line, an empty line ends a document; a
document is a module or a language topic), `classification/{train,dev}.tsv`
(header `text<TAB>label`; which package does this documentation come from) and
`corpus.json` (versions, counts, checksums). The modules of the classification
dev split are in neither its training split nor the pretraining text. The files
are a function of the installed versions alone. `--size=large` writes
`pretrain.txt` and `corpus.json` from packages of the registries instead
(docs/guides/corpora.md).
"""

import hashlib
import importlib.metadata
import os
import platform
import random
import re
import sysconfig
from collections.abc import Iterator

from tqdm import tqdm

from common import files, locks
from common.errors import UserError
from data.corpus import docstrings, next_step
from data.corpus.options import DemoCorpusOptions
from data.corpus.registry import large_corpus
from flags import app, flag_values

# Class name and package below site-packages -> distribution. The standard
# library is the class "python".
PACKAGES = {
    "matplotlib": "matplotlib",
    "numpy": "numpy",
    "scipy": "scipy",
    "sklearn": "scikit-learn",
    "tensorflow": "tensorflow",
}
STANDARD_LIBRARY = (
    "argparse asyncio collections concurrent configparser ctypes dataclasses "
    "datetime decimal difflib distutils doctest email enum fractions functools "
    "html http importlib inspect ipaddress json logging mailbox "
    "multiprocessing optparse os pathlib pdb pickle pickletools platform "
    "random shutil smtplib socket sqlite3 statistics string subprocess tarfile "
    "tempfile textwrap threading tkinter turtle typing unittest urllib uuid "
    "warnings wsgiref xml zipfile"
).split()
SUMMARY = "corpus.json"
_FOLLOWERS = {("small",): ("examples_per_class",)}
SMALL_VOCABULARY = 8000  # pieces, as in scripts/quickstart.sh
DEV_PERCENT = 15
MIN_EXAMPLE_WORDS = 8
MAX_EXAMPLE_WORDS = 60


def module_is_dev(module: str) -> bool:
    """Whether a module belongs to the classification dev split."""
    digest = hashlib.sha256(module.encode()).digest()
    return digest[0] * 100 < DEV_PERCENT * 256


def source_modules() -> Iterator[tuple[str, str, str]]:
    """Yields (class, dotted module, path) of every source file, sorted."""
    paths = sysconfig.get_paths()
    for package, distribution in PACKAGES.items():
        root = os.path.join(paths["purelib"], package)
        if not os.path.isdir(root):
            raise UserError(
                f"package {distribution} is not installed ({root} does not "
                "exist): run pip install -r requirements.txt"
            )
        for module, path in docstrings.walk_sources(paths["purelib"], package):
            yield package, module, path
    for package in STANDARD_LIBRARY:
        for module, path in docstrings.walk_sources(paths["stdlib"], package):
            yield "python", module, path


class CorpusBuilder:
    """Collects documents and classification rows, each sentence once."""

    def __init__(self, options: DemoCorpusOptions) -> None:
        self._options = options
        self._seen: set[str] = set()
        self.documents: list[list[str]] = []
        self.size = 0  # bytes
        self.rows: dict[str, dict[str, list[str]]] = {"train": {}, "dev": {}}

    def fresh(self, sentences: list[str]) -> list[str]:
        """The sentences not met before; marks them as met."""
        result = []
        for sentence in sentences:
            key = sentence.casefold()
            if key not in self._seen:
                self._seen.add(key)
                result.append(sentence)
        return result

    def add_document(self, sentences: list[str]) -> None:
        """Adds a document of at least two sentences while there is room."""
        if len(sentences) < 2:
            return
        self.size += sum(len(s.encode()) + 1 for s in sentences) + 1
        self.documents.append(sentences)

    def add_module(self, label: str, module: str, texts: list[str]) -> None:
        """Adds the docstrings of one module to both outputs."""
        split = "dev" if module_is_dev(module) else "train"
        rows = self.rows[split].setdefault(label, [])
        document = []
        for text in texts:
            sentences = self.fresh(docstrings.clean(text))
            document.extend(sentences)
            example = example_text(sentences)
            if example:
                rows.append(example)
        if split == "train":
            self.add_document(document)

    def pretraining_text(self) -> str:
        """The documents in a shuffled order, cut at the wanted size."""
        order = list(range(len(self.documents)))
        random.Random(0).shuffle(order)
        limit = self._options.max_megabytes * 1e6
        parts, size = [], 0
        for i in order:
            text = "\n".join(self.documents[i]) + "\n\n"
            size += len(text.encode())
            if size > limit and parts:
                break
            parts.append(text)
        return "".join(parts)

    def classification_rows(self, split: str) -> list[tuple[str, str]]:
        """(text, label) rows, balanced over the classes, shuffled."""
        wanted = self._options.examples_per_class
        if split == "dev":
            wanted = max(1, wanted * DEV_PERCENT // (100 - DEV_PERCENT))
        rows = []
        for label, texts in sorted(self.rows[split].items()):
            texts = sorted(texts)
            random.Random(f"{split} {label}").shuffle(texts)
            rows.extend((text, label) for text in texts[:wanted])
        random.Random(split).shuffle(rows)
        return rows


def example_text(sentences: list[str]) -> str:
    """First sentences of a docstring as one row, or "" if it gives the class away.

    A row that names a package would make the task a search for that word.
    """
    words: list[str] = []
    for sentence in sentences:
        words.extend(sentence.split())
        if len(words) >= MAX_EXAMPLE_WORDS:
            break
    text = " ".join(words[:MAX_EXAMPLE_WORDS])
    names = [*PACKAGES, "python", "scikit", r"tf\.", r"np\.", "keras", "pyplot"]
    if len(words) < MIN_EXAMPLE_WORDS:
        return ""
    return "" if re.search("|".join(names), text, re.IGNORECASE) else text


def write_corpus(options: DemoCorpusOptions) -> dict:
    """Builds and writes everything; returns the content of `corpus.json`.

    A finished corpus of the same versions and options is left as it is.
    """
    earlier_summary = finished(options)
    if earlier_summary is not None:
        return earlier_summary
    files.check_output(os.path.join(options.output_dir, SUMMARY))
    if options.size == "large":
        with locks.held(options.output_dir):
            summary = {**identity(options), **large_corpus.write(options)}
        files.write_json(os.path.join(options.output_dir, SUMMARY), summary)
        return summary
    from pydoc_data import topics  # of the language reference

    builder = CorpusBuilder(options)
    for _, text in sorted(topics.topics.items()):
        builder.add_document(builder.fresh(docstrings.clean(text)))
    modules = list(source_modules())
    for label, module, path in tqdm(
        modules, desc="reading sources", unit="file", mininterval=1.0
    ):
        builder.add_module(label, module, docstrings.docstrings(path))

    folder = options.output_dir
    outputs = {"pretrain.txt": builder.pretraining_text()}
    for split in ("train", "dev"):
        rows = builder.classification_rows(split)
        outputs[f"classification/{split}.tsv"] = "text\tlabel\n" + "".join(
            f"{text}\t{label}\n" for text, label in rows
        )
    summary = {**identity(options), "files": {}}
    for name, text in outputs.items():
        files.write_text(os.path.join(folder, name), text)
        summary["files"][name] = {
            "bytes": len(text.encode()),
            "lines": text.count("\n"),
            "sha256": hashlib.sha256(text.encode()).hexdigest(),
        }
    files.write_json(os.path.join(folder, SUMMARY), summary)
    return summary


def identity(options: DemoCorpusOptions) -> dict:
    """What the corpus is a function of."""
    if options.size == "large":
        return large_corpus.identity(options)
    return {
        "versions": {"python": platform.python_version()}
        | {d: importlib.metadata.version(d) for d in PACKAGES.values()},
        "max_megabytes": options.max_megabytes,
        "examples_per_class": options.examples_per_class,
    }


def finished(options: DemoCorpusOptions) -> dict | None:
    """`corpus.json` of a finished, unchanged corpus; None if there is none.

    Raises UserError: the folder holds a corpus of other versions or options.
    """
    path = os.path.join(options.output_dir, SUMMARY)
    if not files.exists(path):
        return None
    summary = files.read_json_object(path, "give another --output_dir")
    if not isinstance(summary.get("files"), dict):
        raise UserError(f"{path}: wanted a list of files; remove that folder")
    wanted = identity(options)
    if "size" in summary and options.size == "small":
        wanted["size"] = options.size  # the file of a small one has no size
    other = {k: summary.get(k) for k in wanted if summary.get(k) != wanted[k]}
    if other:
        raise UserError(
            f"{path} is a corpus of other settings: wanted "
            f"{ {k: wanted[k] for k in other} }, found {other}; give another "
            "--output_dir or remove that folder"
        )
    for name, about in summary["files"].items():
        target = os.path.join(options.output_dir, name)
        if (
            not files.exists(target)
            or files.sha256_of_file(target) != about["sha256"]
        ):
            return None
    print(f"{path}: already finished, nothing to do")
    return summary


def main() -> None:
    """Runs the command."""
    options = flag_values.build(DemoCorpusOptions)
    flag_values.check_followed("size", options.size, _FOLLOWERS)
    summary = write_corpus(options)
    if options.size == "large":
        print(*large_corpus.lines(summary), sep="\n")
    for name, about in summary["files"].items():
        print(
            f"{os.path.join(options.output_dir, name)}: "
            f"{about['bytes'] / 1e6:.2f} MB, {about['lines']} lines"
        )
    text = os.path.join(options.output_dir, "pretrain.txt")
    small = SMALL_VOCABULARY if options.size == "small" else None
    print(next_step.vocabulary(text, size=small))


if __name__ == "__main__":
    flag_values.define(DemoCorpusOptions)
    app.run(main)
