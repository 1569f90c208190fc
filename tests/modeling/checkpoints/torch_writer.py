"""Writes what `torch.save(state_dict)` writes, both layouts, without PyTorch.

The names in its pickles are those of PyTorch; modules of these names stand in
while a file is written.
"""

import collections
import io
import pickle
import struct
import sys
import types
import zipfile

import numpy as np

from modeling.encoders.transformer_xl import torch_names
from tests.modeling.golden import txl_golden

KINDS = {
    "f4": "FloatStorage",
    "f8": "DoubleStorage",
    "f2": "HalfStorage",
    "i8": "LongStorage",
    "u2": "BFloat16Storage",  # bit patterns
}


class _Numbers:
    """A storage of its own for an array, in the order of memory."""

    def __init__(self, array, key):
        self.flat, self.key = array, key


class _Tensor:
    def __init__(self, numbers, offset, shape, strides):
        self.view = (numbers, offset, shape, strides)

    def __reduce__(self):
        rebuild = sys.modules["torch._utils"]._rebuild_tensor_v2
        hooks = collections.OrderedDict()
        return rebuild, (*self.view, False, hooks)


class _Pickler(pickle.Pickler):
    legacy = False

    def persistent_id(self, value):
        if not isinstance(value, _Numbers):
            return None
        kind = KINDS[value.flat.dtype.str[1:]]
        storage = getattr(sys.modules["torch"], kind)
        view = (None,) if self.legacy else ()
        found = ("storage", storage, value.key, "cpu", value.flat.size)
        return found + view


def _modules():
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in KINDS.values():
        storage = type(name, (), {"__module__": "torch"})
        setattr(torch, name, storage)

    def _rebuild_tensor_v2():
        raise AssertionError("only named")

    _rebuild_tensor_v2.__module__ = "torch._utils"
    _rebuild_tensor_v2.__qualname__ = "_rebuild_tensor_v2"
    utils._rebuild_tensor_v2 = _rebuild_tensor_v2
    return {"torch": torch, "torch._utils": utils}


def state_dict(arrays, transposed=()):
    """Tensors; those in `transposed` are views of transposed storages."""
    found, numbers = collections.OrderedDict(), []
    for key, (name, array) in enumerate(arrays.items()):
        if name in transposed:
            flat = np.concatenate([np.zeros(3, array.dtype), array.T.ravel()])
            offset, strides = 3, (1, array.shape[0])
        else:
            flat, offset = array.ravel(), 0
            strides = tuple(s // array.itemsize for s in array.strides)
        numbers.append(_Numbers(flat, str(key)))
        found[name] = _Tensor(numbers[-1], offset, array.shape, strides)
    found._metadata = collections.OrderedDict([("", {"version": 1})])
    return found, numbers


def save(path, stored, numbers, legacy=False):
    """A file of `torch.save(stored)`."""
    modules = _modules()
    kept = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    stream = io.BytesIO()
    try:
        if legacy:
            for value in (
                0x1950A86A20F9469CFC6C,
                1001,
                {"protocol_version": 1001, "little_endian": True},
            ):
                pickle.dump(value, stream, protocol=2)
        pickler = _Pickler(stream, protocol=2)
        pickler.legacy = legacy
        pickler.dump(stored)
    finally:
        for name, module in kept.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
    if legacy:
        pickle.dump([n.key for n in numbers], stream, protocol=2)
        for part in numbers:
            stream.write(struct.pack("<q", part.flat.size))
            stream.write(part.flat.tobytes())
        path.write_bytes(stream.getvalue())
        return
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/data.pkl", stream.getvalue())
        archive.writestr("model/byteorder", "little")
        for part in numbers:
            archive.writestr(f"model/data/{part.key}", part.flat.tobytes())
        archive.writestr("model/version", "3\n")


ENCODINGS = {kind: name for name, kind in torch_names.KINDS.items()}


def case_of(golden, name):
    """(config, state_dict, arrays of the case) of a PyTorch case."""
    cases = txl_golden.cases(golden, "pytorch.json")["cases"]
    given = cases[name]["arguments"]
    stored = txl_golden.load(golden, "pytorch_weights")
    state = {
        key: stored[f"{key}|{'x'.join(map(str, shape))}"]
        for key, shape in cases[name]["parameters"].items()
    }
    # A state_dict has what is shared under every name.
    for key in cases[name]["shared_parameters"]:
        i = int(key.split(".")[2])
        theirs = key.replace("crit.out_", "word_emb.emb_")
        if "projs" in key and given["div_val"] == 1:
            theirs = theirs.replace(f".{i}", ".0")
        state[key] = state[theirs]
    config = txl_golden.config(
        given,
        given,
        proj_share_all_but_first=given["tie_projs"][-1],
        mem_len=given["mem_len"],
        memory_start="hidden",
        encoding=ENCODINGS[given["attn_type"]],
        max_positions=given["tgt_len"] + given["mem_len"],
    )
    return config, state, txl_golden.load(golden, "pytorch")
