"""L0: errors and files, used by every package and importing none of them."""

import os


def _environment() -> dict[str, str]:
    """What TensorFlow reads from the environment when it is loaded."""
    found = {
        # Its lines would bury the lines of the commands. 0 shows everything.
        "TF_CPP_MIN_LOG_LEVEL": "3",
        # `tf.keras` is tf_keras, which the layers are made of. Without it
        # TensorFlow loads Keras 3 as well, which takes as long as TensorFlow.
        "TF_USE_LEGACY_KERAS": "1",
    }
    # `platform.machine()` would take a tenth of the time of a help text.
    if hasattr(os, "uname"):
        machine = os.uname().machine
    else:
        machine = os.environ.get("PROCESSOR_ARCHITECTURE", "")
    if machine.lower() in ("x86_64", "amd64"):
        # TensorFlow itself takes oneDNN's products only where the CPU has
        # AVX-512 VNNI. With AVX2 they are up to twice as fast as Eigen's, and
        # oneDNN's allocator returns no pages within a step.
        found["TF_ENABLE_ONEDNN_OPTS"] = "1"
    return found


# What the user has set stays.
ENVIRONMENT = {
    name: value
    for name, value in _environment().items()
    if name not in os.environ
}
os.environ |= ENVIRONMENT


def users_environment() -> dict[str, str]:
    """This process's, without what was set here."""
    return {k: v for k, v in os.environ.items() if k not in ENVIRONMENT}
