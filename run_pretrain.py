"""Pretrains XLNet: permutation language modelling with segment recurrence.

    python run_pretrain.py --data_dir=RECORDS --model_dir=OUT \\
        --n_layer=6 --d_model=256 --n_head=4 --d_head=64 --d_inner=1024 \\
        --mem_len=96 --train_batch_size=16 --train_steps=10000

RECORDS comes from `python -m data.create_pretraining_data`. The same command
started again goes on where it stopped. See docs/pretraining.md. TensorFlow is
imported after the flags are parsed: a wrong one for a TPU aborts the process,
and `flags.app` says what is wrong before.
"""

from typing import TYPE_CHECKING

from common.errors import UserError
from flags import app, common_flags, model_flags, pretrain_flags, strategy_flags
from training.options import RunOptions
from training.pretrain_options import PretrainOptions

if TYPE_CHECKING:
    from data.pretraining.run_data import RunData
    from modeling.encoders.contract import EncoderConfig
    from training.run import TrainRequest


def main() -> None:
    """Reads the flags, checks them against the data, trains and evaluates."""
    from training import pretraining_job as jobs

    recipe = pretrain_flags.apply_recipe()
    what = pretrain_flags.from_flags()
    options = pretrain_flags.run_from_flags()
    for line in recipe:
        print(line)
    data = open_data(what)
    request = make_request(data, what, options)
    if what.mode == "eval":
        jobs.evaluate(request, what.follow)
    else:
        jobs.train(request, data.baselines(), data.vocabulary is not None)


def make_request(
    data: "RunData", what: PretrainOptions, options: RunOptions
) -> "TrainRequest":
    """The model that the flags describe, on the data.

    Raises:
      UserError: flags, data and files contradict each other.
    """
    from training import pretraining_job as jobs
    from training.objectives.build import build_objective
    from training.run import TrainRequest

    jobs.check_vocabulary(data.of_data(), options, reads=what.mode == "eval")
    seed = options.strategy.seed
    reader = {"reset_memory_at_document": what.reset_memory_at_document}
    objective = build_objective(
        "pretraining",
        build_config(data, what, options),
        bi_data=data.manifest.bi_data,
        next_sentence=what.next_sentence,
        loss_chunk_size=what.loss_chunk_size,
        recompute_layers=strategy_flags.recompute_layers(),
    )
    return TrainRequest(
        objective,
        data.train_batches(
            seed,
            resample_permutation=what.resample_permutation,
            resample_targets=what.resample_targets,
            **reader,
        ),
        options,
        eval_input_fn=data.held_out_batches(seed, **reader)
        if what.mode != "train"
        else None,
        must_match=data.must_match(),
        flags=common_flags.all_flags(),
        notes=data.lines(options.train_batch_size),
        begin=data.copy_vocabulary,
    )


def open_data(what: PretrainOptions) -> "RunData":
    """The records, checked against what the user gave."""
    from data.pretraining import run_data

    return run_data.open_data(
        what.data_dir,
        what.wanted,
        what.spiece_model_file,
        what.eval_data_dir,
        needs_held_out=what.mode == "eval",
    )


def build_config(
    data: "RunData", what: PretrainOptions, options: RunOptions
) -> "EncoderConfig":
    """The architecture, from flags, file, `model_dir` or checkpoint.

    Raises:
      UserError: sizes that do not fit each other or the data.
    """
    from training import pretraining_job as jobs

    manifest = data.manifest
    known = jobs.known_config(options, wait=what.follow)
    memory = jobs.memory_defaults(known, manifest.seq_len, manifest.reuse_len)
    config = model_flags.from_flags(manifest.vocab_size, known, **memory)
    jobs.check_memory(config, manifest.data_dir, manifest.reuse_len)
    if config.causal:
        raise UserError(
            "permutation language modelling needs --attn_type=bi, received uni"
        )
    return config


if __name__ == "__main__":
    pretrain_flags.define()
    app.run(main)
