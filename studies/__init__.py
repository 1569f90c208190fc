"""Studies: the ablation, results, encoders, language models. Not installed."""

import common  # noqa: F401  before TensorFlow, as in every command
