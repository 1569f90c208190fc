"""Exported models, commands that ask a model, and a local server."""

import common  # noqa: F401  before TensorFlow, as in every command
