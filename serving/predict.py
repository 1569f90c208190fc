"""Batch prediction from a SavedModel alone.

    python -m serving.predict --saved_model_dir=DIR --text="..."
    python -m serving.predict --saved_model_dir=DIR --input_file=rows.jsonl \\
        --output_file=answers.jsonl

Rows stream through in batches of consecutive rows; answers come in input
order, one JSON object per line. Answers go to OUTPUT.partial, which becomes
OUTPUT at the end; the same command goes on with the row after its last whole
line.
"""

import gzip
import itertools
import json
import lzma
import os
import sys
import time
from collections.abc import Callable, Iterator

import numpy as np

from common import files
from common.errors import UserError
from flags import app, predict_flags
from serving import limits, rows
from serving.options import PredictOptions
from serving.saved_model import RAW, SavedModel

_PROGRESS_SECONDS = 2.0


def main() -> None:
    """The command."""
    options = predict_flags.from_flags()
    model = SavedModel(options.saved_model_dir)
    if options.text:
        lines = []
        for answer in predict_rows(model, _from_flags(options), options):
            lines.append(json.dumps(answer, ensure_ascii=False))
            print(lines[-1], flush=True)
        if options.output_file:
            files.write_text(options.output_file, "\n".join(lines) + "\n")
        return
    predict_file(model, options)


def predict_file(model: SavedModel, options: PredictOptions) -> int:
    """Predicts a file; returns the number of rows answered by this call."""
    if not os.path.isfile(options.input_file):
        raise UserError(f"--input_file={options.input_file} does not exist")
    lines = _numbered_lines(options.input_file)
    if not options.output_file:
        for answer in predict_rows(model, lines, options):
            print(json.dumps(answer, ensure_ascii=False), flush=True)
        return 0
    if os.path.exists(options.output_file):
        raise UserError(
            f"--output_file={options.output_file} exists and is complete: "
            "remove it or give another name"
        )
    partial = options.output_file + ".partial"
    done = _resume(partial, _identity(model, options))
    if done:
        print(f"going on after row {done} of {partial}", file=sys.stderr)
    count = 0
    progress = _Progress(done)
    with open(partial, "ab") as out:
        rest = itertools.islice(lines, done, None)
        for answer in predict_rows(model, rest, options):
            line = json.dumps(answer, ensure_ascii=False) + "\n"
            out.write(line.encode())
            count += 1
            progress.show(done + count)
        out.flush()
        os.fsync(out.fileno())
    os.replace(partial, options.output_file)
    os.remove(partial + ".json")
    progress.finish(done + count)
    return count


def predict_rows(
    model: SavedModel,
    numbered: Iterator[tuple[str, str | bytes]],
    options: PredictOptions,
) -> Iterator[dict]:
    """Answers of (where, line) rows, in order, a batch at a time.

    Lines that are bytes must be UTF-8; others are bad rows.
    """
    names = list(model.inputs(RAW))
    parse = _json_row if options.input_file.endswith(_JSONL) else _text_row
    if options.text:
        parse = _text_row
    while chunk := list(itertools.islice(numbered, options.batch_size)):
        good, answers = [], [None] * len(chunk)
        for i, (where, line) in enumerate(chunk):
            try:
                line = _decode(line, where)
                row = parse(line, where, names)
                good.append((i, _checked(model, row, where, options.max_chars)))
            except UserError as e:
                if not options.skip_bad_rows:
                    raise
                answers[i] = {"error": str(e)}
        for i, answer in _run(model, good):
            answers[i] = answer
        yield from answers


_JSONL = (".jsonl", ".jsonl.gz", ".jsonl.xz")


def _run(model: SavedModel, good: list[tuple[int, dict]]):
    # Rows whose lists have different lengths cannot share a tensor.
    groups: dict[tuple, list] = {}
    for i, row in good:
        key = tuple(np.shape(v) for v in row.values())
        groups.setdefault(key, []).append((i, row))
    for group in groups.values():
        batch = {k: [row[k] for _, row in group] for k in group[0][1]}
        outputs = model(batch)
        for place, (i, _) in enumerate(group):
            yield i, rows.format_row(model.description, outputs, place)


def _checked(model: SavedModel, row: dict, where: str, max_chars: int) -> dict:
    """The row with every text checked against the signature's ranks."""
    checked = {}
    for name, spec in model.inputs(RAW).items():
        value = row[name]
        at = f"{where}: {name}"
        if len(spec["shape"]) == 1:
            checked[name] = limits.check_text(value, at, max_chars)
            continue
        if not isinstance(value, list) or not value:
            raise UserError(f"{at}: wanted a list of strings")
        checked[name] = [
            limits.check_text(v, f"{at}[{i}]", max_chars)
            for i, v in enumerate(value)
        ]
    return checked


def _text_row(line: str, where: str, names: list[str]) -> dict:
    if len(names) == 1:
        return {names[0]: line}
    cells = line.split("\t")
    if len(cells) < len(names):
        raise UserError(
            f"{where}: wanted {len(names)} texts divided by tabs "
            f"({', '.join(names)}), found {len(cells)}"
        )
    # A list input (the options of a question) takes all that is left.
    row = dict(zip(names, cells, strict=False))
    if len(cells) > len(names):
        row[names[-1]] = cells[len(names) - 1 :]
    return row


def _json_row(line: str, where: str, names: list[str]) -> dict:
    try:
        row = json.loads(line)
    except ValueError as e:
        raise UserError(f"{where}: is no valid JSON: {e}") from e
    if not isinstance(row, dict) or not set(names) <= set(row):
        raise UserError(f"{where}: wanted an object with the keys {names}")
    return {name: row[name] for name in names}


def _from_flags(options: PredictOptions) -> Iterator[tuple[str, str]]:
    for i, text in enumerate(options.text):
        yield (f"--text[{i}]" if len(options.text) > 1 else "--text"), text


def _decode(line: str | bytes, where: str) -> str:
    if isinstance(line, str):
        return line
    try:
        return line.decode("utf-8").rstrip("\r\n")
    except UnicodeDecodeError as e:
        raise UserError(
            f"{where}: byte {e.start} of the line is not UTF-8"
        ) from e


def _numbered_lines(path: str) -> Iterator[tuple[str, bytes]]:
    """(file:line, bytes) of every line."""
    opener: Callable = open
    if path.endswith(".gz"):
        opener = gzip.open
    elif path.endswith(".xz"):
        opener = lzma.open
    with opener(path, "rb") as f:
        for number, raw in enumerate(f, start=1):
            yield f"{path}:{number}", raw


def _identity(model: SavedModel, options: PredictOptions) -> dict:
    """What must be the same for a run to go on."""
    state = os.stat(options.input_file)
    return {
        "input_file": os.path.abspath(options.input_file),
        "input_bytes": state.st_size,
        "input_mtime_ns": state.st_mtime_ns,
        "saved_model": os.path.abspath(model.version_dir),
    }


def _resume(partial: str, identity: dict) -> int:
    """Cuts a half-written line; the number of rows that are done."""
    record = partial + ".json"
    if not os.path.exists(partial) or not os.path.exists(record):
        open(partial, "wb").close()
        files.write_json(record, identity)
        return 0
    with open(record) as f:
        found = json.load(f)
    if found != identity:
        wrong = [k for k in identity if found.get(k) != identity[k]]
        raise UserError(
            f"{partial} belongs to another run (different: "
            f"{', '.join(wrong)}): remove it to begin anew"
        )
    done, size = 0, 0
    with open(partial, "rb") as f:
        for line in f:
            if line.endswith(b"\n"):
                done += 1
                size += len(line)
    os.truncate(partial, size)
    return done


class _Progress:
    """Rows and rows per second on standard error, every two seconds."""

    def __init__(self, done: int):
        self._first = done
        self._start = self._last = time.monotonic()

    def show(self, done: int) -> None:
        """One line if it is time for one."""
        if time.monotonic() - self._last >= _PROGRESS_SECONDS:
            self._last = time.monotonic()
            self._print(done)

    def finish(self, done: int) -> None:
        """The last line."""
        self._print(done)

    def _print(self, done: int) -> None:
        seconds = max(time.monotonic() - self._start, 1e-9)
        speed = (done - self._first) / seconds
        print(f"{done} rows, {speed:.1f} rows/s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    predict_flags.define()
    app.run(main)
