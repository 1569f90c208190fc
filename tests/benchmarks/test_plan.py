"""The plan's batches, options and text."""

import dataclasses

import pytest

from benchmarks import tpu_lowering, tpu_plan
from common.errors import UserError
from data import schema
from flags.plan_flags import PlanOptions
from modeling.encoders.xlnet.config import XLNetConfig

OPTIONS = PlanOptions(
    config=XLNetConfig(
        vocab_size=50, d_model=8, n_layer=2, n_head=2, d_head=4, d_inner=12
    ),
    task="pretrain",
    rows=2,
    seq_len=16,
    mem_len=6,
    num_predict=3,
    precision="float32",
    recompute_layers=False,
    topology="v3",
    search_batch=False,
    full_step=True,
    pod_cores=8,
    train_steps=1000,
    json_output=None,
)
PROGRAM = tpu_lowering.Compiled(
    flops=1e12,
    bytes_accessed=9e9,
    optimal_seconds=-0.95,
    argument_bytes=2_000_000_000,
    output_bytes=2_000_000_000,
    alias_bytes=2_000_000_000,
    temporary_bytes=1_500_000_000,
    code_bytes=10_000_000,
    compile_seconds=3.0,
)


@pytest.fixture
def compiled(monkeypatch):
    """No compiler: every program costs `PROGRAM`."""
    monkeypatch.setattr(tpu_plan, "_in_process", lambda o: ((b"", b""), 400))
    monkeypatch.setattr(tpu_lowering, "compile_apart", lambda p, t: PROGRAM)


def test_report_adds_up(compiled):
    found = tpu_plan.report(OPTIONS)
    assert found["compiles"] and found["fits"]
    assert found["hbm_bytes"] == 3_510_000_000
    assert found["global_batch"] == 16 and found["chips"] == 4
    assert found["seconds"]["compute"] == pytest.approx(0.05)
    text = tpu_plan.describe(found, OPTIONS)
    assert "HBM 3.51 of 17.18 GB per core: fits" in text
    assert "assumptions:" in text


def test_refusal_is_reported(compiled, monkeypatch):
    def refuse(program, topology):
        raise tpu_lowering.CompileError("no room")

    monkeypatch.setattr(tpu_lowering, "compile_apart", refuse)
    found = tpu_plan.report(OPTIONS)
    assert not found["compiles"]
    assert "no room" in tpu_plan.describe(found, OPTIONS)


@pytest.mark.parametrize("known", [False, True])
def test_search_counts_pairs_of_rows(compiled, monkeypatch, known):
    def price(program, topology):
        return dataclasses.replace(PROGRAM, temporary_bytes=size[0])

    size = [0]

    def lowered(options):
        size[0] = options.rows * 10**9
        return (b"", b""), 400

    monkeypatch.setattr(tpu_plan, "_in_process", lowered)
    monkeypatch.setattr(tpu_lowering, "compile_apart", price)
    # 17.18 GB less 2.01 GB of arguments and program.
    start = OPTIONS.replace(rows=8 if known else 2)
    assert tpu_plan.search(start, known) == 14


@pytest.mark.parametrize("change", [{"rows": 3}, {"rows": 0}, {"pod_cores": 0}])
def test_options_are_checked(change):
    with pytest.raises(UserError):
        OPTIONS.replace(**change)


@pytest.mark.parametrize("task", ["pretrain", "span", "multiple_choice"])
def test_batches_are_those_of_the_schema(task):
    from benchmarks import plan_step

    specs = plan_step.batch_specs(OPTIONS.replace(task=task))
    if task == "pretrain":
        assert set(specs) == set(schema.PRETRAIN_BATCH)
        assert specs["target_ids"].shape == (2, 3)
    elif task == "span":
        assert specs["paragraph_mask"].shape == (2, 16)
        assert specs["is_impossible"].dtype == "float32"
    else:
        assert specs["input_ids"].shape == (2, 4, 16)
        assert specs["label_ids"].shape == (2,)
