"""Everything from raw text to `tf.data` batches; never imports tf_keras."""

import common  # noqa: F401  before TensorFlow, as in every command
