"""Options of the commands that ask a model: bounds, and what goes together."""

import pytest

from common.errors import UserError
from serving.generation.options import (
    EmbedOptions,
    FillOptions,
    GenerateOptions,
    ModelOptions,
    SamplingOptions,
    ScoreOptions,
)

TEXT = ("a",)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: SamplingOptions(seed=2**31), "--seed must fit 32 bits"),
        (lambda: SamplingOptions(seed=-(2**31) - 1), "--seed must fit 32"),
        (lambda: SamplingOptions(top_p=0.0), r"--top_p must be in \(0, 1\]"),
        (lambda: SamplingOptions(top_p=1.01), r"--top_p must be in \(0, 1\]"),
        (lambda: SamplingOptions(top_p=float("nan")), "--top_p must be in"),
        (lambda: SamplingOptions(temperature=-0.5), "--temperature must be >="),
        (lambda: SamplingOptions(top_k=-1), "--top_k must be >= 0"),
        # The most probable piece was taken, without a word.
        (
            lambda: SamplingOptions(temperature=0.0, top_k=5, seed=1),
            "--top_k and --seed are of sampling: wanted --temperature above 0",
        ),
        (
            lambda: SamplingOptions(temperature=0.0, top_p=0.5),
            "--top_p are of sampling",
        ),
        (lambda: SamplingOptions(num_samples=0), "--num_samples must be >= 1"),
        (lambda: SamplingOptions(0), "--max_new_tokens must be >= 1"),
        (lambda: GenerateOptions("a", mem_len=0), "--mem_len must be >= 1"),
        (lambda: GenerateOptions("a", stop_lines=-1), "--stop_lines must be"),
        (lambda: FillOptions("a", beam_size=0), "--beam_size must be >= 1"),
        (
            lambda: FillOptions("a", seed=1),
            "--seed is of --order=random, found left_to_right: leave it out",
        ),
        (lambda: FillOptions("a", max_chars=0), "--max_chars must be >= 1"),
        (
            lambda: FillOptions("a", "b", beam_size=9),
            "--beam_size=9 is of a search",
        ),
        (lambda: ScoreOptions(()), "--text is missing"),
        (lambda: ScoreOptions(TEXT, "1,0"), "--order must be one of .*, all"),
        (lambda: ScoreOptions(TEXT, num_orders=0), "--num_orders must be"),
        # One order was scored, without a word.
        (
            lambda: ScoreOptions(TEXT, num_orders=8),
            "--num_orders is of --order=random, found ",
        ),
        (
            lambda: ScoreOptions(TEXT, "all", seed=1),
            "--seed is of --order=random, found all: leave it out",
        ),
        (lambda: ScoreOptions(TEXT, context_chars=-1), "--context_chars must"),
        (lambda: ScoreOptions(TEXT, max_seq_length=0), "--max_seq_length must"),
        (lambda: ScoreOptions(TEXT, memory_len=-1), "--memory_len must be >="),
        (EmbedOptions, "give one of --text and --input_file"),
        (lambda: EmbedOptions(TEXT, "lines.txt"), "give one of --text and"),
        (
            lambda: EmbedOptions(TEXT, output_file="a.npy"),
            "must end in .npz, .jsonl or .csv, received 'a.npy'",
        ),
        (lambda: EmbedOptions(TEXT, pooling="first"), "--pooling must be one"),
        (
            lambda: EmbedOptions(TEXT, embed_batch_size=0),
            "--embed_batch_size must be >= 1",
        ),
        (
            lambda: ModelOptions("a", checkpoint_choice="oldest"),
            "--checkpoint_choice must be one of",
        ),
    ],
)
def test_a_value_that_does_not_fit_is_one_line(make, message):
    with pytest.raises(UserError, match=message) as error:
        make()
    assert "\n" not in str(error.value)


def test_values_at_the_bounds_pass():
    ends = (-(2**31), 2**31 - 1)
    assert [SamplingOptions(seed=seed).seed for seed in ends] == [*ends]
    picked = SamplingOptions(1, 1, temperature=0.0, top_k=0, top_p=1.0)
    assert (picked.temperature, picked.top_p) == (0.0, 1.0)
    assert GenerateOptions("a", mem_len=None).mem_len is None
    assert ScoreOptions(TEXT, "all", memory_len=0).memory_len == 0


def test_vectors_are_written_in_three_formats():
    for ending in (".npz", ".jsonl", ".csv"):
        made = EmbedOptions(input_file="lines.txt", output_file="a" + ending)
        assert made.output_file.endswith(ending)
    # One per piece, or by a rule of the folder.
    for pooling in ("", "none", "mean", "cls", "max", "last"):
        assert EmbedOptions(TEXT, pooling=pooling).pooling == pooling
