"""Commands of the README, the tutorials and the guides: how each is checked.

`guide_commands.toml` says it. What is run is run in a folder of its page, where
`World` has put the files that the page speaks of.
"""

import json
import pathlib
import shlex
import shutil
import tomllib

from tests.conftest import ROOT
from tests.helpers import commands, pages, released_folders
from tests.helpers.runs import builds

with open(ROOT / "tests/scripts/pages/guide_commands.toml", "rb") as _file:
    CHECKS = tomllib.load(_file)
# `python -m X` in a folder of its own, with the project's modules.
_MODULE = """
import runpy, sys
sys.path.insert(0, {root!r})
sys.argv = {arguments!r}
runpy.run_module({name!r}, run_name="__main__", alter_sys=True)
"""
_SHORT = (
    "--max_seq_length=24 --train_steps=2 --train_batch_size=4 --warmup_steps=0 "
    "--iterations=1 --progress=none --do_train --do_eval"
).split()


def listed() -> list[pages.Command]:
    """Of README.md, the tutorials and the guides, without the notebooks.

    A program of Python without arguments is a name in a sentence.
    """
    found = []
    for path in pages.pages():
        name = path.relative_to(ROOT).as_posix()
        if name == "README.md" or (
            name.startswith(("docs/tutorials/", "docs/guides/"))
            and "notebooks" not in name
        ):
            found += pages.commands_of(path)
    return [c for c in found if c.words[0] != "python" or c.arguments]


def check_of(command: pages.Command) -> tuple[str, str]:
    """(kind, what): "run" flags, "tested" a test, "not_run" a reason.

    "no_command" is what looks like one and has nothing to run.

    Raises:
      KeyError: nothing is said about it.
    """
    runs = CHECKS["run"].get(command.page.removeprefix("docs/"), {})
    for kind, table in (
        ("run", runs),
        ("tested", CHECKS["tested"]),
        ("no_command", CHECKS["no_command"]),
        ("not_run", CHECKS["not_run"]),
    ):
        for text, what in table.items():
            if text in command.text:
                return kind, what
    raise KeyError(f"{command.page}: {command.text}")


def run(*words: str, cwd: pathlib.Path):
    """`python WORDS` of the project in a folder."""
    if words[0] == "-m":
        code = _MODULE.format(
            root=str(ROOT), name=words[1], arguments=list(words[1:])
        )
        return commands.run("-c", code, cwd=cwd)
    return commands.run(ROOT / words[0], *words[1:], cwd=cwd)


class World:
    """Small data and models of every kind, under the names that pages use.

    Args:
      place: an empty folder.
    """

    def __init__(self, place: pathlib.Path):
        self._data = place / "data"
        self._data.mkdir()
        released_folders.write_data(self._data)
        self._models = {}
        for name, kind in (("xlnet", "xlnet spiece"), ("bert", "bert vocab")):
            (place / name).mkdir()
            self._models[name] = released_folders.write(kind, place / name)
        self._text = builds.write_corpus(place / "text.txt")

    def prepare(self, page: str, folder: pathlib.Path) -> None:
        """Writes what a page's commands read.

        Args:
          page: "guides/encoders.md".
          folder: an empty one.
        """
        xlnet = self._models["xlnet"]
        for name in ("PRETRAINED", "DIR"):
            (folder / name).symlink_to(xlnet)
        shutil.copy(self._text, folder / "text.txt")
        shutil.copy(xlnet / "spiece.model", folder)
        name = pathlib.Path(page).stem
        writer = getattr(self, f"_{name}", None)
        if writer:
            writer(folder)

    def _corpora(self, folder):
        (folder / "spiece.model").unlink()  # its command makes one
        (folder / "wikitext-103").mkdir()
        (folder / "novels").mkdir()
        text = pathlib.Path(self._text).read_text()
        title = " \n = Mill = \n \n"
        wiki = title + text.replace("\n\n", "\n" + title)
        (folder / "wikitext-103/wiki.train.tokens").write_text(wiki)
        (folder / "novels/a.txt").write_text(text)

    def _bert(self, folder):
        """Of the recipes of all encoders."""
        self._corpora(folder)
        text = folder / "wikitext-103/wiki.train.tokens"
        text.rename(folder / "wiki.train.tokens")
        (folder / "GLUE").symlink_to(self._data / "glue")

    _xlnet = _albert = _modernbert = _bert

    def _transformer_xl(self, folder):
        (folder / "wikitext-2").mkdir()
        for name in ("train", "valid"):
            shutil.copy(self._text, folder / f"wikitext-2/{name}.txt")

    def _embeddings(self, folder):
        (folder / "lines.txt").write_text("the red river\na tower\n")

    def _encoders(self, folder):
        (folder / "BERT_FOLDER").symlink_to(self._models["bert"])
        (folder / "task").mkdir()
        for split in ("train", "dev"):
            shutil.copy(self._data / f"{split}.tsv", folder / "task")

    def _language_modeling(self, folder):
        builds.put_demo_corpus(folder / "OUT/corpus")
        for name in ("train", "valid"):
            shutil.copy(self._text, folder / f"OUT/{name}.txt")

    def _pretraining(self, folder):
        builds.put_demo_corpus(folder / "OUT/corpus")
        for split in ("train", "test"):
            for label in ("pos", "neg"):
                reviews = folder / "aclImdb" / split / label
                reviews.mkdir(parents=True)
                for i in range(8):
                    text = "the tower turns. a lamp stands in the house. " * 3
                    (reviews / f"{i}_1.txt").write_text(f"{label} {i}. {text}")

    def _classification(self, folder):
        (folder / "GLUE").symlink_to(self._data / "glue")
        self._write_csv(folder)

    def _resume(self, folder):
        """Records, and a run of half the steps."""
        builds.run(folder, "RECORDS", seq_len=24, reuse_len=8)
        words = "--data_dir=RECORDS --model_dir=OUT --train_steps=2 "
        words += "--train_batch_size=2 --warmup_steps=0 --iterations=1"
        words += " --init_checkpoint=PRETRAINED"
        done = run("run_pretrain.py", *words.split(), cwd=folder)
        assert done.returncode == 0, done.stderr[-3000:]

    def _squad(self, folder):
        for name in ("train-v2.0", "dev-v2.0"):
            shutil.copy(self._data / "squad.json", folder / f"{name}.json")

    def _race(self, folder):
        (folder / "RACE").symlink_to(self._data / "race")

    def _tagging(self, folder):
        (folder / "NER").mkdir()
        for split in ("train", "dev", "test"):
            shutil.copy(self._data / f"{split}.conll", folder / "NER")
        shutil.copy(self._text, folder / "wt2.txt")
        config = json.loads((self._models["xlnet"] / "config.json").read_text())
        shutil.copy(self._data / "config.json", folder)
        text = json.loads((folder / "config.json").read_text())
        text["n_token"] = config["vocab_size"]
        (folder / "config.json").write_text(json.dumps(text))
        for seed in range(2):
            self._tune(folder, f"OUT/seed_{seed}", "NER", "run_tagger.py")

    def _training(self, folder):
        (folder / "GLUE").symlink_to(self._data / "glue")
        names = [*(f"OUT/seed_{i}" for i in range(3)), "OUT/a", "OUT/b"]
        self._tune(folder, names[0], "GLUE", "run_classifier.py", "sst-2")
        for name in names[1:]:
            shutil.copytree(folder / names[0], folder / name)

    def _export(self, folder):
        (folder / "DIR").unlink()
        self._tune(folder, "DIR", str(self._data), "run_classifier.py", "tsv")

    def _shell(self, folder):
        (folder / "DIR").unlink()
        words = ("run_classifier.py", "tsv", "--do_export")
        self._tune(folder, "DIR", str(self._data), *words)
        rows = [json.dumps({"text": text}) for text in ("the red river", "a")]
        (folder / "rows.jsonl").write_text("\n".join(rows) + "\n")
        for name in "AB":
            (folder / name).symlink_to(folder / "DIR")

    def _write_csv(self, folder):
        (folder / "MY_DATA").mkdir()
        for split in ("train", "dev"):
            rows = [f"the red river {i},{i % 2}" for i in range(8)]
            text = "\n".join(["text,label", *rows]) + "\n"
            (folder / f"MY_DATA/{split}.csv").write_text(text)

    def _first_model(self, folder):
        self._write_csv(folder)
        (folder / "quickstart_output").mkdir()
        (folder / "quickstart_output/pretrain").symlink_to(
            self._models["xlnet"]
        )
        home = "quickstart_output/classifier"
        words = ("run_classifier.py", "csv", "--do_export")
        self._tune(folder, home, "MY_DATA", *words)

    def _tune(self, folder, model_dir, data, script, task=None, *more):
        """A trained model of two steps."""
        words = [script, f"--data_dir={data}", f"--model_dir={model_dir}"]
        words += ["--init_checkpoint=PRETRAINED", *_SHORT, *more]
        if task:
            words.append(f"--task_name={task}")
        done = run(*words, cwd=folder)
        assert done.returncode == 0, done.stderr[-3000:]


def shortened(command: pages.Command, more: str) -> list[str]:
    """The words after `python`, with flags at the end."""
    return [*command.words[1:], *shlex.split(more)]
