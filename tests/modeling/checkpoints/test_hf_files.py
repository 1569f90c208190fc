"""Every form of a folder's weights holds the same tensors."""

import json
import pathlib
import shutil

import numpy as np
import pytest

from common.errors import UserError
from common.weights.released_weights import FORMS, H5, TORCH
from modeling.checkpoints import conversion, hf_files
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints.names import named_variables
from tests.modeling.checkpoints import torch_writer

h5py = pytest.importorskip("h5py")

HEADS = pathlib.Path(__file__).resolve().parents[2] / "golden" / "hf_heads"
FOLDERS = ["xlnet_token", "bert_span", "albert_sequence", "modernbert_token"]
# PyTorch's word -> Keras', by what holds it; as the TensorFlow classes have it.
_EMBEDDINGS = ("token_type_embeddings", "position_embeddings")


def keras_name(name, value):
    """(name in `tf_model.h5`, is it transposed) of PyTorch's name."""
    *scopes, last = name.split(".")
    flip = False
    if "norm" in scopes[-1].lower() and last in ("weight", "bias"):
        last = {"weight": "gamma", "bias": "beta"}[last]
    elif scopes[-1] in _EMBEDDINGS:
        last = "embeddings"
    elif last == "weight" and "word" not in scopes[-1]:
        last, flip = "kernel", value.ndim == 2
    path, parts = "", list(scopes)
    for part in parts:
        path += f"_._{part}" if part.isdecimal() else f"/{part}"
    return f"{scopes[0]}/tf_model{path}/{last}:0", flip


def write_h5(path, tensors):
    with h5py.File(path, "w") as f:
        f.attrs["layer_names"] = [b"one"]
        for name, value in tensors.items():
            key, flip = keras_name(name, value)
            f[key] = value.T if flip else value


def save_torch(path, tensors, legacy=False):
    torch_writer.save(path, *torch_writer.state_dict(tensors), legacy=legacy)


def shards(folder, name, save, tensors):
    """Two files with an index."""
    stem, ending = name.rsplit(".", 1)
    places = {}
    for number in range(2):
        shard = f"{stem}-{number + 1:05}-of-00002.{ending}"
        part = dict(sorted(tensors.items())[number::2])
        save(folder / shard, part)
        places |= dict.fromkeys(part, shard)
    index = json.dumps({"weight_map": places})
    (folder / f"{name}.index.json").write_text(index)


def written(folder, form, tensors):
    """The tensors in a form, in a folder."""
    if form == "legacy":
        save_torch(folder / TORCH, tensors, legacy=True)
    elif form == TORCH:
        save_torch(folder / TORCH, tensors)
    elif form == H5:
        write_h5(folder / H5, tensors)
    else:
        shards(folder, TORCH, save_torch, tensors)


@pytest.mark.long
@pytest.mark.parametrize("form", [TORCH, "legacy", "shards", H5])
@pytest.mark.parametrize("name", FOLDERS)
def test_forms_are_the_same_weights(tmp_path, name, form):
    stored = HEADS / name
    tensors, _ = hf_files.load_tensors(str(stored))
    if form == H5 and name == "modernbert_token":
        pytest.skip("there never was a TensorFlow class")
    shutil.copy(stored / "config.json", tmp_path)
    written(tmp_path, form, tensors)
    found, _ = hf_files.load_tensors(str(tmp_path))
    assert set(found) == set(tensors)
    for key, value in tensors.items():
        np.testing.assert_array_equal(found[key], value, key)
    one, other = (
        conversion.read(
            checkpoints.resolve(str(folder)),
            checkpoints.find_config(str(folder)),
            None,
        )
        for folder in (stored, tmp_path)
    )
    assert one.head == other.head
    theirs = named_variables(other.model)
    for key, variable in named_variables(one.model).items():
        np.testing.assert_array_equal(variable, theirs[key], key)
    assert checkpoints.content_digest(str(tmp_path))


def test_the_first_form_is_read_and_its_digest_is_of_what_is_read(tmp_path):
    tensors = {"a": np.ones(2, np.float32)}
    write_h5(tmp_path / H5, {"x.word": np.zeros(2, np.float32)})
    assert hf_files.form_of(str(tmp_path)) == H5
    before = checkpoints.content_digest(str(tmp_path))
    save_torch(tmp_path / TORCH, tensors)
    assert hf_files.form_of(str(tmp_path)) == TORCH
    after = checkpoints.content_digest(str(tmp_path))
    assert before != after
    (tmp_path / H5).write_bytes(b"other")
    assert checkpoints.content_digest(str(tmp_path)) == after
    found, path = hf_files.load_tensors(str(tmp_path))
    assert list(found) == ["a"] and path.endswith(TORCH)
    (tmp_path / "shards").mkdir()
    shards(
        tmp_path / "shards", TORCH, save_torch, tensors | {"b": tensors["a"]}
    )
    files = hf_files.weight_files(str(tmp_path / "shards"))
    assert len(files) == 2


def test_nothing_there_names_all_forms(tmp_path):
    with pytest.raises(UserError, match="tf_model.h5") as caught:
        checkpoints.resolve(str(tmp_path))
    assert all(form in str(caught.value) for form in FORMS)
    assert hf_files.form_of(str(tmp_path)) is None


def test_a_pickle_that_could_run_code_is_refused(tmp_path):
    import os
    import pickle

    class Hostile:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path}/ran",)

    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with open(tmp_path / TORCH, "wb") as f:
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(value, f, protocol=2)
        pickle.dump({"a": Hostile()}, f, protocol=2)
    with pytest.raises(UserError, match="could run code"):
        hf_files.load_tensors(str(tmp_path))
    assert not (tmp_path / "ran").exists()


def _safetensors(path, header, body=b""):
    """A file of a header that no library writes."""
    content = header if isinstance(header, bytes) else header.encode()
    path.write_bytes(len(content).to_bytes(8, "little") + content + body)
    return str(path)


@pytest.mark.parametrize(
    "tensor,body",
    [
        ('{"dtype":"F32","shape":[0,4611686018427387904]', 0),
        ('{"dtype":"F32","shape":[' + "1," * 64 + "1]", 4),
        ('{"dtype":"F8_E4M3","shape":[4]', 4),
        ('{"dtype":"F32","shape":[1000,1000]', 4),
        ('{"dtype":"F32","shape":[-1]', 4),
        ('{"dtype":"?","shape":[1]', 4),
        ('{"dtype":"F32","shape":[1]', 8),
    ],
)
def test_safetensors_that_numpy_has_not(tmp_path, tensor, body):
    header = f'{{"a":{tensor},"data_offsets":[0,{body}]}}}}'
    path = _safetensors(tmp_path / "model.safetensors", header, bytes(body))
    with pytest.raises(UserError, match="is not a readable safetensors file"):
        hf_files.load_file(path)


def test_a_header_of_many_tensors_is_not_read(tmp_path):
    """The library's time grows with the square of their number."""
    empty = '{"dtype":"F32","shape":[0],"data_offsets":[0,0]}'
    rows = ",".join(f'"{i}":{empty}' for i in range(90_000))
    path = _safetensors(tmp_path / "model.safetensors", f"{{{rows}}}")
    with pytest.raises(UserError, match="header of at most 4194304 bytes"):
        hf_files.load_file(path)
