"""The Python of docs/guides/training.md runs as it stands there."""

import json
import pathlib
import re

import numpy as np
import pytest

NOTEBOOK = (
    pathlib.Path(__file__).resolve().parents[2] / "docs/tutorials/keras.ipynb"
)
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs/guides/training.md"


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


@pytest.mark.slow
def test_the_notebook_runs(capsys):
    """Its code cells in order, as a kernel would run them."""
    notebook = json.loads(NOTEBOOK.read_text())
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 4)
    cells = [
        "".join(cell["source"])
        for cell in notebook["cells"]
        if cell["cell_type"] == "code"
    ]
    assert all(not c["outputs"] for c in notebook["cells"] if "outputs" in c)
    names: dict = {}
    for number, source in enumerate(cells, 1):
        exec(compile(source, f"cell {number}", "exec"), names)
    assert "accuracy" in capsys.readouterr().out
    losses = names["history"].history["val_loss"]
    assert min(losses) < losses[0]
    logits = names["logits"]
    assert logits.shape == (192, 2)
    np.testing.assert_allclose(names["called"].numpy(), logits, atol=1e-4)
    right = (logits.argmax(-1) == names["labels"]).mean()
    assert names["scores"]["accuracy"] == pytest.approx(right)
    assert right > 0.7
