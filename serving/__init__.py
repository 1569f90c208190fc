"""Exported models, commands that ask a model, and a local server."""

import os

# TensorFlow's start-up notes would come before every answer of a command.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
