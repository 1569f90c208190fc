"""Commands, what they read and write, and what can be wrong with it.

A new command needs a row in `COMMANDS`; every fault of its kinds is tried on it.
"""

import dataclasses

from tools.faults import damage
from tools.faults.world import SIZES, TRAIN

# What is left of `run_*.py --model_dir`: anything but half files.
OUTPUT = "output"


@dataclasses.dataclass(frozen=True)
class Command:
    """A way to start a command.

    Attributes:
      arguments: `{input}` is the path of an input, `{out}` a folder to write.
      inputs: name in `world.RECIPES` -> its kind in `damage.KINDS`; "" =
        needed and left alone.
      writes: it writes below `{out}`.
      locks: the part of it that one process has for itself; a folder, or a
        file, which has an ending.
      more: behind the module's name in the table, where it has several rows.
    """

    module: str
    arguments: tuple[str, ...]
    inputs: dict[str, str]
    writes: bool = True
    locks: str = ""
    more: str = ""

    @property
    def name(self) -> str:
        """As in the table."""
        return self.module.removesuffix(".__main__") + self.more


_SPIECE = "--spiece_model_file={spiece}"
_TUNE = (
    *("--do_train", _SPIECE, "--model_config_path={config}"),
    *("--max_seq_length=24", "--model_dir={out}/model", *TRAIN),
)
_MORE = (*TRAIN, "--train_steps=3")  # than the two of the world
_LM = {"lm": "weights"}
_MASKED = "--text=abc <mask>"
_RANK = (
    *("--topics_file={ranking}/topics.tsv", "--qrels_file={ranking}/qrels"),
    *("--documents={ranking}/documents.jsonl", "--depth=9", "--folds=3"),
)


def _evaluated(command: str, model: str, source: str, *more: str) -> Command:
    return Command(
        command,
        (f"--model_dir={{{model}}}", "--do_eval", *more),
        {source: "", model: "model"},
        writes=False,
        more=", evaluation",
    )


def _asked(
    module: str, text: str, model: str = "lm", kind: str = "weights", more=""
) -> Command:
    arguments = (f"--checkpoint={{{model}}}", text)
    return Command(module, arguments, {model: kind}, writes=False, more=more)


def _resumed(command: str, model: str, source: str, *more: str) -> Command:
    return Command(
        command,
        (f"--model_dir={{{model}}}", "--do_train", "--max_seq_length=24")
        + (_SPIECE, "--model_config_path={config}", *_MORE, *more),
        {source: "", "spiece": "", "config": "", model: "steps"},
        writes=False,
        more=", resumed",
    )


COMMANDS = (
    Command(
        "data.create_lm_data",
        ("--train_glob={text}", "--output_dir={out}/streams"),
        {"text": "text"},
        locks="streams",
    ),
    Command(
        "run_pretrain",
        ("--data_dir={records}", "--model_dir={out}/model", "--mode=train")
        + (*SIZES, *TRAIN, "--mem_len=12", _SPIECE),
        {"records": "records", "spiece": "spiece"},
        locks="model",
    ),
    Command(
        "run_pretrain",
        ("--data_dir={records}", "--model_dir={lm}", "--mode=train")
        + (*SIZES, *_MORE, "--mem_len=12"),
        {"records": "", "lm": "run"},
        writes=False,
        more=", resumed",
    ),
    Command(
        "run_lm",
        ("--data_dir={streams}", "--model_dir={out}/model", "--seq_len=12")
        + (*SIZES, *TRAIN, "--mem_len=12"),
        {"streams": "records"},
        locks="model",
    ),
    Command(
        "run_lm",
        ("--data_dir={streams}", "--model_dir={causal_lm}", "--seq_len=12")
        + (*SIZES, *_MORE, "--mem_len=12"),
        {"streams": "", "causal_lm": "steps"},
        writes=False,
        more=", resumed",
    ),
    Command(
        "run_lm",
        ("--data_dir={streams}", "--model_dir={causal_lm}", "--mode=eval")
        + ("--seq_len=12", "--eval_steps=1"),
        {"streams": "", "causal_lm": "weights"},
        writes=False,
        more=", evaluation",
    ),
    Command(
        "run_classifier",
        ("--task_name=tsv", "--data_dir={task}", *_TUNE),
        {"task": "table", "spiece": "spiece", "config": "config"},
        locks="model",
    ),
    Command(
        "run_classifier",
        ("--task_name=tsv", "--data_dir={task}", "--init_checkpoint={released}")
        + ("--do_train", "--model_dir={out}/model", "--max_seq_length=24")
        + (*TRAIN, "--warmup_steps=0"),
        {"task": "", "released": "released"},
        writes=False,
        more=", released",
    ),
    _resumed(
        "run_classifier",
        "classifier",
        "task",
        "--task_name=tsv",
        "--data_dir={task}",
    ),
    _evaluated(
        "run_classifier",
        "classifier",
        "task",
        "--task_name=tsv",
        "--data_dir={task}",
    ),
    Command(
        "run_squad",
        ("--train_file={squad_file}", "--max_query_length=4")
        + ("--doc_stride=8", *_TUNE),
        {"squad_file": "json", "spiece": "", "config": "config"},
        locks="model",
    ),
    _resumed(
        "run_squad",
        "squad",
        "squad_file",
        "--train_file={squad_file}",
        "--max_query_length=4",
        "--doc_stride=8",
    ),
    _evaluated(
        "run_squad", "squad", "squad_file", "--predict_file={squad_file}"
    ),
    Command(
        "run_race",
        ("--data_dir={race_data}", *_TUNE),
        {"race_data": "race", "spiece": "", "config": "config"},
        locks="model",
    ),
    _resumed(
        "run_race",
        "race",
        "race_data",
        "--data_dir={race_data}",
    ),
    _evaluated("run_race", "race", "race_data", "--data_dir={race_data}"),
    Command(
        "run_tagger",
        ("--train_file={tags}", "--doc_stride=8", *_TUNE),
        {"tags": "rows", "spiece": "", "config": "config"},
        locks="model",
    ),
    _resumed(
        "run_tagger",
        "tagger",
        "tags",
        "--train_file={tags}",
        "--doc_stride=8",
    ),
    _evaluated("run_tagger", "tagger", "tags", "--eval_file={tags}"),
    Command(
        "run_multitask",
        ("--task_name=tsv", "--data_dir={task}", *_TUNE),
        {"task": "table", "spiece": "", "config": "config"},
        locks="model",
    ),
    _resumed(
        "run_multitask",
        "multitask",
        "task",
        "--task_name=tsv",
        "--data_dir={task}",
    ),
    Command(
        "run_ranking",
        ("--ranker=bm25", "--model_dir={out}/model", "--progress=none", *_RANK),
        {"ranking": "ranking"},
        locks="model",
    ),
    Command(
        "run_ranking",
        ("--ranker=cross_encoder", "--max_query_length=5", *_RANK, *_TUNE),
        {"ranking": "ranking", "spiece": "spiece", "config": "config"},
        locks="model",
        more=", cross-encoder",
    ),
    Command(
        "data.convert_newsqa",
        ("--input={newsqa}", "--output={out}/a.json"),
        {"newsqa": "json"},
    ),
    Command(
        "data.convert_task",
        ("--task_name=tsv", "--data_dir={task}", "--output_file={out}/a.txt"),
        {"task": "table"},
    ),
    Command(
        "modeling.average_checkpoints",
        ("--model_dir={lm}", "--last=1", "--output={out}/average"),
        _LM,
    ),
    Command(
        "training.compare",
        ("--model_dirs={lm},{classifier}", "--output_dir={out}/compare"),
        {"lm": "record", "classifier": ""},
    ),
    Command(
        "data.convert_corpus",
        ("--layout=book", "--input_glob={text}", "--output_file={out}/a.txt"),
        {"text": "text"},
    ),
    Command(
        "data.create_pretraining_data",
        ("--input_glob={jsonl}", _SPIECE, "--output_dir={out}/records")
        + ("--seq_len=24", "--reuse_len=12"),
        {"jsonl": "jsonl", "spiece": "spiece"},
        locks="records",
    ),
    Command(
        "data.demo_corpus",
        ("--output_dir={out}/demo", "--max_megabytes=0.2")
        + ("--examples_per_class=2",),
        {},
    ),
    Command(
        "data.filter_corpus",
        ("--input_glob={jsonl}", "--output_file={out}/a.txt"),
        {"jsonl": "jsonl"},
    ),
    Command(
        "data.inspect",
        ("--data_dir={records}",),
        {"records": "records"},
        writes=False,
    ),
    Command(
        "data.train_sentencepiece",
        ("--input_glob={text}", "--model_prefix={out}/s", "--vocab_size=200"),
        {"text": "text"},
    ),
    Command(
        "modeling.convert_checkpoint",
        ("--input={lm}", "--output={out}/hf", "--from_format=native")
        + ("--to_format=hf",),
        _LM,
    ),
    Command(
        "modeling.convert_checkpoint",
        ("--input={released}", "--output={out}/native", "--from_format=hf")
        + ("--to_format=native",),
        {"released": "released"},
        writes=False,
        more=", released",
    ),
    Command(
        "modeling.explain_permutation",
        ("--text=abc", "--order=1", "--split=words", "--output={out}/a.png"),
        {},
    ),
    Command(
        "modeling.explain_permutation",
        ("--text=abc de", "--order=1", "--split=pieces", _SPIECE),
        {"spiece": "spiece"},
        writes=False,
        more=", pieces",
    ),
    Command(
        "serving.embed",
        ("--checkpoint={lm}", "--text=" + "abc de " * 99, "--pooling=none")
        + ("--output_file={out}/a.csv",),
        _LM,
    ),
    _asked(
        "serving.embed", "--text=abc", "released", "sentences", ", sentences"
    ),
    Command(
        "serving.ensemble",
        ("--ensemble={export}", "--input_file={rows}")
        + ("--output_file={out}/a.jsonl",),
        {"export": "", "rows": "rows"},
        locks="a.jsonl",
    ),
    Command(
        "serving.export.__main__",
        ("--model_dir={classifier}", "--output_dir={out}/x", "--nocheck"),
        {"classifier": "model"},
        locks="x",
    ),
    _asked("serving.fill_mask", _MASKED),
    _asked("serving.fill_mask", _MASKED, "released", "released", ", released"),
    _asked("serving.generate", "--prompt=abc"),
    Command(
        "serving.predict",
        ("--saved_model_dir={export}", "--input_file={rows}")
        + ("--output_file={out}/a.jsonl",),
        {"export": "saved_model", "rows": "rows"},
        locks="a.jsonl",
    ),
    _asked("serving.score", "--text=abc"),
    Command(
        "serving.serve",
        ("--saved_model_dir={export}", "--port=0"),
        {"export": "served_model"},
        writes=False,
    ),
)
# Faults of what is written; see `server`.
OF_OUTPUT = ("full disk", "nearly full disk", "read-only", "a file in its way")
# Of the lock beside it.
IN_USE, PLANTED = "in use by another process", "a planted link"
INTERRUPTED = "Ctrl-C"


@dataclasses.dataclass(frozen=True)
class Cell:
    """One fault on one command.

    Attributes:
      command: name of a `Command`.
      input: which is damaged; `OUTPUT`, or "" for `INTERRUPTED`.
      fault: name in `damage.KINDS[kind]`, `OF_OUTPUT`, `IN_USE`, `PLANTED`
        or `INTERRUPTED`.
    """

    command: str
    input: str
    fault: str

    def __str__(self) -> str:
        return "-".join(filter(None, (self.command, self.input, self.fault)))


def cells() -> list[Cell]:
    """Every fault that applies, on every command."""
    table = []
    for command in COMMANDS:
        for name, kind in command.inputs.items():
            faults = damage.KINDS[kind] if kind else ()
            table += [Cell(command.name, name, fault) for fault in faults]
        faults = OF_OUTPUT * command.writes
        faults += (IN_USE, PLANTED) * bool(command.locks)
        table += [Cell(command.name, OUTPUT, fault) for fault in faults]
        table.append(Cell(command.name, "", INTERRUPTED))
    return table


def command_named(name: str) -> Command:
    """The row."""
    return next(c for c in COMMANDS if c.name == name)
