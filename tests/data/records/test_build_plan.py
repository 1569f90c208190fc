"""What a folder belongs to: the first difference is named, not thousands."""

import json
import os
import types

import pytest

from common.errors import UserError
from data.corpus.documents import Block
from data.records import build_plan
from data.records.layout import Plan
from tests.helpers.holding import another_process_holds
from tests.helpers.runs import builds

RECORD = {
    "options": {"seed": 3, "unit": "word"},
    "inputs": [["a.txt", 7], ["b.txt", 9]],
    "vocabulary": "0f",
}


def refused(folder, **changes):
    with pytest.raises(UserError) as caught:
        build_plan.check_folder(str(folder), RECORD | changes)
    return str(caught.value)


def test_a_folder_is_new_unfinished_or_finished(tmp_path):
    assert not build_plan.check_folder(str(tmp_path), RECORD)
    (tmp_path / ".lock").touch()
    assert not build_plan.check_folder(str(tmp_path), RECORD)
    (tmp_path / "notes.txt").touch()
    assert "holds other files (notes.txt)" in refused(tmp_path)
    (tmp_path / "plan.json").write_text(json.dumps(RECORD | {"more": 1}))
    assert not build_plan.check_folder(str(tmp_path), RECORD)
    (tmp_path / "manifest.json").touch()
    assert build_plan.check_folder(str(tmp_path), RECORD)


@pytest.mark.parametrize(
    "content", ["", "[1]", "7", "[" * 100_000], ids=range(4)
)
def test_a_plan_that_is_none_is_another_file(tmp_path, content):
    (tmp_path / "plan.json").write_text(content)
    assert "holds other files (plan.json)" in refused(tmp_path)


def test_every_option_that_differs_is_named(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(RECORD))
    line = refused(tmp_path, options={"seed": 4, "size": 1}, vocabulary="1e")
    assert "seed: wanted 4, found 3" in line
    assert "size: wanted 1, found None; unit: wanted None, found word" in line
    assert "vocabulary: wanted 1e, found 0f" in line


def test_the_first_input_that_differs_is_named(tmp_path):
    (tmp_path / "plan.json").write_text(json.dumps(RECORD))
    line = refused(tmp_path, inputs=[["a.txt", 7], ["c.txt", 8], ["d", 1]])
    assert "wanted 3 files, found 2; file 1: wanted c.txt of 8 bytes" in line
    assert "found b.txt of 9 bytes" in line and "d of 1" not in line
    more = refused(tmp_path, inputs=[*RECORD["inputs"], ["d", 1]])
    assert "inputs: wanted 3 files, found 2;" in more and "file 2" not in more


def test_blocks_of_changed_text_are_built_again(tmp_path):
    blocks = []
    for number in range(3):
        path = tmp_path / f"{number}.txt"
        path.write_text(f"text {number}\n")
        blocks.append((Block(str(path), 0, 7),))
    plan = Plan(tuple(blocks))
    digests = build_plan.hash_blocks(plan.blocks, range(3), 1)
    assert len(set(digests.values())) == 3
    summaries = {
        # Block 2 is made of its neighbour's text, too.
        number: {"made_of": {str(n): digests[n] for n in of}}
        for number, of in ((0, [0]), (1, [1]), (2, [2, 0]))
    }
    log = []
    assert build_plan.drop_changed(summaries, plan, 1, log.append) == summaries
    (tmp_path / "0.txt").write_text("other!\n")
    kept = build_plan.drop_changed(summaries, plan, 1, log.append)
    assert kept == {1: summaries[1]}
    assert log == [
        "2 finished blocks (the first is 0) are of text that was changed "
        "since: they are built again"
    ]


def test_a_plan_is_stored_with_what_the_layout_adds(tmp_path):
    def make_plan(blocks, stored, save, log):
        stored["added"] = stored.get("added", 0) + 1
        save()
        return Plan(tuple(blocks))

    layout = types.SimpleNamespace(
        options=types.SimpleNamespace(
            output_dir=str(tmp_path), block_megabytes=0.001
        ),
        make_plan=make_plan,
    )
    log = []
    long = [(Block("x.txt", 0, 9000),), (Block("x.txt", 9000, 9100),)]
    for _ in range(2):
        build_plan.make_plan(layout, long, RECORD, log.append)
    stored = json.loads((tmp_path / "plan.json").read_text())
    assert stored == RECORD | {"added": 2}
    assert log[0].startswith("x.txt: 1 times no document ends within")


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


TEXTS = ("a b\n\nc\n\n", "d\n\na  b\n\nc\nd\n\n", "c d\n\ne\n\nc\n\n")


@pytest.fixture
def blocks(tmp_path):
    found = []
    for number, text in enumerate(TEXTS):
        path = tmp_path / f"{number}.txt"
        path.write_text(text)
        found.append((Block(str(path), 0, len(text)),))
    return found


def find(blocks, stored, shares=()):
    options = types.SimpleNamespace(text_field="text", num_workers=1)
    log, saved = [], []
    found = build_plan.find_duplicates(
        options, blocks, stored, lambda: saved.append(1), log.append, shares
    )
    return found, log, saved


def test_white_space_does_not_count(blocks):
    found, _, saved = find(blocks, {})
    # "a b", then "c d" of two lines, "c" of the first block.
    assert found == {1: (1,), 2: (0, 2)}
    assert len(saved) == 1


def test_the_larger_share_has_the_first_copy(blocks):
    found, _, _ = find(blocks, {}, shares=(0.5, 1.0, 2.0))
    assert found == {0: (0, 1), 1: (2,)}


def test_a_kept_list_is_of_the_same_text(blocks, tmp_path):
    stored = {}
    first, _, _ = find(blocks, stored)
    again, log, saved = find(blocks, stored)
    assert again == first and log == saved == []
    (tmp_path / "0.txt").write_text("x y\n\nc\n\n")
    changed, log, saved = find(blocks, stored)
    assert "text was changed since" in log[0] and saved
    assert changed == {2: (0, 2)}
