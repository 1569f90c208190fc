"""Lines that TensorFlow's libraries write around its own logging."""

import ctypes
import os
import sys

_LIBRARY = "libtensorflow_framework.so.2"
# void absl::SetMinLogLevel(absl::LogSeverityAtLeast), by the name that the
# pinned release gives it.
_SET_LEVEL = "_ZN4absl12lts_2025012714SetMinLogLevelENS0_18LogSeverityAtLeastE"


def silence() -> bool:
    """Gives the libraries the level of `TF_CPP_MIN_LOG_LEVEL`.

    XLA logs through Abseil, which does not read that variable: the first
    program that is compiled would say so, after a warning about Abseil itself.
    Call it when TensorFlow is imported. False where another release has another
    name for it, and then the lines come.
    """
    tensorflow = sys.modules["tensorflow"]
    level = os.environ.get("TF_CPP_MIN_LOG_LEVEL", "3")
    path = os.path.join(os.path.dirname(tensorflow.__file__), _LIBRARY)
    try:
        set_level = getattr(ctypes.CDLL(path), _SET_LEVEL)
        set_level(ctypes.c_int(min(max(int(level), 0), 3)))
    except (OSError, AttributeError, ValueError):
        return False
    return True
