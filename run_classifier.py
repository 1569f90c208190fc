"""Fine-tunes, evaluates, predicts and exports classification and regression.

    python run_classifier.py --task_name=mnli --data_dir=GLUE/MNLI \\
        --init_checkpoint=xlnet_cased_L-24_H-1024_A-16 --recipe=mnli \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/classification.md. TensorFlow is imported after the flags are parsed:
the processes that make features import this file and do without it.
"""

from data.finetuning import task_settings
from flags import app, classifier_flags, common_flags, finetune_flags


def main() -> None:
    """Reads the flags, builds the task's job and runs it."""
    lines = finetune_flags.apply_recipe("run_classifier.py")
    trained, notes = finetune_flags.adopt(task_settings.CLASSIFIER)
    options = finetune_flags.from_flags()
    data_options = classifier_flags.from_flags(trained)
    for line in lines + notes:
        print(line)

    from serving.export import check_exportable, export_model
    from training.finetuning import preflight, sources
    from training.finetuning import run as finetune
    from training.finetuning.classifier import ClassifierJob

    spiece = sources.find_spiece(options, finetune_flags.spiece_model_file())
    text = sources.find_text(options, spiece, finetune_flags.text_choice())
    preflight.check_places(options)
    options, layout = sources.settle(options)
    features = finetune_flags.features_from_flags(spiece, text, layout)
    job = ClassifierJob(data_options, features, options, trained).build()
    check_exportable(job.spec, options.do_export)
    finetune.run(job, options, export_model, common_flags.all_flags())


if __name__ == "__main__":
    classifier_flags.define()
    app.run(main)
