"""The vocabulary that a pretraining goes on from, and its last lines."""

from types import SimpleNamespace

import pytest

from common.errors import UserError
from tests import released
from training.jobs import pretraining_job
from training.jobs.pretraining_job import loss_line
from training.run_options import RunOptions


def test_the_uniform_loss_stands_beside_the_loss_of_tokens():
    known = {"ln(vocabulary)": 6.9, "unigram entropy": 6.25}
    means = {"loss": 6.5, "lm_loss": 6.5, "accuracy": 0.1, "learning_rate": 1.0}
    assert loss_line(means, 50, known) == (
        "training loss 6.5000 (last 50 steps or fewer); "
        "ln(vocabulary) 6.9000, unigram entropy 6.2500"
    )
    means |= {"loss": 7.25, "next_sentence_accuracy": 0.5}
    assert loss_line(means, 50, known) == (
        "training loss 7.2500 (last 50 steps or fewer) = lm_loss 6.5000 + "
        "pair 0.7500; of lm_loss: ln(vocabulary) 6.9000, "
        "unigram entropy 6.2500"
    )


@pytest.mark.parametrize("kind", ["vocab.txt", "tokenizer.json"])
def test_released_tokenizers_make_no_records(tmp_path, monkeypatch, kind):
    """A line of its own: "another vocabulary" would send its reader in vain."""
    if kind == "vocab.txt":
        released.wordpiece_folder(tmp_path)
    else:
        released.byte_level(tmp_path)
    source = SimpleNamespace(folder=str(tmp_path))
    monkeypatch.setattr(
        pretraining_job.checkpoints, "resolve", lambda _: source
    )
    options = RunOptions(model_dir="m", init_checkpoint=str(tmp_path))
    with pytest.raises(
        UserError, match=f"{kind}, and records for .* a spiece.model alone"
    ):
        pretraining_job.check_vocabulary(None, options, reads=False)
