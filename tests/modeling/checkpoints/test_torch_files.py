"""State dicts of PyTorch are read without it, and nothing in them runs."""

import io
import os
import pickle
import time
import tracemalloc
import zipfile

import numpy as np
import pytest

from common.errors import UserError
from modeling.checkpoints import conversion, restore, torch_files
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders import registry
from modeling.encoders.transformer_xl import torch_names
from tests.modeling.checkpoints import torch_writer
from tests.modeling.checkpoints.torch_writer import case_of
from tests.modeling.golden import txl_golden

# Cases of `pytorch.json` that are Transformer-XL as we have it, and the models
# that it is compared with.
CASES = (
    "xl",
    "xl_clamp",
    "xl_no_memory",
    "xl_adaptive_div1_proj_shared",
    "xl_adaptive_div2_shared",
    "xl_adaptive_div2",
    "shaw",
    "shaw_clamp",
    "shaw_no_memory",
    "vaswani_no_memory",
    "alrfou_no_memory",
)
QUICK = ("xl", "xl_adaptive_div2")


def arrays():
    rng = np.random.default_rng(3)
    return {
        "a": rng.normal(size=[3, 4]).astype(np.float32),
        "b.half": rng.normal(size=[5]).astype(np.float16),
        "scalar": np.array(2.5),
        "empty": np.zeros([0, 2], np.float32),
        "steps": np.array([7, -1]),
    }


@pytest.mark.parametrize("legacy", [False, True])
def test_both_layouts(tmp_path, legacy):
    wanted = arrays()
    path = tmp_path / "model.pt"
    stored, numbers = torch_writer.state_dict(wanted, transposed=["a"])
    torch_writer.save(path, stored, numbers, legacy)
    found = torch_files.load_state_dict(str(path))
    assert set(found) == set(wanted)
    for name, value in wanted.items():
        assert found[name].dtype == value.dtype
        np.testing.assert_array_equal(found[name], value)
    # Brain floats are the upper halves of floats.
    bits = np.array([0x3FC0, 0xC000], np.uint16)
    torch_writer.save(path, *torch_writer.state_dict({"x": bits}), legacy)
    found = torch_files.load_state_dict(str(path))["x"]
    np.testing.assert_array_equal(found, np.float32([1.5, -2.0]))
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 6])
    with pytest.raises(UserError, match="damaged|ends before") as caught:
        torch_files.load_state_dict(str(path))
    assert "\n" not in str(caught.value)


class Runs:
    """A pickle that writes a file where it is loaded."""

    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        return os.mkdir, (self.path,)


@pytest.mark.parametrize("legacy", [False, True])
@pytest.mark.parametrize("where", ["the whole", "a tensor", "in the metadata"])
def test_hostile_pickles_are_one_line(tmp_path, legacy, where):
    bad = Runs(tmp_path / "ran")
    stored, numbers = torch_writer.state_dict(arrays())
    if where == "the whole":
        stored = bad
    elif where == "a tensor":
        stored["a"] = bad
    else:
        stored._metadata["x"] = bad
    path = tmp_path / "model.pt"
    torch_writer.save(path, stored, numbers, legacy)
    with pytest.raises(UserError, match="names posix.mkdir") as caught:
        torch_files.load_state_dict(str(path))
    assert "\n" not in str(caught.value)
    assert "state_dict()" in str(caught.value)
    assert not (tmp_path / "ran").exists()


def test_what_is_no_state_dict_is_one_line(tmp_path):
    path = tmp_path / "model.pt"

    def refuse(message):
        with pytest.raises(UserError, match=message) as caught:
            torch_files.load_state_dict(str(path))
        assert "\n" not in str(caught.value)

    refuse("does not exist")
    path.write_bytes(b"")
    refuse("damaged")
    path.write_bytes(pickle.dumps({"a": 1}))
    refuse("another pickle")
    torch_writer.save(path, [1, 2], [])
    refuse("wanted a state_dict, found list")
    torch_writer.save(path, {"optimizer": {}}, [])
    refuse("found dict as 'optimizer'")
    stored, numbers = torch_writer.state_dict(
        {"a": np.arange(6, dtype=np.float32)}
    )
    for view, message in (
        (((0, (7,), (1,))), "outside of its storage"),
        (((0, (2, 3), (3, 2))), "outside of its storage"),
        (((0, (9,), (0,))), "repeats numbers"),
        (((-1, (2,), (1,))), "shape is not one"),
        (((0, (2,), (1, 1))), "shape is not one"),
    ):
        stored["a"].view = (numbers[0], *view)
        torch_writer.save(path, stored, numbers)
        refuse(message)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x/other", b"")
    refuse("one data.pkl")
    stored["a"].view = (numbers[0], 0, (6,), (1,))
    torch_writer.save(path, stored, numbers)
    whole = io.BytesIO(path.read_bytes())
    with (
        zipfile.ZipFile(whole) as old,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as new,
    ):
        for name in old.namelist():
            new.writestr(name, old.read(name))
    refuse("is compressed")


def raw(path, pickled, **entries):
    """An archive of torch.save with this pickle and these storages."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", pickled)
        for key, content in entries.items():
            archive.writestr(f"model/data/{key}", content)


@pytest.mark.parametrize(
    "pickled,message",
    [
        (b"\x80\x02}r\x00\x00\x00\x04.", "wanted a state_dict"),
        (b"\x80\x02}" + b"(" + b")\x85" * 3 + b"K\x01u.", "damaged|a name"),
        (b"\x80\x02})" + b"\x85" * 200_000 + b"K\x01s.", "a name, found tuple"),
        (b"\x80\x02}K\x01K\x02s.", "wanted a name, found int"),
        (b"\x80\x04\x8c\x04a\x1b[m\x8c\x02\nb\x93.", r"a\\x1b\[m.\\nb, which"),
        (b"\x80\x02cos\nsystem\n.", "names os.system"),
        (b"\x80\x04\x8f.", "has EMPTY_SET"),
        (b"\x80\x02K\x01)R.", "calls something that is not a function"),
        (b"\x80\x02" + b"0" * 3 + b".", "has POP"),
    ],
)
def test_pickles_take_no_more_than_they_have(tmp_path, pickled, message):
    path = tmp_path / "model.pt"
    raw(path, pickled)
    with pytest.raises(UserError, match=message) as caught:
        torch_files.load_state_dict(str(path))
    assert str(caught.value).isprintable()


def test_tensors_take_no_more_than_their_file(tmp_path):
    """Views are counted; those that are the same are one array."""
    path = tmp_path / "model.pt"
    values = np.arange(12, dtype=np.uint16)
    stored, numbers = torch_writer.state_dict({"a": values})

    def write(views):
        for i, view in enumerate(views):
            stored[f"v{i}"] = type(stored["a"])(numbers[0], *view)
        torch_writer.save(path, stored, numbers)

    write([(0, (12,), (1,))] * 50)
    found = torch_files.load_state_dict(str(path))
    assert len(found) == 51 and found["v3"] is found["a"]
    write([(i, (11 - i,), (1,)) for i in range(5)])
    with pytest.raises(UserError, match="repeats numbers of other tensors"):
        torch_files.load_state_dict(str(path))
    write([(0, (1,) * 65, (1,) * 65)])
    with pytest.raises(UserError, match="shape is not one"):
        torch_files.load_state_dict(str(path))


def test_places_of_a_memo_are_no_memory(tmp_path):
    """A pickle may name place 2^26 of a list that grows to it."""
    path = tmp_path / "model.pt"
    raw(path, b"\x80\x02}r\x00\x00\x00\x04.")
    tracemalloc.start()
    with pytest.raises(UserError):
        torch_files.load_state_dict(str(path))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


def test_numbers_of_a_storage_cost_no_more_than_they_are(tmp_path):
    """Three thousand of them do not widen the storage as often."""
    path = tmp_path / "model.pt"
    values = np.zeros(2_000_000, np.uint16)
    stored, numbers = torch_writer.state_dict({"a": values})
    view = type(stored["a"])
    for i in range(3000):
        stored[f"v{i}"] = view(numbers[0], i, (), ())
    torch_writer.save(path, stored, numbers)
    begin = time.process_time()
    found = torch_files.load_state_dict(str(path))
    assert len(found) == 3001 and found["v7"].shape == ()
    assert time.process_time() - begin < 5


@pytest.mark.parametrize("name", ["data.pkl", "byteorder"])
def test_nothing_is_inflated(tmp_path, name):
    path = tmp_path / "model.pt"
    torch_writer.save(path, *torch_writer.state_dict(arrays()))
    whole = io.BytesIO(path.read_bytes())
    with zipfile.ZipFile(whole) as old, zipfile.ZipFile(path, "w") as new:
        for entry in old.namelist():
            how = zipfile.ZIP_DEFLATED if name in entry else zipfile.ZIP_STORED
            new.writestr(entry, old.read(entry), how)
    with pytest.raises(UserError, match=f"{name} is compressed"):
        torch_files.load_state_dict(str(path))


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(n, marks=() if n in QUICK else pytest.mark.slow)
        for n in CASES
    ],
)
def test_the_release_gives_its_numbers(golden, tmp_path, name):
    config, state, wanted = case_of(golden, name)
    path = tmp_path / "model.pt"
    torch_writer.save(path, *torch_writer.state_dict(state), name == "xl")
    registry.write_config(str(tmp_path), config)
    conversion.convert(
        ConvertOptions("torch", "native", str(path), str(tmp_path / "native"))
    )
    found = registry.read_config(
        registry.config_file_in(str(tmp_path / "native"))
    )
    assert found.layer_norm_epsilon == torch_names.LAYER_NORM_EPSILON
    model = txl_golden.CausalLanguageModel(found)
    report = restore.restore(model, str(tmp_path / "native"))
    assert set(report.restored) == set(named_variables(model))
    tokens, length = wanted["tokens"], 7
    memory = txl_golden.empty_memory(config, len(tokens))
    for i in range(3):
        part = tokens[:, i * length : (i + 1) * length + 1]
        out = model(part[:, :-1])
        if config.mem_len:
            out = model.read_on(part[:, :-1], *memory)
            memory = (out.new_memory, out.new_memory_length)
        losses = model.token_losses(out.sequence_output, part[:, 1:])
        np.testing.assert_allclose(
            losses.numpy().T,
            wanted[f"case/{name}/seg{i}/nll"],
            rtol=2e-5,
            atol=2e-5,
        )
    np.testing.assert_allclose(
        np.swapaxes(out.sequence_output, 0, 1),
        wanted[f"case/{name}/seg2/hidden"],
        rtol=2e-5,
        atol=4e-5,
    )


@pytest.mark.shared
def test_other_models_are_refused(golden):
    config, state, _ = case_of(golden, "xl")

    def refuse(message, config=config, **changes):
        with pytest.raises(UserError, match=message) as caught:
            torch_names.from_state_dict(state | changes, config, "x.pt")
        assert "\n" not in str(caught.value)

    bias = state["r_w_bias"]
    refuse("attn_type 0.*found attn_type 3", r_emb=bias)
    other = config.replace(encoding="shaw", max_positions=17)
    refuse("'shaw' .attn_type of none", other)
    refuse("`untie_r` to false", config.replace(untie_r=True))
    refuse("no variable takes .'layers.x'", **{"layers.x": bias})
    refuse(
        "other tables or projections",
        **{
            "crit.out_layers.0.weight": state["word_emb.emb_layers.0.weight"]
            + 1
        },
    )
    refuse("shape .20, 72., wanted .20, 96.", config.replace(n_head=4))
