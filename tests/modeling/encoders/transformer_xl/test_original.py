"""The original Transformer-XL's checkpoints in and out, averaged ones, too."""

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling.checkpoints import conversion, restore
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders import registry
from tests.modeling.golden import txl_golden

pytestmark = pytest.mark.shared


@pytest.fixture
def config(golden, tmp_path):
    found = txl_golden.cases(golden)
    settings = found["training"]["train_warmup_adaptive"]["settings"]
    made = txl_golden.config(found["config"], settings)
    path = registry.write_config(str(tmp_path), made)
    assert path.endswith("transformer_xl_config.json")
    assert registry.read_config(path) == made
    return path


def convert(source, output, config, from_format="tf1", to_format="native"):
    return conversion.convert(
        ConvertOptions(
            input=str(source),
            output=str(output),
            from_format=from_format,
            to_format=to_format,
            config=str(config),
        )
    )


@pytest.mark.parametrize(
    "name", ["txl_train_model.ckpt", "txl_averaged.ckpt-0"]
)
def test_there_and_back_without_loss(golden, tmp_path, config, name):
    source = txl_golden.folder(golden) / name
    lines = convert(source, tmp_path / "native", config)
    assert any("left out, optimizer or counter" in line for line in lines)
    model_dir = str(tmp_path / "native")
    found = registry.read_config(registry.config_file_in(model_dir))
    model = txl_golden.CausalLanguageModel(found)
    report = restore.restore(model, model_dir)
    assert set(report.restored) == set(named_variables(model))
    back = tmp_path / "back" / "model.ckpt"
    convert(model_dir, back, config, "native", "tf1")
    theirs = tf.train.load_checkpoint(str(source))
    ours = tf.train.load_checkpoint(str(back))
    shapes = theirs.get_variable_to_shape_map()
    slots = ("/Adam", "/Adam_1")
    weights = {
        n
        for n in shapes
        if n.startswith("transformer/") and not n.endswith(slots)
    }
    assert set(ours.get_variable_to_shape_map()) == weights
    for key in weights:
        np.testing.assert_array_equal(
            ours.get_tensor(key), theirs.get_tensor(key)
        )


def test_another_configuration_is_one_line(golden, tmp_path, config):
    source = txl_golden.folder(golden) / "txl_train_model.ckpt"
    other = registry.read_config(config).replace(untie_r=False)
    folder = tmp_path / "other"
    folder.mkdir()
    path = registry.write_config(str(folder), other)
    with pytest.raises(UserError, match="r_._bias.*wanted") as caught:
        convert(source, tmp_path / "out", path)
    assert "\n" not in str(caught.value)
    with pytest.raises(
        UserError, match="transformer_xl has no form in Hugging Face"
    ):
        convert(source, tmp_path / "out", config, to_format="hf")
    assert not (tmp_path / "out").exists()
