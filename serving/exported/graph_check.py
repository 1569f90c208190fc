"""What a SavedModel may hold, checked before TensorFlow sees it.

A SavedModel is a program. What is listed here is what the exports of this
project hold; every node of every function, of the graph, of its saver and
initializers is looked up, and what is not listed is refused. TensorFlow is then
given the bytes that were checked, without what no signature needs: the saver
and the graph around the functions.
"""

import functools
import math
import os
from collections.abc import Iterator

import sentencepiece
import tensorflow as tf
import tensorflow_text  # noqa: F401  registers the SentencePiece operations
from google.protobuf import message
from tensorflow.core.framework import node_def_pb2
from tensorflow.core.protobuf import saved_model_pb2
from tensorflow.python.framework import op_def_registry

from common import files
from common.errors import UserError
from serving.exported import wordpiece_check

# Of saved_model.pb; weights are no part of it. Exports have 2 to 20 MiB.
MAX_BYTES = 1 << 26
MAX_ELEMENTS = 1 << 26  # of all constants together
# Operations of functions that loading or a signature may run.
# `tests/serving/exported/test_own_exports.py` makes the list again.
ALLOWED = frozenset(
    """
    Abs AddN AddV2 All Any ArgMax Assert BatchMatMulV2 BiasAdd
    BroadcastGradientArgs BroadcastTo Cast ConcatV2 Const Cos Cumsum
    DenseBincount Einsum EnsureShape Equal Erf Erfc Exp ExpandDims
    FastWordpieceTokenizeWithOffsets Fill FloorDiv FloorMod GatherNd
    GatherV2 Greater GreaterEqual HashTableV2 Identity IdentityN If Less
    LessEqual Log LogSoftmax LogicalAnd LogicalNot LogicalOr
    LookupTableFindV2 LookupTableImportV2 LowerBound MatMul MatrixDiagV3 Max
    Maximum Mean Minimum Mul Neg NoOp NotEqual OneHot OnesLike Pack Pad
    PadV2 PartitionedCall Pow Prod RaggedGather RaggedRange
    RaggedTensorFromVariant RaggedTensorToTensor RaggedTensorToVariant Range
    ReadVariableOp RealDiv ReduceJoin Relu ReluGrad Reshape ResourceGather
    ReverseV2 Rsqrt SegmentMax SelectV2 SentencepieceDetokenizeOp
    SentencepieceOp SentencepieceTokenizeOp
    SentencepieceTokenizeWithOffsetsOp Shape Sigmoid Sin Size Softmax Split
    SplitV Square Squeeze StatefulPartitionedCall StatelessIf
    StatelessMultinomial StatelessWhile StaticRegexReplace StopGradient
    StridedSlice StringJoin StringLength StringSplit StringSplitV2 Sub
    Substr Sum Tanh TanhGrad TensorListConcatV2 TensorListFromTensor
    TensorListGetItem TensorListReserve TensorListSetItem TensorListStack
    TensorScatterSub TensorScatterUpdate Tile
    TopKV2 Transpose UnicodeDecode UnicodeEncode UnicodeTranscode Unpack
    UnsortedSegmentJoin UnsortedSegmentMax UnsortedSegmentMin
    UnsortedSegmentSum UpperBound Where While ZerosLike
    """.split()
)
# Of the graph and of functions that only it calls, which TensorFlow is not
# given: they save and restore checkpoints.
SAVER = frozenset(
    """
    AssignVariableOp DisableCopyOnRead MergeV2Checkpoints Placeholder
    RestoreV2 SaveV2 Select ShardedFilename StaticRegexFullMatch
    VarHandleOp VarIsInitializedOp
    """.split()
)
# Attributes that no operation declares; of nodes, functions, their arguments.
ATTRIBUTES = frozenset(
    """
    _class _collective_manager_ids _construction_context _gradient_op_type
    _has_manual_control_dependencies _input_shapes _lower_using_switch_merge
    _num_original_outputs _output_shapes _read_only_resource_inputs
    _user_specified_name
    """.split()
)
# What an object of the object graph says it is made of.
OBJECTS = frozenset(
    """
    _generic_user_object signature_map trackable_dict_wrapper
    trackable_list_wrapper tf.StaticHashTable tf.TrackableConstant
    """.split()
) | {""}
_VOCABULARY = "SentencepieceOp"
_TRUST = "load it only if you know who made it, with --trust_model"


def read(version_dir: str) -> saved_model_pb2.SavedModel:
    """The content of `saved_model.pb`.

    Raises UserError: it is unreadable, holds no graph, or is too large.
    """
    path = os.path.join(version_dir, "saved_model.pb")
    try:
        with files.open_binary(path) as f:
            content = f.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise UserError(f"{path}: wanted at most {MAX_BYTES >> 20} MiB")
        # The parser itself refuses what is nested more than 100 deep.
        proto = saved_model_pb2.SavedModel.FromString(content)
    except (OSError, tf.errors.OpError, message.DecodeError) as e:
        raise UserError(f"{path} cannot be read: export the model again") from e
    if not proto.meta_graphs:
        raise UserError(f"{path} holds no graph: export the model again")
    return proto


def check_files(version_dir: str) -> None:
    """UserError where loading would read what lies outside of the folder."""
    if files.is_remote(version_dir):
        return
    root = os.path.realpath(version_dir)
    for folder, folders, names in os.walk(root):
        for name in folders + names:
            path = os.path.realpath(os.path.join(folder, name))
            inside = path.startswith(os.path.join(root, ""))
            if not inside or not (os.path.isfile(path) or os.path.isdir(path)):
                raise UserError(
                    f"{os.path.join(folder, name)}: wanted a file or a link "
                    "within the folder, found something else; copy the folder "
                    f"with `cp -rL`, or {_TRUST}"
                )


def check(version_dir: str, proto: saved_model_pb2.SavedModel) -> None:
    """Everything that a SavedModel holds is listed above.

    Raises UserError: something is not; or there is no object graph, without
    which loading runs an operation that the file names.
    """
    graph = proto.meta_graphs[0]
    if len(proto.meta_graphs) != 1 or not graph.object_graph_def.nodes:
        raise UserError(
            f"{version_dir}: wanted one graph with its object graph, found the "
            f"layout of TensorFlow 1; {_TRUST}"
        )
    wrong = sorted(set(_unlisted(graph)))
    if wrong:
        raise UserError(
            f"{version_dir}: the graph holds {', '.join(wrong[:5])}, which no "
            "export of ours holds and which may reach files, Python or the "
            f"machine; {_TRUST}"
        )
    for node in _nodes(graph):
        if node.op == _VOCABULARY and not _is_vocabulary(node.attr["model"]):
            raise UserError(
                f"{version_dir}: the vocabulary in the graph is not a "
                f"SentencePiece model or is damaged; {_TRUST}"
            )
    elements = sum(_elements(node) for node in _nodes(graph))
    if elements > MAX_ELEMENTS:
        raise UserError(
            f"{version_dir}: wanted at most {MAX_ELEMENTS} numbers in "
            f"constants, found {elements}; {_TRUST}"
        )
    if problem := wordpiece_check.problem(graph, list(_nodes(graph))):
        raise UserError(
            f"{version_dir}: {problem}, and a damaged table ends TensorFlow; "
            f"export the model again, or {_TRUST}"
        )


def loadable(proto: saved_model_pb2.SavedModel) -> bytes:
    """A checked `saved_model.pb` without its saver, graph and gradients.

    The objects' constants stay, and the functions that objects name.
    """
    slim = saved_model_pb2.SavedModel()
    slim.CopyFrom(proto)
    graph = slim.meta_graphs[0]
    library = graph.graph_def.library
    kept = _functions_of_objects(graph)
    _keep(library.function, lambda f: f.signature.name in kept)
    _keep(library.registered_gradients, lambda g: g.gradient_func in kept)
    _keep(graph.graph_def.node, lambda node: node.op == "Const")
    graph.ClearField("saver_def")
    graph.ClearField("collection_def")
    for node in _nodes(graph):  # gradients that no export holds
        node.attr.pop("_gradient_op_type", None)
    return slim.SerializeToString()


def _keep(field, wanted) -> None:
    rows = [row for row in field if wanted(row)]
    del field[:]
    field.extend(rows)


def _nodes(graph) -> Iterator[node_def_pb2.NodeDef]:
    """Of the graph and of every function."""
    yield from graph.graph_def.node
    for function in graph.graph_def.library.function:
        yield from function.node_def


def _functions_of_objects(graph) -> set[str]:
    """Names of the functions that loading or a signature may run."""
    library = {f.signature.name: f for f in graph.graph_def.library.function}
    functions: set[str] = set()
    waiting = list(graph.object_graph_def.concrete_functions)
    while waiting:
        name = waiting.pop()
        if name not in library or name in functions:
            continue
        functions.add(name)
        for node in library[name].node_def:
            for value in node.attr.values():
                waiting += [called.name for called in _called(value)]
    return functions


def _called(value) -> list:
    """Functions that an attribute names."""
    kind = value.WhichOneof("value")
    if kind == "func":
        return [value.func]
    return list(value.list.func) if kind == "list" else []


def _unlisted(graph) -> Iterator[str]:
    """What is not listed, in words."""
    library = graph.graph_def.library
    kept = _functions_of_objects(graph)
    for function in library.function:
        loaded = function.signature.name in kept
        allowed = ALLOWED if loaded else ALLOWED | SAVER
        for owner in (function, *function.arg_attr.values()):
            yield from _undeclared(owner.attr, "a function", ())
        for node in function.node_def:
            yield from _of_node(node, allowed)
    for node in graph.graph_def.node:
        yield from _of_node(node, ALLOWED | SAVER)
    for saved in graph.object_graph_def.nodes:
        for name in (saved.user_object.identifier, saved.registered_name):
            if name not in OBJECTS:
                yield f"the object {name[:40]}"
    for asset in graph.asset_file_def:
        if os.path.basename(asset.filename) != asset.filename:
            yield f"the asset {asset.filename[:40]}"


def _of_node(node, allowed: frozenset[str]) -> Iterator[str]:
    declared = _attributes(node.op) if node.op in allowed else None
    if declared is None:
        yield node.op[:40]
    else:
        yield from _undeclared(node.attr, node.op, declared)


@functools.cache
def _attributes(op: str) -> frozenset[str] | None:
    """What an operation declares; None = there is no such operation."""
    definition = op_def_registry.get(op)
    return definition and frozenset(attr.name for attr in definition.attr)


def _undeclared(attributes, owner: str, declared) -> Iterator[str]:
    for name, value in attributes.items():
        nested = any(function.attr for function in _called(value))
        if nested or not (name in declared or name in ATTRIBUTES):
            yield f"{owner} with {name[:40]}"


def _is_vocabulary(value) -> bool:
    """Whether SentencePiece itself takes the bytes.

    tensorflow_text's own copy of it believes them and ends by a signal.
    """
    if value.WhichOneof("value") != "s":
        return False
    try:
        sentencepiece.SentencePieceProcessor(model_proto=value.s)
    except (RuntimeError, OSError, ValueError, LookupError):
        return False
    return True


def _elements(node) -> int:
    """How many numbers a constant becomes; one may stand for many."""
    if "value" not in node.attr:
        return 0
    shape = node.attr["value"].tensor.tensor_shape
    return abs(math.prod(dim.size for dim in shape.dim))
