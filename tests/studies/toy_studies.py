"""Options of small studies."""

from studies.kinds.registry import load
from studies.runner import study_file
from studies.runner.study_commands import Command
from studies.runner.study_file import ResultColumn, RowOptions, StudyOptions
from tests.conftest import ROOT

PLACES = {name: name.upper() for name in ("out", "data", "text", "start")}

# Leaves what a command leaves; its numbers are a function of its flags.
STUB = """
import json, os, sys, time, zlib
given = dict(a[2:].split("=", 1) for a in sys.argv[1:] if "=" in a)
if given.get("objective") == "wrong":
    sys.exit("no such objective")
if "output_dir" in given:
    home, name = given["output_dir"], "manifest.json"
    value = {"kind": "stub"}
else:
    home, name = given["model_dir"], "eval.json"
    start = given.pop("init_checkpoint", home).split("/")[-2]  # a-0
    key = {k: v for k, v in given.items() if k[-3:] != "dir"}
    key = json.dumps([start, sorted(key.items())])
    value = {"accuracy": zlib.crc32(key.encode()) % 1000 / 1000}
os.makedirs(home, exist_ok=True)
time.sleep(float(os.environ.get("STUB_SECONDS", 0)))
with open(os.path.join(home, name), "w") as f:
    f.write(json.dumps(value))
"""


OPTIONS = """
reference = "b"
figure_base = "a"
pretrain_seeds = 2
finetune_seeds = 3
speed_steps = 1
records = { command = "STUB" }
pretrain = { command = "STUB", train_steps = 9, only_b = 1 }
tasks.one = { command = "STUB", train_steps = 5 }
tasks.two = { command = "STUB", train_steps = 4 }
columns = [
  { name = "loss", file = "eval.json", metric = "accuracy", compare = false },
  { name = "one", of = "one", file = "eval.json", metric = "accuracy" },
  { name = "two", of = "two", file = "eval.json", metric = "accuracy", scale = 100.0, digits = 1 },
]
rows = [
  { name = "a first", drop = ["only_b"], paper = { one = 0.5 } },
  { name = "b second", records = { seq_len = 3 } },
  { name = "c wrong", pretrain = { objective = "wrong" } },
]
claims = [
  { text = "a is better", more = ["a"], less = ["b"], columns = ["one"] },
  { text = "c is better", more = ["c"], less = ["b"], columns = ["two"] },
]
"""


F1 = ResultColumn("f1", digits=1)


def report_options(names, claims=(), columns=(F1,)):
    """Rows and columns alone; the first row is the reference and the base."""
    first = names[0].split()[0]
    return StudyOptions(
        name="x",
        reference=first,
        figure_base=first,
        pretrain_seeds=1,
        finetune_seeds=1,
        records=Command((), {}),
        pretrain=Command((), {}),
        tasks={},
        rows=tuple(RowOptions(name) for name in names),
        columns=columns,
        claims=claims,
    )


def default_options():
    places = {"text": "t", "data": "d", "out": "o"}
    return load(str(ROOT / "studies" / "options" / "ablation.toml"), places)


# The studies that make text into records, without their corpus.
TINY = {
    "vocab_size = 8000": "vocab_size = 36",
    "seq_len = 128": "seq_len = 32",
    "reuse_len = 64": "reuse_len = 16",
    "dev_fraction = 0.03": "dev_fraction = 0.1",
    "n_layer = 3\nd_model = 192": "n_layer = 1\nd_model = 16",
    "n_head = 4\nd_head = 48\nd_inner = 768": "n_head = 2\nd_head = 8\nd_inner = 64",
    "train_steps = 900": "train_steps = 4",
    "iterations = 50": "iterations = 2",
    "speed_steps = 20": "speed_steps = 0",
    # The demo corpus is for those who have no text.
    '[corpus]\ncommand = "-m data.demo_corpus"\noutput_dir = "{out}/corpus"': "",
}


def tiny(name: str, changes: dict[str, str]) -> str:
    """The file of a study of the project, with smaller numbers."""
    with open(study_file.path_of(name), encoding="utf-8") as f:
        text = f.read()
    for old, new in changes.items():
        assert old in text, old
        text = text.replace(old, new)
    return text
