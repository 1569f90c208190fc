"""Batch prediction from a SavedModel alone.

    python -m serving.predict --saved_model_dir=DIR --text="..."
    python -m serving.predict --saved_model_dir=DIR --input_file=rows.jsonl \\
        --output_file=answers.jsonl

docs/guides/serving/shell.md says what is read and written.
"""

import sys

from flags import app, flag_values
from serving.options import PredictOptions


def main() -> None:
    """The command."""
    from serving.exported.answering import answer
    from serving.saved_model import SavedModel

    options = flag_values.build(PredictOptions)
    model = SavedModel(options.saved_model_dir, options.trust_model)
    print(model.weights_line, file=sys.stderr)  # answers may go to the other
    answer(model, options)


if __name__ == "__main__":
    flag_values.define(PredictOptions)
    app.run(main)
