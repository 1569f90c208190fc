"""What flags of other XLNet programs are called here.

The names of the original keep their meaning wherever it is the same; these are
those that have another name or no place here. `flags.app` answers with a line
of this table, and docs/reference/flag_names.md shows it.
"""

ORIGINAL, HUGGING_FACE = "the original", "Hugging Face"
TRANSFORMER_XL, SPM_TRAIN = "the original Transformer-XL", "spm_train"
_LENGTHS = "--max_seq_length (fine-tuning), --seq_len (records)"
_FEATURES = "features are made when they are needed and kept in --output_dir"
# name: (whose, what to write instead)
NAMES = {
    "do_prepro": (ORIGINAL, _FEATURES),
    "overwrite_data": (ORIGINAL, _FEATURES + "; another text has other ones"),
    "record_info_dir": (ORIGINAL, "--data_dir: the folder with manifest.json"),
    "record_dir": (ORIGINAL, "--data_dir"),
    "bsz_per_host": (
        ORIGINAL,
        "records hold no batch size; --train_batch_size of run_pretrain.py",
    ),
    "num_core_per_host_data": (ORIGINAL, "records hold no number of cores"),
    "num_core_per_host": (
        ORIGINAL,
        "records hold no number of cores; training takes it",
    ),
    "num_hosts": (ORIGINAL, "training takes it; --num_workers makes data"),
    "num_passes": (
        ORIGINAL,
        "the records say it: --num_passes of data.create_pretraining_data",
    ),
    "num_task": (ORIGINAL, "--num_workers; resuming needs no tasks"),
    "task": (ORIGINAL, "--num_workers; resuming needs no tasks"),
    "use_eod": (ORIGINAL, "documents always end with <eod>"),
    "from_raw_text": (ORIGINAL, "text is always raw"),
    "sp_path": (ORIGINAL, "--spiece_model_file"),
    "save_dir": (ORIGINAL, "--output_dir"),
    "run_id": (ORIGINAL, "give another --model_dir"),
    "d_embed": (ORIGINAL, "words are as wide as --d_model"),
    "perm_size": (
        ORIGINAL,
        "the records say it: --perm_size of data.create_pretraining_data",
    ),
    "track_mean": (ORIGINAL, "lines are means over --iterations steps always"),
    "leak_ratio": (ORIGINAL, "targets are hidden always"),
    "bsz_per_core": (
        ORIGINAL,
        "--train_batch_size, which is the global and effective one",
    ),
    "num_gpu": (ORIGINAL, "--num_gpus"),
    "log_step": (ORIGINAL, "--iterations"),
    "proc_id": (ORIGINAL, "one command makes all features, with --num_proc"),
    "target_eval_key": (ORIGINAL, "--best_metric"),
    "shuffle_buffer": (ORIGINAL, "every epoch is shuffled whole"),
    "tpu_job_name": (ORIGINAL, "--tpu names the TPU, and nothing else does"),
    "max_save_steps": (ORIGINAL, "--save_steps"),
    "adam_b1": (ORIGINAL, "--adam_beta1"),
    "adam_b2": (ORIGINAL, "--adam_beta2"),
    "init": (ORIGINAL, "--init_method"),
    "dropact": (ORIGINAL, "--activation_dropout"),
    "use_tfrecord": (ORIGINAL, "records are always TFRecords"),
    "cls_scope": (
        ORIGINAL,
        "heads are taken over where they fit; --init_checkpoint says which",
    ),
    "predict_threshold": (ORIGINAL, "--null_score_diff_threshold"),
    "corpus_info_path": (
        TRANSFORMER_XL,
        "--data_dir: its vocabulary lies beside the records",
    ),
    "tgt_len": (TRANSFORMER_XL, "--seq_len"),
    "per_host_train_bsz": (
        TRANSFORMER_XL,
        "records hold no batch size; --train_batch_size of run_lm.py",
    ),
    "per_host_valid_bsz": (
        TRANSFORMER_XL,
        "records hold no batch size; --eval_batch_size of run_lm.py",
    ),
    "per_host_test_bsz": (
        TRANSFORMER_XL,
        "records hold no batch size; --eval_batch_size of run_lm.py",
    ),
    "max_eval_batch": (TRANSFORMER_XL, "--eval_steps"),
    "warm_start_path": (TRANSFORMER_XL, "--init_checkpoint"),
    "eval_ckpt_path": (TRANSFORMER_XL, "--init_checkpoint, with --mode=eval"),
    "input": (SPM_TRAIN, "--input_glob"),
    "input_format": (
        SPM_TRAIN,
        "text and .jsonl are distinguished by their names",
    ),
    "control_symbols": (SPM_TRAIN, "they are always the original's"),
    "user_defined_symbols": (SPM_TRAIN, "they are always the original's"),
    "shuffle_input_sentence": (
        SPM_TRAIN,
        "--input_sentence_size samples with --seed",
    ),
    "normalization_rule_name": (SPM_TRAIN, "--text_rule"),
    "max_sentence_length": (
        SPM_TRAIN,
        "longer sentences are cut, none is lost",
    ),
    "lr": (HUGGING_FACE, "--learning_rate"),
    "max_steps": (HUGGING_FACE, "--train_steps"),
    "num_train_epochs": (HUGGING_FACE, "--train_epochs"),
    "metric_for_best_model": (HUGGING_FACE, "--best_metric"),
    "early_stopping_patience": (HUGGING_FACE, "--patience"),
    "label_smoothing_factor": (HUGGING_FACE, "--label_smoothing"),
    "num_warmup_steps": (HUGGING_FACE, "--warmup_steps"),
    "warmup_ratio": (HUGGING_FACE, "--warmup_steps"),
    "lr_scheduler_type": (HUGGING_FACE, "--decay_method"),
    "per_device_train_batch_size": (
        HUGGING_FACE,
        "--train_batch_size, which is the global and effective one",
    ),
    "per_gpu_train_batch_size": (
        HUGGING_FACE,
        "--train_batch_size, which is the global and effective one",
    ),
    "per_device_eval_batch_size": (HUGGING_FACE, "--eval_batch_size"),
    "per_gpu_eval_batch_size": (HUGGING_FACE, "--eval_batch_size"),
    "gradient_accumulation_steps": (HUGGING_FACE, "--grad_accumulation_steps"),
    "gradient_checkpointing": (HUGGING_FACE, "--recompute_layers"),
    "max_grad_norm": (HUGGING_FACE, "--clip"),
    "adam_eps": (HUGGING_FACE, "--adam_epsilon"),
    "fp16": (HUGGING_FACE, "--precision=mixed_bfloat16"),
    "bf16": (HUGGING_FACE, "--precision=mixed_bfloat16"),
    "logging_steps": (HUGGING_FACE, "--iterations"),
    "save_total_limit": (HUGGING_FACE, "--max_save"),
    "overwrite_output_dir": (HUGGING_FACE, "give another --model_dir"),
    "model_name_or_path": (HUGGING_FACE, "--init_checkpoint"),
    "config_name": (HUGGING_FACE, "--model_config_path"),
    "tokenizer_name": (HUGGING_FACE, "--spiece_model_file"),
    "do_lower_case": (HUGGING_FACE, "--uncased"),
    "block_size": (HUGGING_FACE, "--seq_len"),
    "max_length": (HUGGING_FACE, _LENGTHS),
    "pad_to_max_length": (HUGGING_FACE, "--length_buckets, empty = always"),
    "group_by_length": (HUGGING_FACE, "--length_buckets=auto"),
    "preprocessing_num_workers": (HUGGING_FACE, "--num_proc, --num_workers"),
    "cache_dir": (HUGGING_FACE, "--output_dir keeps features"),
    "max_predictions_per_seq": (HUGGING_FACE, "--num_predict"),
    "mlm_probability": (HUGGING_FACE, "--mask_rate of run_pretrain.py"),
    "plm_probability": (
        HUGGING_FACE,
        "--mask_beta / --mask_alpha of data.create_pretraining_data",
    ),
    "max_span_length": (HUGGING_FACE, "--max_span"),
    "evaluation_strategy": (HUGGING_FACE, "--eval_every"),
    "eval_strategy": (HUGGING_FACE, "--eval_every"),
    "version_2_with_negative": (
        HUGGING_FACE,
        "files that say `is_impossible` are SQuAD 2.0",
    ),
    "validation_file": (HUGGING_FACE, "--predict_file, --eval_file"),
    "test_file": (HUGGING_FACE, "--predict_file"),
}


def hint(argv: list[str], known) -> str | None:
    """A line about all flags of `argv` that this command does not have.

    Args:
      argv: the arguments, without the program's name.
      known: has the names of this command's flags (`in`); absl's `FLAGS` also
        says which take a value of their own.

    Returns:
      None where none is unknown, and where the one that is has no name here:
      absl then names those that are spelled alike.
    """
    lines, named = [], False
    arguments = iter(argv)
    for argument in arguments:
        if argument == "--":
            break
        if not argument.startswith("-") or argument == "-":
            continue
        name, has_value, _ = argument.lstrip("-").partition("=")
        if name in known or name.removeprefix("no") in known:
            if not has_value and _takes_a_value(name, known):
                next(arguments, None)
            continue
        for found in (name, name.removeprefix("no")):
            if found in NAMES:
                whose, instead = NAMES[found]
                line = f"--{found} is a flag of {whose}; here: {instead}"
                named = True
                break
        else:
            # A value may begin with "-": it is none of an unknown flag's.
            if not argument.startswith("--"):
                continue
            line = f"--{name} is not a flag of this command"
        if line not in lines:
            lines.append(line)
    if not named and len(lines) < 2:
        return None
    return "; ".join(lines)


def _takes_a_value(name: str, known) -> bool:
    """`--name value` is two arguments."""
    try:
        return not known[name].boolean
    except (KeyError, TypeError):
        return False
