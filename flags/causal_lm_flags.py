"""Flags of run_lm.py."""

from absl import flags

from flags import (
    causal_lm_recipes,
    common_flags,
    flag_values,
    transformer_xl_flags,
)
from training.causal_lm_options import (
    MODES,
    ORDERS,
    PROTOCOLS,
    CausalLMOptions,
)

FLAGS = flags.FLAGS

# What an evaluation may have another value of than the training.
_CHANGES = (
    "eval_mem_len",
    "eval_clamp_len",
    "eval_same_length",
    "eval_memory_start",
)


def define() -> None:
    """Registers these flags and those of model, optimizer and strategy."""
    common_flags.define(
        # The original's defaults.
        learning_rate=2.5e-4,
        clip=0.25,
        decay_method="cos",
        min_lr_ratio=0.004,
        train_steps=100_000,
        train_batch_size=60,
        eval_batch_size=10,
        iterations=100,
        save_steps=10_000,
    )
    transformer_xl_flags.define()
    _define_data()
    _define_evaluation()
    _define_sweep()
    flags.DEFINE_string(
        "recipe",
        None,
        "Preset of the paper and its scripts: "
        f"{', '.join(sorted(causal_lm_recipes.RECIPES))}; flags that are "
        "given override it.",
    )
    flags.DEFINE_enum(
        "mode",
        CausalLMOptions.mode,
        MODES,
        "train_and_eval also evaluates; sweep evaluates with more and more "
        "memory; score gives log-probabilities of the lines of --input_file.",
    )
    common_flags.define_memory()
    flags.DEFINE_integer(
        "loss_chunk_size",
        None,
        "Make logits for so many targets at a time: less memory.",
    )
    flags.DEFINE_bool(
        "half_loss",
        False,
        "Train on the later half of every segment only (Table 5).",
    )


def _define_data() -> None:
    flags.DEFINE_string(
        "data_dir",
        None,
        "Output of data.create_lm_data: streams, vocabulary, manifest.json.",
        required=True,
    )
    flags.DEFINE_integer(
        "seq_len",
        None,
        "T, tokens of a training segment. Default: 150, or as the model was "
        "trained.",
    )
    flags.DEFINE_enum(
        "order",
        CausalLMOptions.order,
        ORDERS,
        "ordered reads the stream as it is; shuffled draws an order of its "
        "sentences each epoch.",
    )
    flags.DEFINE_bool(
        "vary_length",
        CausalLMOptions.vary_length,
        "Training segments of random lengths around --seq_len, T / 2 for one "
        "in twenty; CPU and GPU.",
    )
    flags.DEFINE_string(
        "input_file", "", "With --mode=score: one text per line."
    )
    flags.DEFINE_string(
        "output_file", "", "With --mode=score: JSONL; '' = standard output."
    )
    flags.DEFINE_bool(
        "score_line_end",
        CausalLMOptions.score_line_end,
        "With --mode=score: the end of a line is scored, too.",
    )


def _define_evaluation() -> None:
    flags.DEFINE_string(
        "eval_split", CausalLMOptions.eval_split, "Split to evaluate."
    )
    flags.DEFINE_integer(
        "eval_seq_len", None, "T of evaluations. Default: --seq_len."
    )
    flags.DEFINE_integer(
        "eval_mem_len", None, "M of --mode=eval and score. Default: --mem_len."
    )
    flags.DEFINE_integer(
        "eval_clamp_len",
        None,
        "Clamping of --mode=eval and score. Default: --clamp_len.",
    )
    flags.DEFINE_bool(
        "eval_same_length",
        None,
        "Of --mode=eval and score. Default: --same_length.",
    )
    flags.DEFINE_enum(
        "eval_memory_start",
        None,
        ["hidden", "zeros"],
        "Of --mode=eval and score. Default: --memory_start.",
    )
    flags.DEFINE_enum(
        "protocol",
        CausalLMOptions.protocol,
        PROTOCOLS,
        "lanes predicts every token of the split but the first once; anchor "
        "drops the rest of the division into rows and the first of each row, "
        "as the original; sliding predicts each from the --eval_seq_len tokens "
        "before it, without memory.",
    )
    flags.DEFINE_bool(
        "count_mark_pairs",
        CausalLMOptions.count_mark_pairs,
        "False: the nearly free <S> after <S> of One Billion Word does not "
        "count in evaluations.",
    )


def _define_sweep() -> None:
    options = CausalLMOptions
    flags.DEFINE_integer(
        "eval_stride",
        options.eval_stride,
        "Of --protocol=sliding: tokens that a window predicts and moves by.",
    )
    flags.DEFINE_integer(
        "sweep_step",
        None,
        "Of --mode=sweep: what the memory grows by. Default: --eval_seq_len.",
    )
    flags.DEFINE_integer(
        "sweep_max", options.sweep_max, "Of --mode=sweep: longest memory."
    )
    flags.DEFINE_list(
        "sweep_clamp_lens",
        [],
        "Of --mode=sweep: each memory is evaluated with these --clamp_len; "
        "-1 = off. Default: the model's.",
    )
    flags.DEFINE_float(
        "sweep_gain",
        options.sweep_gain,
        "Of --mode=sweep: it ends where perplexity falls by a smaller share.",
    )
    flags.DEFINE_string(
        "sweep_dir",
        options.sweep_dir,
        "Of --mode=sweep: takes table and figure. Default: sweep_SPLIT in "
        "--model_dir.",
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
    recipe = causal_lm_recipes.find(FLAGS.recipe)
    return common_flags.give_recipe(FLAGS.recipe, recipe)


def from_flags() -> CausalLMOptions:
    """What is trained on which data; call `apply_recipe` before."""
    changes = {
        name.removeprefix("eval_"): FLAGS[name].value
        for name in _CHANGES
        # Of a recipe: windows have no memory, whatever it says.
        if FLAGS.protocol != "sliding" or FLAGS[name].present
    }
    return flag_values.build(
        CausalLMOptions,
        sweep_clamp_lens=flag_values.whole_numbers(
            "sweep_clamp_lens", FLAGS.sweep_clamp_lens
        ),
        eval_changes={k: v for k, v in changes.items() if v is not None},
    )


def run_from_flags():
    """The `RunOptions`."""
    return common_flags.from_flags(
        eval_at_start=True,
        init_require="all",
        **common_flags.memory_from_flags(),
    )
