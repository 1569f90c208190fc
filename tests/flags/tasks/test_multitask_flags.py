"""run_multitask.py's flags: what they refuse, and lengths of trained tasks."""

import json
import pathlib
import subprocess
import sys

from common.contract.task_spec import TaskSpec
from common.vocabularies.text_settings import TextSettings

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
        [*joint, "--best_metric=mean"],
        paper,
    )
    assert found[0].startswith("--schedule has no --best_metric")
    assert found[1].startswith("--average_trigger counts evaluations")
    assert found[2:] == [[128] * 2, [128] * 4]
    assert not any("\n" in line for line in found[:2])


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
    )
    assert found == [[40, 128], [24, 24], [32, 128], [128, 128]]
