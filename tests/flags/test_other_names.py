"""What other programs call flags: the table is about ours, and so is its page."""

import re

import pytest
from absl import flags

from flags import other_names
from tests.conftest import ROOT

SECTIONS = {
    other_names.ORIGINAL: "The original",
    other_names.TRANSFORMER_XL: "The original Transformer-XL",
    other_names.BERT: "The original BERT and ALBERT",
    other_names.MODEL_GARDEN: "tf-models-official",
    other_names.SPM_TRAIN: "spm_train",
    other_names.HUGGING_FACE: "Hugging Face's scripts",
}


def own_flags():
    """Names of all flags that any command defines."""
    found = set()
    folders = ("benchmarks", "studies", "tools")
    for path in (p for f in folders for p in (ROOT / f).rglob("*.py")):
        found |= set(re.findall(r"DEFINE_\w+\(\s*\"(\w+)\"", path.read_text()))
    page = (ROOT / "docs/reference/flags.md").read_text(encoding="utf-8")
    return found | set(re.findall(r"^\| `--(\w+)`", page, re.M))


def test_the_table_leads_to_flags_that_exist():
    own = own_flags()
    for name, (whose, instead) in other_names.NAMES.items():
        assert whose in SECTIONS, name
        for flag in re.findall(r"--(\w+)", instead):
            assert flag in own, f"{name}: --{flag}"


def test_flags_of_the_originals_readme_are_known():
    names = (
        "num_core_per_host num_passes bsz_per_core num_gpu log_step proc_id "
        "target_eval_key shuffle_buffer tpu_job_name track_mean leak_ratio "
        "d_embed corpus_info_path"
    ).split()
    line = other_names.hint([f"--{name}=1" for name in names], ())
    assert [f"--{name} is a flag of " in line for name in names] == [True] * 13
    assert "here: --input_glob" in other_names.hint(["--input=x"], ())


def test_only_flags_that_are_not_ours_are_explained():
    known = {"task", "bf16"}
    assert other_names.hint(["--task=x", "--bf16", "--x=--lr"], known) is None
    assert "--clip" in other_names.hint(["--max_grad_norm", "1"], known)
    assert other_names.hint(["--", "--lr=1"], known) is None
    assert "--learning_rate" in other_names.hint(["-lr", "1"], known)


def test_all_unknown_flags_are_named_at_once():
    line = other_names.hint(["--lr=1", "--num_passess=2", "--init=x"], ())
    for wanted in ("--learning_rate", "--num_passess is no", "--init_method"):
        assert wanted in line
    # One that has no name here is absl's, which knows its neighbours.
    assert other_names.hint(["--num_passess=2"], ()) is None


def test_a_value_that_begins_with_dashes_is_no_flag():
    known = flags.FlagValues()
    flags.DEFINE_string("labels", None, "", flag_values=known)
    flags.DEFINE_bool("do_eval", False, "", flag_values=known)
    assert other_names.hint(["--labels", "--lr"], known) is None
    line = other_names.hint(["--do_eval", "--lr", "--labels=-2"], known)
    assert "--learning_rate" in line


@pytest.mark.parametrize(
    "name, known, wanted",
    [
        ("model_dir", {"checkpoint"}, "--checkpoint (the model's folder)"),
        ("checkpoint", {"saved_model_dir"}, "--saved_model_dir (what serving"),
        ("text", {"prompt"}, "--prompt (the text to continue)"),
        ("output_dir", {"model_dir", "seed"}, "--model_dir (the folder of"),
        ("output_dir", {"output_file"}, "--output_file (the file that is"),
        ("saved_model_dir", {"model_dir", "checkpoint"}, "of the run) or --ch"),
    ],
)
def test_flags_of_other_commands_of_ours(name, known, wanted):
    line = other_names.hint([f"--{name}=x"], known)
    assert line.startswith(f"--{name} is a flag of other commands; here: --")
    assert wanted in line
    # A command without such a flag leaves it to absl.
    assert other_names.hint([f"--{name}=x"], {"data_dir"}) is None


def test_a_table_has_no_flag_of_its_dev_file():
    line = other_names.hint(["--validation_file=x"], {"data_dir"})
    assert "here: --data_dir, whose dev file is read" in line


def test_shares_of_tokens_lead_to_shares():
    """And not to P, which is how many targets there is room for."""
    for name, wanted in (
        ("mlm_probability", {"mask_rate"}),
        ("plm_probability", {"mask_alpha", "mask_beta"}),
    ):
        line = other_names.hint([f"--{name}=0.15"], ())
        assert set(re.findall(r"--(\w+)", line)) == {name} | wanted


@pytest.mark.parametrize("name", ["warmup_ratio", "warmup_proportion"])
def test_shares_of_steps_lead_to_numbers_of_them(name):
    line = other_names.hint([f"--{name}=0.1"], ())
    assert line.endswith("--warmup_steps, counted in steps")


def test_a_precision_keeps_its_type():
    assert "=mixed_float16" in other_names.hint(["--fp16"], ())
    assert "=mixed_bfloat16" in other_names.hint(["--bf16"], ())


def test_flags_of_the_model_garden_are_known():
    line = other_names.hint(["--experiment=x", "--params_override=y"], ())
    assert line.count("is a flag of tf-models-official") == 2
    assert "--iterations" in other_names.hint(["--steps_per_loop=9"], ())


def test_the_page_has_every_name():
    page = (ROOT / "docs/reference/flag_names.md").read_text()
    parts = re.split(r"^## (.*)$", page, flags=re.M)
    found = dict(zip(parts[1::2], parts[2::2], strict=True))
    for whose, title in SECTIONS.items():
        rows = re.findall(r"^\| `--(\w+)` \| (.*) \|$", found[title], re.M)
        assert dict(rows) == {
            name: re.sub(r"--\w+(=\w+)?", r"`\g<0>`", instead)
            for name, (owner, instead) in other_names.NAMES.items()
            if owner == whose
        }
