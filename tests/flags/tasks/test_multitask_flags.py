"""run_multitask.py's flags: what they refuse, and lengths of trained tasks."""

import json
import pathlib
import subprocess
import sys

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings
from flags.tasks import multitask_flags
from tests.flags.fresh_flags import parsed

ROOT = pathlib.Path(__file__).parents[3]
CHILD = """
import json, sys
from absl import flags
from absl.testing import flagsaver
from common.errors import UserError
from flags.tasks import multitask_flags
multitask_flags.define()
results = []
for argv in json.loads(sys.argv[1]):
    clean = flagsaver.save_flag_values()
    flags.FLAGS(["x", "--data_dir=d", *argv])
    try:
        results.append(list(multitask_flags.read()["settings"].lengths))
    except UserError as e:
        results.append(str(e))
    flagsaver.restore_flag_values(clean)
print(json.dumps(results))
"""


def read_all(*cases):
    """Of each command line the tasks' lengths, or the error."""
    done = subprocess.run(
        [sys.executable, "-c", CHILD, json.dumps(cases)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_what_no_part_could_do():
    train = ["--model_dir=m", "--do_train", "--do_eval", "--eval_every=5"]
    paper, joint = [*train, "--schedule=paper"], [*train, "--task_name=rte,qqp"]
    found = read_all(
        [*paper, "--best_metric=mean"],
        [*joint, "--average_trigger=3"],
        [*joint, "--mixing=sqrt", "--mixing_temperature=3"],
        [*joint, "--best_metric=mean"],
        [*joint, "--mixing=temperature", "--mixing_temperature=3"],
        paper,
        [*joint, "--mixing=temperature", "--mixing_temperature=0"],
    )
    assert found[0].startswith("--schedule has no --best_metric")
    assert found[1].startswith("--average_trigger counts evaluations")
    assert found[2].endswith(
        "of --mixing=temperature, found sqrt: leave it out"
    )
    assert found[3:-1] == [[128] * 2, [128] * 2, [128] * 4]
    assert found[-1].startswith("--mixing_temperature must be > 0")
    assert not any("\n" in line for line in found[:3])


def test_a_trained_tasks_length_counts(tmp_path):
    """Not given: what the task's folder says, else the flag's default."""
    folder = tmp_path / "tasks" / "rte"
    folder.mkdir(parents=True)
    spec = TaskSpec("rte", "classification", (), 40, TextSettings(), "0")
    spec.write(str(folder))
    asked = [f"--model_dir={tmp_path}", "--task_name=rte,qqp"]
    found = read_all(
        [*asked, "--do_eval"],
        [*asked, "--do_eval", "--max_seq_length=24"],
        [*asked, "--do_eval", "--task_lengths=rte:32"],
        [*asked, "--do_eval", "--do_train"],
        [*asked, "--do_eval", "--do_train", "--checkpoint_choice=last"],
        [*asked, "--do_eval", "--checkpoint_choice=last"],
    )
    assert found[:-1] == [[40, 128], [24, 24], [32, 128], *[[128, 128]] * 2]
    # A task's folder has one model, which the training chose.
    refused = "--checkpoint_choice is of --do_train=true, found false: leave it"
    assert found[-1].startswith(refused)


SEVERAL = ["--model_dir=m", "--do_train", "--do_eval", "--task_name=rte,sst2"]
PAPER = ["--model_dir=m", "--do_train", "--do_eval", "--schedule=paper"]


def test_flags_of_tasks_name_tasks_of_this_run():
    found = read_all(
        [*SEVERAL, "--task_lengths=SST-2:32"],
        [*SEVERAL, "--task_lengths=mnli:32"],
        [*SEVERAL, "--task_weights=rte:2,stss:3"],
        [*SEVERAL, "--task_weights=sst2:2,sst-2:3"],
        [*SEVERAL, "--task_steps=rte:9"],
        [*SEVERAL[:-1], "--task_name=sst2,rte,sst-2"],
        [*PAPER, "--task_lengths=sst2:32,rte:64"],
        [*PAPER, "--task_lengths=imdb:32"],
        [*PAPER, "--task_weights=rte:2"],  # it is alone: it has no weight
        [*PAPER, "--task_steps=rte:9,RTE:8"],
    )
    assert found == [
        [128, 32],
        "--task_lengths: mnli is none of the tasks rte, sst2",
        "--task_weights: stss is none of the tasks rte, sst2",
        "--task_weights names sst2 twice",
        "--task_steps is of the parts of a --schedule; tasks that are trained "
        "together have --train_steps",
        "--task_name names sst-2 twice",
        [128, 32, 128, 128],
        "--task_lengths: imdb is none of the tasks mnli, sst-2, qnli, qqp, "
        "cola, sts-b, mrpc, rte, wnli",
        "--task_weights: rte is none of the tasks mnli, sst-2, qnli, qqp",
        "--task_steps names rte twice",
    ]


def test_all_parts_of_a_schedule_are_read_before_the_first():
    found = read_all(
        [*PAPER, "--task_steps=rte:20", "--warmup_steps=100"],
        [*PAPER, "--task_steps=rte:200", "--warmup_steps=100"],
    )
    assert found[0].startswith("--warmup_steps (100) must be smaller than")
    assert found[1] == [128] * 4


def test_a_parts_steps_win_over_epochs():
    more = ("--data_dir=d", *PAPER, "--train_epochs=3", "--task_steps=rte:800")
    with parsed(multitask_flags.define, *more):
        for part, steps, epochs in (("rte", 800, 0.0), ("cola", None, 3.0)):
            options = multitask_flags.read((part,))["options"]
            assert options.train_epochs == epochs
            assert steps in (None, options.run.train_steps)
        assert multitask_flags.read()["options"].train_epochs == 3.0
