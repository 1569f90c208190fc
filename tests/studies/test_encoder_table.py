"""The encoders' table: equal sizes, jobs that are done once, cells."""

import json

import pytest
from absl import flags

from studies import encoder_jobs as jobs
from studies import encoder_table


@pytest.mark.slow
def test_widths_give_equal_parameters():
    base = jobs.sizes_of("xlnet", 48, 2, 2)
    wanted = jobs.parameters("xlnet", 100, base)
    for model_type in encoder_table.ENCODERS[1:]:
        width = jobs.equal_width(model_type, wanted, 100, 2, 2)
        assert width % 8 == 0

        def count(w, kind=model_type):
            return jobs.parameters(kind, 100, jobs.sizes_of(kind, w, 2, 2))

        error = abs(count(width) - wanted)
        assert error <= abs(count(width - 8) - wanted)
        assert error <= abs(count(width + 8) - wanted)


@pytest.fixture
def parsed(tmp_path):
    """The command's flags, parsed."""
    values = flags.FLAGS
    before = set(values)
    encoder_table.define()
    values(["table", f"--output_dir={tmp_path}", "--tasks=demo,squad"])
    yield tmp_path
    for name in set(values) - before:
        delattr(values, name)
    values.unparse_flags()


def test_cells_are_mean_deviation_and_number(parsed):
    table = encoder_table.Table(str(parsed))
    for encoder in encoder_table.ENCODERS:
        table.sizes[encoder] = {"d_model": 8, "parameters": 1234}
    table.results = {
        "xlnet-steps": {"value": 6.5, "seconds": 1.0},
        "bert-steps": {"error": "no room"},
        "xlnet-steps/demo-0": {"value": 0.5, "seconds": 1.0},
        "xlnet-steps/demo-1": {"value": 0.7, "seconds": 1.0},
        "xlnet-steps/squad-2": {"error": "no file"},
    }
    lines = table.table().splitlines()
    assert lines[2] == (
        "| xlnet | steps | 8 | 1,234 | 6.500 | 0.600 ± 0.141 (2) | "
        "failed: no file |"
    )
    assert "| no room | not run | not run |" in lines[3]


def test_jobs_and_their_commands(parsed, monkeypatch):
    """Every job once; equal seconds give the slower encoder fewer steps."""
    done = {}

    def run_job(job, folder, cores):
        assert folder == str(parsed) and job.name not in done
        done[job.name] = job
        seconds = 10.0 if "bert" in job.name else 5.0
        steps = 3.0 if job.name.endswith("60") else 1.0
        return {"value": 0.5, "seconds": seconds * steps}

    monkeypatch.setattr("studies.jobs.run_job", run_job)
    values = flags.FLAGS
    values(
        ["table", f"--output_dir={parsed}", "--tasks=demo,trec", "--seeds=2"]
        + ["--data_dir=d", "--budgets=steps,seconds", "--vocab_size=100"]
        + ["--width=16", "--heads=2", "--layers=1", "--pretrain_steps=50"]
    )
    encoder_table.Table(str(parsed)).run()
    tuned = [n for n in done if n.endswith(("-0", "-1"))]
    assert len(tuned) == 7 * 2 * 2
    assert done["bert-seconds"].commands[0].count("--train_steps=25") == 1
    assert done["bert-steps"].commands[0].count("--train_steps=50") == 1
    assert "--next_sentence" in done["bert-steps"].commands[0]
    assert "--mask_rate=0.3" in done["modernbert-steps"].commands[0]
    command = done["albert-steps/trec-1"].commands[0]
    assert "--seed=1" in command and "--data_dir=d/trec" in command
    assert len({a.split("=")[0] for a in command}) == len(command)
    found = json.loads((parsed / "results.json").read_text())
    assert set(found["jobs"]) == set(done)
    assert "0.500 ± 0.000 (2)" in (parsed / "table.md").read_text()
