"""Which checkpoint of a folder is the newest whole one."""

import os
import shutil

import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import folder as checkpoints
from modeling.checkpoints import native, restore

BASE = "model.ckpt"
DATA = ".data-00000-of-00001"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder with the steps 2, 9 and 10."""
    path = tmp_path_factory.mktemp("whole")
    root = tf.train.Checkpoint(model=tf.Module(), step=tf.Variable(0))
    for step in (2, 9, 10):
        root.step.assign(step)
        root.write(str(path / f"{BASE}-{step}"))
    checkpoints.publish(str(path), [f"{BASE}-{n}" for n in (2, 9, 10)])
    return path


@pytest.fixture
def folder(whole, tmp_path):
    """A copy of it."""
    return shutil.copytree(whole, tmp_path / "m")


def _step(folder) -> int | None:
    newest = checkpoints.newest(str(folder))
    return newest and checkpoints.step_of(newest.prefix)


def test_the_one_that_the_file_names(folder):
    newest = checkpoints.newest(str(folder), BASE)
    assert newest.prefix == str(folder / f"{BASE}-10") and not newest.why
    assert [checkpoints.step_of(p) for p in checkpoints.whole(str(folder))] == [
        2,
        9,
        10,
    ]


@pytest.mark.parametrize("name", ["a [1] b", "*", "wh?t", "back\\slash", "["])
def test_signs_of_patterns_in_the_path(whole, tmp_path, name):
    folder = shutil.copytree(whole, tmp_path / name / "m")
    newest = checkpoints.newest(str(folder))
    assert checkpoints.step_of(newest.prefix) == 10
    reader = native.open_reader(newest.prefix)
    assert reader.get_tensor("step/.ATTRIBUTES/VARIABLE_VALUE") == 10
    source = restore.resolve(str(folder))
    assert source.format == "native" and source.path == newest.prefix
    digest = restore.content_digest(str(folder))
    assert digest == restore.content_digest(str(whole))
    with pytest.raises(UserError, match="rename its files"):
        native.open_reader(str(tmp_path / "a*"))


@pytest.mark.parametrize("text", [b"", b'model_checkpoint_path: "a', b"\xff"])
def test_a_damaged_checkpoint_file_names_nothing(folder, text, caplog):
    (folder / "checkpoint").write_bytes(text)
    newest = checkpoints.newest(str(folder))
    assert checkpoints.step_of(newest.prefix) == 10
    assert "no `checkpoint` file says which" in newest.why
    assert not caplog.records  # TensorFlow warns


@pytest.mark.parametrize("ending", [".index", DATA])
def test_a_missing_file_of_the_newest(folder, ending):
    os.remove(folder / f"{BASE}-10{ending}")
    newest = checkpoints.newest(str(folder))
    assert newest.prefix.endswith("-9")
    assert f"took {BASE}-9" in newest.why
    assert f"{BASE}-10{ending} is missing" in newest.why
    assert "\n" not in newest.why


@pytest.mark.parametrize("size", [0, 2, 40, -1])
def test_a_cut_index(folder, size):
    path = folder / f"{BASE}-10.index"
    path.write_bytes(path.read_bytes()[:size])
    newest = checkpoints.newest(str(folder))
    assert newest.prefix.endswith("-9") and "cut or damaged" in newest.why


def test_one_of_two_shards_is_missing(folder):
    # A header of two shards: its entry is `08 01`, the field and its value.
    index = folder / f"{BASE}-10.index"
    index.write_bytes(index.read_bytes().replace(b"\x08\x01", b"\x08\x02", 1))
    data = folder / f"{BASE}-10{DATA}"
    data.rename(folder / f"{BASE}-10.data-00000-of-00002")
    assert _step(folder) == 9
    shutil.copy(
        folder / f"{BASE}-10.data-00000-of-00002",
        folder / f"{BASE}-10.data-00001-of-00002",
    )
    assert _step(folder) == 10


def test_the_file_is_a_hint(folder):
    hint = folder / "checkpoint"
    hint.write_text(f'model_checkpoint_path: "/old/place/{BASE}-77"\n')
    newest = checkpoints.newest(str(folder))
    assert newest.prefix == str(folder / f"{BASE}-10")
    assert f"names {BASE}-77, which is not there" in newest.why
    hint.write_text(f'model_checkpoint_path: "{BASE}-9"\n')
    newest = checkpoints.newest(str(folder))
    assert newest.prefix.endswith("-10") and f"{BASE}-9, which is older" in (
        newest.why
    )
    for content in (b"", b"\xff\xfe", b"model_checkpoint_path: 3"):
        hint.write_bytes(content)
        assert _step(folder) == 10, content
    hint.unlink()
    assert "no `checkpoint` file" in checkpoints.newest(str(folder)).why


def test_none_is_whole(folder):
    for step in (2, 9, 10):
        os.remove(folder / f"{BASE}-{step}{DATA}")
    for ask in (checkpoints.newest, restore.resolve):
        with pytest.raises(UserError, match="no whole checkpoint") as e:
            ask(str(folder))
        assert f"{BASE}-10{DATA} is missing" in str(e.value)
    assert checkpoints.whole(str(folder)) == []
    for path in folder.glob("*.index"):
        path.unlink()
    with pytest.raises(UserError, match=f"names {BASE}-10, which is not"):
        checkpoints.newest(str(folder))
    (folder / "checkpoint").unlink()
    assert checkpoints.newest(str(folder)) is None


def test_the_only_one_is_replaced_while_a_reader_looks(folder, monkeypatch):
    """As beside a training with --max_save=1."""
    for step in (2, 9):
        for path in folder.glob(f"{BASE}-{step}.*"):
            path.unlink()
    look = checkpoints.files.list_names

    def look_then_replace(path):
        names = look(path)
        for ending in (".index", DATA):
            if (folder / f"{BASE}-10{ending}").exists():
                old = folder / f"{BASE}-10{ending}"
                old.rename(folder / f"{BASE}-11{ending}")
        checkpoints.publish(str(folder), [f"{BASE}-11"])
        return names

    monkeypatch.setattr(checkpoints.files, "list_names", look_then_replace)
    assert _step(folder) == 11
    assert not checkpoints.newest(str(folder)).why


def test_what_a_killed_save_left_never_was_a_checkpoint(folder):
    (folder / "checkpoint").unlink()
    for step in (2, 9):
        for path in folder.glob(f"{BASE}-{step}.*"):
            path.unlink()
    (folder / f"{BASE}-10_temp").mkdir()
    index = folder / f"{BASE}-10.index"
    index.write_bytes(b"")
    assert checkpoints.newest(str(folder)) is None
    index.unlink()
    assert checkpoints.newest(str(folder)) is None
    assert checkpoints.unfinished(str(folder), BASE) == {f"{BASE}-10"}
    # Once it was published it was one.
    checkpoints.publish(str(folder), [f"{BASE}-10"])
    with pytest.raises(UserError, match="is missing"):
        checkpoints.newest(str(folder))


def test_no_folder_and_other_names(folder):
    assert checkpoints.newest(str(folder / "none")) is None
    assert checkpoints.newest(str(folder), "ckpt") is None
    for ending in (".index", DATA):
        shutil.copy(
            folder / f"{BASE}-9{ending}", folder / f"xlnet_model.ckpt{ending}"
        )
    assert _step(folder) == 10  # the name that `checkpoint` has
    (folder / "checkpoint").unlink()
    with pytest.raises(UserError, match="give the prefix"):
        checkpoints.newest(str(folder))
    assert checkpoints.newest(str(folder), BASE).prefix.endswith("-10")


def test_a_line_is_said_once_per_process(folder, capsys):
    os.remove(folder / f"{BASE}-10.index")
    for _ in range(2):
        assert checkpoints.newest_prefix(str(folder)).endswith("-9")
    out, err = capsys.readouterr()
    assert err.count("took") == 1 and not out
