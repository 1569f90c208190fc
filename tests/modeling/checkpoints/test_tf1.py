"""Checkpoints of the original: there and back."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import ClassificationModel, XLNetConfig
from modeling.checkpoints import conversion
from modeling.checkpoints import tf1 as tf1_checkpoint
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions

SMALL_CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


def tensors_of(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
    }


@pytest.mark.long
@pytest.mark.shared
@pytest.mark.parametrize(
    "name,head,dropped",
    [
        ("xlnet_tiny.ckpt", "", ("global_step",)),
        ("pretrain_train.ckpt", "", ("adam", "global_step")),
        ("squad_train.ckpt", "", ("Adam", "power", "global_step")),
        ("xlnet_tiny_heads.ckpt", "classification", ()),
        ("xlnet_tiny_heads.ckpt", "regression", ()),
        ("xlnet_tiny_heads.ckpt", "multiple_choice", ()),
        ("xlnet_tiny_heads.ckpt", "span", ()),
    ],
)
def test_tf1_round_trip_changes_no_bit(golden, tmp_path, name, head, dropped):
    source = str(golden / "A" / name)
    native, back = str(tmp_path / "native"), str(tmp_path / "tf1" / name)
    lines = conversion.convert(
        ConvertOptions("tf1", "native", source, native, head=head)
    )
    conversion.convert(ConvertOptions("native", "tf1", native, back))
    before, after = tensors_of(source), tensors_of(back)
    for key, value in after.items():
        assert value.dtype == before[key].dtype
        np.testing.assert_array_equal(value, before[key], key)
    for key in set(before) - set(after):
        assert any(key in line or "left out" in line for line in lines)
        if not head:
            assert any(word in key for word in dropped), key
    assert not list((tmp_path / "tf1").glob(".*"))
    config = (tmp_path / "tf1" / "xlnet_config.json").read_text()
    assert (
        config.split()
        == (golden / "A" / "xlnet_config.json").read_text().split()
    )


@pytest.mark.shared
def test_several_heads_need_a_choice(golden, tmp_path):
    source = str(golden / "A" / "xlnet_tiny_heads.ckpt")
    with pytest.raises(UserError, match="--head"):
        conversion.convert(
            ConvertOptions("tf1", "native", source, str(tmp_path / "x"))
        )


@pytest.mark.parametrize("task", ["", "mnli"])
def test_task_names_survive(tmp_path, task):
    model = ClassificationModel(SMALL_CONFIG, 3, summary_type="attn")
    arrays = {k: v.numpy() for k, v in named_variables(model).items()}
    prefix = str(tmp_path / "a" / "model.ckpt")
    tasks = {"classification": task} if task else {}
    tf1_checkpoint.write(prefix, arrays, tasks, SMALL_CONFIG)
    SMALL_CONFIG.to_json_file(str(tmp_path / "a" / "xlnet_config.json"))
    (tmp_path / "a" / "spiece.model").write_bytes(b"spiece")
    native, back = str(tmp_path / "n"), str(tmp_path / "b" / "model.ckpt")
    conversion.convert(ConvertOptions("tf1", "native", prefix, native))
    conversion.convert(ConvertOptions("native", "tf1", native, back))
    assert set(tensors_of(prefix)) == set(tensors_of(back))
    scope = f"model/classification{'_' + task if task else ''}/logit/kernel"
    assert scope in tensors_of(back)
    assert (tmp_path / "b" / "spiece.model").read_bytes() == b"spiece"
    assert (tmp_path / "a" / "xlnet_config.json").read_bytes() == (
        tmp_path / "b" / "xlnet_config.json"
    ).read_bytes()


def _written(folder, config=SMALL_CONFIG):
    """The prefix of a checkpoint with an optimizer's slot, as training's."""
    model = ClassificationModel(config, 3)
    arrays = {k: v.numpy() for k, v in named_variables(model).items()}
    name = next(iter(arrays))
    arrays[f"{name}/adam_m"] = arrays[name]
    prefix = str(folder / "model.ckpt")
    tf1_checkpoint.write(prefix, arrays, {}, config)
    config.to_json_file(str(folder / "xlnet_config.json"))
    return prefix


def _bytes(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_checkpoint_is_not_replaced(tmp_path):
    prefix = _written(tmp_path / "a")
    native, before = str(tmp_path / "n"), _bytes(tmp_path / "a")
    conversion.convert(ConvertOptions("tf1", "native", prefix, native))
    for source, kind in ((prefix, "tf1"), (native, "native")):
        with pytest.raises(UserError, match="model.ckpt.index exists"):
            conversion.convert(ConvertOptions(kind, "tf1", source, prefix))
        assert _bytes(tmp_path / "a") == before


def test_a_configuration_beside_is_not_replaced(tmp_path):
    prefix = _written(tmp_path / "a")
    longer = dataclasses.replace(SMALL_CONFIG, n_layer=3)
    other = _written(tmp_path / "b", longer)
    before = _bytes(tmp_path / "a")
    new = str(tmp_path / "a" / "new.ckpt")
    with pytest.raises(UserError, match="xlnet_config.json is another"):
        conversion.convert(ConvertOptions("tf1", "tf1", other, new))
    assert _bytes(tmp_path / "a") == before
    # The same one serves both.
    conversion.convert(ConvertOptions("tf1", "tf1", prefix, new))
    after = _bytes(tmp_path / "a")
    assert {k: after[k] for k in before} == before
    assert "new.ckpt.index" in after


def test_a_conversion_that_died_is_made_again(tmp_path, monkeypatch):
    """The checkpoint was there without its configuration, and was refused."""
    prefix = _written(tmp_path / "a")
    new = str(tmp_path / "b" / "new.ckpt")
    options = ConvertOptions("tf1", "tf1", prefix, new)

    def die(*unused):
        raise KeyboardInterrupt

    for function in ("write_config", "_copy_vocabulary"):
        with monkeypatch.context() as patch:
            patch.setattr(conversion, function, die)
            with pytest.raises(KeyboardInterrupt):
                conversion.convert(options)
        assert not os.path.exists(new + ".index")
    conversion.convert(options)
    assert {"new.ckpt.index", "xlnet_config.json"} <= _bytes(
        tmp_path / "b"
    ).keys()
