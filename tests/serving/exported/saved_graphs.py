"""SavedModels around a given function."""

import json

import tensorflow as tf

TEXT = {"text": {"dtype": "string", "shape": [None]}}
GOOD = {
    "format_version": 1,
    "task": "tsv",
    "head": "classification",
    "labels": ["a"],
    "max_seq_length": 8,
    "signatures": {"serving_default": {"inputs": TEXT, "outputs": {}}},
}


def save(folder, function, **parts):
    """A SavedModel whose one signature is `function` of texts.

    Args:
      folder: to be made.
      function: texts -> outputs by name.
      **parts: tables and variables that it uses.
    """
    module = tf.Module()
    module.parts = parts
    module.call = tf.function(
        function,
        input_signature=[tf.TensorSpec([None], tf.string, "text")],
        autograph=False,
    )
    tf.saved_model.save(module, str(folder), signatures=module.call)
    (folder / "signature.json").write_text(json.dumps(GOOD))
