"""A toy question-answering task."""

from data.finetuning.options import FeatureOptions, SquadDataOptions


def make_job(golden, spiece, options, length=64, **changes):
    from data.finetuning.squad.task import SquadTask

    data = {
        "train_file": str(golden / "squad" / "train.json"),
        "predict_file": str(golden / "squad" / "dev.json"),
        "max_query_length": 12,
        "doc_stride": 24,
        "start_n_top": 3,
        "end_n_top": 2,
    }
    return SquadTask(
        SquadDataOptions(**(data | changes)),
        FeatureOptions(spiece, length),
        options,
    )
