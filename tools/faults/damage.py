"""What can be wrong with an input, by its kind.

A damage takes the path of a copy, spoils it and gives the path that the
command is to be given (compressing changes the name).
"""

import functools
import glob
import gzip
import json
import lzma
import os
from collections.abc import Callable

from data.corpus.documents import LONGEST_LINE

DEEP = b"[" * 100_000 + b"]" * 100_000
ESCAPES = "\x1b[2J\x1b]0;x\x07\r\n\ud800"
Damage = Callable[[str], str]


def _read(path: str) -> bytes:
    with open(path, "rb") as f:
        return f.read()


def _write(path: str, data: bytes) -> str:
    with open(path, "wb") as f:
        f.write(data)
    return path


def cut(path: str) -> str:
    """Half of the file."""
    data = _read(path)
    return _write(path, data[: len(data) // 2])


def empty(path: str) -> str:
    """Nothing in it."""
    return _write(path, b"")


def flipped(path: str) -> str:
    """Other bytes in many places."""
    data = bytearray(_read(path))
    for at in range(16, len(data), 200):
        data[at] ^= 0x5A
    return _write(path, bytes(data))


def missing(path: str) -> str:
    """Not there."""
    os.remove(path)
    return path


def a_folder(path: str) -> str:
    """A folder of that name."""
    os.remove(path)
    os.makedirs(path)
    return path


def without_line_ends(path: str) -> str:
    """0.5 MB that become one line, longer than the longest that is read."""
    with gzip.open(path + ".gz", "wb", compresslevel=9) as f:
        for _ in range(LONGEST_LINE // (1 << 20) + 1):
            f.write(b"a" * (1 << 20))
    os.remove(path)
    return path + ".gz"


def not_utf8(path: str) -> str:
    """Latin-1 in the middle."""
    data = _read(path)
    at = len(data) // 2
    return _write(path, data[:at] + b"\xe9\xe8" + data[at:])


def _compressed(path: str, module, ending: str, spoil: Damage) -> str:
    _write(path + ending, module.compress(_read(path)))
    os.remove(path)
    return spoil(path + ending)


def _spoiled_archive(module, ending: str, spoil: Damage) -> Damage:
    return lambda path: _compressed(path, module, ending, spoil)


# --- JSON ---------------------------------------------------------------------


def deep(path: str) -> str:
    """Nested 100,000 times."""
    return _write(path, DEEP)


def _replaced(value, leaf):
    """`value` with every leaf replaced; the version of the format stays."""
    if isinstance(value, dict):
        return {
            k: v if k == "format_version" else _replaced(v, leaf)
            for k, v in value.items()
        }
    return leaf(value)


def _json(leaf, path: str) -> str:
    value = _replaced(json.loads(_read(path)), leaf)
    return _write(path, json.dumps(value).encode())


def _numbers(text: str, path: str) -> str:
    """Every number is this text; no library need be able to write it."""
    mark = "@number@"

    def leaf(value):
        if isinstance(value, list):
            return [leaf(v) for v in value]
        is_number = isinstance(value, (int, float)) and value is not True
        return mark if is_number and value is not False else value

    _json(leaf, path)
    data = _read(path).replace(f'"{mark}"'.encode(), text.encode())
    return _write(path, data)


def _texts(text: str, path: str) -> str:
    """Every text is this one."""

    def leaf(value):
        if isinstance(value, list):
            return [leaf(v) for v in value]
        return text if isinstance(value, str) else value

    return _json(leaf, path)


def _strange_names(path: str) -> str:
    """Names that clear a terminal, and half of a character."""
    value = json.loads(_read(path))
    if isinstance(value, dict):
        more = {"\x1b[2J\x1b]0;x\x07\n\ud800": 1}
        value = more | {ESCAPES + k: v for k, v in value.items()} | value
    return _write(path, json.dumps(value).encode())


def _sized(path: str, **sizes: int) -> str:
    """A model that no machine holds."""
    return _write(path, json.dumps(json.loads(_read(path)) | sizes).encode())


def _zero(value):
    return 0 if isinstance(value, (int, float)) else value


_LISTS = "lists everywhere"
JSON = {
    "cut": cut,
    "empty": empty,
    "deep JSON": deep,
    "a JSON list": lambda path: _write(path, b"[1, 2]"),
    "JSON null": lambda path: _write(path, b"null"),
    "null everywhere": functools.partial(_json, lambda _: None),
    _LISTS: functools.partial(_json, lambda _: [[]]),
    "zeros": functools.partial(_json, _zero),
}
# Their line names the field.
SIZES = {
    "a billion layers": functools.partial(_sized, n_layer=10**9),
    "a million million pieces": functools.partial(_sized, n_token=10**12),
}
# What Python's parser takes for JSON, or cannot show.
STRANGE = {
    "a number of 5,000 digits": functools.partial(_numbers, "9" * 5000),
    "numbers of 4,000 digits": functools.partial(_numbers, "9" * 4000),
    "numbers of 400 digits": functools.partial(_numbers, "9" * 400),
    "NaN": functools.partial(_numbers, "NaN"),
    "infinities": functools.partial(_numbers, "1e999"),
    "terminal escapes": functools.partial(_texts, ESCAPES),
    "strange names": _strange_names,
}


# --- Files of a folder ----------------------------------------------------------


def _inside(pattern: str, spoil: Damage, every: bool) -> Damage:
    """Spoils the last file that fits a pattern below the folder, or all."""

    def damage(path: str) -> str:
        paths = sorted(glob.glob(os.path.join(path, pattern)))
        for name in paths if every else paths[-1:]:
            spoil(name)
        return path

    return damage


def _each(
    short: str, pattern: str, faults: dict, every: bool = False
) -> dict[str, Damage]:
    return {
        f"{short}: {name}": _inside(pattern, spoil, every)
        for name, spoil in faults.items()
    }


def _names_nothing(path: str) -> str:
    """A `checkpoint` file of another place."""
    return _write(path, b'model_checkpoint_path: "/old/model.ckpt-9"\n')


def _with_signs(path: str) -> str:
    """A folder whose name is a pattern."""
    os.rename(path, path + " [1]*?")
    return path + " [1]*?"


_BYTES = {"cut": cut, "empty": empty, "other bytes": flipped}
_GONE = _BYTES | {"missing": missing}


def _writes_a_file(path: str) -> str:
    """A SavedModel whose loading writes, in the layout of TensorFlow 1."""

    def change(graph) -> None:
        graph.graph_def.node.add(name="evil", op="WriteFile")
        graph.saver_def.restore_op_name = "evil"
        graph.ClearField("object_graph_def")

    return _graph(path, change)


def _reads_a_file(path: str) -> str:
    """A SavedModel with a function that reads."""

    def change(graph) -> None:
        function = graph.graph_def.library.function[0]
        function.node_def.add(name="evil", op="ImmutableConst")

    return _graph(path, change)


def _graph(path: str, change: Callable) -> str:
    from tensorflow.core.protobuf import saved_model_pb2

    proto = saved_model_pb2.SavedModel.FromString(_read(path))
    change(proto.meta_graphs[0])
    return _write(path, proto.SerializeToString())


_ROOM = 1 << 40  # numbers that no file of the world holds


def _bad_header(path: str) -> str:
    """A header of safetensors that promises numbers elsewhere."""
    tensor = {"dtype": "F32", "shape": [_ROOM], "data_offsets": [0, 4 * _ROOM]}
    header = json.dumps({"bert.pooler.dense.bias": tensor}).encode()
    return _write(path, len(header).to_bytes(8, "little") + header)


def _endless_header(path: str) -> str:
    """One that is as long as no file."""
    return _write(path, b"\xff" * 7 + b"\x7f" + b"{" * 100_000)


# A run of the world has two checkpoints. Of both, of the newer one, and what
# takes no step away.
_WEIGHTS = _each("index", "*.index", _GONE, every=True) | _each(
    "data", "*.data-*", _GONE, every=True
)
_CUT = {"cut": cut, "missing": missing}
_NEWEST = _each("newest index", "*.index", _CUT) | _each(
    "newest data", "*.data-*", _CUT
)
_NAMED = _each(
    "checkpoint", "checkpoint", _CUT | {"names nothing": _names_nothing}
) | {"signs in the folder's name": _with_signs}


def is_strange(fault: str) -> bool:
    """Whether a command may take it or refuse it."""
    return fault.rpartition(": ")[2] in STRANGE


_CONFIG = _each("config", "*_config.json", JSON | STRANGE)
_GZIP = {
    f"{ending[1:]}: {name}": _spoiled_archive(module, ending, spoil)
    for module, ending in ((gzip, ".gz"), (lzma, ".xz"))
    for name, spoil in (("cut", cut), ("other bytes", flipped))
}
_BOMB = {"gz: no line end": without_line_ends}
_TEXT = {
    "missing": missing,
    "a folder": a_folder,
    "not UTF-8": not_utf8,
    "gz: cut": _GZIP["gz: cut"],
    "gz: other bytes": _GZIP["gz: other bytes"],
} | _BOMB
_EVIL = {"writes a file": _writes_a_file, "reads a file": _reads_a_file}
_HEADERS = {"numbers elsewhere": _bad_header, "endless header": _endless_header}
# What is no object of JSON; its values may be any.
_OBJECT = {
    k: JSON[k]
    for k in ("cut", "empty", "deep JSON", "a JSON list", "JSON null")
}
KINDS: dict[str, dict[str, Damage]] = {
    "text": _TEXT,
    "jsonl": _TEXT | {"deep JSON": deep},
    "rows": {k: _TEXT[k] for k in ("missing", "a folder")} | _BOMB | _GZIP,
    "table": _each(
        "train.tsv", "train.tsv", _GZIP | _BOMB | {"not UTF-8": not_utf8}
    ),
    "json": {k: v for k, v in JSON.items() if k != "zeros"} | STRANGE | _GZIP,
    "race": _each(
        "1.txt",
        "train/high/1.txt",
        {k: v for k, v in JSON.items() if k != "zeros"} | STRANGE,
    ),
    "spiece": _GONE | {"a folder": a_folder},
    "config": JSON | STRANGE | SIZES | {"missing": missing},
    "records": _each("manifest.json", "manifest.json", JSON | STRANGE)
    | _each("records", "*.tfrecord", _GONE),
    "weights": _WEIGHTS | _NEWEST | _NAMED | _CONFIG,
    "steps": _NEWEST | _NAMED | _each("run.json", "run.json", _CUT),
    "run": _WEIGHTS
    | _NEWEST
    | _NAMED
    | _each("run.json", "run.json", JSON | STRANGE | {"missing": missing})
    | _each("config", "*_config.json", {"zeros": JSON["zeros"]}),
    "ranking": _each(
        "documents",
        "documents.jsonl",
        {"deep JSON": deep, "not UTF-8": not_utf8, "missing": missing},
    )
    | _each("topics", "topics.tsv", {"not UTF-8": not_utf8, "empty": empty})
    | _each("qrels", "qrels", {"not UTF-8": not_utf8, "empty": empty}),
    "record": _each(
        "run.json",
        "run.json",
        {k: JSON[k] for k in ("cut", "empty", "deep JSON", "a JSON list")},
    ),
    "model": _WEIGHTS
    | _NEWEST
    | _NAMED
    | _CONFIG
    | _each("task.json", "task.json", JSON | STRANGE),
    "released": _each("weights", "*.safetensors", _GONE | _HEADERS)
    | _each("config", "config.json", JSON | STRANGE | {"missing": missing})
    | _each("rules", "tokenizer_config.json", _OBJECT)
    | _each("tokenizer", "tokenizer.json", JSON | STRANGE),
    "sentences": _each(
        "modules", "modules.json", _OBJECT | {_LISTS: JSON[_LISTS]}
    )
    | _each("pooling", "1_Pooling/config.json", JSON | STRANGE)
    | _each("length", "sentence_bert_config.json", _OBJECT | STRANGE),
    "saved_model": _each("saved_model.pb", "*/saved_model.pb", _BYTES | _EVIL)
    | _each("variables' index", "*/variables/*.index", _GONE)
    | _each("variables' data", "*/variables/*.data-*", _GONE)
    | _each("signature.json", "*/signature.json", JSON | STRANGE),
}
# It goes on for ever with what it takes.
KINDS["served_model"] = {
    name: spoil
    for name, spoil in KINDS["saved_model"].items()
    if not is_strange(name)
}
# Kinds that hold the steps of a run, and the faults after which a command goes
# on: from which of the world's two steps.
STEPS = ("run", "steps", "weights", "model")
GOES_ON = {
    "newest index: cut": 1,
    "newest index: missing": 1,
    "newest data: missing": 1,
    "run.json: missing": 2,
    "signs in the folder's name": 2,
} | {f"checkpoint: {name}": 2 for name in (*_CUT, "names nothing")}
