"""`--schedule=paper`: GLUE as section 3.5 of the XLNet paper trained it.

The four largest sets together; the other five from these weights; the four
alone from the pretrained ones; then the test sets of all, MNLI's diagnostic
set among them, as one submission. Each part is a run with a folder of its own,
so the same command goes on with the part that was stopped.
"""

import os
from collections.abc import Callable

from data.finetuning.classifier import submission
from modeling.ops import graph_memory
from training.finetuning.multitask_options import JOINT, OTHERS

TOGETHER = "joint"
ZIP = "submission.zip"


def run_paper(
    home: str,
    init_checkpoint: str | None,
    together: Callable[..., dict],
    alone: Callable[..., dict],
    say=print,
) -> dict[str, dict]:
    """All parts in turn.

    Args:
      home: folder of the whole.
      init_checkpoint: pretrained weights.
      together: (model_dir, init_checkpoint) -> results of the joint run; {}
        when it was stopped.
      alone: (task, model_dir, init_checkpoint) -> results of a task's own run.
      say: takes lines.

    Returns:
      Task -> split -> metrics; {} when a part was stopped.

    Raises:
      UserError: anything the user can put right.
    """
    joint = os.path.join(home, TOGETHER)
    say(f"--- {', '.join(JOINT)} together in {joint}")
    with graph_memory.released():
        trained = together(model_dir=joint, init_checkpoint=init_checkpoint)
    if not trained:
        return {}
    results = {}
    for task in (*OTHERS, *JOINT):
        start = joint if task in OTHERS else init_checkpoint
        folder = os.path.join(home, task)
        say(f"--- {task} from {start} in {folder}")
        with graph_memory.released():  # before the next task has its own
            found = alone(task, model_dir=folder, init_checkpoint=start)
        if not found:
            return {}
        results[task] = found
    return results


def write_submission(home: str, say=print) -> str | None:
    """The zip of what the parts predicted; None where test sets are missing.

    Raises:
      UserError: a disk or file that cannot be written.
    """
    paths = {}
    for task in (*OTHERS, *JOINT):
        folder = os.path.join(home, task, "predictions")
        for name in submission.ROWS:
            path = os.path.join(folder, name)
            if os.path.exists(path):
                paths[name] = path
    missing = sorted(set(submission.ROWS) - set(paths))
    if missing:
        say(
            f"no submission: {', '.join(missing)} missing, their test sets are "
            "not in --data_dir"
        )
        return None
    output = os.path.join(home, ZIP)
    submission.write(paths, output)
    problems = submission.validate(output)
    for problem in problems:
        say(f"note: GLUE's server would refuse {output}: {problem}")
    say(
        f"wrote {output}"
        + ("" if problems else ", as GLUE's server expects it")
    )
    return output
