"""Cross-validation over queries, and the file that lets others repeat it."""

import dataclasses

import numpy as np

from common import files
from common.errors import UserError

MIN_FOLDS = 3  # train, dev and test


@dataclasses.dataclass(frozen=True)
class Fold:
    """Query ids to train on, to stop by, and to report."""

    train: tuple[str, ...]
    dev: tuple[str, ...]
    test: tuple[str, ...]


def make(queries: list[str], count: int, seed: int) -> list[Fold]:
    """Folds of near-equal parts: part i tests, part i + 1 stops, the rest trains.

    Raises UserError: fewer than 3 folds, or fewer queries than folds.
    """
    if count < MIN_FOLDS or len(queries) < count:
        raise UserError(
            f"--folds must be {MIN_FOLDS} to the number of judged queries, "
            f"{len(queries)}, received {count}"
        )
    order = np.random.default_rng(seed).permutation(len(queries))
    known = sorted(queries)
    parts = [
        tuple(known[i] for i in sorted(part))
        for part in np.array_split(order, count)
    ]
    folds = []
    for i in range(count):
        dev = (i + 1) % count
        train = [q for j, p in enumerate(parts) if j not in (i, dev) for q in p]
        folds.append(Fold(tuple(train), parts[dev], parts[i]))
    return folds


def write(path: str, folds: list[Fold]) -> None:
    """Writes the folds as JSON, atomically."""
    files.write_json(path, {"folds": [dataclasses.asdict(f) for f in folds]})


def read(path: str, queries: list[str]) -> list[Fold]:
    """The folds of a file.

    Raises UserError: another form, an unknown query, a query in two parts of a
    fold or in the test part of two folds.
    """
    value = files.read_json_object(path, "give a file of folds")
    folds, tested = [], set()
    for number, part in enumerate(_list_of(path, value)):
        fold = Fold(*(tuple(part[n]) for n in ("train", "dev", "test")))
        where = f"{path}: fold {number}"
        everyone = [*fold.train, *fold.dev, *fold.test]
        unknown = sorted(set(everyone) - set(queries))
        if unknown:
            raise UserError(
                f"{where} names the query {unknown[0]!r}, which has no "
                "judgement, no topic or no candidates: take it out"
            )
        twice = [q for q in everyone if everyone.count(q) > 1]
        if twice or tested & set(fold.test):
            name = (twice or sorted(tested & set(fold.test)))[0]
            raise UserError(
                f"{where} has the query {name!r} twice: a query is in one "
                "part of a fold, and tested by one fold"
            )
        if not (fold.train and fold.dev and fold.test):
            raise UserError(f"{where}: train, dev and test must not be empty")
        tested |= set(fold.test)
        folds.append(fold)
    return folds


def _list_of(path: str, value: dict) -> list[dict]:
    parts = value.get("folds")
    good = isinstance(parts, list) and bool(parts)
    for part in parts if good else ():
        good = good and isinstance(part, dict)
        for name in ("train", "dev", "test"):
            ids = part.get(name) if good else None
            good = isinstance(ids, list) and all(
                isinstance(i, str) for i in ids
            )
    if not good:
        raise UserError(
            f'{path}: wanted {{"folds": [{{"train": [ids], "dev": [ids], '
            '"test": [ids]}]}, ids as strings'
        )
    return parts
