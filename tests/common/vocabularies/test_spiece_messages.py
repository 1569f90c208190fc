"""SentencePiece's messages, and a protobuf that does not fit them."""

import sys

import pytest
import sentencepiece

from common.errors import UserError
from common.vocabularies import spiece_messages


def test_the_module_reads_a_model():
    proto = spiece_messages.messages().ModelProto()
    piece = proto.pieces.add()
    piece.piece, piece.score = "a", -1.5
    again = spiece_messages.messages().ModelProto()
    again.ParseFromString(proto.SerializeToString())
    assert [(p.piece, p.score) for p in again.pieces] == [("a", -1.5)]


def test_a_protobuf_of_another_version_is_one_line(monkeypatch):
    from google.protobuf import runtime_version

    def refuse(*_):
        raise runtime_version.VersionError("gencode 7 runtime 6. More.")

    name = "sentencepiece_model_pb2"
    monkeypatch.delattr(sentencepiece, name, raising=False)
    monkeypatch.delitem(sys.modules, f"sentencepiece.{name}", raising=False)
    monkeypatch.setattr(
        runtime_version, "ValidateProtobufRuntimeVersion", refuse
    )
    with pytest.raises(UserError, match="gencode 7 runtime 6; use an") as e:
        spiece_messages.messages()
    assert "\n" not in str(e.value) and "More" not in str(e.value)
