"""Results of other options are refused."""

import pytest

from common.errors import UserError
from studies.language import identity


def test_results_are_of_one_identity(tmp_path):
    facts = {"steps": 4, "sizes": (1, 2)}
    for _ in range(2):
        identity.settle(str(tmp_path), facts, "r.tsv")
    with pytest.raises(UserError, match="`steps` wanted 5, found 4; give"):
        identity.settle(str(tmp_path), facts | {"steps": 5}, "r.tsv")
    with pytest.raises(UserError, match="`more` wanted 1, found nothing"):
        identity.settle(str(tmp_path), facts | {"more": 1}, "r.tsv")
    identity.settle(str(tmp_path), facts, "r.tsv")


def test_results_of_an_unknown_identity_are_refused(tmp_path):
    (tmp_path / "r.tsv").write_text("x")
    with pytest.raises(UserError, match="r.tsv was made with other options"):
        identity.settle(str(tmp_path), {"steps": 4}, "r.tsv")
    assert not (tmp_path / identity.FILE).exists()
