"""Hostile SavedModels are refused before TensorFlow sees them."""

import asyncio
import os
import re
import shutil

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
from tensorflow.core.framework import op_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.client import pywrap_tf_session

from common.errors import UserError
from flags import flag_values
from serving import ensemble, predict, saved_model, serve
from serving.exported import graph_check
from serving.options import (
    EnsembleOptions,
    PredictOptions,
    ServerOptions,
)
from serving.saved_model import SavedModel
from tests.helpers.layers import source_files
from tests.serving.exported.saved_graphs import save

# String arguments and attributes, and names of operations, that say where an
# operation reaches to: files, addresses, functions of Python, plugins, devices.
ARGUMENT = re.compile(
    "file|path|dir(ectory)?$|prefix|address|urls?$|memory_region|target|token$"
    "|server|service|query|plugin"
)
NAME = re.compile(
    "File|PyFunc|Plugin|Rpc|Send|Recv|Host|Infeed|Outfeed|Snapshot|LMDB"
    "|CustomCall|CallModule|TFRecord|Summary|DataService|Debug|RemoteCall"
)


def registry():
    """Every operation that TensorFlow knows."""
    data = pywrap_tf_session.TF_GetBuffer(pywrap_tf_session.TF_GetAllOpList())
    return {op.name: op for op in op_def_pb2.OpList.FromString(data).op}


def reaching():
    """Operations of the registry that reach beyond a graph."""
    found = []
    for name, op in registry().items():
        strings = [
            a.name for a in op.input_arg if a.type == tf.string.as_datatype_enum
        ]
        strings += [a.name for a in op.attr if "string" in a.type]
        if NAME.search(name) or any(map(ARGUMENT.search, strings)):
            found.append(name)
    return sorted(found)


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    """(folder, content) of a small SavedModel with a table and a variable."""
    folder = tmp_path_factory.mktemp("plain")
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(["a"], [2]), 1
    )
    weight = tf.Variable(3)
    save(
        folder,
        lambda text: {"n": table.lookup(text) * weight},
        table=table,
        weight=weight,
    )
    return folder, (folder / "saved_model.pb").read_bytes()


@pytest.fixture
def change(plain, tmp_path):
    """(meta graph, function that writes it and gives its folder)."""
    proto = saved_model_pb2.SavedModel.FromString(plain[1])
    folder = tmp_path / "1"
    shutil.copytree(plain[0], folder)

    def write():
        (folder / "saved_model.pb").write_bytes(proto.SerializeToString())
        return str(folder)

    return proto, write


def never(*_):
    raise AssertionError("TensorFlow was given the file")


def functions(graph):
    """The functions of a graph by a word in their name."""
    return {
        word: f
        for word in ("signature_wrapper", "initializer", "restore", "save")
        for f in graph.graph_def.library.function
        if word in f.signature.name
    }


def test_what_is_not_changed_answers(plain):
    found = SavedModel(str(plain[0]))({"text": ["a", "b"]})
    np.testing.assert_array_equal(found["n"], [6, 3])


def write_file(graph, path):
    """`WriteFile` as the operation that restores, in TensorFlow 1's layout."""
    nodes = graph.graph_def.node
    for name, value in (("path", path), ("content", "written")):
        node = nodes.add(name=name, op="Const")
        node.attr["dtype"].type = tf.string.as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))
    nodes.add(name="evil", op="WriteFile", input=["path", "content"])
    graph.saver_def.restore_op_name = "evil"
    graph.ClearField("object_graph_def")


def test_no_file_is_written_by_what_restores(change, tmp_path, monkeypatch):
    """By no way that a SavedModel can come in."""
    proto, write = change
    target = tmp_path / "target"
    write_file(proto.meta_graphs[0], str(target))
    folder = write()
    with pytest.raises(UserError, match="layout of TensorFlow 1.*trust_model"):
        SavedModel(folder)
    rows = PredictOptions(folder, ("x",), output_file=str(tmp_path / "out"))
    both = EnsembleOptions(rows, (folder,))
    built = {PredictOptions: rows, EnsembleOptions: both}
    monkeypatch.setattr(flag_values, "build", lambda cls, **_: built[cls])
    for command in (
        predict.main,
        ensemble.main,
        lambda: serve._load(folder, ServerOptions()),
    ):
        with pytest.raises(UserError, match="trust_model"):
            command()
    assert not target.exists()
    SavedModel(folder, trust=True)
    assert target.read_text() == "written"


def test_no_file_is_written_by_a_version_that_a_server_finds(
    plain, change, tmp_path, caplog
):
    pytest.importorskip("fastapi")
    from serving.web.scheduler import Scheduler
    from serving.web.versions import Versions

    proto, write = change
    write_file(proto.meta_graphs[0], str(tmp_path / "target"))
    os.rename(write(), tmp_path / "2")
    shutil.copytree(plain[0], tmp_path / "1")
    options = ServerOptions()
    model = serve._load(str(tmp_path / "1"), options)
    versions = Versions(
        model, Scheduler(options), lambda path: serve._load(path, options)
    )

    async def look():
        async with versions.run():
            found = await versions.look()
            return found, versions.current.model

    found, served = asyncio.run(look())
    assert not found and served is model
    assert "version 2 is skipped" in caplog.text
    assert not (tmp_path / "target").exists()


def test_no_file_is_read(tmp_path):
    """By an operation that takes a file's name as an attribute."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"12345678")
    folder = tmp_path / "model"

    def answer(text):
        read = tf.raw_ops.ImmutableConst(
            dtype=tf.int32, shape=[2], memory_region_name=str(secret)
        )
        return {"n": read + tf.size(text)}

    save(folder, answer)
    with pytest.raises(UserError, match="holds ImmutableConst, "):
        SavedModel(str(folder))
    SavedModel(str(folder), trust=True)({"text": ["x"]})


@pytest.mark.long
def test_what_reaches_beyond_the_graph_is_refused_everywhere(
    change, monkeypatch
):
    """All of them, in a signature, an initializer, the saver, the graph."""
    monkeypatch.setattr(saved_model, "_load", never)
    proto, write = change
    graph = proto.meta_graphs[0]
    found = set(reaching())
    assert len(found) >= 140
    assert {"WriteFile", "ImmutableConst", "GenerateVocabRemapping"} < found
    assert not found & graph_check.ALLOWED
    saver = {"MergeV2Checkpoints", "RestoreV2", "SaveV2", "ShardedFilename"}
    assert found & graph_check.SAVER == saver
    places = {k: f.node_def for k, f in functions(graph).items()}
    assert len(places) == 4
    places["graph"] = graph.graph_def.node
    for name in sorted(found):
        for place, nodes in places.items():
            if name in saver and place in ("restore", "save", "graph"):
                continue
            nodes.add(name="evil", op=name)
            with pytest.raises(UserError, match=f"holds {name}, .*trust_model"):
                SavedModel(write())
            del nodes[-1]
    with pytest.raises(AssertionError, match="was given"):
        SavedModel(write())


def hide(graph, how):
    """Ways around a list of operations; the words of the message."""
    functions_ = functions(graph)
    node = functions_["signature_wrapper"].node_def.add(name="evil", op="NoOp")
    objects = graph.object_graph_def.nodes
    if how == "an operation that nobody knows":
        node.op = "Evil>Op\x1b[31m\n"
        return r"holds Evil>Op\\x1b\[31m\\n, "
    if how == "a function with the name of an operation":
        functions_["restore"].signature.name = node.op = "WriteFile"
        return "holds WriteFile"
    if how == "the compiler":
        node.attr["_XlaMustCompile"].b = True
        return "NoOp with _XlaMustCompile"
    if how == "an attribute of a function":
        functions_["save"].attr["implements"].s = b"x"
        return "a function with implements"
    if how == "a function in an attribute":
        node.op = "StatefulPartitionedCall"
        node.attr["f"].func.attr["f"].func.name = "x"
        return "StatefulPartitionedCall with f"
    if how == "an object of Keras":
        objects[0].user_object.identifier = "optimizer"
        return "the object optimizer"
    if how == "a registered class":
        objects[0].registered_name = "Custom>Evil"
        return "the object Custom>Evil"
    if how == "an asset elsewhere":
        graph.asset_file_def.add().filename = "../../etc/passwd"
        return "the asset ../../etc/passwd"
    if how == "a number that stands for many":
        node.op = "Const"
        shape = node.attr["value"].tensor.tensor_shape
        shape.dim.add().size = shape.dim.add().size = 1 << 20
        return "numbers in constants, found 10995116"
    raise ValueError(how)


@pytest.mark.parametrize(
    "how",
    [
        "an operation that nobody knows",
        "a function with the name of an operation",
        "the compiler",
        "an attribute of a function",
        "a function in an attribute",
        "an object of Keras",
        "a registered class",
        "an asset elsewhere",
        "a number that stands for many",
    ],
)
def test_ways_around_are_refused(change, monkeypatch, how):
    monkeypatch.setattr(saved_model, "_load", never)
    proto, write = change
    message = hide(proto.meta_graphs[0], how)
    with pytest.raises(UserError, match=message) as caught:
        SavedModel(write())
    assert "\n" not in str(caught.value)


def test_layouts_that_are_none_of_ours(change, monkeypatch):
    monkeypatch.setattr(saved_model, "_load", never)
    proto, write = change
    proto.meta_graphs.add().CopyFrom(proto.meta_graphs[0])
    with pytest.raises(UserError, match="layout of TensorFlow 1"):
        SavedModel(write())
    del proto.meta_graphs[1]
    del proto.meta_graphs[0].object_graph_def.nodes[:]
    with pytest.raises(UserError, match="layout of TensorFlow 1"):
        SavedModel(write())
    value = proto.meta_graphs[0].graph_def.node.add().attr["f"]
    for _ in range(60):  # each is two messages deep
        value = value.func.attr["f"]
    with pytest.raises(UserError, match="saved_model.pb cannot be read"):
        SavedModel(write())
    monkeypatch.setattr(graph_check, "MAX_BYTES", 100)
    with pytest.raises(UserError, match="saved_model.pb: wanted at most"):
        SavedModel(write())


def test_damage_that_the_lists_do_not_see_is_one_line(change):
    proto, write = change
    call = functions(proto.meta_graphs[0])["signature_wrapper"].node_def
    for node in call:
        for value in node.attr.values():
            if value.HasField("func"):
                value.func.name = "nothing"
    with pytest.raises(UserError, match="cannot be read .*export the model"):
        SavedModel(write())


def test_a_damaged_vocabulary_is_refused(change, tmp_path, monkeypatch):
    """tensorflow_text ends by a signal when it makes text of it."""
    (tmp_path / "text.txt").write_text("a bc ab\n" * 99)
    sentencepiece.SentencePieceTrainer.Train(
        f"--input={tmp_path}/text.txt --model_prefix={tmp_path}/s "
        "--vocab_size=7 --hard_vocab_limit=false --minloglevel=2"
    )
    model = (tmp_path / "s.model").read_bytes()
    proto, write = change
    node = (
        proto.meta_graphs[0]
        .graph_def.library.function[0]
        .node_def.add(name="vocabulary", op="SentencepieceOp")
    )
    node.attr["model"].s = model
    assert graph_check.check(write(), proto) is None
    # The table of characters leads far outside of itself.
    at = model.index(b"\x12", model.rindex(b"nmt_nfkc")) + 8
    monkeypatch.setattr(saved_model, "_load", never)
    for damaged in (model[:at] + b"\xff" * 4096 + model[at + 4096 :], b"no"):
        node.attr["model"].s = damaged
        with pytest.raises(UserError, match="vocabulary in the graph is no"):
            SavedModel(write())


def test_what_was_checked_is_what_is_loaded(plain, change, monkeypatch):
    """The file changes after the check."""
    proto, write = change
    checked = graph_check.check

    def exchange(folder, found):
        checked(folder, found)
        proto.meta_graphs[0].ClearField("object_graph_def")
        write()

    monkeypatch.setattr(graph_check, "check", exchange)
    found = SavedModel(write())({"text": ["a"]})
    np.testing.assert_array_equal(found["n"], [6])


def test_tensorflow_is_given_nothing_that_is_not_listed(plain):
    proto = saved_model_pb2.SavedModel.FromString(plain[1])
    given = saved_model_pb2.SavedModel.FromString(graph_check.loadable(proto))
    graph = given.meta_graphs[0]
    assert {n.op for n in graph_check._nodes(graph)} <= graph_check.ALLOWED
    assert not graph.HasField("saver_def") and not graph.collection_def
    before = {n.op for n in graph_check._nodes(proto.meta_graphs[0])}
    assert {"SaveV2", "RestoreV2"} < before


@pytest.mark.parametrize("what", ["a link", "a pipe", "a link within"])
def test_nothing_outside_of_the_folder_is_read(change, tmp_path, what):
    folder = change[1]()
    index = os.path.join(folder, "variables", "variables.index")
    elsewhere = tmp_path / "elsewhere"
    shutil.copy(index, elsewhere)
    os.remove(index)
    if what == "a pipe":
        os.mkfifo(index)
    elif what == "a link":
        os.symlink(elsewhere, index)
    else:
        os.rename(elsewhere, os.path.join(folder, "index"))
        os.symlink("../index", index)
        SavedModel(folder)
        return
    with pytest.raises(UserError, match="variables.index: wanted a file or"):
        SavedModel(folder)


def test_nobody_else_loads_saved_models():
    """`reload_check` reads what its caller has just written and checked."""
    found = {
        path.name
        for path in source_files()
        if re.search(
            r"saved_model\.load\(|load_model\(\s*[\"'f]", path.read_text()
        )
    }
    assert found == {"saved_model.py", "reload_check.py"}
