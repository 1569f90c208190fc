"""WordPiece models in a SavedModel, checked before TensorFlow sees them.

`tensorflow_text` believes the bytes of such a model and ends by a signal where
they are damaged. Its vocabulary is therefore read here, and the library makes
the model again from it: only the same bytes are accepted.
"""

import itertools
import struct
from collections.abc import Iterable, Iterator

import flatbuffers
import numpy as np
import tensorflow as tf
from flatbuffers import number_types
from tensorflow_text.core.pybinds import (
    pywrap_fast_wordpiece_tokenizer_model_builder as builder,
)

TOKENIZE = "FastWordpieceTokenizeWithOffsets"
_UINT8 = tf.uint8.as_datatype_enum
_BYTES = frozenset(
    t.as_datatype_enum for t in (tf.uint8, tf.int8, tf.quint8, tf.qint8)
)
# They pass a tensor on as it is. Where no other operation has to do with bytes,
# each table is one of the constants.
_PASSING = ("Const", "Identity", "PartitionedCall", "StatefulPartitionedCall")
# Fields of the model: places in the table of a flatbuffer.
_TRIE, _LONGEST, _PREFIX, _UNKNOWN = 4, 12, 14, 16
_MAX_PIECE = 256  # bytes, as the library has it; its prefix as many
_MAX_BYTES = 1 << 26  # of all beginnings of pieces together
# Of the library, for a vocabulary without a piece inside a word.
_NO_SUFFIX = b"\x11"


class _Damaged(Exception):
    """A table that the library did not make."""


def problem(graph, nodes: list) -> str:
    """Why the tables of a MetaGraphDef are not what the library makes; or "".

    Its operations and the sizes of its constants are checked.
    """
    if not any(node.op == TOKENIZE for node in nodes):
        return ""
    for what in itertools.chain(_of_nodes(nodes), _of_functions(graph)):
        return what
    values = [n.attr["value"].tensor for n in nodes if n.op == "Const"]
    try:
        tables = {_content(v) for v in values if v.dtype in _BYTES}
    except _Damaged:
        tables = {b""}
    if all(map(is_table, tables)):
        return ""
    return "a table of WordPiece is damaged"


def _content(value) -> bytes:
    """Of a constant, which our exports have as bytes in one dimension."""
    content = value.tensor_content
    sizes = [dim.size for dim in value.tensor_shape.dim]
    if sizes != [len(content)] or value.int_val or value.dtype != _UINT8:
        raise _Damaged
    return content


def _types(value) -> Iterator[int]:
    """Those that an attribute names."""
    yield value.type
    yield value.tensor.dtype
    yield from value.list.type


def _of_nodes(nodes: Iterable) -> Iterator[str]:
    """Operations that have to do with bytes and are not listed above."""
    for node in nodes:
        if node.op in _PASSING:
            continue
        for value in node.attr.values():
            if value.placeholder or not _BYTES.isdisjoint(_types(value)):
                yield f"{node.op[:40]} works on 8-bit numbers"


def _of_functions(graph) -> Iterator[str]:
    """Functions that take bytes from elsewhere than a constant."""
    functions = {f.signature.name: f for f in graph.graph_def.library.function}
    objects = graph.object_graph_def
    for name, function in functions.items():
        if function.signature.attr:
            yield f"{name[:40]} takes any type"
    for name, concrete in objects.concrete_functions.items():
        if name not in functions:
            continue
        arguments = functions[name].signature.input_arg
        argument_count = len(arguments) - len(concrete.bound_inputs)
        for i, argument in enumerate(arguments):
            if argument.type not in _BYTES:
                continue
            at = (
                concrete.bound_inputs[i - argument_count]
                if i >= argument_count >= 0
                else -1
            )
            if not 0 <= at < len(objects.nodes) or (
                objects.nodes[at].WhichOneof("kind") != "constant"
            ):
                yield f"{name[:40]} takes 8-bit numbers from outside"


def is_table(model: bytes) -> bool:
    """Whether tensorflow_text makes the same bytes of the table's pieces."""
    try:
        table = _table(model)
        units = table.GetVectorAsNumpy(
            number_types.Uint32Flags, table.Offset(_TRIE)
        )
        prefix, unknown = (
            table.String(table.Pos + table.Offset(field))
            for field in (_PREFIX, _UNKNOWN)
        )
        at = table.Offset(_LONGEST)  # 0 = the default value, 0
        longest = at and table.Get(number_types.Int32Flags, table.Pos + at)
        if not prefix or longest < 1:
            return False
        for pieces in _vocabularies(_leaves(units, len(prefix)), prefix):
            made = builder.build_fast_wordpiece_model(
                pieces, longest, prefix, unknown, True, False
            )
            if made == model:
                return True
    except (
        _Damaged,
        struct.error,
        TypeError,
        ValueError,
        LookupError,
        RuntimeError,
    ):
        pass  # of damaged bytes, and of the library for a wrong vocabulary
    return False


def _table(model: bytes) -> flatbuffers.table.Table:
    at = flatbuffers.encode.Get(flatbuffers.packer.uoffset, model, 0)
    return flatbuffers.table.Table(model, at)


def _leaves(units: np.ndarray, prefix: int = 2) -> list[tuple[bytes, int]]:
    """(piece, id) of every key of a double array (uint32) of `darts-clone`.

    `prefix` is the length of the mark of pieces inside a word.
    """
    place = np.arange(len(units), dtype=np.uint32)
    label = units & 0x800000FF  # a leaf has the highest bit
    base = place ^ ((units >> 10) << ((units & 0x200) >> 6))
    inner = np.flatnonzero((label > 0) & (label < 0x100))
    above = (place ^ label)[inner]  # the base of the node above
    order = np.argsort(above, kind="stable")
    inner, above = inner[order], above[order]
    leaves: list[tuple[bytes, int]] = []
    nodes, texts = np.zeros(1, np.int64), [b""]
    seen = size = depth = 0
    while len(nodes):
        ends = np.flatnonzero(units[nodes] & 0x100)
        values = units[base[nodes[ends]]] & 0x7FFFFFFF
        leaves += zip(
            [texts[i] for i in ends],
            (values >> 8 & 0x3FFFFF).tolist(),
            strict=True,
        )
        first = np.searchsorted(above, base[nodes], "left")
        counts = np.searchsorted(above, base[nodes], "right") - first
        depth, seen = depth + 1, seen + counts.sum()
        size += depth * counts.sum()
        longest = _MAX_PIECE + prefix + 1
        if seen > len(units) or size > _MAX_BYTES or depth > longest:
            raise _Damaged
        skipped = np.repeat(first - (np.cumsum(counts) - counts), counts)
        parents = np.repeat(np.arange(len(nodes)), counts)
        nodes = inner[skipped + np.arange(len(parents))]
        letters = label[nodes].astype(np.uint8).tobytes()
        texts = [
            texts[parent] + letters[i : i + 1]
            for i, parent in enumerate(parents.tolist())
        ]
    return leaves


def _vocabularies(
    numbered: list[tuple[bytes, int]], prefix: bytes
) -> Iterator[list[bytes]]:
    """The vocabularies that the keys can stem from.

    The library leaves out of the tree the empty piece and the prefix alone.
    """
    ids = [number for _, number in numbered]
    if ids.count(dict(numbered).get(prefix + _NO_SUFFIX, -1)) > 1:
        numbered = [row for row in numbered if row[0] != prefix + _NO_SUFFIX]
    size = max(ids) + 1
    if not len(numbered) <= size <= len(numbered) + 2:
        raise _Damaged
    pieces: list[bytes | None] = [None] * size
    for piece, number in numbered:
        pieces[number] = piece
    gaps = [i for i, piece in enumerate(pieces) if piece is None]
    for fill in itertools.permutations((prefix, b""), len(gaps)):
        for i, piece in zip(gaps, fill, strict=True):
            pieces[i] = piece
        yield list(pieces)
        if prefix not in fill:
            yield [*pieces, prefix]
