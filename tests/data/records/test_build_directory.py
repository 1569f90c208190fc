"""Folders that are finished, foreign or in use."""

import os

import pytest

from common.errors import UserError
from tests.data import builds
from tests.helpers.holding import another_process_holds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


def test_finished_output_is_left_alone(folder, capsys):
    manifest = builds.run(folder, "done")
    path = os.path.join(manifest.data_dir, "manifest.json")
    before = os.stat(path).st_mtime_ns
    # What a process left that was killed behind its manifest.
    left = os.path.join(manifest.data_dir, "block-00000.json")
    with open(left, "w") as f:
        f.write("{}")
    builds.run(folder, "done", quiet=False)
    assert "nothing to do" in capsys.readouterr().out
    assert not os.path.exists(left)
    assert os.stat(path).st_mtime_ns == before
    with pytest.raises(UserError, match="num_predict: wanted 5, found 16"):
        builds.run(folder, "done", num_predict=5)
    with pytest.raises(UserError, match="spiece_sha256"):
        other = folder / "other"
        other.mkdir()
        model = builds.train_spiece(other, str(folder / "corpus.txt"), 100)
        builds.run(folder, "done", spiece_model_file=model)


def test_foreign_folders_and_locks(folder):
    (folder / "foreign").mkdir()
    (folder / "foreign" / "notes.txt").write_text("mine")
    with pytest.raises(UserError, match="holds other files"):
        builds.run(folder, "foreign")
    (folder / "locked").mkdir()
    with another_process_holds(str(folder / "locked")) as other:
        with pytest.raises(UserError, match=f"in use by process {other.pid} "):
            builds.run(folder, "locked")
