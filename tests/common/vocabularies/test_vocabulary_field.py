"""The record inside a SentencePiece file."""

import random

import pytest
import sentencepiece

from common.errors import UserError
from common.vocabularies import vocabulary_field
from common.vocabularies.text_settings import COMPOSED, TextSettings
from data.text.tokenizer import Tokenizer

SETTINGS = TextSettings(COMPOSED, uncased=True)


def test_the_record_is_read_past_by_everything(plain):
    content = vocabulary_field.embed(plain, SETTINGS)
    assert vocabulary_field.embedded(content, "x") == SETTINGS
    assert vocabulary_field.embedded(plain, "x") is None
    assert vocabulary_field.embed(
        content, TextSettings()
    ) == vocabulary_field.embed(plain, TextSettings())
    one = sentencepiece.SentencePieceProcessor(model_proto=plain)
    two = sentencepiece.SentencePieceProcessor(model_proto=content)
    assert one.encode("a plain Ünder") == two.encode("a plain Ünder")
    # As Hugging Face reads it, and writes it again.
    from sentencepiece import sentencepiece_model_pb2 as pb2

    proto = pb2.ModelProto.FromString(content)
    assert len(proto.pieces) == one.get_piece_size()
    assert proto.SerializeToString() == content
    assert two.serialized_model_proto() == content


def test_tensorflow_text_reads_past_it(plain):
    import tensorflow_text as tf_text

    content = vocabulary_field.embed(plain, SETTINGS)
    found = tf_text.SentencepieceTokenizer(model=content).tokenize(["a Ünder"])
    wanted = sentencepiece.SentencePieceProcessor(model_proto=plain)
    assert found.to_list() == [wanted.encode("a Ünder")]


def test_every_damage_to_a_recorded_file_is_named(path, plain):
    content = vocabulary_field.embed(plain, SETTINGS)
    rng = random.Random(4)
    places = [rng.randrange(len(content)) for _ in range(300)]
    places += range(len(content) - 260, len(content))  # the record itself
    for place in places:
        damaged = bytearray(content)
        damaged[place] ^= 1 << rng.randrange(8)
        path.write_bytes(damaged)
        with pytest.raises(UserError, match="spiece.model") as e:
            Tokenizer(str(path))
        assert "\n" not in str(e.value)
    for size in (len(content) - 1, len(content) - 150, len(content) // 2):
        path.write_bytes(content[:size])
        with pytest.raises(UserError, match="spiece.model"):
            Tokenizer(str(path))
