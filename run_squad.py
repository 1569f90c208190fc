"""Fine-tunes, evaluates, predicts and exports SQuAD 1.1 and 2.0.

    python run_squad.py --train_file=train-v2.0.json \\
        --predict_file=dev-v2.0.json --recipe=squad \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --model_dir=OUT \\
        --do_train --do_eval --do_export

See docs/squad.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from common.errors import UserError
from data.finetuning import task_settings
from flags import app, common_flags, finetune_flags, squad_flags


def main() -> None:
    """Reads the flags, builds the job and runs it."""
    lines = finetune_flags.apply_recipe("run_squad.py")
    trained, notes = finetune_flags.adopt(task_settings.SQUAD)
    options = finetune_flags.from_flags()
    data_options = squad_flags.from_flags()
    for line in lines + notes:
        print(line)

    from serving.export import export_model
    from training.finetuning import preflight, sources
    from training.finetuning import run as finetune
    from training.finetuning.squad import SquadJob, check_beams

    spiece = sources.find_spiece(options, finetune_flags.spiece_model_file())
    text = sources.find_text(options, spiece, finetune_flags.text_choice())
    preflight.check_places(options)
    options, layout = sources.settle(options)
    features = finetune_flags.features_from_flags(spiece, text, layout)
    if features.segment_recurrence:
        raise UserError(
            "--segment_recurrence is for classification and RACE: SQuAD reads "
            "long paragraphs in windows (--doc_stride)"
        )
    check_beams(data_options, features)
    job = SquadJob(data_options, features, options, trained).build()
    finetune.run(job, options, export_model, common_flags.all_flags())


if __name__ == "__main__":
    squad_flags.define()
    app.run(main)
