"""A recipe's values, what overrides them, and the lines that say so."""

import json
import re

import pytest
from absl import flags
from absl.testing import flagsaver

from common.contract.task_spec import TaskSpec
from common.errors import UserError
from common.vocabularies.text_settings import TextSettings
from flags.tasks import finetune_flags
from run_squad import COMMAND
from tests.flags.fresh_flags import remove_ours

FLAGS = flags.FLAGS


@pytest.fixture(scope="module", autouse=True)
def registered():
    remove_ours()
    COMMAND.define()
    yield
    remove_ours()


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


@flagsaver.flagsaver
@pytest.mark.parametrize("flag", ["export_dir=e", "export_precision=float32"])
def test_flags_of_a_savedmodel_need_one(flag):
    given = ["run_squad.py", "--model_dir=x", "--do_eval", f"--{flag}"]
    FLAGS([*given, "--do_export"])
    finetune_flags.from_flags()
    FLAGS([*given, "--nodo_export"])
    with pytest.raises(UserError, match="of --do_export=true, found false: l"):
        finetune_flags.from_flags()


@flagsaver.flagsaver
@pytest.mark.parametrize("value", ["many", 2.5, True, [3], {}, None])
def test_a_damaged_value_of_the_trained_model_is_one_line(tmp_path, value):
    spec = TaskSpec("squad", "span", (), 64, TextSettings(), "")
    spec.write(tmp_path)
    FLAGS(["run_squad.py", f"--model_dir={tmp_path}", "--do_eval"])
    path = tmp_path / "task.json"
    whole = json.loads(path.read_text())
    whole["data_options"]["doc_stride"] = value
    path.write_text(json.dumps(whole))
    found = re.escape(json.dumps(value))
    line = (
        f"{path}: `doc_stride`: wanted a value of --doc_stride, found {found};"
    )
    with pytest.raises(UserError, match=line):
        finetune_flags.adopt("squad")
    whole["data_options"]["doc_stride"] = 33
    path.write_text(json.dumps(whole))
    finetune_flags.adopt("squad")
    assert FLAGS.doc_stride == 33
