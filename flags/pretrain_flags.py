"""Flags of run_pretrain.py."""

from absl import flags

from data.pretraining.options import TARGET_ORDERS
from flags import (
    common_flags,
    flag_values,
    model_flags,
    pretrain_recipes,
    text_flags,
)
from training.pretrain_options import MODES, OBJECTIVES, PretrainOptions

FLAGS = flags.FLAGS

# What the manifest knows; flags that are given must agree with it.
DATA_FLAGS = (
    "seq_len",
    "reuse_len",
    "num_predict",
    "perm_size",
    "bi_data",
    "text_rule",
    "uncased",
    "mask_alpha",
    "mask_beta",
)


def define() -> None:
    """Registers these flags and those of model, optimizer and strategy."""
    common_flags.define(
        # The original's pretraining defaults, where it has some.
        learning_rate=2.5e-4,
        clip=0.25,
        train_steps=100_000,
        iterations=100,
        save_steps=10_000,
    )
    model_flags.define()
    _define_data()
    flags.DEFINE_string(
        "recipe",
        None,
        "Preset of Table 7 of the paper: "
        f"{', '.join(sorted(pretrain_recipes.RECIPES))}; flags that are given "
        "override it.",
    )
    flags.DEFINE_enum(
        "mode",
        PretrainOptions.mode,
        MODES,
        "train_and_eval evaluates where there are held-out data.",
    )
    flags.DEFINE_bool(
        "follow",
        False,
        "With --mode=eval: evaluate every new checkpoint of another job that "
        "writes --model_dir.",
    )
    common_flags.define_memory()
    flags.DEFINE_integer(
        "loss_chunk_size",
        None,
        "Make LM logits for so many targets at a time: less memory.",
    )
    _define_objective()
    _define_warmup()


def _define_objective() -> None:
    flags.DEFINE_bool(
        "next_sentence", False, "Also train next-sentence prediction (Table 6)."
    )
    flags.DEFINE_enum(
        "objective",
        None,
        OBJECTIVES,
        "permutation_lm, or mlm: masked language modelling of the same "
        "records (with XLNet: the denoising row of Table 6). Default: "
        "permutation_lm for XLNet, mlm for encoders without a query stream.",
    )
    flags.DEFINE_float(
        "mask_rate",
        0.0,
        "mlm: this share of a row's tokens, drawn anew in every step; 0 = the "
        "targets of the records.",
    )
    flags.DEFINE_bool(
        "sentence_order",
        False,
        "mlm: also train sentence-order prediction (ALBERT).",
    )
    flags.DEFINE_enum(
        "mlm_stream",
        PretrainOptions.mlm_stream,
        ["content", "query"],
        "mlm: predict from the content stream, as BERT does, or (XLNet) from "
        "the query stream, whose rows do not see their own token.",
    )
    flags.DEFINE_enum(
        "target_order",
        PretrainOptions.target_order,
        TARGET_ORDERS,
        "permutation_lm: the records' orders; none = targets see the context "
        "and not each other; forward = left to right.",
    )
    flags.DEFINE_bool(
        "pack",
        False,
        "mlm: rows that are not full share one, for encoders without memory.",
    )


def _define_warmup() -> None:
    flags.DEFINE_integer(
        "min_batch_size",
        0,
        "Rows of the first steps, whole micro-batches of "
        "--grad_accumulation_steps; 0 = always --train_batch_size.",
    )
    flags.DEFINE_integer(
        "batch_size_warmup_tokens",
        0,
        "Positions over which the batch grows from --min_batch_size.",
    )


def _define_data() -> None:
    flags.DEFINE_string(
        "data_dir",
        None,
        "Output of data.create_pretraining_data: records and manifest.json.",
        required=True,
    )
    flags.DEFINE_string(
        "eval_data_dir",
        None,
        "Held-out data of the same vocabulary; default: the dev split of "
        "--data_dir, if it has one.",
    )
    flags.DEFINE_string(
        "spiece_model_file",
        None,
        "SentencePiece file, to check that the data were made with it.",
    )
    flags.DEFINE_integer("seq_len", None, "T, must agree with the data.")
    flags.DEFINE_integer(
        "num_predict", None, "P, targets per segment; must agree with the data."
    )
    flags.DEFINE_integer(
        "perm_size", None, "Positions per permutation, as the data have it."
    )
    flags.DEFINE_bool(
        "bi_data", None, "Forward and backward rows, as the data have them."
    )
    text_flags.define("as the data are")
    flags.DEFINE_integer(
        "mask_alpha", None, "The data's: one span in so many tokens."
    )
    flags.DEFINE_integer(
        "mask_beta", None, "The data's: so many targets in mask_alpha tokens."
    )
    flags.DEFINE_bool(
        "reset_memory_at_document",
        False,
        "Empty a row's memory where a document starts, not at lanes only.",
    )
    flags.DEFINE_bool(
        "resample_permutation",
        False,
        "Draw a fresh factorization order of the stored targets each epoch.",
    )
    flags.DEFINE_bool(
        "resample_targets", False, "Draw fresh targets each epoch, too."
    )


def apply_recipe() -> list[str]:
    """Gives flags that were not given the recipe's values.

    Returns:
      Lines that list every value and its source; empty without a recipe.

    Raises:
      UserError: unknown recipe.
    """
    if not FLAGS.recipe:
        return []
    recipe = pretrain_recipes.find(FLAGS.recipe)
    return common_flags.give_recipe(FLAGS.recipe, recipe)


def from_flags() -> PretrainOptions:
    """What is trained on which data; call `apply_recipe` before."""
    wanted = {name: FLAGS[name].value for name in DATA_FLAGS}
    wanted["text_rule"] = text_flags.from_flags().rule
    return flag_values.build(
        PretrainOptions,
        wanted={k: v for k, v in wanted.items() if v is not None},
    )


def run_from_flags():
    """The `RunOptions`."""
    return common_flags.from_flags(
        eval_at_start=True,
        min_batch_size=FLAGS.min_batch_size,
        batch_size_warmup_tokens=FLAGS.batch_size_warmup_tokens,
        **common_flags.memory_from_flags(),
    )
