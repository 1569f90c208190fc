"""Trains, evaluates and asks left-to-right language models (Transformer-XL).

    python run_lm.py --data_dir=STREAMS --model_dir=OUT --recipe=NAME
    python run_lm.py --data_dir=STREAMS --model_dir=OUT --mode=eval \\
        --eval_split=test --eval_mem_len=640 --eval_same_length
    python run_lm.py --data_dir=STREAMS --model_dir=OUT --mode=sweep
    python run_lm.py --data_dir=STREAMS --model_dir=OUT --mode=score \\
        --input_file=LINES.txt

STREAMS comes from `python -m data.create_lm_data`. The same training command
started again goes on where it stopped. See docs/guides/language_modeling.md.
"""

import dataclasses
import functools
import json
import sys
from typing import TYPE_CHECKING

from common.errors import UserError
from flags import app
from flags.training import (
    causal_lm_flags,
    common_flags,
    strategy_flags,
    transformer_xl_flags,
)
from training.jobs.causal_lm_options import CausalLMOptions
from training.run_options import RunOptions

# TensorFlow is imported after the flags are parsed, see `flags.app`.
if TYPE_CHECKING:
    from data.language_modeling.run_data import StreamData
    from modeling.encoders.contract import EncoderConfig
    from training.run import TrainRequest

# T where neither a flag nor a model says it: WikiText-103's.
DEFAULT_LENGTH = 150


def main() -> None:
    """Reads the flags, then trains, evaluates or scores."""
    from data.language_modeling import run_data
    from training.jobs import causal_lm_job as jobs

    recipe = causal_lm_flags.apply_recipe()
    what = causal_lm_flags.from_flags()
    options = causal_lm_flags.run_from_flags()
    for line in recipe:
        print(line)
    data = run_data.open_data(what.data_dir)
    if what.mode == "score":
        score(data, what, options)
        return
    if what.mode == "sweep":
        sweep(data, what, options)
        return
    request = make_request(data, what, options)
    if what.mode == "eval":
        print(_segments(request, what))
        jobs.evaluate(request, what.eval_split, *_units(data, what))
        return
    jobs.train(request, data.baselines(), has_vocabulary=False)


def _segments(request: "TrainRequest", what: CausalLMOptions) -> str:
    """What the numbers of an evaluation depend on, as a line."""
    config = request.objective.config
    length = what.eval_seq_len or request.must_match["seq_len"]
    line = f"evaluates {what.eval_split} with T={length}"
    if config.clamp_len > 0:
        line += f", clamp_len {config.clamp_len}"
    if what.protocol == "sliding":
        return f"{line}, windows that move by {what.eval_stride}, no memory"
    same = ", same_length" * config.same_length
    return (
        f"{line}, M={config.mem_len or 0}, starts {config.memory_start}{same}"
    )


def _units(data: "StreamData", what: CausalLMOptions) -> tuple:
    """Tokens of the split, and what makes units of a loss."""
    counts = data.manifest.split_counts(what.eval_split)
    free = 0
    if not what.count_mark_pairs:
        free = data.manifest.mark_pairs(what.eval_split)
    return counts.tokens, functools.partial(counts.rates, free=free)


def make_request(
    data: "StreamData", what: CausalLMOptions, options: RunOptions
) -> "TrainRequest":
    """The model that the flags describe, on the data.

    Raises:
      UserError: flags, data and files contradict each other.
    """
    from training.objectives.build import build_objective
    from training.run import TrainRequest

    config, length = build_config(data, what, options)
    if not what.only_evaluates:
        data.check_length("train", length)
        _check_places(config, length, "seq_len")
    if what.vary_length:
        _check_varied(config, length, options)
    objective = build_objective(
        "language_model",
        config,
        loss_chunk_size=what.loss_chunk_size,
        half_loss=what.half_loss,
        recompute_layers=strategy_flags.recompute_layers(),
    )
    held_out, notes = None, data.lines(options.train_batch_size, length)
    should_match = None
    evaluates, split_notes = what.evaluates(
        config, options.eval_every, data.manifest.has
    )
    if evaluates:
        segment = what.eval_seq_len or length
        _check_places(config, segment, "eval_seq_len")
        should_match = what.should_match(segment, options.eval_steps)
        held_out = data.evaluation_batches(
            what.eval_split,
            segment,
            what.protocol,
            what.count_mark_pairs,
            what.eval_stride,
        )
    return TrainRequest(
        objective,
        data.train_batches(
            options.strategy.seed, length, what.order, what.vary_length
        ),
        options,
        eval_input_fn=held_out,
        must_match=data.must_match()
        | what.must_match()
        | {"seq_len": f"about {length}" if what.vary_length else length}
        | _memory(config),
        should_match=should_match,
        flags=common_flags.all_flags(),
        notes=[*notes, *split_notes],
        begin=data.copy_vocabulary,
    )


def _check_places(config: "EncoderConfig", length: int, flag: str) -> None:
    """UserError: a segment has more places than the model learns."""
    if config.encoding == "per_layer" and length > config.max_positions:
        raise UserError(
            f"--{flag}={length}: the model learns {config.max_positions} places "
            f"(`max_positions`): give a shorter one, or a new model "
            f"--max_positions={length}"
        )


def _check_varied(
    config: "EncoderConfig", length: int, options: RunOptions
) -> None:
    """UserError: segments of drawn lengths do not go with other settings."""
    from data.language_modeling.reading_schedule import LEAST, longest

    if options.strategy.distribution_strategy == "tpu":
        raise UserError(
            "--vary_length makes shapes that a TPU cannot take: train there "
            "with segments of one length"
        )
    if length < LEAST:
        raise UserError(
            f"--vary_length draws segments of at least {LEAST} tokens, and "
            f"--seq_len is {length}: give at least {LEAST}, or leave "
            "--vary_length out"
        )
    if (
        config.encoding == "per_layer"
        and longest(length) > config.max_positions
    ):
        raise UserError(
            f"--vary_length reads segments of up to {longest(length)} tokens, "
            f"and the model learns {config.max_positions} places: give a new "
            f"model --max_positions={longest(length)}, or leave --vary_length "
            "out"
        )
    if options.memory_checkpoint == "recompute":
        raise UserError(
            "--memory_checkpoint=recompute must know how many segments fill "
            "the memory: save it, or leave --vary_length out"
        )


def _memory(config: "EncoderConfig") -> dict:
    """Settings that weights do not depend on, and a training does."""
    names = ("mem_len", "clamp_len", "same_length", "memory_start")
    return {name: getattr(config, name) for name in names}


def build_config(
    data: "StreamData", what: CausalLMOptions, options: RunOptions
) -> tuple["EncoderConfig", int]:
    """The architecture, and T.

    Raises:
      UserError: sizes that do not fit each other, the data or the checkpoint.
    """
    from training.jobs import pretraining_job

    known = pretraining_job.known_config(options)
    length = what.seq_len
    if length is None:  # a model that was converted may not tell its own
        trained = known and (known.trained_length or known.mem_len)
        length = trained or DEFAULT_LENGTH
    config = transformer_xl_flags.from_flags(
        data.vocabulary.size,
        known,
        seq_len=length,
    )
    if known:
        data.check_model(known.extra, "the model")
    config = config.replace(extra=config.extra | data.marks())
    if what.only_evaluates or what.mode == "score":
        config = config.replace(**what.eval_changes)
        if what.protocol == "sliding":  # a window sees all of itself
            config = config.with_memory(0).replace(same_length=False)
    else:  # evaluations and serving ask for it
        config = config.replace(extra=config.extra | {"seq_len": length})
    if config.sees_only_itself:
        raise UserError(
            "same_length without memory leaves every token only itself: give "
            "a --mem_len (--eval_mem_len), or leave --same_length "
            "(--eval_same_length) out"
        )
    return config, length


def sweep(
    data: "StreamData", what: CausalLMOptions, options: RunOptions
) -> None:
    """Evaluates with more and more memory."""
    from training.recurrent import memory_sweep

    _, length = build_config(data, what, options)
    segment = what.eval_seq_len or length

    def request_of(changes):
        own = dataclasses.replace(
            what,
            eval_changes=what.eval_changes | changes,
            eval_seq_len=segment,
        )
        if not changes:  # as it was trained
            own = dataclasses.replace(own, eval_changes={}, eval_seq_len=length)
        request = make_request(data, own, options)
        return memory_sweep.Asked(request, own.eval_seq_len)

    memory_sweep.sweep(request_of, what, segment)


def score(
    data: "StreamData", what: CausalLMOptions, options: RunOptions
) -> None:
    """Prints the log-probability of every line of a file, JSONL.

    Raises:
      UserError: the file cannot be read or holds nothing, or the scores would
        take the place of another file.
    """
    from common import files, locks

    with locks.new_file(what.output_file, [what.input_file]):
        answers = [
            json.dumps(row, ensure_ascii=False)
            for row in _scores(data, what, options)
        ]
        if what.output_file:
            files.write_text(
                what.output_file, "".join(f"{a}\n" for a in answers)
            )
        else:
            print("\n".join(answers))


def _scores(data: "StreamData", what: CausalLMOptions, options: RunOptions):
    """A line's answer after the other."""
    from modeling.checkpoints import restore
    from modeling.heads.causal_lm import CausalLanguageModel
    from serving.generation import scored_lines
    from serving.generation.causal_scoring import CausalScorer
    from training import strategy
    from training.checkpointing.checkpoints import weights_to_read

    strategy.setup(options.strategy)
    source = weights_to_read(options)
    print(source.line, file=sys.stderr)
    texts = scored_lines.read_lines(what.input_file)
    config, length = build_config(data, what, options)
    segment = what.eval_seq_len or length
    _check_places(config, segment, "eval_seq_len")
    model = CausalLanguageModel(config)
    restore.restore(model, source, require="all")
    scorer = CausalScorer(model, segment, options.eval_batch_size)
    return scored_lines.score_lines(
        data.vocabulary,
        scorer,
        texts,
        what.score_line_end,
        what.input_file,
    )


if __name__ == "__main__":
    causal_lm_flags.define()
    app.run(main)
