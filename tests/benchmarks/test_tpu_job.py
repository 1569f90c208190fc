"""A job on a pod around its step: sizes by hand, what does not fit."""

import dataclasses

import pytest

from benchmarks.tpu import costs as tpu_costs
from benchmarks.tpu import job as tpu_job
from benchmarks.tpu import lowering as tpu_lowering
from benchmarks.tpu import plan as tpu_plan
from common.errors import UserError
from flags import plan_flags
from flags.plan_flags import JobOptions
from modeling.encoders.xlnet.config import XLNetConfig
from tests.benchmarks.toy_plans import OPTIONS, PROGRAM

# Table 7 on 512 v3 chips.
LARGE = OPTIONS.replace(
    config=XLNetConfig.large(vocab_size=32000),
    seq_len=512,
    mem_len=384,
    num_predict=85,
    precision="mixed_bfloat16",
    pod_cores=1024,
    train_steps=500_000,
    job=JobOptions(10_000, disk_gb_per_second=1.0, copy_gb_per_second=5.0),
)
WEIGHTS = 1.44e9  # float32


@pytest.mark.parametrize("rows, memory", [(2, 38.65e9), (8, 154.6e9)])
def test_the_papers_jobs_by_hand(rows, memory):
    found = tpu_job.plan_job(LARGE.replace(rows=rows), 0.25, WEIGHTS)
    assert found["memory_bytes"] == pytest.approx(memory, rel=1e-3)
    assert found["checkpoint_bytes"] == pytest.approx(
        found["memory_bytes"] + 3 * WEIGHTS
    )
    assert found["hosts"] == 128
    own = 3 * WEIGHTS + found["memory_bytes"] / 128
    host = found["per_host"]
    assert host["save_bytes"] == pytest.approx(own)
    assert host["write_seconds"] == pytest.approx(own / 1e9)
    wait = own / 1e9 + own / 5e9
    assert host["share"] == pytest.approx(wait / (2500 + wait))
    assert host["async_share"] == pytest.approx(own / 5e9 / (2500 + own / 5e9))
    assert host["fits"] and found["one_process"]["fits"]
    hours = 500_000 * 0.25 / 3600 / (1 - host["async_share"])
    assert found["device_hours"] == pytest.approx(512 * hours)


def test_what_does_not_fit_is_said():
    options = LARGE.replace(
        rows=8,
        job=JobOptions(100, disk_gb_per_second=1.0, host_memory_gb=60.0),
    )
    found = tpu_job.plan_job(options, 0.25, WEIGHTS)
    fit, alone = found["per_host"], found["one_process"]
    assert fit["fits"] and not alone["fits"]
    # 159 s of writing in intervals of 25 s: the rest is waited for.
    waited = alone["copy_seconds"] + alone["write_seconds"] - 25
    assert alone["async_share"] == pytest.approx(waited / (25 + waited))
    text = tpu_job.describe_job(found, options)
    assert len([line for line in text if "DOES NOT FIT" in line]) == 1
    with pytest.raises(UserError, match="--disk_gb_per_second"):
        JobOptions(disk_gb_per_second=0)


def test_a_line_through_two_numbers_of_layers():
    chip = tpu_costs.CHIPS["v3"]

    def of(layers):
        return dataclasses.replace(
            PROGRAM,
            flops=(5 + layers) * 1e11,
            bytes_accessed=(1 + layers) * 1e9,
            optimal_seconds=(20 + 5 * layers) / 1000 - 2,  # two without price
            temporary_bytes=7 * layers + 100,
        )

    found = tpu_costs.extrapolate(of(2), of(4), (2, 4, 24), chip)
    assert found.temporary_bytes == 268
    assert found.flops == pytest.approx(29e11)
    assert found.bytes_accessed == pytest.approx(25e9)
    # Whole seconds are added below the roofline before the line is drawn.
    ways = [
        tpu_costs.compute_seconds(
            c.flops, c.bytes_accessed, c.optimal_seconds, chip
        )[0]
        for c in (of(2), of(4))
    ]
    wanted = ways[0] + 11 * (ways[1] - ways[0])
    assert found.optimal_seconds == pytest.approx(wanted)
    assert wanted == pytest.approx(0.14)


def test_a_plan_by_layers_compiles_only_those(monkeypatch, tmp_path):
    lowered, compiled = [], []

    def lower(options):
        lowered.append(options.config.n_layer)
        program = b"%d" % options.config.n_layer
        return (program, program), 100 * options.config.n_layer

    def compile_apart(program, topology):
        compiled.append(program)
        return PROGRAM

    monkeypatch.setattr(tpu_plan, "_in_process", lower)
    monkeypatch.setattr(tpu_lowering, "compile_apart", compile_apart)
    monkeypatch.setattr(
        tpu_lowering, "fingerprint", lambda p, t: f"{t}-{p.decode()}"
    )
    options = LARGE.replace(layers=(2, 4), cache_dir=str(tmp_path))
    found = tpu_plan.report(options)
    assert lowered == [2, 4] and compiled == [b"2", b"4"]  # known the 2nd time
    assert found["gradient_bytes"] == 2400
    assert found["hbm_bytes"] == PROGRAM.hbm_bytes
    text = tpu_plan.describe(found, options)
    assert "a line through 2 and 4 layers" in text
    assert "device-hours" in text and "checkpoint: 38.7 GB" in text
    tpu_plan.report(options)
    assert len(compiled) == 2
    for layers in ((4, 25), (1, 2), (4, 4), (2, 3, 4)):
        with pytest.raises(UserError, match="growing numbers from 2 to 24"):
            LARGE.replace(layers=layers)


def test_memory_is_asked_for_before_it_starts(monkeypatch, capsys):
    monkeypatch.setattr(tpu_plan, "_available_bytes", lambda: 16e9)
    with pytest.raises(UserError, match="about 20 GB of memory and 16 GB") as e:
        tpu_plan.require_memory(LARGE)
    assert "\n" not in str(e.value) and "--layers=2,4" in str(e.value)
    tpu_plan.require_memory(LARGE.replace(layers=(2, 4)))
    assert "compiling 4 layers takes about 5 GB" in capsys.readouterr().out


def test_what_needs_no_compiler_is_printed_all_the_same(monkeypatch, capsys):
    """Too little memory, or a time of the step that is known."""
    small = LARGE.replace(config=OPTIONS.config)
    monkeypatch.setattr(tpu_plan, "_available_bytes", lambda: 0.0)
    monkeypatch.setattr(tpu_lowering, "require_jax", lambda: None)
    monkeypatch.setattr(plan_flags, "from_flags", lambda: small)
    with pytest.raises(UserError, match="and 0 GB are free"):
        tpu_plan.main()
    text = capsys.readouterr().out
    # 2 x 8 weights of 384 slots in 2,048 rows, bfloat16.
    assert f"memory {2048 * 384 * 16 * 2 / 1e9:.1f})" in text
    assert "one process on each of 128 hosts" in text
    assert "--step_seconds" in text and "device-hours" not in text
    known = small.replace(step_seconds=0.25)
    monkeypatch.setattr(plan_flags, "from_flags", lambda: known)
    tpu_plan.main()
    text = capsys.readouterr().out
    # 512 chips for 500,000 steps; nothing that counts is saved.
    assert "device-hours: 17,778 of chips, 35,556 of cores" in text
    for change in ({"step_seconds": 0.0}, {"job": None}):
        with pytest.raises(UserError, match="--step_seconds must be above 0"):
            known.replace(**change)


def test_the_weights_are_counted_without_being_made():
    from modeling import PretrainingModel

    model = PretrainingModel(OPTIONS.config)
    found = tpu_plan.parameters_of(OPTIONS.config)
    assert found == sum(v.numpy().size for v in model.variables) > 0
