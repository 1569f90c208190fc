"""Folds test every query once."""

import pytest

from common.errors import UserError
from data.finetuning.ranking import folds


def test_folds_test_every_query_once_and_can_be_repeated(tmp_path):
    names = [str(i) for i in range(11)]
    made = folds.make(names, 4, 7)
    assert sorted(q for f in made for q in f.test) == sorted(names)
    for fold in made:
        parts = [*fold.train, *fold.dev, *fold.test]
        assert sorted(parts) == sorted(names)
    assert folds.make(names[::-1], 4, 7) == made != folds.make(names, 4, 8)
    path = str(tmp_path / "folds.json")
    folds.write(path, made)
    assert folds.read(path, names) == made
    with pytest.raises(
        UserError, match="fold 0 names .* no topic or no candidates"
    ):
        folds.read(path, names[1:])
    twice = [made[0], made[0]]
    folds.write(path, twice)
    with pytest.raises(UserError, match="fold 1 has the query '.*' twice"):
        folds.read(path, names)
    (tmp_path / "folds.json").write_text('{"folds": [{"train": 1}]}')
    with pytest.raises(UserError, match='wanted {"folds"'):
        folds.read(path, names)
    with pytest.raises(UserError, match="--folds must be 3 to"):
        folds.make(names, 2, 0)
