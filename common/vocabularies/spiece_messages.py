"""SentencePiece's protocol messages, which want a protobuf of their own."""

from common.errors import UserError


def messages():
    """The module with `ModelProto`; UserError with an unusable protobuf."""
    from google.protobuf import runtime_version

    try:
        from sentencepiece import sentencepiece_model_pb2
    except runtime_version.VersionError as e:
        raise UserError(
            "sentencepiece cannot use the installed protobuf: "
            f"{str(e).split('. ')[0]}; use an environment without "
            "requirements-beam.txt"
        ) from e
    return sentencepiece_model_pb2
