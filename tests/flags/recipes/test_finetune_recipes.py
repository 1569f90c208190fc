"""Table 8 as presets: values of both versions, names."""

import pytest
from absl import flags

from common.errors import UserError
from flags.recipes import finetune_recipes
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
