"""Command: looks into a data directory.

    python -m data.inspect --data_dir=records                # checks all of it
    python -m data.inspect --data_dir=records --mode=record --lane=3 \\
        --segment=1 --spiece_model_file=spiece.model
    python -m data.inspect --data_dir=records --mode=statistics

Token streams of language models, too:

    python -m data.inspect --data_dir=streams --mode=record --split=valid \\
        --record_number=2
"""

from data.language_modeling import report as stream_report
from data.language_modeling.manifest import StreamManifest
from data.pretraining import report as record_report
from data.pretraining.manifest import PretrainingManifest
from data.pretraining.options import InspectOptions
from data.records import manifest as manifest_lib
from flags import app, flag_values


def main() -> None:
    """Shows what the flags ask for."""
    options = flag_values.build(InspectOptions)
    kind, report = PretrainingManifest, record_report
    if manifest_lib.kind_of(options.data_dir) == StreamManifest.KIND:
        kind, report = StreamManifest, stream_report
    manifest = kind.load(options.data_dir)
    if options.mode == "record":
        print(report.describe_record(manifest, options))
    elif options.mode == "check":
        total = report.check_directory(manifest)
        print(f"{options.data_dir}: all {total} records are good")
    else:
        print(report.describe_statistics(manifest, options))


if __name__ == "__main__":
    flag_values.define(InspectOptions)
    app.run(main)
