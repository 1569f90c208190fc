"""The command reads an export, says which, and answers texts or a file."""

import json

import pytest
import tensorflow as tf

from common.errors import UserError
from serving import predict
from serving.options import PredictOptions
from tests.serving.exported.fake_models import answers
from tests.serving.exported.saved_graphs import save


def counting(times):
    """An export's function: so many times the bytes of a text."""
    return lambda text: {"n": tf.strings.length(text) * times}


@pytest.fixture(scope="module")
def export(tmp_path_factory):
    """A folder with the versions 2 and 10 of an export that counts bytes."""
    folder = tmp_path_factory.mktemp("export")
    for version in (2, 10):
        save(folder / str(version), counting(version))
    return folder


def run(monkeypatch, options):
    monkeypatch.setattr(predict.flag_values, "build", lambda _: options)
    predict.main()


def test_texts_are_answered_by_the_newest_version(export, monkeypatch, capsys):
    run(monkeypatch, PredictOptions(str(export), ("a", "bcd")))
    said = capsys.readouterr()
    assert [json.loads(x) for x in said.out.splitlines()] == [
        {"n": 10},
        {"n": 30},
    ]
    assert str(export / "10") in said.err  # the weights, beside the answers


def test_a_file_is_answered_row_by_row(export, monkeypatch, tmp_path, capsys):
    source, target = tmp_path / "in.txt", tmp_path / "out.jsonl"
    source.write_text("ab\ncdefg\n")
    options = PredictOptions(
        str(export / "2"), (), str(source), str(target), batch_size=1
    )
    run(monkeypatch, options)
    assert answers(tmp_path) == [
        {"row": i, "n": n} for i, n in enumerate((4, 10))
    ]
    assert capsys.readouterr().out == ""


def test_a_folder_without_an_export_is_one_line(monkeypatch, tmp_path):
    with pytest.raises(UserError, match="holds no SavedModel"):
        run(monkeypatch, PredictOptions(str(tmp_path), ("a",)))
