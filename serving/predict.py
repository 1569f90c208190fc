"""Batch prediction from a SavedModel alone.

    python -m serving.predict --saved_model_dir=DIR --text="..."
    python -m serving.predict --saved_model_dir=DIR --input_file=rows.jsonl \\
        --output_file=answers.jsonl

What is read and written: `serving.exported.answering`.
"""

import sys

from flags import app
from flags.serving import predict_flags


def main() -> None:
    """The command."""
    from serving.exported.answering import answer
    from serving.saved_model import SavedModel

    options = predict_flags.from_flags()
    model = SavedModel(options.saved_model_dir, options.trust_model)
    print(model.weights_line, file=sys.stderr)  # answers may go to the other
    answer(model, options)


if __name__ == "__main__":
    predict_flags.define()
    app.run(main)
