"""Errors are one line, whatever a file put into them."""

import pickle

from common.errors import UserError


def test_control_characters_are_escaped():
    name = "a\nb\x1b[2J\u202ec\x9b31m\ud800"
    error = UserError(f"x.bin: found {name}")
    assert str(error) == (r"x.bin: found a\nb\x1b[2J\u202ec\x9b31m\ud800")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
    assert str(UserError("Größe 12 \u4e2d \\n")) == "Größe 12 \u4e2d \\n"
