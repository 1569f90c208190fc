"""Table 8 as presets: values of both versions, overriding, printing."""

import pytest
from absl import flags
from absl.testing import flagsaver

from common.errors import UserError
from flags.recipes import finetune_recipes
from flags.tasks import finetune_flags
from run_squad import COMMAND

FLAGS = flags.FLAGS


def test_table_8_in_both_versions():
    # task: length, batch, steps, layer decay, rate and weight decay by version
    table = {
        "race": (512, 32, 12000, 1.0, (2e-5, 0.0), (2e-5, 0.01)),
        "squad": (512, 48, 8000, 0.75, (3e-5, 0.0), (3e-5, 0.01)),
        "mnli": (128, 128, 10000, 1.0, (3e-5, 0.0), (2e-5, 0.01)),
        "yelp5": (512, 128, 10000, 1.0, (2e-5, 0.0), (1e-5, 0.01)),
    }
    for task, (length, batch, steps, decay, *versions) in table.items():
        for number, (rate, weight_decay) in enumerate(versions, 1):
            name, recipe = finetune_recipes.find(f"{task}_large_v{number}")
            values = recipe.flags
            assert values["max_seq_length"] == length
            assert values["train_batch_size"] == batch
            assert values["train_steps"] == steps
            assert values["lr_layer_decay_rate"] == decay
            assert values["learning_rate"] == rate
            assert values["weight_decay"] == weight_decay
            assert values["adam_epsilon"] == 1e-6
            assert (values["dropout"], values["dropatt"]) == (0.1, 0.1)
    of_paper = [n for n in finetune_recipes.RECIPES if "glue" not in n]
    assert len(of_paper) == 2 * len(table) + 2


def test_the_notes_glue_table():
    names = [n for n in finetune_recipes.RECIPES if n.startswith("glue_")]
    assert len(names) == 16
    name, recipe = finetune_recipes.find("glue_modernbert_large_cola")
    assert (recipe.flags["learning_rate"], recipe.flags["weight_decay"]) == (
        3e-5,
        8e-6,
    )
    assert recipe.flags["train_steps"] == 1337  # 5 epochs of 8,551 rows
    _, base = finetune_recipes.find("glue_modernbert_base_sts-b")
    assert base.flags == {"learning_rate": 8e-5, "weight_decay": 5e-6}
    assert "train_steps" in base.assumed  # no source gives epochs of base


def test_bare_names_are_version_2_and_race_has_length_640():
    assert finetune_recipes.find("squad")[0] == "squad_large_v2"
    assert finetune_recipes.find("race_large")[0] == "race_large_v2"
    name, recipe = finetune_recipes.find("race_large_640")
    assert (name, recipe.flags["max_seq_length"]) == ("race_large_640_v2", 640)
    with pytest.raises(UserError, match="unknown --recipe 'cola'; there are"):
        finetune_recipes.find("cola")


@pytest.fixture(scope="module", autouse=True)
def registered():
    values = flags.FlagValues()
    if "recipe" not in FLAGS:
        COMMAND.define()
    yield values


@flagsaver.flagsaver
def test_given_flags_override_the_recipe_and_all_is_printed():
    FLAGS(["run_squad.py", "--model_dir=x", "--recipe=squad_large_v1",
           "--learning_rate=1e-4", "--do_eval"])  # fmt: skip
    lines = finetune_flags.apply_recipe("run_squad.py")
    options = finetune_flags.from_flags()
    assert options.run.optimizer.learning_rate == 1e-4
    assert options.run.optimizer.lr_layer_decay_rate == 0.75
    assert options.run.train_batch_size == 48
    assert options.config_changes == {"dropout": 0.1, "dropatt": 0.1}
    text = "\n".join(lines)
    assert "recipe squad_large_v1 (Table 8, v1):" in text
    assert "--learning_rate=0.0001  (given; recipe 3e-05)" in text
    assert "--warmup_steps=1000  (not from the paper)" in text
    with pytest.raises(UserError, match="is for run_squad.py"):
        finetune_flags.apply_recipe("run_race.py")
    features = finetune_flags.features_from_flags()
    assert features.max_seq_length == 512
    assert COMMAND.data_options().n_best_size == 5
