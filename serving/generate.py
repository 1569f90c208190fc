"""Continues a text from left to right.

    python -m serving.generate --checkpoint=DIR --prompt="Once upon a time"

A permutation language model was trained on long documents that end in `<eod>`:
give it a long prompt, or a long `--priming_file` whose text comes first,
divided from the prompt by `<eod>`. A left-to-right one (Transformer-XL) reads a
prompt as the beginning of a line, after the lines of the `--priming_file`. One
JSON object per sample.
"""

import json
import sys
import time

import numpy as np

from common import encodings
from common.checks import require
from common.errors import UserError
from flags import app, flag_values
from serving.generation.options import (
    GenerateOptions,
    ModelOptions,
    SamplingOptions,
)


def main() -> None:
    """The command."""
    from serving.exported import limits
    from serving.generation.causal import is_causal

    options = flag_values.build(GenerateOptions)
    sampling = flag_values.build(SamplingOptions)
    model_options = flag_values.build(ModelOptions)
    require(
        sampling.temperature or sampling.num_samples == 1,
        f"--num_samples={sampling.num_samples}: with --temperature=0 all are "
        "the same text: leave one of these flags out",
    )
    prompt = limits.check_text(options.prompt, "--prompt", options.max_chars)
    priming = read_priming(options.priming_file, options.max_chars)
    start = time.perf_counter()
    if is_causal(model_options.checkpoint):
        answers = _left_to_right(
            prompt, priming, options, sampling, model_options
        )
    else:
        _refuse_left_to_right(options, model_options.checkpoint)
        answers = _permuted(prompt, priming, sampling, model_options)
    seconds = time.perf_counter() - start
    for answer in answers:
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    count = sum(answer["new_tokens"] for answer in answers)
    print(
        f"{count} tokens in {seconds:.1f} s, loading and tracing included",
        file=sys.stderr,
    )


def _refuse_left_to_right(options: GenerateOptions, checkpoint: str) -> None:
    """UserError: a flag that only left-to-right models follow is given."""
    for name in ("mem_len", "stop_lines", "allow_unk"):
        if getattr(options, name):
            raise UserError(
                f"--{name}: {checkpoint} is not a left-to-right model; leave "
                "it out"
            )


def _left_to_right(prompt, priming, options, sampling, model_options):
    """Answers of a left-to-right model; a prompt begins a line."""
    from serving.generation.causal import load_causal
    from serving.generation.causal_decoder import CausalGenerator

    lm = load_causal(model_options, options.mem_len)
    if options.stop_lines and lm.vocabulary.eos_id is None:
        raise UserError(
            f"--stop_lines={options.stop_lines}: {lm.vocabulary_path} has no "
            "line end, so no line is ever closed; leave it out"
        )
    if options.allow_unk and lm.vocabulary.unk_id is None:
        raise UserError(
            f"--allow_unk: {lm.vocabulary_path} has no <unk>; leave it out"
        )
    text = _primed(prompt, priming, lm.vocabulary)
    generator = CausalGenerator(
        lm.model,
        lm.banned_ids(options.allow_unk),
        lm.vocabulary.eos_id,
        lm.ends_after(options.stop_lines, text),
    )
    result = generator.generate(lm.prompt_ids(text), sampling)
    head = lm.vocabulary.encode(prompt)
    return [
        {
            "text": lm.text_of([*head, *new]),
            "new_tokens": len(new),
            "ended": generator.has_ended(new),
            "log_prob": round(float(np.sum(log_probs)), 5),
        }
        for new, log_probs in _samples(result)
    ]


def _primed(prompt: str, priming: str, vocabulary) -> str:
    """The prompt behind the lines that are read before it."""
    if not priming:
        return prompt
    if vocabulary.eos_id is None and vocabulary.unit in ("char", "byte"):
        # Line ends vanish there: the blank behind a word is what divides.
        return priming.rstrip("\n") + prompt
    return f"{priming.rstrip()}\n{prompt}"


def _permuted(prompt, priming, sampling, model_options):
    """Answers of a permutation language model."""
    from serving.generation.decoder import Generator
    from serving.generation.language_model import load_model

    lm = load_model(model_options)
    ids = lm.tokenizer.encode(prompt)
    eod, pad = lm.tokenizer.symbols.eod, lm.tokenizer.symbols.pad
    if priming:
        ids = [*lm.tokenizer.encode(priming), eod, *ids]
    # A zero-width space has no piece: it begins a document, as in the export.
    ids = ids or [eod]
    generator = Generator(lm.model, lm.banned_ids(), eod, pad)
    result = generator.generate(np.asarray(ids, np.int32), sampling)
    head, answers = lm.tokenizer.encode(prompt), []
    for new, log_probs in _samples(result):
        ended = bool(new) and new[-1] == eod
        kept = new[:-1] if ended else new
        answers.append(
            {
                "text": lm.tokenizer.decode([*head, *kept]),
                "new_tokens": len(new),
                "ended": ended,
                "log_prob": round(float(np.sum(log_probs)), 5),
            }
        )
    return answers


def _samples(result):
    """(new ids, their log-probabilities) of every sample."""
    from serving.exported import limits

    for row, length, log_probs in zip(
        result.tokens, result.lengths, result.log_probs, strict=True
    ):
        limits.check_output(log_probs[:length], "the prompt")
        yield [int(i) for i in row[:length]], log_probs[:length]


def read_priming(path: str, max_chars: int) -> str:
    """The text of a file, checked; "" without one."""
    from serving.exported import limits

    if not path:
        return ""
    text = encodings.read(path, "priming_file")
    return limits.check_text(text, path, max_chars)


if __name__ == "__main__":
    flag_values.define(ModelOptions)
    flag_values.define(GenerateOptions)
    flag_values.define(SamplingOptions)
    app.run(main)
