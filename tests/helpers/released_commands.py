"""Commands on the folders of `tests.helpers.released_folders`, each as its arguments.

A command's function takes (folder, place, before): the released folder, where
the command writes and finds the data, and the place of the command in `AFTER`
that has run before it. `Runs` keeps what each has left.
"""

import json
import shutil

from common.vocabularies.released_vocabulary import is_released
from data.text.opening import open_tokenizer
from tests.helpers import commands, released_folders
from tests.helpers.released_folders import (
    CONTEXT,
    QUESTION,
    TAGS,
    TEXTS,
    tokenizer_file,
)
from tests.helpers.runs import builds

_ASKED = ("--text=the red river",)


def _tuned(script, *flags):
    def arguments(folder, place, before):
        return [
            script,
            f"--init_checkpoint={folder}",
            f"--model_dir={place}/out",
            "--do_train",
            "--do_eval",
            "--train_steps=2",
            "--train_batch_size=4",
            "--eval_batch_size=4",
            "--warmup_steps=0",
            "--iterations=1",
            "--progress=none",
            *(flag.format(place=place) for flag in flags),
        ]

    return arguments


def _ranked(ranker, *flags):
    """The defaults of the texts' lengths are left alone."""
    return lambda folder, place, before: [
        "run_ranking.py",
        f"--topics_file={place}/topics.tsv",
        f"--documents={place}/documents.jsonl",
        f"--qrels_file={place}/qrels",
        f"--init_checkpoint={folder}",
        f"--model_dir={place}/out",
        f"--ranker={ranker}",
        "--seeds=1",
        "--depth=6",
        "--folds=3",
        "--progress=none",
        *flags,
    ]


def _build(folder, place):
    """Records of the folder's SentencePiece file, else of XLNet's pieces."""
    if not is_released(str(tokenizer_file(folder))):
        shutil.copy(folder / "spiece.model", place)
    builds.run(place, seq_len=24, reuse_len=8, segments_per_lane=4)


def _pretrained(folder, place, before):
    _build(folder, place)
    return [
        "run_pretrain.py",
        f"--data_dir={place}/out",
        f"--init_checkpoint={folder}",
        f"--model_dir={place}/model",
        "--train_steps=2",
        "--train_batch_size=2",
        "--warmup_steps=0",
        "--iterations=1",
        "--progress=none",
    ]


def _streams(folder, place):
    return [
        "-m",
        "data.create_lm_data",
        f"--train_glob={place}/corpus.txt",
        f"--vocab_file={tokenizer_file(folder)}",
        f"--output_dir={place}/streams",
        "--unit=piece",
    ]


def _asked(module, *flags):
    return lambda folder, place, before: [
        *("-m", module, f"--checkpoint={folder}", *flags)
    ]


def _exported(task, *flags):
    return lambda folder, place, before: [
        *("-m", "serving.export", f"--model_dir={folder}", f"--task={task}"),
        "--max_seq_length=24",
        f"--output_dir={place}/export",
        "--nocheck",
        *flags,
    ]


def _converted(to_format):
    def arguments(folder, place, before):
        tuned = before is not None
        return [
            *("-m", "modeling.convert_checkpoint"),
            f"--from_format={'native' if tuned else 'hf'}",
            f"--input={before / 'out' if tuned else folder}",
            f"--to_format={to_format}",
            f"--output={place}/new" + "/model" * (to_format == "tf1"),
        ]

    return arguments


def _records(folder, place, before):
    builds.write_corpus(place / "corpus.txt")
    return [
        *("-m", "data.create_pretraining_data"),
        f"--input_glob={place}/corpus.txt",
        f"--spiece_model_file={tokenizer_file(folder)}",
        f"--output_dir={place}/records",
        *("--seq_len=24", "--reuse_len=8", "--segments_per_lane=4"),
    ]


def _lm_records(folder, place, before):
    builds.write_corpus(place / "corpus.txt")
    return _streams(folder, place)


def _inspected(folder, place, before):
    _build(folder, place)
    return [
        *("-m", "data.inspect", f"--data_dir={place}/out", "--mode=record"),
        f"--spiece_model_file={tokenizer_file(folder)}",
    ]


def _explained(folder, place, before):
    path = str(tokenizer_file(folder))
    count = len(open_tokenizer(path).encode("a green tower"))
    return [
        *("-m", "modeling.explain_permutation", "--text=a green tower"),
        *("--split=pieces", f"--spiece_model_file={path}"),
        f"--order={','.join(str(i) for i in range(count, 0, -1))}",
    ]


def _language_model(folder, place, before):
    for name in ("train", "valid"):
        (place / f"{name}.txt").write_text("the red river\n" * 30)
    from data.language_modeling import build
    from data.language_modeling.options import LMDataOptions

    build.build(
        LMDataOptions(
            output_dir=str(place / "streams"),
            train_glob=str(place / "train.txt"),
            valid_glob=str(place / "valid.txt"),
            unit="byte",
        ),
        log=lambda line: None,
    )
    return [
        *("run_lm.py", f"--data_dir={place}/streams"),
        f"--init_checkpoint={folder}",
        f"--model_dir={place}/model",
        *("--train_steps=2", "--train_batch_size=2", "--seq_len=8"),
        *("--warmup_steps=0", "--progress=none"),
    ]


def _averaged(folder, place, before):
    return [
        *("-m", "modeling.average_checkpoints", "--last=2"),
        f"--model_dir={before}/out",
        f"--output={place}/mean",
    ]


def _export_of(home):
    """The SavedModel of a run; what it answers in a fresh process is not asked.

    Args:
      home: of the run's folder, below its place.
    """
    return lambda folder, place, before: [
        *("-m", "serving.export", f"--model_dir={before / home}"),
        *(f"--output_dir={place}/export", "--nocheck"),
    ]


def _predicted(module, flag, rows):
    """Answers of an export to the rows that a function makes of the place."""

    def arguments(folder, place, before):
        lines = "".join(f"{json.dumps(row)}\n" for row in rows(place))
        (place / "rows.jsonl").write_text(lines)
        found = [before / "export" / "1"]
        if flag == "ensemble":  # the model and its copy
            shutil.copytree(before / "export", place / "copy")
            found.append(place / "copy")
        return [
            *("-m", module, f"--{flag}={','.join(map(str, found))}"),
            f"--input_file={place}/rows.jsonl",
            f"--output_file={place}/answers.jsonl",
        ]

    return arguments


def _texts(place):
    return [{"text": text} for text in TEXTS * 2]


def _choices(place):
    value = json.loads((place / "race/dev/middle/1.txt").read_text())
    asked = zip(value["questions"], value["options"], strict=True)
    return [
        {"passage": value["article"], "question": question, "options": options}
        for question, options in asked
    ]


def _pairs(place):
    """Every query with all documents, in the order of their files."""
    lines = (place / "documents.jsonl").read_text().splitlines()
    documents = [json.loads(line)["text"] for line in lines]
    topics = (place / "topics.tsv").read_text().splitlines()
    return [
        {"query": topic.split("\t")[1], "documents": documents}
        for topic in topics
    ]


def _served(folder, place, before):
    return [
        *("-m", "tests.helpers.served_once", f"{before}/export"),
        json.dumps({"instances": [{"text": text} for text in TEXTS]}),
    ]


_PREDICT = ("serving.predict", "saved_model_dir")
TAGGED = " ".join(word for word, _ in TAGS)
COMMANDS = {
    "classify": _tuned(
        "run_classifier.py",
        "--task_name=tsv",
        "--data_dir={place}",
        "--max_seq_length=24",
        "--save_steps=1",
        "--do_predict",
    ),
    "tag": _tuned(
        "run_tagger.py",
        "--data_dir={place}",
        "--max_seq_length=24",
        "--do_predict",
    ),
    "squad": _tuned(
        "run_squad.py",
        "--train_file={place}/squad.json",
        "--predict_file={place}/squad.json",
        "--max_seq_length=48",
        "--max_query_length=10",
        "--doc_stride=16",
        "--do_predict",
    ),
    "race": _tuned(
        "run_race.py",
        "--data_dir={place}/race",
        "--max_seq_length=40",
        "--max_qa_length=12",
        "--do_predict",
    ),
    "multitask": _tuned(
        "run_multitask.py",
        "--data_dir={place}/glue",
        "--task_name=sst-2,cola",
        "--max_seq_length=24",
    ),
    "rank cosine": _ranked("cosine"),
    "rank knrm": _ranked("knrm", "--epochs=1", "--nocontrol"),
    "rank cross": _ranked(
        "cross_encoder",
        "--train_steps=2",
        "--train_batch_size=4",
        "--warmup_steps=0",
        "--max_seq_length=24",
    ),
    "pretrain": _pretrained,
    "lm": _language_model,
    "embed": _asked("serving.embed", *_ASKED, "--pooling=mean"),
    "fill": _asked("serving.fill_mask", "--text=the <mask> river"),
    "score": _asked("serving.score", *_ASKED),
    "generate": _asked(
        "serving.generate", "--prompt=the red", "--max_new_tokens=3"
    ),
    "export": lambda folder, place, before: [
        *("-m", "serving.export", f"--model_dir={folder}"),
        f"--output_dir={place}/export",
    ],
    "export lm": _exported("lm"),
    "export embedding": _exported("embedding", "--pooling=mean"),
    "to native": _converted("native"),
    "to tf1": _converted("tf1"),
    "to hf": _converted("hf"),
    "records": _records,
    "lm records": _lm_records,
    "inspect": _inspected,
    "explain": _explained,
    "average": _averaged,
    "tuned to hf": _converted("hf"),
    "export classes": _export_of("out"),
    "export tags": _export_of("out"),
    "export spans": _export_of("out"),
    "export choices": _export_of("out"),
    "export ranker": _export_of("out/cross_encoder/fold0-seed0"),
    "predict classes": _predicted(*_PREDICT, _texts),
    "predict tags": _predicted(*_PREDICT, lambda place: [{"text": TAGGED}]),
    "predict spans": _predicted(
        *_PREDICT,
        lambda place: [{"question": QUESTION, "paragraph": CONTEXT}],
    ),
    "predict choices": _predicted(*_PREDICT, _choices),
    "predict ranker": _predicted(*_PREDICT, _pairs),
    "ensemble": _predicted("serving.ensemble", "ensemble", _texts),
    "serve": _served,
}
# Command -> the one whose files it reads.
AFTER = {
    "average": "classify",
    "tuned to hf": "classify",
    "export classes": "classify",
    "export tags": "tag",
    "export spans": "squad",
    "export choices": "race",
    "export ranker": "rank cross",
    "predict classes": "export classes",
    "predict tags": "export tags",
    "predict spans": "export spans",
    "predict choices": "export choices",
    "predict ranker": "export ranker",
    "ensemble": "export classes",
    "serve": "export classes",
}


class Runs:
    """Runs each command on each kind of folder at most once.

    Args:
      make_place: name -> a new folder.
    """

    def __init__(self, make_place):
        self._make_place = make_place
        self._folders, self._done = {}, {}

    def folder(self, kind: str):
        """The released folder of a kind."""
        if kind not in self._folders:
            place = self._make_place("released")
            self._folders[kind] = released_folders.write(kind, place)
        return self._folders[kind]

    def __call__(self, command: str, kind: str):
        """(place, `subprocess.CompletedProcess`) of a command."""
        if (command, kind) not in self._done:
            before = None
            if command in AFTER:
                before, done = self(AFTER[command], kind)
                assert done.returncode == 0, done.stderr[-3000:]
            place = self._make_place("place")
            released_folders.write_data(place)
            arguments = COMMANDS[command](self.folder(kind), place, before)
            done = commands.run(*arguments)
            self._done[command, kind] = place, done
        return self._done[command, kind]
