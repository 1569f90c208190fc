"""Finding, restoring and converting; damage and misfits are named."""

import pathlib

import numpy as np
import pytest

from common.errors import UserError
from modeling import (
    ClassificationModel,
    PretrainingModel,
    SpanModel,
    XLNetConfig,
)
from modeling.checkpoints import conversion, native
from modeling.checkpoints import restore as checkpoints
from modeling.checkpoints import tf1 as tf1_checkpoint
from modeling.checkpoints.names import named_variables
from modeling.command_options import ConvertOptions

SMALL_CONFIG = XLNetConfig(
    vocab_size=11, d_model=6, n_layer=2, n_head=3, d_head=4, d_inner=10
)


def native_folder(tmp_path, model):
    folder = str(tmp_path / "native")
    native.write(folder, model, model.config)
    return folder


def test_encoder_only(tmp_path):
    model = PretrainingModel(SMALL_CONFIG)
    folder = native_folder(tmp_path, model)
    task = ClassificationModel(SMALL_CONFIG, 3)
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
    model = PretrainingModel(SMALL_CONFIG)
    arrays = {k: v.numpy() for k, v in named_variables(model).items()}
    del arrays["model/transformer/layer_1/ff/layer_2/bias"]
    prefix = str(tmp_path / "x.ckpt")
    tf1_checkpoint.write(prefix, arrays, {}, SMALL_CONFIG)
    before = [v.numpy() for v in model.variables]
    with pytest.raises(UserError, match="layer_1/ff/layer_2/bias.*missing"):
        checkpoints.restore(model, prefix, require="encoder")
    for old, variable in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(old, variable)


def test_other_shapes_are_named(tmp_path):
    folder = native_folder(tmp_path, PretrainingModel(SMALL_CONFIG))
    other = PretrainingModel(SMALL_CONFIG.replace(d_inner=12))
    with pytest.raises(UserError, match=r"\[6, 10\], wanted \[6, 12\]"):
        checkpoints.restore(other, folder)
    fewer = PretrainingModel(SMALL_CONFIG.replace(n_layer=1))
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


def test_a_digest_is_of_the_weights(tmp_path):
    """The memory of a training beside them changes nothing."""
    model = ClassificationModel(SMALL_CONFIG, num_labels=2)
    folder = native_folder(tmp_path, model)
    found = checkpoints.content_digest(folder)
    memory = pathlib.Path(checkpoints.resolve(folder).path + ".memory")
    memory.mkdir()
    (memory / "rows.npy").write_bytes(b"x")
    assert checkpoints.content_digest(folder) == found
    other = ClassificationModel(SMALL_CONFIG, num_labels=2)
    other = native_folder(tmp_path / "other", other)
    assert checkpoints.content_digest(other) != found


def test_a_folder_may_be_called_as_a_data_file_ends(tmp_path):
    """Evaluations give the prefix; `/x/set` is no checkpoint."""
    model = ClassificationModel(SMALL_CONFIG, num_labels=2)
    folder = native_folder(tmp_path / "set.data-2", model)
    path = checkpoints.resolve(folder).path
    for ending in ("", ".index", ".data-00000-of-00001"):
        source = checkpoints.resolve(path + ending)
        assert (source.path, source.folder) == (path, folder)


def test_nothing_there(tmp_path):
    for path in (tmp_path, tmp_path / "x", tmp_path / "x.ckpt.index"):
        with pytest.raises(UserError, match="wanted"):
            checkpoints.resolve(str(path))


def test_several_without_a_checkpoint_file(tmp_path):
    arrays = {"a": np.zeros(2, np.float32)}
    for name in ("x", "y"):
        tf1_checkpoint.write(str(tmp_path / name), arrays, {}, SMALL_CONFIG)
    with pytest.raises(UserError, match="give the prefix"):
        checkpoints.resolve(str(tmp_path))
    source = checkpoints.resolve(str(tmp_path / "x.index"))
    assert source.format == "tf1"
    with pytest.raises(UserError, match="convert_checkpoint with --config"):
        checkpoints.find_config(str(tmp_path / "x"))


def test_damaged_files(tmp_path):
    folder = native_folder(tmp_path, PretrainingModel(SMALL_CONFIG))
    model = PretrainingModel(SMALL_CONFIG)
    data = pathlib.Path(folder, "ckpt-1.data-00000-of-00001")
    data.write_bytes(data.read_bytes()[: data.stat().st_size // 2])
    with pytest.raises(UserError, match="damaged|readable"):
        checkpoints.restore(model, folder)
    pathlib.Path(folder, "ckpt-1.index").write_bytes(b"nonsense")
    with pytest.raises(UserError, match="cut or damaged"):
        checkpoints.restore(model, folder)


def test_an_output_folder_is_not_overwritten(tmp_path):
    folder = native_folder(tmp_path, SpanModel(SMALL_CONFIG))
    before = sorted(p.name for p in pathlib.Path(folder).iterdir())
    with pytest.raises(UserError, match="not empty"):
        conversion.convert(ConvertOptions("native", "native", folder, folder))
    assert before == sorted(p.name for p in pathlib.Path(folder).iterdir())
    assert [p.name for p in tmp_path.iterdir()] == ["native"]


@pytest.mark.parametrize("to_format", ["native", "tf1"])
def test_what_a_killed_conversion_left_is_removed(tmp_path, to_format):
    folder = native_folder(tmp_path, SpanModel(SMALL_CONFIG))
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


@pytest.mark.parametrize("form", ["native", "tf1"])
def test_the_encoder_alone_of_any_format(tmp_path, form):
    """`--head=encoder` had an effect on Hugging Face folders only."""
    tuned = ClassificationModel(SMALL_CONFIG, 3)
    path = native_folder(tmp_path, tuned)
    if form == "tf1":
        path = str(tmp_path / "x.ckpt")
        arrays = {k: v.numpy() for k, v in named_variables(tuned).items()}
        tf1_checkpoint.write(path, arrays, {}, SMALL_CONFIG)
    source = checkpoints.resolve(path, part="encoder")
    task = ClassificationModel(SMALL_CONFIG, 3)
    head = task.class_dense.kernel.numpy()
    report = checkpoints.restore(task, source, require="encoder")
    assert len(report.unused) == len(report.fresh) == 4  # with the pooler
    np.testing.assert_array_equal(task.class_dense.kernel, head)
    np.testing.assert_array_equal(
        task.encoder.embeddings.lookup_table,
        tuned.encoder.embeddings.lookup_table,
    )
    with pytest.raises(UserError, match="logit.*missing; .* train one"):
        checkpoints.restore(task, source, require="all")
    report = checkpoints.restore(task, path, require="all")
    assert not report.fresh
