"""What the jobs of all fine-tuning commands share on the training's side."""

from training.finetuning import run as finetune


def make_job(
    task,
    main_metric: str,
    train_input_fn,
    evals: dict[str, finetune.EvalSplit],
    predicts: dict[str, finetune.PredictSplit],
    must_match: dict,
    export_options: dict | None = None,
) -> finetune.Job:
    """The job of a task.

    Args:
      task: a `data.finetuning.task.TaskBase` with a method `spec()`.
      main_metric: chooses the best checkpoint.
      train_input_fn: of the training split, or None.
      evals: the labelled splits.
      predicts: the splits to predict.
      must_match: what a resumed run cannot change besides the vocabulary and
        the lengths.
      export_options: see `finetune.Job`.
    """
    spec, features = task.spec(), task.features
    return finetune.Job(
        spec=spec,
        spiece_path=features.spiece_model_file,
        vocab_size=task.tokenizer.vocab_size,
        main_metric=main_metric,
        train_input_fn=train_input_fn,
        evals=evals,
        predicts=predicts,
        export_options=export_options or {},
        objective_options={
            "static_lengths": task.buckets if features.static_shapes else (),
            "segments": features.segment_recurrence,
            "segment_len": features.max_seq_length,
        },
        must_match={
            "spiece_sha256": spec.spiece_sha256,
            "text_settings": spec.text.as_dict(),
            "max_seq_length": spec.max_seq_length,
            "length_buckets": list(task.buckets),
            "segment_recurrence": features.segment_recurrence,
        }
        | must_match,
    )
