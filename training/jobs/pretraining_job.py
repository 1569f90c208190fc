"""What the commands that train language models share."""

import os
import time

from common.contract import symbols
from common.contract.task_spec import SPIECE_NAME
from common.errors import UserError
from common.process import next_command
from common.vocabularies import (
    released_vocabulary,
    unigram_rules,
    vocabulary,
)
from common.weights.weights_line import BEST
from modeling.checkpoints import folder as checkpoint_folder
from modeling.checkpoints import restore as checkpoints
from modeling.encoders.contract import EncoderConfig
from modeling.encoders.registry import (
    config_file_in,
    config_file_names,
    read_config,
    spec_of,
)
from training import loop
from training.checkpointing.checkpoints import PREFIX, weights_to_read
from training.optim import tuning_rates
from training.reporting import loss_log, run_record
from training.run import run_training
from training.run_options import RunOptions

# Of `must_match`: what the loss of an evaluation is of.
OBJECTIVE = (
    *("objective", "mask_rate", "pair", "next_sentence"),
    *("target_order", "mlm_stream"),
)


def train(
    request: loop.TrainRequest,
    baselines: dict[str, float],
    has_vocabulary: bool,
) -> loop.TrainResult:
    """Trains and says what came of it and what to run next.

    Raises Stopped: the training was stopped on request.
    """
    result = run_training(request).or_stop()
    if result.writes_files:
        _report(result, request, baselines)
        if has_vocabulary:
            _say_next(request)
    return result


def evaluate(
    request: loop.TrainRequest, follow: bool = False, recorded: bool = False
) -> None:
    """Held-out loss of the folder's weights, or of each new checkpoint.

    Of those up to `train_steps`, or, `recorded`, to the last step of their job.
    """
    what = (request.objective, request.eval_input_fn, request.options)
    source = None if follow else weights_to_read(request.options)
    if source:
        request.say(source.line)
    folder = source.folder if source else request.options.model_dir
    for line in run_record.trained_otherwise(
        folder, OBJECTIVE, request.must_match or {}
    ):
        request.say(line)
    if follow:
        how = {"say": request.say, "recorded": recorded}
        loop.evaluate_continuously(*what, **how)
        return
    metrics = loop.evaluate(*what, checkpoint=source).metrics
    for name, value in sorted(metrics.items()):
        request.say(f"{name} {value:.6g}")


def known_config(
    options: RunOptions, wait: bool = False
) -> EncoderConfig | None:
    """The architecture of `model_dir` or of `init_checkpoint`, if any.

    Waits, if asked, until another job that writes `model_dir` has said it.
    """
    path = _own_config(options, wait)
    if wait and not path:
        names = os.path.join(options.model_dir, config_file_names())
        print(f"waiting for {names}", flush=True)
    while wait and not path:
        time.sleep(1)
        path = _own_config(options, wait)
    if path:
        return read_config(path)
    if options.init_checkpoint:
        return checkpoints.find_config(options.init_checkpoint)
    return None


def has_own_config(options: RunOptions, wait: bool = False) -> bool:
    """`model_dir` says itself what its model is: the run goes on."""
    return _own_config(options, wait) is not None


def _own_config(options: RunOptions, wait: bool) -> str | None:
    """The file of `model_dir`, if it is of weights that are there.

    A run that died before its first checkpoint binds nobody. One that is
    waited for (`wait`) has none yet.
    """
    folder = options.model_dir
    path = config_file_in(folder)
    if path is None or wait:
        return path
    places = (
        (folder, PREFIX),
        (folder, None),
        (os.path.join(folder, BEST), None),
    )
    return path if any(checkpoint_folder.newest(*p) for p in places) else None


def memory_defaults(
    known: EncoderConfig | None, seq_len: int, reuse_len: int, own: bool = False
) -> dict[str, int | None]:
    """`mem_len` and `reuse_len` where the user gives none.

    Of `model_dir`'s `own` `known`: without `mem_len` it had no memory.
    """
    if known and not spec_of(known.model_type).capabilities.memory:
        return {}
    mem_len = known.mem_len if known else None
    if mem_len is None and not own:
        # 384 of 512 in the paper. Released configurations say nothing of it.
        mem_len = seq_len * 3 // 4 if reuse_len else 0
    return {"mem_len": mem_len, "reuse_len": reuse_len}


def check_memory(
    config: EncoderConfig, data_dir: str, reuse_len: int, resets: bool = False
) -> None:
    """Raises UserError where a memory has no reuse part to keep.

    Or where there is none that a document could empty (`resets`).
    """
    if resets and not config.mem_len:
        raise UserError(
            "--reset_memory_at_document empties a memory, and this model has "
            "none: leave it out, or give --mem_len to an encoder with memory"
        )
    if getattr(config, "sees_only_itself", False):
        raise UserError(
            "same_length without memory leaves every token only itself: give "
            "a --mem_len, or leave --same_length out"
        )
    if config.mem_len and not reuse_len:
        raise UserError(
            f"`mem_len` is {config.mem_len} but {data_dir} was built "
            "with --reuse_len=0, so that nothing can be kept; give --mem_len=0 "
            "or build the data with --reuse_len"
        )


def check_rows(config: EncoderConfig, data_dir: str, seq_len: int) -> None:
    """Raises UserError where rows of two texts do not fit the encoder."""
    longest = getattr(config, "max_position_embeddings", seq_len)
    if seq_len > longest:
        raise UserError(
            f"`max_position_embeddings` is {longest}, and rows of {data_dir} "
            f"have {seq_len} pieces: build the data with --seq_len={longest}, "
            "or train a model with more"
        )
    if getattr(config, "type_vocab_size", 2) < 2:
        raise UserError(
            "`type_vocab_size` is 1, and rows hold two texts: train a model "
            "with 2"
        )


def check_vocabulary(
    of_data: vocabulary.Vocabulary, options: RunOptions, reads: bool
) -> None:
    """The weights must be of the vocabulary and text settings of the data.

    `init_checkpoint` counts, and `model_dir` if it is read. Raises UserError.
    """
    folders = []
    if options.init_checkpoint:
        folders.append(checkpoints.resolve(options.init_checkpoint).folder)
        _check_start(of_data, folders[0])
    if reads:
        folders.append(options.model_dir)
    vocabulary.settle(of_data, None, *folders)


def _check_start(of_data: vocabulary.Vocabulary, folder: str) -> None:
    """UserError says how records for the weights of a folder are made."""
    path = vocabulary.find(folder)
    if path is None:
        return  # what else the folder says is looked at by `settle`
    build = "python -m data.create_pretraining_data --spiece_model_file="
    vocabulary_of_start = vocabulary.read(path)
    if not released_vocabulary.is_released(path):
        if vocabulary_of_start.sha256 != of_data.sha256:
            raise UserError(
                f"{of_data.path} is of another vocabulary than {path}: wanted "
                f"spiece_sha256 {vocabulary_of_start.sha256}, found {of_data.sha256}; build "
                f"the records with `{build}{path}`"
            )
        return
    pieces = unigram_rules.pieces_of(vocabulary_of_start.content)
    if symbols.EOP not in pieces:
        raise UserError(
            f"--init_checkpoint: {path} is a tokenizer of released weights "
            f"without {symbols.EOP}, of which no records can be built: "
            "fine-tune these weights, or leave --init_checkpoint out"
        )
    # Of an XLNet, as transformers 5 saves it.
    if not of_data.content or pieces != unigram_rules.pieces_of_spiece(
        of_data.path, of_data.content
    ):
        raise UserError(
            f"{of_data.path}: wanted records of the pieces of {path}, found "
            + ("others" if of_data.content else "no copy of their vocabulary")
            + "; take the spiece.model of the same release and build the "
            f"records with `{build}spiece.model`"
        )


def _report(
    result: loop.TrainResult, request: loop.TrainRequest, baselines: dict
) -> None:
    """The last lines: how far it came, and what to run next."""
    options, say = request.options, request.say
    if result.last:
        steps = min(options.iterations, result.step)
        say(loss_line(result.last, steps, baselines))
        if "unigram entropy" in baselines:
            say(_plateau_line(options, baselines["unigram entropy"]))
    if len(result.evaluations) > 1:
        (first, before), *_, (last, after) = result.evaluations
        name = request.objective.perplexity
        say(
            f"held-out {name.replace('_', ' ')} {before[name]:.2f} at step "
            f"{first}, {after[name]:.2f} at step {last}"
        )


def loss_line(
    means: dict[str, float], steps: int, baselines: dict[str, float]
) -> str:
    """The training loss beside what models that know no context have.

    `means` are the loss and its parts, over the last steps; `baselines` are
    losses of the tokens: where pairs have a loss, too (next sentence, sentence
    order), they stand beside `lm_loss`.
    """
    known = ", ".join(f"{k} {v:.4f}" for k, v in baselines.items())
    line = f"training loss {means['loss']:.4f} (last {steps} steps or fewer)"
    if "next_sentence_accuracy" not in means:
        return f"{line}; {known}"
    tokens = means["lm_loss"]
    pair = means["loss"] - tokens
    return (
        f"{line} = lm_loss {tokens:.4f} + pair {pair:.4f}; of lm_loss: {known}"
    )


def _plateau_line(options: RunOptions, unigram_entropy: float) -> str:
    """Whether the model knows more than how frequent each piece is."""
    step = loss_log.plateau_end(options.model_dir, unigram_entropy)
    if step:
        return f"left the unigram plateau by step {step}"
    return (
        "the model is still on the unigram plateau: give it more --train_steps; "
        "docs/explanation/small_models/unigram_plateau.md shows which settings "
        "leave it early"
    )


def _say_next(request: loop.TrainRequest) -> None:
    """The command that fine-tunes what was trained."""
    options = request.options
    folder = options.model_dir.rstrip("/")
    length = (request.must_match or {}).get("seq_len", 128)
    width = request.objective.config.d_model
    command = [
        *("run_classifier.py", "--task_name=tsv"),
        f"--data_dir={folder}-task",
        f"--init_checkpoint={options.model_dir}",
        f"--spiece_model_file={os.path.join(options.model_dir, SPIECE_NAME)}",
        f"--model_dir={folder}-classifier",
        f"--max_seq_length={min(length, 128)}",
        f"--learning_rate={tuning_rates.of_width(width):g}",
        *("--train_steps=200", "--do_train", "--do_eval"),
    ]
    request.say(
        f"with train.tsv and dev.tsv (a header, text, label) in {folder}-task\n"
        f"{next_command.line(*command)}"
    )
