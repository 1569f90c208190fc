"""Readers of tables, CSVs and folders: layouts, bad rows, fuzzed files."""

import gzip
import json
import random
import sys
import types

import pytest

from common.errors import UserError
from data.finetuning.classifier import glue as glue_tasks
from data.finetuning.classifier import sets as classifier_sets
from data.finetuning.classifier import sources as classifier_sources
from data.finetuning.examples import BadRows
from data.finetuning.options import ClassifierDataOptions
from data.finetuning.race import examples as race_examples
from data.finetuning.squad import examples as squad_examples


def table(path, head="classification", known=None, skip=False, **kwargs):
    bad = BadRows(skip)
    examples = classifier_sources.read_table(
        str(path),
        ClassifierDataOptions("tsv", "d", head=head, **kwargs),
        bad,
        known,
        True,
    )
    return examples, bad


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def test_tsv_with_header_names_columns(tmp_path):
    path = write(
        tmp_path / "a.tsv", "\ufefftext\tlabel\r\nA b.\tyes\r\nC\tno\n"
    )
    examples, _ = table(path)
    assert [(e.texts, e.label) for e in examples] == [
        (("A b.",), "yes"),
        (("C",), "no"),
    ]
    assert examples[1].where == f"{path}:3"


def test_more_than_two_segments_and_gzip(tmp_path):
    path = tmp_path / "a.tsv.gz"
    rows = "title\tquestion\tpassage\tscore\na\tb\tc\t2.5\n"
    path.write_bytes(gzip.compress(rows.encode()))
    examples, _ = table(path, "regression")
    assert examples[0].texts == ("a", "b", "c")
    assert examples[0].label == 2.5


def test_csv_quotes_and_line_ends_and_numbers_of_columns(tmp_path):
    path = write(tmp_path / "a.csv", '"x ""q""\nz",p|q\n"w",\n')
    examples, _ = table(
        path,
        "multi_label",
        has_header=False,
        text_columns=("0",),
        label_column="1",
    )
    assert examples[0].texts == ('x "q"\nz',)
    assert [e.label for e in examples] == [("p", "q"), ()]
    assert examples[1].where == f"{path}:3"


def test_jsonl_lists_of_labels(tmp_path):
    rows = [{"text": "a", "labels": ["p", 2]}, {"text": "b", "labels": []}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    examples, _ = table(path, "multi_label")
    assert [e.label for e in examples] == [("p", "2"), ()]


def test_a_refused_label_is_no_gold(tmp_path):
    rows = [
        {"text": a, "label": "p", "_task_hash": 1, "answer": a}
        for a in ("accept", "ignore")
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    (example,), bad = table(path)
    assert example.texts == ("accept",) and "1 rows without" in bad.summary()


@pytest.mark.parametrize("text", [5, {"0": "a"}])
def test_what_is_no_text_is_named(tmp_path, text):
    row = json.dumps({"text_a": "b", "text_b": text, "label": "x"})
    path = write(tmp_path / "a.jsonl", row)
    with pytest.raises(UserError) as found:
        table(path)
    assert f"found {text!r} under 'text_b'" in str(found.value)


@pytest.mark.parametrize("row", [{"text": "c"}, {"text": "c", "labels": None}])
def test_no_list_is_not_an_empty_one(tmp_path, row):
    rows = [{"text": "a", "labels": ["p"]}, row, {"text": "b", "labels": []}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    message = "a.jsonl:2: wanted labels under 'labels', found none"
    with pytest.raises(UserError, match=message):
        table(path, "multi_label")
    examples, bad = table(path, "multi_label", skip=True)
    assert [e.label for e in examples] == [("p",), ()] and bad.count == 1


def test_names_of_a_list_are_taken_as_they_are(tmp_path):
    """The separator is of fields that are text."""
    rows = [
        {"text": "a", "label": ["C|C++", "x"]},
        {"text": "b", "label": "y|x"},
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    examples, _ = table(path, "multi_label")
    assert [e.label for e in examples] == [("C|C++", "x"), ("y", "x")]
    with pytest.raises(UserError, match="a.jsonl:1: unknown label 'C|C+"):
        table(path, "multi_label", known={"x": 0, "y": 1})


@pytest.mark.parametrize("item", [None, True, {"a": 1}, ["x"]])
def test_what_is_no_name_in_a_list_makes_a_bad_row(tmp_path, item):
    rows = [{"text": "a", "label": ["x", item]}, {"text": "b", "label": ["x"]}]
    path = write(tmp_path / "a.jsonl", "\n".join(map(json.dumps, rows)))
    with pytest.raises(UserError, match="a.jsonl:1: wanted strings or numbers"):
        table(path, "multi_label")
    examples, bad = table(path, "multi_label", skip=True)
    assert len(examples) == bad.count == 1
    with pytest.raises(UserError, match="list of labels needs --multi_label"):
        table(path)


@pytest.mark.parametrize("label", ["NaN", '["x", NaN]', "-Infinity"])
def test_what_python_writes_for_no_value_is_no_class(tmp_path, label):
    text = f'{{"text": "a", "label": {label}}}\n{{"text": "b", "label": "x"}}\n'
    path = write(tmp_path / "a.jsonl", text)
    for head in ("classification", "multi_label", "regression"):
        with pytest.raises(
            UserError, match=r"a.jsonl:1: .*the label is (nan|-i)"
        ):
            table(path, head)
        options = ClassifierDataOptions("jsonl", "d", head=head)
        examples = classifier_sources.read_table(
            str(path), options, BadRows(), None, False
        )
        assert [(e.texts, e.label) for e in examples] == [
            (("a",), None),
            (("b",), None),
        ]


@pytest.mark.parametrize("name", ["snli.jsonl", "snli.tsv"])
def test_no_agreement_of_annotators_is_no_label(tmp_path, name):
    labels = ("neutral", "-", "entailment")
    text = "gold_label\tsentence1\tsentence2\tannotator_labels\n"
    text += "".join(f"{label}\ta\tb\tx\n" for label in labels)
    if name.endswith(".jsonl"):
        text = "".join(
            f'{{"annotator_labels": ["x"], "gold_label": "{label}", '
            '"sentence1": "a", "sentence2": "b"}\n'
            for label in labels
        )
    path = write(tmp_path / name, text)
    with pytest.raises(UserError, match="snli.*: the label is empty; correct"):
        table(path)
    examples, bad = table(path, skip=True)
    assert [e.label for e in examples] == ["neutral", "entailment"]
    assert bad.count == 1


BAD_ROWS = {
    b"text\tlabel\na\n": "a.tsv:2: wanted 2 columns, found 1",
    b"text\tlabel\na\tx\tmore\n": "a.tsv:2: wanted 2 columns, found 3",
    b"text\tlabel\n\tx\n": "a.tsv:2: a text field is empty",
    b"text\tlabel\na\t \n": "a.tsv:2: the label is empty",
    b"text\tlabel\na\tz\n": "a.tsv:2: unknown label 'z', wanted one of x, y",
    b"text\tlabel\n\xff\tx\n": "a.tsv:2: no valid UTF-8 at byte 1",
    b"text\tlabel\n\nb\tx\n": "a.tsv:2: empty row, wanted 2 columns",
}


@pytest.mark.parametrize("content", BAD_ROWS)
def test_bad_rows_name_file_and_line_and_can_be_skipped(tmp_path, content):
    path = write(tmp_path / "a.tsv", content)
    with pytest.raises(UserError) as error:
        table(path, known={"x": 0, "y": 1})
    assert BAD_ROWS[content] in str(error.value)
    assert "--skip_bad_rows" in str(error.value)
    examples, bad = table(
        write(path, content + b"good\ty\n"), known={"x": 0, "y": 1}, skip=True
    )
    assert examples[-1].texts == ("good",)
    assert bad.count == 1
    assert "a.tsv:2" in bad.summary()


@pytest.mark.parametrize(
    "score", ["nan", "inf", "-Infinity", "1e999", "two", "1e39", "-3.5e38"]
)
def test_scores_are_finite_numbers(tmp_path, score):
    path = write(tmp_path / "a.tsv", f"text\tscore\na\t{score}\n")
    with pytest.raises(UserError, match="a.tsv:2: wanted a .*number as label"):
        table(path, "regression")


def test_headers_that_cannot_be_read(tmp_path):
    for content in ("", "a\tb\tc\n", "text\ttext\tlabel\n"):
        with pytest.raises(UserError, match=r"a\.tsv:1: "):
            table(write(tmp_path / "a.tsv", content))


def topic(path, content, fields, escapes, bad=None):
    known = {str(i): i for i in range(1, 5)}
    write(path, content)
    return classifier_sources.read_topic_csv(
        str(path), known, bad or BadRows(), fields, escapes
    )


# How a CSV set is escaped, what stands in the file and what was meant.
ESCAPED = [
    # AG News: a bare backslash was a line's end, before whatever letter.
    ("bare", r"they do\not know", "they do\nnot know"),
    ("bare", r"over\the US\$5 line\\next.\ ", "over\nthe US$5 line\n\nnext."),
    # Yelp: the inside of a JSON string.
    ("json", r"one\n\ntwo\r\nthree", "one\n\ntwo\r\nthree"),
    ("json", r'a \""good\"" caf\u00e9 \ud83d\ude00', 'a "good" café 😀'),
    ("json", r"C:\\new \q", r"C:\new \q"),
    # DBpedia, Amazon: as their readmes say.
    ("readme", r'one\ntwo \u00e9 ""x""', 'one\ntwo \\u00e9 "x"'),
]


@pytest.mark.parametrize("escapes, written, meant", ESCAPED)
def test_each_topic_csv_is_unescaped_in_its_own_way(
    tmp_path, escapes, written, meant
):
    path = tmp_path / "t.csv"
    found = topic(path, f'"2","Title","{written}"\n', 2, escapes)
    assert [(e.texts, e.label) for e in found] == [(("Title " + meant,), "2")]


@pytest.mark.parametrize("escapes, written, meant", ESCAPED)
def test_a_csv_of_ones_own_is_not_unescaped(tmp_path, escapes, written, meant):
    path = write(tmp_path / "t.csv", f'text,label\n"{written}",x\n')
    found, _ = table(path)
    (found,) = found
    assert found.texts == (written.replace('""', '"'),)


def test_a_copy_of_a_topic_csv_may_have_a_header(tmp_path):
    path, bad = tmp_path / "train.csv", BadRows()
    path.write_text('Class Index,Title,Description\n2,"A","b, c"\n1,d,e\n')
    known = {"1": 0, "2": 1}
    found = classifier_sources.read_topic_csv(
        str(path), known, bad, 2, "readme"
    )
    rows = [(e.guid, e.label, *e.texts) for e in found]
    assert rows == [("0", "2", "A b, c"), ("1", "1", "d e")]
    assert bad.summary() == (
        f"{path}:1 is a header: Class Index, Title, Description"
    )
    path.write_text("1,d,e\nlabel,x,y\n")
    with pytest.raises(UserError, match="train.csv:2: unknown label 'label'"):
        classifier_sources.read_topic_csv(str(path), known, bad, 2, "readme")


def test_topic_csv_refuses_other_classes(tmp_path):
    bad = BadRows(True)
    rows = '"2","A","b"\n"5","c","d"\n'
    assert len(topic(tmp_path / "t.csv", rows, 2, "bare", bad)) == 1
    assert bad.shown[0].endswith(
        "t.csv:2: unknown label '5', wanted one of 1, 2, 3, 4"
    )


def test_imdb_folders(tmp_path):
    for label, text in (("pos", "good<br />film"), ("neg", "bad")):
        (tmp_path / label).mkdir()
        write(tmp_path / label / "0_9.txt", text)
    examples = classifier_sources.read_imdb(str(tmp_path), BadRows())
    assert [(e.guid, e.texts[0], e.label) for e in examples] == [
        ("neg/0_9", "bad", "neg"),
        ("pos/0_9", "good film", "pos"),
    ]
    with pytest.raises(UserError, match="aclImdb"):
        classifier_sources.read_imdb(str(tmp_path / "pos"), BadRows())


SEEDS = {
    "tsv": "text\tlabel\nA b c.\tx\nD é f\ty\n",
    "csv": 'text,label\n"A ""b"", c.",x\n"D\né f",y\n',
    "jsonl": '{"text": "A b", "label": "x"}\n{"text": "c", "label": "y"}\n',
    "json": json.dumps(
        {
            "data": [
                {
                    "paragraphs": [
                        {
                            "context": "A b c d.",
                            "qas": [
                                {
                                    "id": "q",
                                    "question": "b?",
                                    "answers": [
                                        {"text": "b", "answer_start": 2}
                                    ],
                                }
                            ],
                        }
                    ]
                }
            ]
        }
    ),
    "txt": json.dumps(
        {
            "article": "A b.",
            "questions": ["b _ ?"],
            "options": [["p", "q", "r", "s"]],
            "answers": ["C"],
        }
    ),
}
TOKENS = (b"\t", b"\n", b'"', b",", b"{", b"}", b"[", b"]", b"\xff", b"\x00",
          b"\xef\xbb\xbf", b"null", b"nan", b"-1", b"", b"\\", b"\r", b"\xe2\x80\xa8")  # fmt: skip


def mutate(seed: str, rng: random.Random) -> bytes:
    """Cuts, repeats and inserts at random places."""
    data = bytearray(seed.encode())
    for _ in range(rng.randint(1, 6)):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.randint(0, 12))
        kind = rng.randrange(3)
        if kind == 0:
            del data[at:end]
        elif kind == 1:
            data[at:at] = data[at:end] * rng.randint(1, 3)
        else:
            data[at:at] = rng.choice(TOKENS)
    return bytes(data)


def read_any(kind: str, path, skip: bool):
    """Reads a file with the reader of its kind."""
    bad = BadRows(skip)
    known = {"x": 0, "y": 1}
    if kind in ("tsv", "csv", "jsonl"):
        classifier_sources.read_table(
            str(path), ClassifierDataOptions("tsv", "d"), bad, known, True
        )
    elif kind == "json":
        squad_examples.read_squad(str(path), True, bad)
    elif kind == "txt":
        race_examples.read_race(str(path.parents[2]), "train", bad)
    elif kind == "glue":
        task = glue_tasks.GLUE["sts-b"]
        glue_tasks.read_split(task, str(path), "dev", bad)
    elif kind == "topic":
        classifier_sources.read_topic_csv(str(path), known, bad, 1, "json")
    elif kind == "imdb":
        classifier_sources.read_imdb(str(path.parents[1]), bad)
    return bad


GLUE_SEED = "index\tsentence1\tsentence2\tscore\n0\tA b\tc\t1.5\n1\td\te\t5\n"
TOPIC_SEED = '"x","A ""b""\\n c."\n"y","D"\n'
FUZZED = SEEDS | {"glue": GLUE_SEED, "topic": TOPIC_SEED, "imdb": "A b.\né\n"}


@pytest.mark.long
@pytest.mark.parametrize("kind", FUZZED)
def test_500_fuzzed_files_give_rows_or_one_line(tmp_path, kind):
    rng = random.Random(f"fuzz {kind}")
    folder = tmp_path / "train" / "high"
    (tmp_path / "train" / "neg").mkdir(parents=True)
    folder.mkdir(parents=True)
    (tmp_path / "train" / "pos").mkdir()
    ending = {"glue": "tsv", "topic": "csv", "imdb": "txt"}.get(kind, kind)
    if kind == "imdb":
        folder = tmp_path / "train" / "neg"
    path = folder / f"a.{ending}"
    refused = 0
    for _ in range(500):
        path.write_bytes(mutate(FUZZED[kind], rng))
        for skip in (False, True):
            try:
                read_any(kind, path, skip)
            except UserError as error:
                assert "\n" not in str(error).replace(str(path), "")[:200]
                assert str(tmp_path) in str(error)
                refused += 1
    assert refused > 10


def build(name, folder="", **kwargs):
    options = ClassifierDataOptions(name, str(folder), **kwargs)
    return classifier_sets.open_set(options)


class FakeBuilder:
    """A set of three examples, as tensorflow_datasets shows one."""

    def __init__(self, name):
        if name != "toy/set":
            raise RuntimeError("no such set\nmore lines")
        label = types.SimpleNamespace(int2str=("bad", "good").__getitem__)
        self.info = types.SimpleNamespace(
            features={"idx": None, "sentence": None, "label": label},
            splits={"train": 3, "validation": 3},
        )

    def download_and_prepare(self):
        pass

    def as_dataset(self, split):
        return [
            {"idx": i, "sentence": f"s é {i}".encode(), "label": i % 2}
            for i in range(3)
        ]


def test_tfds_names(monkeypatch):
    fake = types.ModuleType("tensorflow_datasets")
    fake.builder, fake.as_numpy = FakeBuilder, list
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", fake)
    task = build("tfds:toy/set")
    assert task.labels == ("bad", "good")
    examples = task.read("dev", BadRows())
    assert [(e.texts[0], e.label) for e in examples[:2]] == [
        ("s é 0", "bad"),
        ("s é 1", "good"),
    ]
    assert examples[1].where == "tfds:toy/set/validation:1"
    empty = {"idx": 0, "sentence": b" ", "label": 1}
    monkeypatch.setattr(FakeBuilder, "as_dataset", lambda *_, split: [empty])
    with pytest.raises(UserError, match="validation:0: a text field is empty"):
        task.read("dev", BadRows())
    unknown = {"idx": 0, "sentence": b"x", "label": -1}
    several = [unknown, unknown | {"label": 1}]
    monkeypatch.setattr(FakeBuilder, "as_dataset", lambda *_, split: several)
    with pytest.raises(UserError, match="validation:0: the label is empty"):
        task.read("dev", BadRows())
    assert build("tfds:toy/set").labels == ("good",)
    monkeypatch.setattr(FakeBuilder, "as_dataset", lambda *_, split: [empty])
    kept = build("tfds:toy/set", allow_empty_text=True)
    assert [e.texts for e in kept.read("dev", BadRows())] == [(" ",)]
    with pytest.raises(UserError, match="RuntimeError: no such set$"):
        build("tfds:other")
    with pytest.raises(UserError, match="no test split, only train"):
        task.read("test", BadRows())
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    with pytest.raises(UserError, match="pip install tensorflow-datasets"):
        build("tfds:toy/set")
