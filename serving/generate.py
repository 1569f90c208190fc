"""Continues a text from left to right.

    python -m serving.generate --checkpoint=DIR --prompt="Once upon a time"

The model was trained on long documents that end in `<eod>`: give it a long
prompt, or a long `--priming_file` whose text comes first, divided from the
prompt by `<eod>`. One JSON object per sample.
"""

import json
import sys
import time

import numpy as np

from common.errors import UserError
from flags import app, lm_flags
from serving import limits
from serving.generation.decoder import Generator
from serving.generation.language_model import load_model


def main() -> None:
    """The command."""
    options, sampling, model_options = lm_flags.generate_from_flags()
    prompt = limits.check_text(options.prompt, "--prompt", options.max_chars)
    priming = read_priming(options.priming_file, options.max_chars)
    lm = load_model(model_options)
    ids = lm.tokenizer.encode(prompt)
    if priming:
        eod = lm.tokenizer.symbols.eod
        ids = [*lm.tokenizer.encode(priming), eod, *ids]
    generator = Generator(
        lm.model,
        lm.banned_ids(),
        lm.tokenizer.symbols.eod,
        lm.tokenizer.symbols.pad,
    )
    start = time.perf_counter()
    result = generator.generate(np.asarray(ids, np.int32), sampling)
    seconds = time.perf_counter() - start
    head = lm.tokenizer.encode(prompt)
    for row, length, log_probs in zip(
        result.tokens, result.lengths, result.log_probs, strict=True
    ):
        new = [int(i) for i in row[:length]]
        ended = bool(new) and new[-1] == lm.tokenizer.symbols.eod
        kept = new[:-1] if ended else new
        answer = {
            "text": lm.tokenizer.decode([*head, *kept]),
            "new_tokens": len(new),
            "ended": ended,
            "log_prob": round(float(np.sum(log_probs[:length])), 5),
        }
        print(json.dumps(answer, ensure_ascii=False), flush=True)
    count = int(result.lengths.sum())
    print(
        f"{count} tokens in {seconds:.1f} s, tracing included", file=sys.stderr
    )


def read_priming(path: str, max_chars: int) -> str:
    """The text of a file, checked; "" without one."""
    if not path:
        return ""
    try:
        with open(path, "rb") as f:
            data = f.read()
    except OSError as e:
        raise UserError(
            f"--priming_file={path} cannot be read: {e.strerror}"
        ) from e
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data.count(b"\n", 0, e.start) + 1
        raise UserError(
            f"--priming_file={path}: line {line} is not UTF-8 (byte "
            f"0x{data[e.start]:02x}); convert the file, e.g. iconv -f latin1 "
            "-t utf-8"
        ) from e
    return limits.check_text(text, path, max_chars)


if __name__ == "__main__":
    lm_flags.define_generate()
    app.run(main)
