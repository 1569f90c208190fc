"""Pretrains XLNet and other encoders: permutation or masked language modelling.

    python run_pretrain.py --data_dir=RECORDS --model_dir=OUT \\
        --n_layer=6 --d_model=256 --n_head=4 --d_head=64 --d_inner=1024 \\
        --mem_len=96 --train_batch_size=16 --train_steps=10000

RECORDS comes from `python -m data.create_pretraining_data`. The same command
started again goes on where it stopped. See docs/guides/pretraining.md.
"""

from typing import TYPE_CHECKING

from common.errors import UserError
from flags import app
from flags.training import (
    common_flags,
    model_flags,
    pretrain_flags,
    strategy_flags,
)
from training.jobs.pretrain_options import PretrainOptions
from training.run_options import RunOptions

# TensorFlow is imported after the flags are parsed: a wrong one for a TPU aborts
# the process, and `flags.app` says what is wrong before.
if TYPE_CHECKING:
    from data.pretraining.run_data import RunData
    from modeling.encoders.contract import EncoderConfig
    from training.run import TrainRequest


def main() -> None:
    """Reads the flags, checks them against the data, trains and evaluates."""
    from training.jobs import pretraining_job as jobs

    recipe = pretrain_flags.apply_recipe()
    what = pretrain_flags.from_flags()
    options = pretrain_flags.run_from_flags()
    for line in recipe:
        print(line)
    data = open_data(what)
    for line in what.evaluates(options.eval_every, bool(data.held_out)):
        print(line)
    request = make_request(data, what, options)
    if what.mode == "eval":
        end = pretrain_flags.follows_to_the_end()
        jobs.evaluate(request, what.follow, recorded=end)
    else:
        jobs.train(request, data.baselines(), data.vocabulary is not None)


def make_request(
    data: "RunData", what: PretrainOptions, options: RunOptions
) -> "TrainRequest":
    """The model that the flags describe, on the data.

    Raises:
      UserError: flags, data and files contradict each other.
    """
    from training.jobs import first_weights
    from training.jobs import pretraining_job as jobs
    from training.run import TrainRequest

    jobs.check_vocabulary(data.of_data(), options, reads=what.mode == "eval")
    seed = options.strategy.seed
    reader = {"reset_memory_at_document": what.reset_memory_at_document}
    config = build_config(data, what, options)
    masking = masking_options(data, what, config, seed)
    train = data.train_batches(
        seed,
        resample_permutation=what.resample_permutation,
        resample_targets=what.resample_targets,
        **reader,
    )
    held_out = data.held_out_batches(seed, **reader)
    must_match = data.must_match() | what.must_match()
    must_match["objective"] = "permutation_lm"
    if what.target_order != "random":
        from data.pretraining.sampling.masking import ordered_batches

        how = what.target_order, data.manifest.reuse_len
        train = ordered_batches(train, *how)
        held_out = held_out and ordered_batches(held_out, *how)
    if masking:
        from data.pretraining.sampling.masking import masked_batches

        train = masked_batches(train, masking)
        held_out = held_out and masked_batches(held_out, masking)
        must_match |= {
            "objective": "mlm",
            "mask_rate": masking.rate,
            "pair": masking.pair,
        }
    return TrainRequest(
        build_objective(
            data,
            what,
            config,
            bool(masking),
            strategy_flags.recompute_layers(),
        ),
        train,
        options,
        eval_input_fn=held_out if what.mode != "train" else None,
        must_match=must_match,
        should_match=None
        if what.mode == "train"
        else data.should_match(options.eval_steps),
        flags=common_flags.all_flags(),
        notes=data.lines(options.train_batch_size),
        begin=data.copy_vocabulary,
        warm_start=first_weights.warm_start(what, options, config, train),
    )


def build_objective(
    data: "RunData",
    what: PretrainOptions,
    config: "EncoderConfig",
    mlm: bool,
    recompute_layers: bool = False,
):
    """Permutation or masked language modelling.

    Raises:
      UserError: the encoder cannot do it.
    """
    from training.objectives import build
    from training.objectives.masked_lm import MaskedLMObjective

    common = dict(
        bi_data=data.manifest.bi_data,
        loss_chunk_size=what.loss_chunk_size,
        recompute_layers=recompute_layers,
        pack=what.pack,
    )
    if not mlm:
        return build.build_objective(
            "pretraining", config, next_sentence=what.next_sentence, **common
        )
    second = what.next_sentence or what.sentence_order
    return MaskedLMObjective(
        config, next_sentence=second, stream=what.mlm_stream, **common
    )


def masking_options(
    data: "RunData", what: PretrainOptions, config: "EncoderConfig", seed: int
):
    """How rows are corrupted; None for permutation language modelling.

    Raises:
      UserError: flags of another objective, or no token of a row is masked.
    """
    from data.pretraining.sampling.masking import MaskingOptions
    from modeling.encoders.registry import spec_of

    able = spec_of(config.model_type).capabilities
    default = "permutation_lm" if able.query_stream else "mlm"
    objective = what.objective or default
    what.check_objective(objective)
    if objective != "mlm":
        return None
    length = data.manifest.seq_len
    if what.mask_rate and not round(what.mask_rate * length):
        raise UserError(
            f"--mask_rate={what.mask_rate:g} of rows of {length} tokens is no "
            f"token: give at least {0.6 / length:.2g}, or 0 for the targets of "
            "the records"
        )
    pair = "nsp" if what.next_sentence else "none"
    return MaskingOptions(
        vocab_size=data.manifest.vocab_size,
        symbols=data.manifest.symbols,
        reuse_len=data.manifest.reuse_len,
        seed=seed,
        layout=able.layout,
        rate=what.mask_rate,
        pair="sop" if what.sentence_order else pair,
        hide_rest=bool(config.mem_len),
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
    from training.jobs import pretraining_job as jobs

    manifest = data.manifest
    known = jobs.known_config(options, wait=what.follow)
    own = jobs.has_own_config(options, what.follow)
    memory = jobs.memory_defaults(
        known, manifest.seq_len, manifest.reuse_len, own
    )
    config = model_flags.from_flags(manifest.vocab_size, known, own, **memory)
    jobs.check_memory(
        config,
        manifest.data_dir,
        manifest.reuse_len,
        what.reset_memory_at_document,
    )
    jobs.check_rows(config, manifest.data_dir, manifest.seq_len)
    if config.causal:
        raise UserError(
            "permutation language modelling needs --attn_type=bi, received uni"
        )
    return config


if __name__ == "__main__":
    pretrain_flags.define()
    app.run(main)
