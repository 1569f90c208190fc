"""L0: errors and files, used by every package and importing none of them."""

import os

# TensorFlow reads this when it is loaded: its lines would bury the
# lines of the commands. Set it to 0 to see everything.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
# `tf.keras` is tf_keras, which the layers are made of. Without it TensorFlow
# loads Keras 3 as well, which takes as long as TensorFlow itself.
os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
