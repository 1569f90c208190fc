"""Command: raw text -> token streams for left-to-right language models.

    python -m data.create_lm_data --train_glob='corpus/*.txt' \\
        --valid_glob=valid.txt --output_dir=records
    python -m data.create_lm_data --dataset=wikitext-103 \\
        --data_path=wikitext-103 --output_dir=wt103 --num_workers=8
    python -m data.create_lm_data --dataset=enwik8 --data_path=enwik8 \\
        --output_dir=bytes --line_end=newline

Interrupted, the same command goes on; finished, it says so and changes
nothing; other parameters in the same folder are refused.
"""

from data.language_modeling import build
from data.language_modeling.options import LMDataOptions
from data.records import build as records
from flags import app, flag_values
from flags.training import transformer_xl_flags


def main() -> None:
    """Builds what the flags say."""
    options = flag_values.build(LMDataOptions)
    manifest = build.build(options)
    sizes = transformer_xl_flags.DEFAULTS
    # All recipes but one are of models of the paper, as large or larger.
    print(
        records.summary(manifest, "run_lm.py", sizes, "--n_layer and --d_model")
    )


if __name__ == "__main__":
    flag_values.define(LMDataOptions)
    app.run(main)
