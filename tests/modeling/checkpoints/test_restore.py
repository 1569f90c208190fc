"""Finding, restoring and converting; damage and misfits are named."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from modeling import (
    ClassificationModel,
    PretrainingModel,
    SpanModel,
    XLNetConfig,
)
from modeling.checkpoints import conversion
from modeling.checkpoints import native as native_checkpoint
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import tf1 as tf1_checkpoint
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions
from modeling.encoders.xlnet import original
from tests.helpers import commands

ROOT = pathlib.Path(__file__).resolve().parents[3]
CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


def _tensors(prefix):
    reader = tf.train.load_checkpoint(prefix)
    return {
        name: reader.get_tensor(name)
        for name in reader.get_variable_to_shape_map()
    }


def _native(tmp_path, model):
    folder = str(tmp_path / "native")
    native_checkpoint.write(folder, model, model.config)
    return folder


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
    before, after = _tensors(source), _tensors(back)
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


def test_native_survives_other_objects(tmp_path):
    """As training writes it: optimizer, step, memory beside the model."""
    model = PretrainingModel(CONFIG, next_sentence=True)
    step = tf.Variable(3, dtype=tf.int64)
    path = tf.train.Checkpoint(
        model=model, step=step, variables=list(model.variables)
    ).save(str(tmp_path / "run"))
    for where in (
        str(tmp_path),
        path,
        path + ".index",
        str(tmp_path / "checkpoint"),
    ):
        again = PretrainingModel(CONFIG, next_sentence=True)
        report = checkpoints.restore(again, where)
        assert not report.fresh and not report.unused
        for name, variable in named_variables(model).items():
            np.testing.assert_array_equal(
                variable, named_variables(again)[name]
            )


def test_encoder_only(tmp_path):
    model = PretrainingModel(CONFIG)
    folder = _native(tmp_path, model)
    task = ClassificationModel(CONFIG, 3)
    head = task.class_dense.kernel.numpy()
    report = checkpoints.restore(task, folder, require="encoder")
    assert "model/classification/logit/kernel" in report.fresh
    assert report.unused == ("lm_head/bias",)
    np.testing.assert_array_equal(task.class_dense.kernel, head)
    np.testing.assert_array_equal(
        task.encoder.embeddings.lookup_table,
        model.encoder.embeddings.lookup_table,
    )
    with pytest.raises(UserError, match="class.*missing; .* train one"):
        checkpoints.restore(task, folder, require="all")
    assert "restored" in str(report) and "logit" in str(report)


def test_an_encoder_weight_never_stays_random(tmp_path):
    model = PretrainingModel(CONFIG)
    arrays = {k: v.numpy() for k, v in named_variables(model).items()}
    del arrays["model/transformer/layer_1/ff/layer_2/bias"]
    prefix = str(tmp_path / "x.ckpt")
    tf1_checkpoint.write(prefix, arrays, {}, CONFIG)
    before = [v.numpy() for v in model.variables]
    with pytest.raises(UserError, match="layer_1/ff/layer_2/bias.*missing"):
        checkpoints.restore(model, prefix, require="encoder")
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, variable)


def test_other_shapes_are_named(tmp_path):
    folder = _native(tmp_path, PretrainingModel(CONFIG))
    other = PretrainingModel(CONFIG.replace(d_inner=12))
    with pytest.raises(UserError, match=r"\[6, 10\], wanted \[6, 12\]"):
        checkpoints.restore(other, folder)
    fewer = PretrainingModel(CONFIG.replace(n_layer=1))
    with pytest.raises(UserError, match="belongs to no variable|no variable"):
        conversion.convert(
            ConvertOptions(
                "native",
                "tf1",
                folder,
                str(tmp_path / "y" / "z.ckpt"),
                config=_config_file(tmp_path, fewer.config),
            )
        )
    assert not (tmp_path / "y").exists()


def _config_file(tmp_path, config):
    path = str(tmp_path / "other.json")
    config.to_json_file(path)
    return path


@pytest.mark.parametrize("task", ["", "mnli"])
def test_task_names_survive(tmp_path, task):
    model = ClassificationModel(CONFIG, 3, summary_type="attn")
    arrays = {k: v.numpy() for k, v in named_variables(model).items()}
    prefix = str(tmp_path / "a" / "model.ckpt")
    tasks = {"classification": task} if task else {}
    tf1_checkpoint.write(prefix, arrays, tasks, CONFIG)
    CONFIG.to_json_file(str(tmp_path / "a" / "xlnet_config.json"))
    (tmp_path / "a" / "spiece.model").write_bytes(b"spiece")
    native, back = str(tmp_path / "n"), str(tmp_path / "b" / "model.ckpt")
    conversion.convert(ConvertOptions("tf1", "native", prefix, native))
    conversion.convert(ConvertOptions("native", "tf1", native, back))
    assert set(_tensors(prefix)) == set(_tensors(back))
    scope = f"model/classification{'_' + task if task else ''}/logit/kernel"
    assert scope in _tensors(back)
    assert (tmp_path / "b" / "spiece.model").read_bytes() == b"spiece"
    assert (tmp_path / "a" / "xlnet_config.json").read_bytes() == (
        tmp_path / "b" / "xlnet_config.json"
    ).read_bytes()


def test_a_digest_is_of_the_weights(tmp_path):
    """The memory of a training beside them changes nothing."""
    model = ClassificationModel(CONFIG, num_labels=2)
    folder = _native(tmp_path, model)
    found = checkpoints.content_digest(folder)
    memory = pathlib.Path(checkpoints.resolve(folder).path + ".memory")
    memory.mkdir()
    (memory / "rows.npy").write_bytes(b"x")
    assert checkpoints.content_digest(folder) == found
    other = ClassificationModel(CONFIG, num_labels=2)
    other = _native(tmp_path / "other", other)
    assert checkpoints.content_digest(other) != found


def test_nothing_there(tmp_path):
    for path in (tmp_path, tmp_path / "x", tmp_path / "x.ckpt.index"):
        with pytest.raises(UserError, match="wanted"):
            checkpoints.resolve(str(path))


def test_several_without_a_checkpoint_file(tmp_path):
    arrays = {"a": np.zeros(2, np.float32)}
    for name in ("x", "y"):
        tf1_checkpoint.write(str(tmp_path / name), arrays, {}, CONFIG)
    with pytest.raises(UserError, match="give the prefix"):
        checkpoints.resolve(str(tmp_path))
    source = checkpoints.resolve(str(tmp_path / "x.index"))
    assert source.format == "tf1"
    with pytest.raises(UserError, match="xlnet_config.json"):
        checkpoints.find_config(str(tmp_path / "x"))


def test_damaged_files(tmp_path):
    folder = _native(tmp_path, PretrainingModel(CONFIG))
    model = PretrainingModel(CONFIG)
    data = pathlib.Path(folder, "ckpt-1.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged|readable"):
        checkpoints.restore(model, folder)
    pathlib.Path(folder, "ckpt-1.index").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cut or damaged"):
        checkpoints.restore(model, folder)


def test_an_output_folder_is_not_overwritten(tmp_path):
    folder = _native(tmp_path, SpanModel(CONFIG))
    before = sorted(p.name for p in pathlib.Path(folder).iterdir())
    with pytest.raises(UserError, match="not empty"):
        conversion.convert(ConvertOptions("native", "native", folder, folder))
    assert before == sorted(p.name for p in pathlib.Path(folder).iterdir())
    assert [p.name for p in tmp_path.iterdir()] == ["native"]


@pytest.mark.parametrize("to_format", ["native", "tf1"])
def test_what_a_killed_conversion_left_is_removed(tmp_path, to_format):
    folder = _native(tmp_path, SpanModel(CONFIG))
    for name in ("out", "outer", "model.ckpt"):
        (tmp_path / f".{name}.tmp-99").mkdir()
        (tmp_path / f".{name}.tmp-99" / "ckpt-1.index").touch()
    (tmp_path / ".model.ckpt.tmp-0a1b.data-00000-of-00001").touch()
    output = str(tmp_path / ("model.ckpt" if to_format == "tf1" else "out"))
    conversion.convert(ConvertOptions("native", to_format, folder, output))
    own = ".model.ckpt." if to_format == "tf1" else ".out."
    left = [p.name for p in tmp_path.iterdir() if ".tmp-" in p.name]
    assert len(left) in (2, 3)
    assert not [name for name in left if name.startswith(own)]


@pytest.mark.slow
def test_command(tmp_path):
    folder = _native(tmp_path, PretrainingModel(CONFIG))
    command = ("-m", "modeling.convert_checkpoint")
    done = commands.run(
        *command,
        "--from_format=native",
        "--to_format=tf1",
        f"--input={folder}",
        f"--output={tmp_path}/out/xlnet_model.ckpt",
    )
    assert done.returncode == 0, done.stderr
    assert "model/lm_loss/bias [11] float32" in done.stdout
    wrong = commands.run(
        *command,
        "--from_format=hf",
        "--to_format=tf1",
        f"--input={folder}",
        f"--output={tmp_path}/no/xlnet_model.ckpt",
    )
    assert wrong.returncode == 1 and "--from_format=native" in wrong.stderr
    assert "Traceback" not in wrong.stderr


def test_layers_are_stacked_by_number():
    scope = "model/transformer/"
    arrays = {
        f"{scope}layer_{i}/rel_attn/seg_embed": np.full([2, 1, 1], i)
        for i in (11, 2, 0, 10, 1, 3, 4, 5, 6, 7, 8, 9)
    }
    stacked = original.stack(arrays)[scope + "seg_embed"]
    assert stacked[:, 0, 0, 0].tolist() == list(range(12))
    again = original.unstack({scope + "seg_embed": stacked}, CONFIG, "here")
    for name, value in arrays.items():
        np.testing.assert_array_equal(again[name], value)


def test_moving_averages_are_read_where_a_run_kept_them(tmp_path):
    model = PretrainingModel(CONFIG)
    state = tf.Module(name="optimizer")
    names = list(named_variables(model))
    state.ema = {
        name: tf.Variable(variable + 1.0)
        for name, variable in named_variables(model).items()
        if name != names[-1]  # a frozen variable has none
    }
    checkpoint = tf.train.Checkpoint(model=model, optimizer=state)
    checkpoint.save(str(tmp_path / "model.ckpt"))
    other = PretrainingModel(CONFIG)
    checkpoints.restore(other, str(tmp_path))
    found = named_variables(other)
    for name, variable in named_variables(model).items():
        wanted = variable if name == names[-1] else variable + 1.0
        np.testing.assert_array_equal(found[name], wanted, err_msg=name)
