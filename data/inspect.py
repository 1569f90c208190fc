"""Command: looks into a data directory.

    python -m data.inspect --data_dir=records                # checks all of it
    python -m data.inspect --data_dir=records --mode=record --lane=3 \\
        --segment=1 --spiece_model_file=spiece.model
    python -m data.inspect --data_dir=records --mode=statistics \\
        --plot_file=statistics.png
"""

from data.pretraining import report as record_report
from data.pretraining.manifest import PretrainingManifest
from flags import app, inspect_flags


def main() -> None:
    """Shows what the flags ask for."""
    options = inspect_flags.from_flags()
    manifest = PretrainingManifest.load(options.data_dir)
    if options.mode == "record":
        print(record_report.describe_record(manifest, options))
    elif options.mode == "check":
        total = record_report.check_directory(manifest)
        print(f"{options.data_dir}: all {total} records are good")
    else:
        found = record_report.Statistics(manifest, options)
        print(record_report.describe_statistics(found, manifest))
        if options.plot_file:
            record_report.plot_statistics(found, options.plot_file)
            print(f"wrote {options.plot_file}")


if __name__ == "__main__":
    inspect_flags.define()
    app.run(main)
