"""Fine-tunes, evaluates, predicts and exports tagging: a label per token.

    python run_tagger.py --data_dir=NER --init_checkpoint=PRETRAINED \\
        --model_dir=OUT --do_train --do_eval --do_predict --do_export

See docs/tagging.md. TensorFlow is imported after the flags are parsed: the
processes that make features import this file and do without it.
"""

from data.finetuning import task_settings
from flags import app, common_flags, finetune_flags, tagger_flags


def main() -> None:
    """Reads the flags, builds the job and runs it."""
    lines = finetune_flags.apply_recipe("run_tagger.py")
    trained, notes = finetune_flags.adopt(task_settings.TAGGER)
    options = finetune_flags.from_flags()
    data_options = tagger_flags.from_flags()
    for line in lines + notes:
        print(line)

    from serving.export import check_exportable, export_model
    from training.finetuning import preflight, sources
    from training.finetuning import run as finetune
    from training.finetuning.tagging import TaggingJob

    spiece = sources.find_spiece(options, finetune_flags.spiece_model_file())
    text = sources.find_text(options, spiece, finetune_flags.text_choice())
    preflight.check_places(options)
    options, layout = sources.settle(options)
    features = finetune_flags.features_from_flags(spiece, text, layout)
    job = TaggingJob(data_options, features, options, trained).build()
    check_exportable(job.spec, options.do_export)
    finetune.run(job, options, export_model, common_flags.all_flags())


if __name__ == "__main__":
    tagger_flags.define()
    app.run(main)
