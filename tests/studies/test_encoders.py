"""The study of four encoders: equal parameters, equal seconds."""

import pytest

from benchmarks.tpu.plan import parameters_of
from modeling.encoders.registry import new_config
from studies.kinds.registry import load
from studies.runner import study
from studies.runner.study_file import path_of

PLACES = {"out": "OUT", "data": "DATA", "text": "TEXT"}
SIZES = ("n_layer", "d_model", "n_head", "d_head", "d_inner")
SIZES += ("embedding_size", "max_position_embeddings")


def options():
    return load(path_of("encoders"), PLACES)


def parameters(row, given, width=None):
    """Of a row's model, or of one that is as many times as wide."""
    found = given.pretrain.flags | row.pretrain
    scale = 1 if width is None else width / found["d_model"]
    if row.key == "albert" and scale != 1:
        assert found["embedding_size"] == 128
    sizes = {name: found[name] for name in SIZES if name in found}
    for name in ("d_model", "d_inner", "d_head"):
        if name in sizes:
            sizes[name] = round(scale * sizes[name])
    vocabulary = given.first["vocabulary"].flags["vocab_size"]
    return parameters_of(
        new_config(row.pretrain["model_type"], vocabulary, sizes)
    )


@pytest.mark.slow
def test_widths_give_equal_parameters():
    """No other multiple of 4 N is nearer to XLNet's."""
    given = options()
    rows = {row.key: row for row in given.rows}
    wanted = parameters(rows["xlnet"], given)
    for name in ("bert", "albert", "modernbert"):
        width, unit = rows[name].pretrain["d_model"], 4 * 4
        assert width % unit == 0
        near, *others = (
            abs(parameters(rows[name], given, width + step) - wanted)
            for step in (0, -unit, unit)
        )
        assert near <= min(others), name


def test_equal_seconds_and_the_chosen_tasks(monkeypatch, tmp_path):
    """An encoder whose steps take twice as long has half as many."""
    done = {}

    def run_job(job, folder, cores=None):
        del folder, cores
        done[job.name] = job
        pace = 2.0 if "-bert" in job.name else 1.0
        steps = 3.0 if job.name.endswith("60") else 1.0
        return {"held-out loss": 6.5, "demo": 0.5, "seconds": pace * steps}

    monkeypatch.setattr("studies.runner.jobs.run_job", run_job)
    report = "studies.runner.study_report"
    rate = (0.16, 0.16, 21)
    monkeypatch.setattr(f"{report}.target_rate", lambda home: rate)
    monkeypatch.setattr(f"{report}.without_held_out", lambda home: False)
    given = options().chosen(["demo"])
    rows = study.Study(str(tmp_path), given).run()
    assert [row.name for row in rows][:2] == ["xlnet", "bert"]
    tuned = [name for name in done if "/demo-" in name and name[:5] != "speed"]
    assert len(tuned) == 7 * 3
    assert {"corpus", "vocabulary"} < set(done)
    steps = {
        name: job.commands[0].count("--train_steps=750")
        for name, job in done.items()
        if job.name.endswith(("-0",)) and "/" not in name
    }
    assert steps["bert-seconds-0"] == 1 and steps["bert-0"] == 0
    assert steps["albert-seconds-0"] == 0
    assert "--next_sentence" in done["bert-0"].commands[0]
    assert "--mask_rate=0.3" in done["modernbert-0"].commands[0]
    assert "--d_head=32" not in done["bert-0"].commands[0]
