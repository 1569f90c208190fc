"""Rows of a file through a SavedModel, in batches, with resume.

CSV, TSV and JSONL are read as fine-tuning reads them: texts by the names of
their columns, a label as `true_label` beside the answer, a key or the number
of the row. A tagger reads columns of tagged tokens (`tagged_rows`). Other files
hold one text per line.

Rows stream through in batches of consecutive rows; answers come in input
order, one JSON object per line. Answers go to OUTPUT.partial, which becomes
OUTPUT at the end; the same command goes on with the row after its last whole
line. Where no row was answered nothing is left.
"""

import contextlib
import itertools
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO

import numpy as np

from common import files, locks
from common.errors import UserError
from serving.exported import input_rows, limits, rows, tagged_rows
from serving.exported.rows import InputRow
from serving.options import PredictOptions
from serving.saved_model import RAW, SavedModel

_PROGRESS_SECONDS = 2.0
# Of the record of a run: which rows it answers with an error.
_SKIPPED = "skip_bad_rows or max_chars"


def answer(model: SavedModel, options: PredictOptions) -> None:
    """Answers the texts of the options, or their file.

    `model` may be whatever is asked like a `SavedModel`. Raises UserError: a
    row or a file that is not what was wanted.
    """
    if not options.text:
        predict_file(model, options)
        return
    files.refuse_existing(options.output_file)
    lines = []
    for row in predict_rows(model, _from_flags(model, options), options):
        lines.append(json.dumps(row, ensure_ascii=False))
        print(lines[-1], flush=True)
    if options.output_file:
        files.write_text(options.output_file, "\n".join(lines) + "\n")


def predict_file(model: SavedModel, options: PredictOptions) -> int:
    """Predicts a file; returns the number of rows answered by this call."""
    if not os.path.exists(options.input_file):
        raise UserError(f"--input_file={options.input_file} does not exist")
    if not os.path.isfile(options.input_file):
        raise UserError(
            f"--input_file={options.input_file}: wanted a file, which a run "
            "that goes on reads again, found a folder, a pipe or a device; "
            "write the rows into a file"
        )
    source = input_rows.read_rows(model.inputs(RAW), model.description, options)
    if not options.output_file:
        for answer in predict_rows(model, source, options):
            print(json.dumps(answer, ensure_ascii=False), flush=True)
        return 0
    with locks.held(options.output_file, is_folder=False):
        return _predict_to_file(model, options, source)


def _predict_to_file(
    model: SavedModel, options: PredictOptions, source: Iterator[InputRow]
) -> int:
    files.refuse_existing(options.output_file)
    partial = options.output_file + ".partial"
    for path in (partial, partial + ".json"):
        files.refuse_input(path, [options.input_file])
    count = 0
    file = locks.open_own(partial)
    if os.path.getsize(partial) and not os.path.exists(partial + ".json"):
        file.close()
        raise UserError(
            f"{partial} holds no answers of a stopped run, whose record "
            f"{partial}.json is missing: move it away or give another "
            "--output_file"
        )
    try:
        with files.writing(partial), file as out:
            done = _resume(out, partial, _identity(model, options))
            if done:
                print(
                    f"going on after row {done} of {partial}", file=sys.stderr
                )
            progress = _Progress(done)
            rest = itertools.islice(source, done, None)
            for answer in predict_rows(model, rest, options):
                line = json.dumps(answer, ensure_ascii=False) + "\n"
                out.write(line.encode())
                count += 1
                progress.show(done + count)
            out.flush()
            os.fsync(out.fileno())
    finally:
        if not os.path.getsize(partial):
            _remove(partial)
    os.replace(partial, options.output_file)
    _remove(partial)
    progress.finish(done + count)
    return count


def predict_rows(
    model: SavedModel, source: Iterator[InputRow], options: PredictOptions
) -> Iterator[dict]:
    """Answers of rows, in order, a batch at a time.

    Raises UserError: a bad row, without `options.skip_bad_rows`; a number of
    the model's that is none.
    """
    while chunk := list(itertools.islice(source, options.batch_size)):
        good, answers = [], [None] * len(chunk)
        for i, row in enumerate(chunk):
            try:
                if row.inputs is None:
                    hint = "; correct the row or give --skip_bad_rows"
                    hint = "" if options.skip_bad_rows else hint
                    raise UserError(f"{row.problem}{hint}")
                good.append((i, _checked(model, row, options.max_chars)))
            except UserError as e:
                if not options.skip_bad_rows:
                    raise
                answers[i] = row.known | {"error": str(e)}
        for i, answer in _run(model, chunk, good):
            told = tagged_rows.told(chunk[i], answer, model.description)
            answers[i] = chunk[i].known | answer | told
        yield from answers


def _run(
    model: SavedModel, chunk: list[InputRow], good: list[tuple[int, dict]]
):
    # Rows whose lists have different lengths cannot share a tensor.
    groups: dict[tuple, list] = {}
    for i, row in good:
        key = tuple(np.shape(v) for v in row.values())
        groups.setdefault(key, []).append((i, row))
    for group in groups.values():
        batch = {k: [row[k] for _, row in group] for k in group[0][1]}
        outputs = model(batch)
        for name, value in outputs.items():
            if value.dtype.kind == "f":
                first = chunk[group[0][0]].where
                limits.check_output(value, f"{name} from {first} on")
        for place, (i, _) in enumerate(group):
            yield i, rows.format_row(model.description, outputs, place)


def _checked(model: SavedModel, row: InputRow, max_chars: int) -> dict:
    """The row with every value checked against the signature."""
    data = model.description.get("data_options", {})
    checked, specs = {}, model.inputs(RAW)
    for number, (name, spec) in enumerate(specs.items()):
        value = row.inputs[name]
        at = f"{row.where}: {name}"
        if spec["dtype"] != "string":
            checked[name] = _numbers(value, spec, at)
            continue
        if len(spec["shape"]) == 1:
            blank = isinstance(value, str) and not value.strip()
            if blank and number and data.get("allow_empty_text"):
                checked[name] = ""  # as in training: there is no second text
                continue
            checked[name] = limits.check_text(value, at, max_chars)
            continue
        if not isinstance(value, list) or not value:
            raise UserError(f"{at}: wanted a list of strings")
        checked[name] = [
            limits.check_text(v, f"{at}[{i}]", max_chars)
            for i, v in enumerate(value)
        ]
    limits.check_lists(checked, specs, row.where)
    return checked


def _numbers(value, spec: Mapping, at: str) -> np.ndarray:
    """Of one row, with as many dimensions as the signature has."""
    array = limits.check_numbers(value, spec["dtype"], at, limits.MAX_NUMBERS)
    if array.ndim != len(spec["shape"]) - 1 or not array.size:
        raise UserError(
            f"{at}: wanted numbers of the shape {spec['shape'][1:]}, found "
            f"{list(array.shape)}"
        )
    return array


def _from_flags(model: SavedModel, options) -> Iterator[InputRow]:
    for i, text in enumerate(options.text):
        where = f"--text[{i}]" if len(options.text) > 1 else "--text"
        yield input_rows.from_text(
            model.inputs(RAW), model.description, options, where, text
        )


def _identity(model: SavedModel, options: PredictOptions) -> dict:
    """What must be the same for a run to go on."""
    state = os.stat(options.input_file)
    return {
        "input_file": os.path.abspath(options.input_file),
        "input_bytes": state.st_size,
        "input_mtime_ns": state.st_mtime_ns,
        "saved_model": os.path.abspath(model.version_dir),
        "weights": [_digest(m) for m in getattr(model, "models", [model])],
        "text_columns": list(options.text_columns),
        "label_column": options.label_column,
        "key_column": options.key_column,
        "has_header": options.has_header,
        _SKIPPED: options.max_chars if options.skip_bad_rows else None,
    }


def _digest(model: SavedModel) -> str:
    """Of an export's settings and of the checksums of its weights: another
    one may lie where it was."""
    names = ("signature.json", "variables/variables.index")
    paths = [os.path.join(model.version_dir, name) for name in names]
    digests = [files.sha256_of_file(p) for p in paths if files.exists(p)]
    return " ".join(digests)


def _resume(out: IO[bytes], partial: str, identity: dict) -> int:
    """Cuts a half-written line; the number of rows that are done."""
    record = partial + ".json"
    done = size = 0
    if os.path.exists(record):
        done, size = _whole_lines(out)
    if not done:  # nobody's answers are lost
        out.truncate(0)
        files.write_json(record, identity)
        return 0
    progress = files.read_json_object(record, f"remove {partial} to start over")
    if progress.get(_SKIPPED) is None:
        # No answer is an error so far: these flags may get another value.
        progress[_SKIPPED] = identity[_SKIPPED]
        if progress == identity:
            files.write_json(record, identity)
    if progress != identity:
        wrong = [k for k in identity if progress.get(k) != identity[k]]
        raise UserError(
            f"{partial} has {done} answers of another run (different: "
            f"{', '.join(wrong)}): remove it to start over"
        )
    out.truncate(size)
    return done


def _whole_lines(f: IO[bytes]) -> tuple[int, int]:
    """Number and bytes of a file's lines that end."""
    done = size = 0
    f.seek(0)
    for line in f:
        if line.endswith(b"\n"):
            done += 1
            size += len(line)
    return done, size


def _remove(partial: str) -> None:
    """A file of answers and its record."""
    for path in (partial, partial + ".json"):
        with contextlib.suppress(FileNotFoundError):
            os.remove(path)


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
