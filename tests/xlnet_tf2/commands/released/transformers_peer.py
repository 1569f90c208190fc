"""Run by a Python with transformers: what it says of folders that we wrote.

    PYTHON tests/xlnet_tf2/commands/released/transformers_peer.py < jobs.jsonl > answers.jsonl

A line is a list of jobs, and is answered by a line with the list of their answers.
Imports nothing of the project. A job has `folder`, `task` and `texts`; a text is
a string or, for "ids" and "span", a pair.
"""

import json
import sys

import torch
import transformers

BATCH = 3


def _ids(job):
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
    return [
        dict(tokenizer(*([t] if isinstance(t, str) else t), **job["options"]))
        for t in job["texts"]
    ]


def _classification(job):
    pipeline = transformers.pipeline(
        "text-classification", model=job["folder"], top_k=None
    )
    found = pipeline(job["texts"], batch_size=BATCH, truncation=True)
    return [{row["label"]: row["score"] for row in rows} for rows in found]


def _tagging(job):
    pipeline = transformers.pipeline(
        "token-classification", model=job["folder"], ignore_labels=[]
    )
    return [
        [[row["entity"], float(row["score"])] for row in rows]
        for rows in pipeline(job["texts"], batch_size=BATCH)
    ]


def _fill(job):
    pipeline = transformers.pipeline("fill-mask", model=job["folder"])
    found = []
    for rows in pipeline(job["texts"], batch_size=BATCH, top_k=job["top_k"]):
        rows = rows if isinstance(rows[0], list) else [rows]
        found.append([[[r["token"], r["score"]] for r in row] for row in rows])
    return found


def _span(job):
    """There is no pipeline for it in version 5."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(job["folder"])
    model = transformers.XLNetForQuestionAnswering.from_pretrained(
        job["folder"]
    ).eval()
    found = []
    for pair in job["texts"]:
        row = tokenizer(*pair, return_tensors="pt")
        with torch.no_grad():
            answer = model(
                **row,
                cls_index=torch.tensor([row["input_ids"].shape[1] - 1]),
                p_mask=(row["token_type_ids"] != 0).float(),
            )
        names = ("start_top_index", "start_top_log_probs", "cls_logits")
        found.append({name: answer[name][0].tolist() for name in names})
    return found


TASKS = {
    "ids": _ids,
    "classification": _classification,
    "token_classification": _tagging,
    "fill": _fill,
    "span": _span,
}


def main() -> None:
    """Answers every line; a job that fails ends it, and says why."""
    answers = sys.stdout
    sys.stdout = sys.stderr  # of the libraries
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(1)
    for line in sys.stdin:
        found = [TASKS[job["task"]](job) for job in json.loads(line)]
        print(json.dumps(found), file=answers, flush=True)


if __name__ == "__main__":
    main()
