"""The Python of docs/training.md runs as it stands there."""

import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs" / "training.md"


@pytest.mark.slow
def test_the_examples_run(tmp_path, monkeypatch):
    text = DOCS.read_text().split("## From Python")[1].split("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks:
        exec(compile(block, str(DOCS), "exec"), names)
    assert names["result"].finished and names["result"].step == 20
    assert 0.0 <= names["result"].evaluations[-1][1]["error"] <= 1.0
    assert names["outputs"].shape == names["logits"].shape == (64, 2)
    assert len(names["history"].history["loss"]) == 2
