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

_OF_RECORDS = ("lane", "segment", "mask_size", "spiece_model_file")
_OF_STREAMS = ("record_number",)
# Mode, and kind of data -> flags that no other one follows.
_MODES = {
    ("record",): (*_OF_RECORDS, *_OF_STREAMS),
    ("statistics",): ("max_records",),
    ("record", "statistics"): ("split", "direction", "pass_number"),
}
_RECORDS, _STREAMS = "records of pretraining", "token streams"
_KINDS = {
    (_RECORDS,): (*_OF_RECORDS, "direction", "pass_number"),
    (_STREAMS,): _OF_STREAMS,
}


def main() -> None:
    """Shows what the flags ask for."""
    options = flag_values.build(InspectOptions)
    flag_values.check_followed("mode", options.mode, _MODES)
    kind, report, name = PretrainingManifest, record_report, _RECORDS
    if manifest_lib.kind_of(options.data_dir) == StreamManifest.KIND:
        kind, report, name = StreamManifest, stream_report, _STREAMS
    flag_values.check_followed("data_dir", name, _KINDS)
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
