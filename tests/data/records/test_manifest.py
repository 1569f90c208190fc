"""A manifest that was changed or forged."""

import json

import pytest

from common.errors import UserError
from data.pretraining.manifest import PretrainingManifest
from data.records import manifest as manifest_lib
from tests.data.records.built_folders import copy_of, read_all
from tests.helpers.runs import builds


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("build")


@pytest.mark.parametrize(
    "field,value",
    [
        ("format_version", 9),
        ("vocab_size", 7),
        ("symbols", {"cls": 3}),
        ("segments_per_lane", {"train": 4, "dev": 5}),
        ("files", []),
        ("options", {"seq_len": 48}),
    ],
)
def test_changed_manifest_fields(folder, field, value):
    manifest = builds.run(folder, "fields")
    copy = copy_of(manifest, folder, f"fields-{field}")
    path = copy / "manifest.json"
    stored = json.loads(path.read_text())
    stored[field] = value
    path.write_text(json.dumps(stored))
    with pytest.raises(UserError, match=f"manifest.json.*{field}"):
        read_all(copy)


def test_a_manifest_that_someone_else_wrote_is_one_line(folder):
    """Its sums are right, its values are of other types or lead elsewhere."""
    manifest = builds.run(folder, "fields")
    copy = copy_of(manifest, folder, "fields-forged")
    value = json.loads((copy / "manifest.json").read_text())
    for inside, field, new in (
        (value["files"][0], "name", "../spiece.model"),
        (value["files"][0], "lanes", None),
        (value["files"][0], "tokens", "x"),
        (value["files"][0], "segments", -1),
        (value["options"], "reuse_len", 1 << 40),
        (value["options"], "reuse_len", [1]),
        (value, "segments_per_lane", []),
        (value, "batches", [{"name": "/dev/zero", "bytes": 0}]),
    ):
        old, inside[field] = inside[field], new
        value["checksums"] = manifest_lib._checksums(
            {k: v for k, v in value.items() if k != "checksums"}
        )
        (copy / "manifest.json").write_text(json.dumps(value))
        with pytest.raises(UserError, match="json: (a field is|`options` is)"):
            PretrainingManifest.load(str(copy))
        inside[field] = old


def test_a_manifest_that_cannot_be_read_is_not_called_missing(tmp_path):
    for folder in (tmp_path, tmp_path / "no", tmp_path / "a.txt"):
        (tmp_path / "a.txt").touch()
        with pytest.raises(UserError, match="does not exist: no finished data"):
            PretrainingManifest.load(str(folder))
    (tmp_path / "manifest.json").mkdir()
    with pytest.raises(IsADirectoryError):
        manifest_lib.kind_of(str(tmp_path))
