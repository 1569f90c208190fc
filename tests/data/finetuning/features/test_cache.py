"""The cache of features: keys, damage, what a hash depends on."""

import json
import os
import zipfile

import numpy as np

from data.finetuning.features import cache as finetune_cache


def test_cache_key_is_checked_inside_the_file(tmp_path):
    key = {"data": "a"}
    path = finetune_cache.cache_path(str(tmp_path), "x", key)
    finetune_cache.save(path, key, {"a": np.arange(3)})
    assert finetune_cache.load(path, key)["a"].tolist() == [0, 1, 2]
    # A file that was renamed to another key's name is not taken.
    other = finetune_cache.cache_path(str(tmp_path), "x", {"data": "b"})
    os.rename(path, other)
    assert finetune_cache.load(other, {"data": "b"}) is None
    assert os.listdir(tmp_path) == [os.path.basename(other)]


def test_a_cache_that_is_none_is_made_again(tmp_path):
    path, key = str(tmp_path / "a.npz"), {"data": "a"}
    stamp = np.frombuffer(finetune_cache.key_text(key).encode(), np.uint8)
    many = np.zeros(1 << 20, np.uint8)
    np.savez_compressed(path, x=many, **{finetune_cache.KEY: stamp})
    assert finetune_cache.load(path, key) is None
    np.savez(path, **{finetune_cache.KEY: np.frombuffer(b"\xff", np.uint8)})
    assert finetune_cache.load(path, key) is None
    header = b"\x93NUMPY\x01\x00" + (6001).to_bytes(2, "little") + b"(" * 6000
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{finetune_cache.KEY}.npy", header + b"\n")
    assert finetune_cache.load(path, key) is None
    finetune_cache.save(path, key, {"x": many})
    assert finetune_cache.load(path, key)["x"].size == many.size


def test_a_bucket_keeps_features(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    key, made = {"data": "a"}, []

    def build():
        made.append(1)
        return {"a": np.arange(3)}

    for hit in (False, True):
        arrays, found = finetune_cache.cached("ram://cache", "x", key, build)
        assert arrays["a"].tolist() == [0, 1, 2] and found is hit
    assert made == [1] and not os.listdir(tmp_path)


def test_hash_depends_on_boundaries():
    a = finetune_cache.hash_texts(["ab", "c"])
    assert a != finetune_cache.hash_texts(["a", "bc"])
    assert a == finetune_cache.hash_texts(iter(["ab", "c"]))
    assert json.loads(finetune_cache.key_text({"x": 1}))["format_version"] == 2
