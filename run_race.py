"""Fine-tunes, evaluates, predicts and exports RACE.

    python run_race.py --data_dir=RACE --recipe=race --model_dir=OUT \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --do_train --do_eval

See docs/race.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from data.finetuning import task_settings
from flags import app, common_flags, finetune_flags, race_flags


def main() -> None:
    """Reads the flags, builds the job and runs it."""
    lines = finetune_flags.apply_recipe("run_race.py")
    _, notes = finetune_flags.adopt(task_settings.RACE)
    options = finetune_flags.from_flags()
    data_options = race_flags.from_flags()
    for line in lines + notes:
        print(line)

    from serving.export import check_exportable, export_model
    from training.finetuning import preflight, sources
    from training.finetuning import run as finetune
    from training.finetuning.race import RaceJob

    spiece = sources.find_spiece(options, finetune_flags.spiece_model_file())
    text = sources.find_text(options, spiece, finetune_flags.text_choice())
    preflight.check_places(options)
    options, layout = sources.settle(options)
    features = finetune_flags.features_from_flags(spiece, text, layout)
    job = RaceJob(data_options, features, options).build()
    check_exportable(job.spec, options.do_export)
    finetune.run(job, options, export_model, common_flags.all_flags())


if __name__ == "__main__":
    race_flags.define()
    app.run(main)
