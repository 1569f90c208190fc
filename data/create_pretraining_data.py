"""Command: raw text -> TFRecord lanes with targets and factorization orders.

    python -m data.create_pretraining_data --input_glob='corpus/*.txt' \\
        --spiece_model_file=spiece.model --output_dir=records \\
        --seq_len=512 --reuse_len=256 --bi_data --num_workers=8

Interrupted, the same command goes on; finished, it says so and changes
nothing; other parameters in the same folder are refused.
"""

from data.pretraining import build
from data.pretraining.options import BuildOptions
from data.records import build as records
from flags import app, flag_values
from flags.training import model_flags

# Choice -> what is chosen -> flags that nothing else follows.
_FOLLOWERS = {
    "sampler": {("balanced",): ("span_unit", "span_lengths")},
    "span_unit": {("word", "token"): ("max_span", "span_lengths")},
}


def main() -> None:
    """Builds what the flags say."""
    options = flag_values.build(BuildOptions)
    for choice, followers in _FOLLOWERS.items():
        chosen = getattr(options, choice)
        flag_values.check_followed(choice, chosen, followers)
    manifest = build.build(options)
    sizes, smaller = model_flags.DEFAULTS, "--recipe and flags of sizes"
    print(records.summary(manifest, "run_pretrain.py", sizes, smaller))


if __name__ == "__main__":
    flag_values.define(BuildOptions)
    app.run(main)
