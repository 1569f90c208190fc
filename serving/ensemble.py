"""Several SavedModels that answer as one.

    python -m serving.ensemble --ensemble=A/export,B/export \\
        --input_file=rows.jsonl --output_file=answers.jsonl

Input, output and resume are those of `serving.predict`; one model alone gives
its answers, byte by byte. docs/guides/serving/shell.md says how answers are
joined.
"""

import sys

from flags import app, flag_values
from serving.options import EnsembleOptions, PredictOptions


def main() -> None:
    """The command."""
    from serving.exported.answering import answer
    from serving.exported.members import Ensemble
    from serving.saved_model import SavedModel

    rows = flag_values.build(PredictOptions, saved_model_dir="")
    options = flag_values.build(EnsembleOptions, rows=rows)
    trust = options.rows.trust_model
    models = [SavedModel(folder, trust) for folder in options.ensemble]
    for model in models:
        print(model.weights_line, file=sys.stderr)
    answer(Ensemble(models, options.ensemble_weights), options.rows)


if __name__ == "__main__":
    flag_values.define(EnsembleOptions)
    flag_values.define(PredictOptions, without=("saved_model_dir",))
    app.run(main)
