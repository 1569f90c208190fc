"""Everything from raw text to `tf.data` batches; never imports tf_keras."""
