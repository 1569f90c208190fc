"""Denoising runs: the same draws on any replicas and after a crash."""

import types

import numpy as np
import pytest

import run_pretrain
from common.errors import UserError
from data.pretraining.sampling.masking import MaskingOptions, masked_batches
from tests.helpers.runs.pretrain import config_for, losses, records, run_options
from tests.training.conftest import *  # noqa: F403  (virtual CPU replicas)
from training import loop
from training.jobs.pretrain_options import PretrainOptions
from training.objectives.masked_lm import MaskedLMObjective

pytestmark = pytest.mark.shared
assert records  # the fixture


def train(folder, options, stop_at=0):
    """A denoising run with memory; `stop_at` ends it after so many steps."""
    data = run_pretrain.open_data(PretrainOptions(data_dir=folder))
    config = config_for(data.manifest)
    masking = MaskingOptions(
        data.manifest.vocab_size,
        data.manifest.symbols,
        data.manifest.reuse_len,
        hide_rest=True,
    )

    class Crash(Exception):
        pass

    def say(line):
        if stop_at and line.startswith(f"step {stop_at}/"):
            raise Crash

    try:
        loop.train(
            MaskedLMObjective(config, bi_data=True),
            masked_batches(data.train_batches(0), masking),
            options,
            must_match=data.must_match(),
            say=say,
        )
    except Crash:
        assert len(losses(options.model_dir)) < options.train_steps


@pytest.mark.slow
def test_corruption_is_the_same_on_replicas_and_after_a_crash(
    records, tmp_path
):
    train(records, run_options(tmp_path / "1"))
    wanted = losses(tmp_path / "1")
    for replicas in (2, 4):
        train(records, run_options(tmp_path / str(replicas), replicas))
        np.testing.assert_allclose(
            losses(tmp_path / str(replicas)), wanted, rtol=1e-4, atol=1e-5
        )
    crashed = run_options(tmp_path / "crash", progress="lines")
    train(records, crashed, stop_at=8)
    train(records, run_options(tmp_path / "crash"))
    assert losses(tmp_path / "crash").tobytes() == wanted.tobytes()


def test_a_rate_that_masks_no_token_of_a_row_is_refused():
    manifest = types.SimpleNamespace(seq_len=24)
    what = PretrainOptions("records", objective="mlm", mask_rate=0.02)
    with pytest.raises(UserError, match="24 tokens is no token: give at least"):
        run_pretrain.masking_options(
            types.SimpleNamespace(manifest=manifest),
            what,
            types.SimpleNamespace(model_type="bert"),
            0,
        )
