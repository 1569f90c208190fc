"""Batch prediction: order, resume, bad rows; with a model that counts."""

import gzip
import json
import os

import numpy as np
import pytest
import tensorflow as tf

from common.errors import UserError
from serving.exported import answering
from serving.options import PredictOptions
from tests.helpers.holding import another_process_holds
from tests.serving.exported.fake_models import FakeModel, answers, options


def test_order_and_batches(tmp_path):
    lines = ["x" * (i % 7 + 1) for i in range(10)]
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    model = FakeModel()
    assert answering.predict_file(model, options(tmp_path)) == 10
    assert [a["length"] for a in answers(tmp_path)] == list(map(len, lines))
    assert model.calls == [3, 3, 3, 1]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]
    with pytest.raises(UserError, match="exists and is complete"):
        answering.predict_file(model, options(tmp_path))


def test_two_processes_do_not_share_an_output(tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\n")
    out = tmp_path / "out.jsonl"
    with another_process_holds(out, is_folder=False) as other:
        with pytest.raises(UserError, match=f"in use by process {other.pid} "):
            answering.predict_file(FakeModel(), options(tmp_path))
    assert answering.predict_file(FakeModel(), options(tmp_path)) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


def test_a_stopped_run_goes_on(tmp_path):
    lines = ["x" * (i + 1) for i in range(8)]
    (tmp_path / "in.txt").write_text("\n".join(lines))

    class Stopped(Exception):
        pass

    class Stopping(FakeModel):
        def __call__(self, inputs):
            if len(self.calls) == 2:
                raise Stopped
            return super().__call__(inputs)

    with pytest.raises(Stopped):
        answering.predict_file(Stopping(), options(tmp_path))
    partial = tmp_path / "out.jsonl.partial"
    # A kill may leave half a line.
    partial.write_bytes(partial.read_bytes() + b'{"leng')
    model = FakeModel()
    assert answering.predict_file(model, options(tmp_path)) == 2
    assert [a["length"] for a in answers(tmp_path)] == list(range(1, 9))


def test_another_input_does_not_go_on(tmp_path):
    (tmp_path / "in.txt").write_text("a\nb\nc\nd\n\nb\n")
    with pytest.raises(UserError, match=r"in.txt:5: text: the text is empty"):
        answering.predict_file(FakeModel(), options(tmp_path))
    (tmp_path / "in.txt").write_text("a\nb\nc\nd\nb\nb\n")
    with pytest.raises(UserError, match="has 3 answers of another run"):
        answering.predict_file(FakeModel(), options(tmp_path))


def test_rows_that_were_skipped_are_not_left_out_silently(tmp_path):
    """A run without --skip_bad_rows may go on with it, not the other way."""
    (tmp_path / "in.txt").write_text("a\nb\nc\nxxxx\nb\nb\nd\n" + "\0\n")
    short = {"max_chars": 3}
    with pytest.raises(UserError, match="in.txt:4: .* at most 3"):
        answering.predict_file(FakeModel(), options(tmp_path, **short))
    skipping = options(tmp_path, **short, skip_bad_rows=True)

    class Killed(FakeModel):
        def __call__(self, inputs):
            if inputs["text"] == ["d"]:
                raise KeyboardInterrupt
            return super().__call__(inputs)

    with pytest.raises(KeyboardInterrupt):
        answering.predict_file(Killed(), skipping)
    for other in (short, {"skip_bad_rows": True, "max_chars": 9}, {}):
        with pytest.raises(UserError, match="different: skip_bad_rows or max"):
            answering.predict_file(FakeModel(), options(tmp_path, **other))
    answering.predict_file(FakeModel(), skipping)
    lengths = [a.get("length") for a in answers(tmp_path)]
    assert lengths == [1, 1, 1, None, 1, 1, 1, None]


def test_a_failed_command_leaves_nothing_in_the_way(tmp_path):
    """Where no row was answered; not even what a killed one left."""
    partial = tmp_path / "out.jsonl.partial"
    for left in ("", '{"leng', None):
        if left is not None:  # of a killed run of another input
            partial.write_text(left)
            (tmp_path / "out.jsonl.partial.json").write_text('{"a": 1}')
        (tmp_path / "in.txt").write_text("a\n\nb\n")
        with pytest.raises(UserError, match="in.txt:2: .* is empty"):
            answering.predict_file(FakeModel(), options(tmp_path))
        assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]
    (tmp_path / "in.txt").write_text("a\nb\n")
    assert answering.predict_file(FakeModel(), options(tmp_path)) == 2
    assert sorted(p.name for p in tmp_path.iterdir()) == ["in.txt", "out.jsonl"]


@pytest.mark.parametrize("ending", ["", ".json"])
def test_an_input_of_the_name_of_answers_is_kept(tmp_path, ending):
    """It was emptied and removed."""
    path = tmp_path / f"out.jsonl.partial{ending}"
    path.write_text("a\nb\n")
    chosen = options(tmp_path, path.name)
    with pytest.raises(UserError, match="would replace the input"):
        answering.predict_file(FakeModel(), chosen)
    assert path.read_text() == "a\nb\n"


def test_a_file_that_no_run_left_is_kept(tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    path = tmp_path / "out.jsonl.partial"
    path.write_text("half of a download")
    with pytest.raises(UserError, match="partial.json is missing: move it aw"):
        answering.predict_file(FakeModel(), options(tmp_path))
    assert path.read_text() == "half of a download"


def test_a_file_without_rows_leaves_nothing(tmp_path):
    (tmp_path / "in.txt").write_text("")
    with pytest.raises(UserError, match="holds no row"):
        answering.predict_file(FakeModel(), options(tmp_path))
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]


def test_a_damaged_record_is_one_line(tmp_path):
    (tmp_path / "in.txt").write_text("a\n")
    (tmp_path / "out.jsonl.partial").write_text("{}\n")
    (tmp_path / "out.jsonl.partial.json").write_text("{")
    with pytest.raises(UserError, match="partial.json is not valid JSON"):
        answering.predict_file(FakeModel(), options(tmp_path))


@pytest.mark.parametrize("plant", [os.symlink, os.link])
def test_planted_answers_harm_no_other_file(tmp_path, plant):
    victim, partial = tmp_path / "victim", tmp_path / "out.jsonl.partial"
    victim.write_text("mine")
    plant(victim, partial)
    (tmp_path / "in.txt").write_text("a\n")
    with pytest.raises(UserError, match="partial is a link: .*remove it"):
        answering.predict_file(FakeModel(), options(tmp_path))
    assert victim.read_text() == "mine"
    assert not (tmp_path / "out.jsonl").exists()


@pytest.mark.parametrize("folder", ["", "ram://predicted"])
def test_another_model_in_the_same_place_does_not_go_on(tmp_path, folder):
    """A model in a bucket went on, whatever it was."""
    model = FakeModel()
    model.version_dir = f"{folder or tmp_path}/1"
    weights = f"{model.version_dir}/variables/variables.index"
    tf.io.gfile.makedirs(os.path.dirname(weights))
    with tf.io.gfile.GFile(weights, "w") as f:
        f.write("one")
    (tmp_path / "in.txt").write_text("a\nb\nc\nd\n\nb\n")
    for _ in range(2):  # the same model goes on
        with pytest.raises(UserError, match="the text is empty"):
            answering.predict_file(model, options(tmp_path))
    with tf.io.gfile.GFile(weights, "w") as f:
        f.write("two")
    with pytest.raises(UserError, match=r"another run \(different: weights\)"):
        answering.predict_file(model, options(tmp_path))


def test_bad_rows_are_answered_in_place(tmp_path):
    (tmp_path / "in.txt").write_text("a\n\nb\x00\nccc\n" + "x" * 30 + "\n")
    chosen = options(tmp_path, skip_bad_rows=True, max_chars=10)
    answering.predict_file(FakeModel(), chosen)
    found = answers(tmp_path)
    assert [a.get("length") for a in found] == [1, None, None, 3, None]
    assert "in.txt:2" in found[1]["error"] and "NUL" in found[2]["error"]
    (tmp_path / "in.jsonl").write_text("[1]\n")
    chosen = options(
        tmp_path,
        "in.jsonl",
        skip_bad_rows=True,
        output_file=str(tmp_path / "o.jsonl"),
    )
    answering.predict_file(FakeModel(), chosen)
    (found,) = answers(tmp_path, "o.jsonl")
    # The flag is given: nobody is told to give it.
    assert "wanted a JSON object, found list; " in found["error"]
    assert "--skip_bad_rows" not in found["error"]


def test_formats(tmp_path):
    model = FakeModel("text_a", "text_b")
    (tmp_path / "in.tsv").write_text("one\ttwo\nthree\tfour\n")
    answering.predict_file(model, options(tmp_path, "in.tsv"))
    assert [a["length"] for a in answers(tmp_path)] == [3, 5]
    (tmp_path / "bad.tsv").write_text("one\n")
    with pytest.raises(UserError, match="wanted 2 columns"):
        answering.predict_file(
            model, options(tmp_path, "bad.tsv", output_file="")
        )
    # Rows with lists of different lengths cannot share a tensor.
    model = FakeModel("passage", "question", "options")
    texts = [["a", "b"], ["a", "b", "c"], ["c", "d"]]
    with gzip.open(tmp_path / "in.jsonl.gz", "wt") as f:
        for i, some in enumerate(texts):
            row = {"passage": "p" * (i + 1), "question": "q", "options": some}
            f.write(json.dumps(row) + "\n")
    found = options(
        tmp_path, "in.jsonl.gz", output_file=str(tmp_path / "o.jsonl")
    )
    answering.predict_file(model, found)
    assert [a["length"] for a in answers(tmp_path, "o.jsonl")] == [1, 2, 3]
    (tmp_path / "bad.jsonl").write_text('{"passage": "p"}\n')
    with pytest.raises(UserError, match="wanted an object with the keys"):
        answering.predict_file(
            model, options(tmp_path, "bad.jsonl", output_file="")
        )


def test_errors(tmp_path):
    (tmp_path / "in.txt").write_bytes(b"ok\n\xff\n")
    with pytest.raises(UserError, match="in.txt:2: no valid UTF-8"):
        answering.predict_file(FakeModel(), options(tmp_path))
    with pytest.raises(UserError, match="does not exist"):
        answering.predict_file(FakeModel(), options(tmp_path, "none.txt"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UserError, match="wanted a file, .* found a folder, a"):
        answering.predict_file(FakeModel(), options(tmp_path, "pipe"))
    with pytest.raises(UserError, match="give one of --text"):
        PredictOptions("model")


def test_documents_and_their_numbers_are_as_many(tmp_path):
    """Other counts ended in a trace of TensorFlow's, bad rows skipped or not."""

    class Ranker(FakeModel):
        def inputs(self, signature="serving_default"):
            many = {"shape": [None, None]}
            return {
                "documents": {"dtype": "string"} | many,
                "scores": {"dtype": "float32"} | many,
            }

        def __call__(self, inputs):
            return {"total": np.sum(inputs["scores"], 1)}

    path = tmp_path / "in.jsonl"
    rows = [
        '{"documents": ["a", "b", "c"], "scores": ' + scores + "}\n"
        for scores in ("[1, 2, 3]", "[1]", "[1, 2, 3, 4]")
    ]
    path.write_text("".join(rows))
    with pytest.raises(UserError, match="in.jsonl:2: scores: wanted 3, as man"):
        answering.predict_file(Ranker(), options(tmp_path, "in.jsonl"))
    skipping = options(tmp_path, "in.jsonl", skip_bad_rows=True)
    answering.predict_file(Ranker(), skipping)
    good, *bad = answers(tmp_path)
    assert good["total"] == 6
    assert [a["error"].split(", found ")[1] for a in bad] == ["1", "4"]


def test_numbers_of_a_row_are_numbers(tmp_path):
    """K-NRM's `candidate_scores` beside its documents."""

    class Scored(FakeModel):
        def inputs(self, signature="serving_default"):
            scores = {"dtype": "float32", "shape": [None, None]}
            return super().inputs() | {"scores": scores}

        def __call__(self, inputs):
            return {"total": np.sum(inputs["scores"], 1)}

    path = tmp_path / "in.jsonl"
    path.write_text(
        '{"text": "a", "scores": [1.5, 2]}\n{"text": "b", "scores": [-1, 0]}\n'
    )
    answering.predict_file(Scored(), options(tmp_path, "in.jsonl"))
    assert [a["total"] for a in answers(tmp_path)] == [3.5, -1]
    for wrong, message in (
        ('["x"]', "wanted numbers, found str"),
        ("2", r"wanted numbers of the shape \[None\], found \[\]"),
        ("[]", "of the shape"),
        ("[1e999]", "not finite"),
        ("[[1], [1, 2]]", "differ in length"),
    ):
        path.write_text('{"text": "a", "scores": ' + wrong + "}\n")
        (tmp_path / "out.jsonl").unlink(missing_ok=True)
        with pytest.raises(UserError, match=f"in.jsonl:1: scores: .*{message}"):
            answering.predict_file(Scored(), options(tmp_path, "in.jsonl"))


@pytest.mark.parametrize("name", ["in.txt", "in.jsonl"])
def test_a_row_that_is_not_utf8_is_answered_in_place(tmp_path, name):
    def row(text):
        return b'{"text": "%s"}' % text if name == "in.jsonl" else text

    rows = [row(b"a"), row(b"caf\xe9"), row(b"ccc")]
    (tmp_path / name).write_bytes(b"\r\n".join(rows) + b"\r\n")
    with pytest.raises(
        UserError, match=rf"{name}:2: no valid UTF-8 at byte \d+"
    ):
        answering.predict_file(FakeModel(), options(tmp_path, name))
    for left in tmp_path.glob("out*"):
        left.unlink()
    answering.predict_file(
        FakeModel(), options(tmp_path, name, skip_bad_rows=True)
    )
    found = answers(tmp_path)
    assert [a.get("length") for a in found] == [1, None, 3]
    assert f"{name}:2" in found[1]["error"] and "UTF-8" in found[1]["error"]


def test_an_output_that_is_no_number_is_one_line(tmp_path):
    """The label of such a row was the first one."""

    class Damaged(FakeModel):
        def __call__(self, inputs):
            count = len(inputs["text"])
            wrong = np.full((count, 2), np.nan, np.float32)
            label = np.array([b"a"] * count, object)
            return {"label": label, "probabilities": wrong}

    (tmp_path / "in.txt").write_text("one\ntwo\n")
    wanted = r"output for probabilities from .*in.txt:1 on is not finite"
    with pytest.raises(UserError, match=wanted):
        answering.predict_file(Damaged(), options(tmp_path))
    assert os.listdir(tmp_path) == ["in.txt"]


def test_answers_to_texts_replace_no_file(tmp_path):
    asked = options(tmp_path, input_file="", text=("one",))
    model = FakeModel()
    answering.answer(model, asked)
    assert answers(tmp_path) == [{"length": 3}]
    with pytest.raises(UserError, match="out.jsonl exists and is complete"):
        answering.answer(model, asked)
    assert model.calls == [1]
