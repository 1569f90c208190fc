"""Damaged tables of WordPiece are refused before TensorFlow sees them."""

import random
import shutil

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_text
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow_text.core.pybinds import (
    pywrap_fast_wordpiece_tokenizer_model_builder as builder,
)

from common.errors import UserError
from serving import saved_model
from serving.exported import graph_check, wordpiece_check
from serving.saved_model import SavedModel
from tests.serving.exported.saved_graphs import save

PIECES = ("[UNK]", "a", "##b", "##bc", "the", "##ing", "\u6f22", b"\xff9")


def made(pieces=PIECES, longest=400, prefix="##", cut=True, back=False):
    return builder.build_fast_wordpiece_model(
        list(pieces), longest, prefix, "[UNK]", cut, back
    )


GOOD = made()


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """A SavedModel that cuts words, with a variable."""
    folder = tmp_path_factory.mktemp("plain")
    weight = tf.Variable(3)
    cut = tensorflow_text.FastWordpieceTokenizer(
        list(PIECES), token_out_type=tf.int32, no_pretokenization=True
    )
    save(
        folder,
        lambda text: {"ids": cut.tokenize(text).to_tensor() * weight},
        weight=weight,
    )
    return folder


@pytest.fixture
def change(plain, tmp_path, monkeypatch):
    """(SavedModel, its 8-bit constant, function that loads what it became)."""
    path = plain / "saved_model.pb"
    proto = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    nodes = graph_check._nodes(proto.meta_graphs[0])
    (constant,) = (
        n for n in nodes if n.op == "Const" and n.attr["dtype"].type == 4
    )

    def never(*_):
        raise AssertionError("TensorFlow was given the file")

    def load():
        monkeypatch.setattr(saved_model, "_load", never)
        folder = tmp_path / "1"
        shutil.copytree(plain, folder, dirs_exist_ok=True)
        (folder / "saved_model.pb").write_bytes(proto.SerializeToString())
        SavedModel(str(folder))

    return proto, constant.attr["value"].tensor, load


def test_what_the_library_made_answers(plain):
    found = SavedModel(str(plain))({"text": ["abc", "the"]})
    np.testing.assert_array_equal(found["ids"], [[3, 9], [12, 0]])


@pytest.mark.parametrize(
    "pieces",
    [
        PIECES,
        ("a", "[UNK]"),  # none inside of words
        ("a", "##", "[UNK]", "##a"),  # the prefix itself
        ("##\x11", "[UNK]", "\x11", "##\x11\x11"),
        ("[UNK]", *(f"{a}{b}" for a in range(60) for b in range(60))),
    ],
)
def test_tables_that_the_library_makes_are_accepted(pieces):
    pieces = dict.fromkeys(pieces)
    for prefix, longest in (("##", 400), ("@", 1)):
        assert wordpiece_check.is_table(made(pieces, longest, prefix))


def damaged():
    """Tables that are none, 4 bytes or the length of good ones changed."""
    draw = random.Random(7)
    words = (b"\xff" * 4, b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\1\2\3\4")
    # Not the plain values before: those of another good table.
    places = range(120, len(GOOD) - 4, 4)
    for i in range(60):
        at = draw.choice(places)
        bit = 1 << draw.randrange(8)
        if i % 3 == 0:
            new = bytes((GOOD[at] ^ bit,)) + GOOD[at + 1 : at + 4]
            yield GOOD[:at] + new + GOOD[at + 4 :]
        elif i % 3 == 1:
            yield GOOD[:at] + draw.choice(words) + GOOD[at + 4 :]
        else:
            yield GOOD[:at]
    for at in range(0, 40, 4):  # what says where the rest lies
        yield GOOD[:at] + b"\xff\xff\xff\x7f" + GOOD[at + 4 :]
    yield from (b"", b"\0", GOOD + b"\0", GOOD[4:], bytes(4096))
    yield made(back=True)
    yield made(longest=-1)
    yield made(prefix="")


def test_damaged_tables_are_refused(change):
    """Before TensorFlow is given them: they would end the process."""
    proto, tensor, load = change
    with pytest.raises(AssertionError, match="was given"):
        load()
    found = [x for x in damaged() if x != GOOD]
    assert len(found) > 60
    for content in found:
        assert not wordpiece_check.is_table(content)
    for content in found[::9]:
        tensor.tensor_content = content
        tensor.tensor_shape.dim[0].size = len(content)
        with pytest.raises(UserError, match="table of WordPiece is damaged"):
            load()


@pytest.mark.parametrize("size", [128, 4096])
def test_a_trie_in_a_circle_ends(size):
    """The unit `a` is its own child: as many as there are, or too deep."""
    units = np.zeros(size, np.uint32)
    units[ord("a")] = ord("a") << 10 | ord("a")
    with pytest.raises(wordpiece_check._Damaged):
        list(wordpiece_check._leaves(units))


def _elsewhere(proto, tensor, how):
    """8-bit numbers that no constant holds as they are; the message."""
    graph = proto.meta_graphs[0]
    functions = graph.graph_def.library.function
    node = functions[0].node_def.add(name="evil", op=how)
    if how in ("Cast", "Pack", "StridedSlice", "ReadVariableOp", "While"):
        name = {"Cast": "DstT", "ReadVariableOp": "dtype"}.get(how, "T")
        node.attr[name].type = 4
        if how == "While":
            del node.attr["T"]
            node.attr["T"].list.type.append(4)
        return f"{how} works on 8-bit numbers"
    node.op = "NoOp"
    if how == "an input":
        for function in graph.object_graph_def.concrete_functions.values():
            del function.bound_inputs[:]
        return "takes 8-bit numbers from outside"
    if how == "a type to be filled in":
        node.op = "Cast"
        node.attr["DstT"].placeholder = "T"
        return "Cast works on 8-bit numbers"
    if how == "a part":
        tensor.tensor_shape.dim[0].size = len(GOOD) // 2
    elif how == "numbers beside the bytes":
        tensor.int_val.append(3)
    elif how == "another type":
        tensor.dtype = tf.int8.as_datatype_enum
    return "a table of WordPiece is damaged"


@pytest.mark.parametrize(
    "how",
    [
        "Cast",
        "Pack",
        "StridedSlice",
        "ReadVariableOp",
        "While",
        "a type to be filled in",
        "an input",
        "a part",
        "numbers beside the bytes",
        "another type",
    ],
)
def test_no_other_bytes_get_to_the_operation(change, how):
    proto, tensor, load = change
    message = _elsewhere(proto, tensor, how)
    with pytest.raises(UserError, match=f"{message}, .*--trust_model"):
        load()


def test_no_listed_operation_makes_bytes_of_its_own():
    """The type of what others make stands in an attribute of theirs."""
    fixed = set()
    for name in graph_check.ALLOWED:
        definition = graph_check.op_def_registry.get(name)
        kinds = {a.name: a.type for a in definition.attr}
        for arg in (*definition.input_arg, *definition.output_arg):
            if arg.type in wordpiece_check._BYTES:
                fixed.add((name, arg.name))
            assert not arg.type_attr or kinds[arg.type_attr] == "type"
        for attr in definition.attr:
            assert attr.default_value.type not in wordpiece_check._BYTES
    assert fixed == {("FastWordpieceTokenizeWithOffsets", "wp_model")}
