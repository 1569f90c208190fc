"""The plan's batches, options and text."""

import dataclasses

import pytest
import tensorflow as tf

from benchmarks.tpu import lowering as tpu_lowering
from benchmarks.tpu import plan as tpu_plan
from common.contract import schema
from common.errors import UserError
from flags import plan_flags
from flags.plan_flags import JobOptions
from flags.recipes import causal_lm_recipes
from modeling.encoders.transformer_xl.config import TransformerXLConfig
from tests.benchmarks.toy_plans import OPTIONS, PROGRAM


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


def test_a_part_of_a_chip_or_host_is_refused_before_the_compiler():
    """Without `compiled`: the compiler would run."""
    with pytest.raises(UserError, match="a chip has 2 cores"):
        tpu_plan.report(OPTIONS.replace(pod_cores=9))
    job = OPTIONS.replace(pod_cores=12, job=JobOptions(100))
    with pytest.raises(UserError, match="a host has 8 cores"):
        tpu_plan.report(job)


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


def test_a_recipe_of_a_language_model_is_planned_as_it_stands():
    config, values = plan_flags.of_recipe("txl_wt103_large")
    assert (config.vocab_size, config.cutoffs[-1]) == (267_735, 200_000)
    assert (config.n_layer, config.d_model, config.div_val) == (18, 1024, 4)
    assert values == {
        "train_batch_size": 128,
        "seq_len": 384,
        "mem_len": 384,
        "train_steps": 4_000_000,
        "task": "language_model",
    }
    config, _ = plan_flags.of_recipe("txl_enwik8_24")
    assert (config.vocab_size, config.n_layer, config.d_head) == (204, 24, 128)
    for name in causal_lm_recipes.RECIPES:
        assert plan_flags.of_recipe(name)[0].vocab_size > 26


@pytest.mark.slow
def test_the_step_of_a_language_model_is_lowered_in_its_tpu_form():
    """With adaptive softmax and memory; both programs, no TPU compiler."""
    from benchmarks.tpu import plan_step

    config = TransformerXLConfig(
        vocab_size=60,
        d_model=8,
        n_layer=2,
        n_head=2,
        d_head=4,
        d_inner=12,
        cutoffs=(20, 40),
        div_val=2,
    )
    options = OPTIONS.replace(
        config=config, task="language_model", seq_len=32, mem_len=16
    )
    step = plan_step.prepare(options)
    assert set(step.batch) == set(schema.LANGUAGE_MODEL_BATCH)
    assert step.batch["target_ids"].shape == (2, 32)
    assert step.learner.memory is not None
    found = sum(int(tf.size(v)) for v in step.learner.model.variables)
    assert step.gradient_bytes == 4 * found
    forward, full = step.forward_backward(), step.full()
    assert len(forward) > 10_000 and len(full) > len(forward) / 2


@pytest.mark.parametrize("task", ["pretrain", "span", "multiple_choice"])
def test_batches_are_those_of_the_schema(task):
    from benchmarks.tpu import plan_step

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
