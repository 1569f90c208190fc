"""The last lines of a pretraining."""

from training.jobs.pretraining_job import loss_line


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
