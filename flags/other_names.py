"""What flags of other programs, and of our other commands, are called here.

The names of the original keep their meaning wherever it is the same; these are
those that have another name or no place here. `flags.app` answers with a line
of this table, and docs/reference/flag_names.md shows it.
"""

ORIGINAL, HUGGING_FACE = "the original", "Hugging Face"
TRANSFORMER_XL, SPM_TRAIN = "the original Transformer-XL", "spm_train"
BERT = "the original BERT or ALBERT"
MODEL_GARDEN = "tf-models-official"
_LENGTHS = "--max_seq_length (fine-tuning), --seq_len (records)"
_FEATURES = "features are made when they are needed and kept in --output_dir"
_GLOBAL = "--train_batch_size, which is the global and effective one"
_NO_BATCH = "records hold no batch size; "
_NO_CORES = "records hold no number of cores"
_SAID = "the records say it: "
_WARMUP = "--warmup_steps, counted in steps"
_INTERVAL = "--save_steps, counted in steps"
# program: name of its flag: what to write instead
_INSTEAD = {
    ORIGINAL: {
        "do_prepro": _FEATURES,
        "overwrite_data": _FEATURES + "; another text has other ones",
        "record_info_dir": "--data_dir: the folder with manifest.json",
        "record_dir": "--data_dir",
        "bsz_per_host": _NO_BATCH + "--train_batch_size of run_pretrain.py",
        "num_core_per_host_data": _NO_CORES,
        "num_core_per_host": _NO_CORES + "; training takes it",
        "num_hosts": "training takes it; --num_workers makes data",
        "num_passes": _SAID + "--num_passes of data.create_pretraining_data",
        "num_task": "--num_workers; resuming needs no tasks",
        "task": "--num_workers; resuming needs no tasks",
        "use_eod": "documents always end with <eod>",
        "from_raw_text": "text is always raw",
        "sp_path": "--spiece_model_file",
        "save_dir": "--output_dir",
        "run_id": "give another --model_dir",
        "d_embed": "words are as wide as --d_model",
        "perm_size": _SAID + "--perm_size of data.create_pretraining_data",
        "track_mean": "lines are means over --iterations steps always",
        "leak_ratio": "targets are hidden always",
        "bsz_per_core": _GLOBAL,
        "num_gpu": "--num_gpus",
        "log_step": "--iterations",
        "proc_id": "one command makes all features, with --num_proc",
        "target_eval_key": "--best_metric",
        "shuffle_buffer": "every epoch is shuffled whole",
        "tpu_job_name": "--tpu names the TPU, and nothing else does",
        "max_save_steps": "--save_steps",
        "adam_b1": "--adam_beta1",
        "adam_b2": "--adam_beta2",
        "init": "--init_method",
        "dropact": "--activation_dropout",
        "use_tfrecord": "records are always TFRecords",
        "cls_scope": "heads are taken over where they fit; --init_checkpoint "
        "says which",
        "predict_threshold": "--null_score_diff_threshold",
    },
    TRANSFORMER_XL: {
        "corpus_info_path": "--data_dir: its vocabulary lies beside the records",
        "tgt_len": "--seq_len",
        "per_host_train_bsz": _NO_BATCH + "--train_batch_size of run_lm.py",
        "per_host_valid_bsz": _NO_BATCH + "--eval_batch_size of run_lm.py",
        "per_host_test_bsz": _NO_BATCH + "--eval_batch_size of run_lm.py",
        "max_eval_batch": "--eval_steps",
        "warm_start_path": "--init_checkpoint",
        "eval_ckpt_path": "--init_checkpoint, with --mode=eval",
    },
    BERT: {
        "bert_config_file": "--model_config_path",
        "albert_config_file": "--model_config_path",
        "vocab_file": "--spiece_model_file",
        "spm_model_file": "--spiece_model_file",
        "num_train_steps": "--train_steps",
        "warmup_proportion": _WARMUP,
        "save_checkpoints_steps": "--save_steps",
        "iterations_per_loop": "--iterations",
        "masked_lm_prob": "--mask_rate of run_pretrain.py",
        "dupe_factor": "--num_passes of data.create_pretraining_data",
        "random_seed": "--seed",
        "tpu_name": "--tpu",
        "num_tpu_cores": "--num_core_per_host",
    },
    MODEL_GARDEN: {
        "experiment": "a command for each task, with --recipe",
        "config_file": "a flag for each setting, with --recipe",
        "params_override": "a flag for each setting",
        "strategy_type": "--distribution_strategy",
        "steps_per_loop": "--iterations",
        "train_data_path": "--data_dir",
        "eval_data_path": "--data_dir, whose dev split is read",
        "input_meta_data_path": "--data_dir, whose files say it",
        "hub_module_url": "--init_checkpoint",
    },
    SPM_TRAIN: {
        "input": "--input_glob",
        "input_format": "text and .jsonl are distinguished by their names",
        "control_symbols": "they are always the original's",
        "user_defined_symbols": "they are always the original's",
        "shuffle_input_sentence": "--input_sentence_size samples with --seed",
        "normalization_rule_name": "--text_rule",
        "max_sentence_length": "longer sentences are cut, none is lost",
    },
    HUGGING_FACE: {
        "lr": "--learning_rate",
        "max_steps": "--train_steps",
        "num_train_epochs": "--train_epochs",
        "metric_for_best_model": "--best_metric",
        "early_stopping_patience": "--patience",
        "label_smoothing_factor": "--label_smoothing",
        "num_warmup_steps": "--warmup_steps",
        "warmup_ratio": _WARMUP,
        "lr_scheduler_type": "--decay_method",
        "per_device_train_batch_size": _GLOBAL,
        "per_gpu_train_batch_size": _GLOBAL,
        "per_device_eval_batch_size": "--eval_batch_size",
        "per_gpu_eval_batch_size": "--eval_batch_size",
        "gradient_accumulation_steps": "--grad_accumulation_steps",
        "gradient_checkpointing": "--recompute_layers",
        "max_grad_norm": "--clip",
        "adam_eps": "--adam_epsilon",
        "fp16": "--precision=mixed_float16",
        "bf16": "--precision=mixed_bfloat16",
        "logging_steps": "--iterations",
        "save_total_limit": "--max_save",
        "overwrite_output_dir": "give another --model_dir",
        "model_name_or_path": "--init_checkpoint",
        "config_name": "--model_config_path",
        "tokenizer_name": "--spiece_model_file",
        "do_lower_case": "--uncased",
        "block_size": "--seq_len",
        "max_length": _LENGTHS,
        "pad_to_max_length": "--length_buckets, empty = always",
        "group_by_length": "--length_buckets=auto",
        "preprocessing_num_workers": "--num_proc, --num_workers",
        "cache_dir": "--output_dir keeps features",
        "dataset_name": "--task_name; tfds:NAME is of tensorflow_datasets",
        "text_column_name": "--text_columns, --text_column of run_tagger.py",
        "label_column_name": "--label_column, --tag_column of run_tagger.py",
        "max_train_samples": "--train_examples",
        "resume_from_checkpoint": "the same command resumes --model_dir",
        "load_best_model_at_end": "--checkpoint_choice says which is read",
        "save_strategy": _INTERVAL,
        "logging_dir": "--model_dir has the events of TensorBoard",
        "optim": "--optimizer",
        "torch_compile": "--jit_compile",
        "max_predictions_per_seq": "--num_predict",
        "mlm_probability": "--mask_rate of run_pretrain.py",
        "plm_probability": "--mask_beta / --mask_alpha of "
        "data.create_pretraining_data",
        "max_span_length": "--max_span",
        "evaluation_strategy": "--eval_every",
        "eval_strategy": "--eval_every",
        "version_2_with_negative": "files that say `is_impossible` are SQuAD 2.0",
        "train_file": "--data_dir, whose train file is read",
        "validation_file": "--data_dir, whose dev file is read; "
        "--predict_file of run_squad.py, --eval_file of run_tagger.py",
        "test_file": "--data_dir, whose test file is read; --predict_file of "
        "run_squad.py and run_tagger.py",
    },
}
# Flags of ours that name one thing: a command has one of them, or two.
_ALIKE = (
    {
        "model_dir": "the folder of the run",
        "init_checkpoint": "the weights to begin with",
        "checkpoint": "the model's folder",
        "saved_model_dir": "what serving.export wrote",
    },
    {"prompt": "the text to continue", "text": "the text"},
    {
        "output_dir": "the folder that is written",
        "model_dir": "the folder of the run",
        "output_file": "the file that is written",
    },
)
# name: (whose, what to write instead)
NAMES = {
    name: (whose, instead)
    for whose, names in _INSTEAD.items()
    for name, instead in names.items()
}


def hint(argv: list[str], known) -> str | None:
    """A line about all flags of `argv` that this command does not have.

    None where none is unknown, and where the one that is has no name here:
    absl then names those that are spelled alike.

    `known` has the names of this command's flags (`in`); absl's `FLAGS` also
    says which take a value of their own.
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
        line = _of_others(name) or _of_ours(name, known)
        named |= line is not None
        if line is None:
            # A value may begin with "-": it is none of an unknown flag's.
            if not argument.startswith("--"):
                continue
            line = f"--{name} is not a flag of this command"
        if line not in lines:
            lines.append(line)
    if not named and len(lines) < 2:
        return None
    return "; ".join(lines)


def _of_others(name: str) -> str | None:
    """A line about a flag that another program has."""
    for flag in (name, name.removeprefix("no")):
        if flag in NAMES:
            whose, instead = NAMES[flag]
            return f"--{flag} is a flag of {whose}; here: {instead}"
    return None


def _of_ours(name: str, known) -> str | None:
    """A line about a flag that other commands of ours have."""
    for names in _ALIKE:
        here = [f"--{n} ({what})" for n, what in names.items() if n in known]
        if name in names and here:
            return (
                f"--{name} is a flag of other commands; here: "
                f"{' or '.join(here)}"
            )
    return None


def _takes_a_value(name: str, known) -> bool:
    """`--name value` is two arguments."""
    try:
        return not known[name].boolean
    except (KeyError, TypeError):
        return False
