"""A folder of jobs lies on a disk of this machine."""

import types

import pytest

from common.errors import UserError
from studies.folders import local_folder
from studies.language import lm_baselines


def test_a_study_in_a_bucket_is_refused(tmp_path, monkeypatch):
    """A local folder `gs:` had its results."""
    monkeypatch.chdir(tmp_path)
    assert local_folder("out") == str(tmp_path / "out")
    wanted = "--output_dir=gs://b/out: studies wri"
    with pytest.raises(UserError, match=wanted):
        local_folder("gs://b/out")
    given = types.SimpleNamespace(output_dir="gs://b/out", table=False)
    monkeypatch.setattr(lm_baselines, "FLAGS", given)
    with pytest.raises(UserError, match=wanted):
        lm_baselines.main()
    assert not list(tmp_path.iterdir())
