"""The training step, its loop, its jobs, its checkpoints."""

import common  # noqa: F401  before TensorFlow, as in every command
