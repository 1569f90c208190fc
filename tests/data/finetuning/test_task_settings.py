"""Every option is recorded or named as not; every recorded one comes back."""

import dataclasses
import json
import pathlib
import subprocess
import sys

import pytest

from common.contract.task_spec import TaskSpec, find_folder
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from data.finetuning import options as task_options
from data.finetuning import task_settings
from data.finetuning.task_settings import (
    CLASSIFIER,
    RACE,
    SQUAD,
    TAGGER,
    THRESHOLD,
)
from training.finetuning.options import FinetuneOptions

ROOT = str(pathlib.Path(__file__).resolve().parents[3])
SOURCES = {
    CLASSIFIER: (
        task_options.FeatureOptions,
        FinetuneOptions,
        task_options.ClassifierDataOptions,
    ),
    SQUAD: (task_options.FeatureOptions, task_options.SquadDataOptions),
    RACE: (
        task_options.FeatureOptions,
        FinetuneOptions,
        task_options.RaceDataOptions,
    ),
    TAGGER: (task_options.FeatureOptions, task_options.TaggingDataOptions),
}
# A value of each setting that is not the flag's default.
OTHER = {
    "head": "multi_label",
    "labels": ("b", "a"),
    "max_seq_length": 64,
    "text": TextSettings(uncased=True),
    "summary_type": "mean",
    "use_summ_proj": False,
    "pooling": "original",
    "segment_recurrence": 2,
    "layout": "cls_first",
    "text_columns": ("question", "title"),
    "label_column": "kind",
    "has_header": False,
    "label_separator": ";",
    "allow_empty_text": True,
    "dev_fraction": 0.25,
    "dev_seed": 7,
    "start_n_top": 3,
    "end_n_top": 2,
    "max_query_length": 20,
    "doc_stride": 32,
    "max_answer_length": 9,
    "n_best_size": 3,
    "original_last_token_bug": True,
    "max_qa_length": 40,
    "accumulate_options": True,
    "text_column": 1,
    "tag_column": 2,
    "token_separator": "_",
    "ranking": True,
}
DEFAULT = {"max_seq_length": {CLASSIFIER: 128}, "head": "classification"}


# Options that task.json leaves out, and why.
_FILES = "which files are read"
_WORK = "how the work is done, without effect on the result"
_DO = "what is done"
NOT_RECORDED = {
    "spiece_model_file": "the file lies in the folder, its hash in task.json",
    "skip_bad_rows": "a file that is read may have others",
    "num_workers": _WORK,
    "cache_dir": _WORK,
    "length_buckets": _WORK,
    "pack": "the same numbers, in fewer rows",
    "static_shapes": _WORK,
    "task_name": "recorded by itself; other files may be read (csv, tsv)",
    "data_dir": _FILES,
    "eval_split": _FILES,
    "train_file": _FILES,
    "train_weights": _FILES,
    "eval_file": _FILES,
    "predict_file": _FILES,
    "high_only": _FILES,
    "middle_only": _FILES,
    THRESHOLD: "given for one run; the one that was found is recorded",
    "run": _DO,
    "do_train": _DO,
    "do_eval": _DO,
    "slice_by_length": _DO,
    "train_examples": "of a training; its data's hash is recorded",
    "do_predict": _DO,
    "do_export": _DO,
    "export_precision": "the export records it",
    "model_config_path": "the folder holds xlnet_config.json",
    "config_changes": "in the folder's xlnet_config.json",
    "recompute_layers": _WORK,
    "predict_dir": _FILES,
    "predict_ckpt": _FILES,
    "predict_batch_size": _WORK,
    "eval_all_ckpt": _DO,
    "export_dir": _FILES,
    "train_epochs": _DO,
    "best_metric": _DO,
    "class_weights": _DO,
    "label_smoothing": _DO,
    "init_head": _DO,
    "dry_run": _DO,
    "num_seeds": _DO,
    "ensemble": _FILES,
    "ensemble_weights": _FILES,
    "greedy": _DO,
    "label_threshold": "given for one run; the one that was found is recorded",
    "ranking_alpha": "of the loss",
    "ranking_beta": "of the loss",
}


def test_every_option_is_recorded_or_named():
    for command, sources in SOURCES.items():
        names = {f.name for s in sources for f in dataclasses.fields(s)}
        recorded = {s.name for s in task_settings.of_command(command)}
        assert names - recorded - set(NOT_RECORDED) == set(), command
        # Nothing is recorded that no option has.
        assert recorded - names == set(), command
    assert not set(NOT_RECORDED) & {s.name for s in task_settings.SETTINGS}


def make_spec(command, name=None):
    """task.json with defaults, one setting changed."""
    settings = task_settings.of_command(command)
    plain = {}
    for setting in settings:
        value = setting.kept.before
        if value is task_settings.UNKNOWN:
            value = {
                "max_seq_length": 128,
                "has_header": True,
                "label_column": "",
                "allow_empty_text": False,
            }.get(setting.name, ())
        plain[setting.name] = OTHER[name] if setting.name == name else value
    plain["text"] = OTHER["text"] if name == "text" else TextSettings()
    head = plain.pop("head", "span")
    head = head if isinstance(head, str) else "classification"
    labels = plain.pop("labels", ())
    return task_settings.make_spec(
        command, (), "task", head, "0" * 64, labels or ("a", "b"), **plain
    )


WALK = [
    (command, setting.name)
    for command in SOURCES
    for setting in task_settings.of_command(command)
]


@pytest.mark.parametrize("command, name", WALK)
def test_a_setting_is_written_read_and_compared(tmp_path, command, name):
    setting = next(s for s in task_settings.SETTINGS if s.name == name)
    make_spec(command, name).write(str(tmp_path))
    found = TaskSpec.read(str(tmp_path))
    value = task_settings.plain(setting.read(found))
    assert value == task_settings.plain(OTHER[name])
    asked = make_spec(command)
    assert [s.name for s in task_settings.differing(found, asked)] == [name]
    if setting.meaning:
        with pytest.raises(UserError, match="x/task.json"):
            task_settings.check_trained(found, asked, "x/task.json")
    else:
        notes = task_settings.check_trained(found, asked, "x/task.json")
        assert len(notes) == 1 and f"--{name}=" in notes[0]
    assert task_settings.check_trained(found, found, "x") == []


CHILD = """
import importlib, json, sys
from absl import flags
from absl.testing import flagsaver
from common.errors import UserError
from data.finetuning import task_settings
command, folder, cases = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])
importlib.import_module(f"run_{command}").COMMAND.define()
from flags.tasks import finetune_flags
FLAGS = flags.FLAGS
results = {}
for name, value in cases.items():
    found = []
    for extra in ([], [f"--{name}={value}"]):
        clean = flagsaver.save_flag_values()
        argv = ["x", f"--model_dir={folder}/{name}", "--do_eval", *extra]
        argv += ["--task_name=tsv"] if command == "classifier" else []
        argv += ["--data_dir=d"] if command == "race" else []
        FLAGS(argv)
        try:
            spec, lines = finetune_flags.adopt(command)
            found.append([FLAGS[name].value, lines[1:]])
        except UserError as e:
            found.append(["error", [str(e)]])
        flagsaver.restore_flag_values(clean)
    results[name] = found
print(json.dumps(results))
"""


def in_child(command, folder, cases):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, command, folder, json.dumps(cases)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.long
@pytest.mark.parametrize("command", SOURCES)
def test_flags_take_the_folder_and_refuse_others(tmp_path, command):
    """Each setting: not given = the folder's; given otherwise = said."""
    cases = {}
    for setting in task_settings.of_command(command):
        if setting.has_flag:
            folder = tmp_path / setting.name
            folder.mkdir()
            make_spec(command, setting.name).write(str(folder))
            given = getattr_default(command, setting.name)
            cases[setting.name] = given
    found = in_child(command, str(tmp_path), cases)
    for setting in task_settings.of_command(command):
        if not setting.has_flag:
            continue
        (taken, lines), (given, said) = found[setting.name]
        assert taken == task_settings.plain(OTHER[setting.name]), setting.name
        assert not lines
        assert len(said) == 1 and f"--{setting.name}" in said[0]
        assert (given == "error") == setting.meaning, setting.name


def getattr_default(command, name):
    """A value as a flag takes it, and not the folder's."""
    if name in ("labels", "text_columns"):
        return "x,y"
    if name in ("max_seq_length",):
        return 99
    source = next(
        s
        for s in SOURCES[command]
        if name in {f.name for f in dataclasses.fields(s)}
    )
    value = getattr(source, name)
    return str(value).lower() if isinstance(value, bool) else value


def test_old_files_are_read_with_the_values_of_their_time(tmp_path):
    """The fields of task.json before all settings were recorded."""
    value = {
        "format_version": 1,
        "task_name": "tsv",
        "head": "classification",
        "labels": ["a", "b"],
        "max_seq_length": 128,
        "uncased": False,
        "spiece_sha256": "0" * 64,
        "head_options": {"summary_type": "last", "use_proj": True},
        "data_options": {"num_texts": 1, "segment_recurrence": 0},
    }
    (tmp_path / "task.json").write_text(json.dumps(value))
    found = TaskSpec.read(str(tmp_path))
    assert task_settings.differing(found, make_spec(CLASSIFIER)) == []
    other = make_spec(CLASSIFIER, "pooling")
    assert [s.name for s in task_settings.differing(found, other)] == [
        "pooling"
    ]


def test_the_folder_of_a_checkpoint(tmp_path):
    (tmp_path / "best").mkdir()
    (tmp_path / "other").mkdir()
    assert find_folder(str(tmp_path)) is None
    make_spec(SQUAD).write(str(tmp_path))
    for path in ("", "best", "best/model.ckpt-3", "model.ckpt-3.index"):
        assert find_folder(str(tmp_path / path)) == str(tmp_path)
    assert find_folder(str(tmp_path / "other")) is None
