"""GLUE's zip: eleven files, each as the server wants it."""

import zipfile

from common import files
from data.finetuning.classifier import submission
from data.finetuning.classifier.glue import GLUE, read_split, split_path
from data.finetuning.examples import BadRows

COUNTS = dict.fromkeys(submission.ROWS, 3)


def write_files(folder):
    paths = {}
    for name, labels in submission.labels_of().items():
        answers = [
            labels[i % len(labels)] if labels else f"{i}.5" for i in range(3)
        ]
        lines = ["index\tprediction"]
        lines += [f"{i}\t{a}" for i, a in enumerate(answers)]
        path = folder / name
        path.write_text("\n".join(lines) + "\n")
        paths[name] = str(path)
    return paths


def test_a_whole_submission_is_well_and_faults_are_named(tmp_path):
    paths = write_files(tmp_path)
    assert len(paths) == 11 == len(submission.ROWS)
    output = str(tmp_path / "a.zip")
    submission.write(paths, output)
    assert submission.validate(output, COUNTS) == []
    whole = (tmp_path / "a.zip").read_bytes()
    submission.write(paths, output)
    assert (tmp_path / "a.zip").read_bytes() == whole
    with zipfile.ZipFile(output) as zipped:
        assert zipped.namelist() == sorted(submission.ROWS)
    files.make_directory("ram://zipped")
    remote = "ram://zipped/a.zip"
    submission.write(paths, remote)
    assert submission.validate(remote, COUNTS) == []
    # Official sets have other numbers of rows.
    found = submission.validate(output)
    assert "AX.tsv: wanted 1104 rows, found 3" in found and len(found) == 11
    faults = {
        "CoLA.tsv": (
            "index\tprediction\n0\t1\n2\t1\n1\t0\n",
            "wanted the index 1",
        ),
        "RTE.tsv": (
            "index\tprediction\n0\tyes\n1\tyes\n2\tyes\n",
            "wanted one of",
        ),
        "STS-B.tsv": ("index\tprediction\n0\t5.5\n1\t0\n2\t0\n", "from 0 to 5"),
        "QQP.tsv": ("id\tlabel\n0\t1\n1\t1\n2\t1\n", "wanted the header"),
        "WNLI.tsv": ("index\tprediction\n0\t1\n1\t1\n2\t1", "has no end"),
        "SST-2.tsv": ("index\tprediction\n0\t1\n", "wanted 3 rows"),
        "AX.tsv": ("index\tprediction\n0\t\u00e9\n", "not ASCII"),
    }
    for name, (text, _) in faults.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    submission.write(paths, output)
    found = submission.validate(output, COUNTS)
    assert len(found) == len(faults)
    for name, (_, problem) in faults.items():
        assert any(p.startswith(name) and problem in p for p in found), name
    (tmp_path / "b.zip").write_bytes(b"no")
    assert (
        "is not a zip file" in submission.validate(str(tmp_path / "b.zip"))[0]
    )


def test_the_diagnostic_set_lies_beside_the_tasks(tmp_path):
    for place in ("AX/AX.tsv", "diagnostic/diagnostic.tsv"):
        root = tmp_path / place.split("/")[0]
        path = root / "GLUE" / place
        path.parent.mkdir(parents=True)
        path.write_text("index\tsentence1\tsentence2\n0\ta b\tc\n1\td\te f\n")
        (root / "GLUE" / "MNLI").mkdir()
        for data_dir in (root / "GLUE", root / "GLUE" / "MNLI"):
            found = split_path(GLUE["mnli"], str(data_dir), "ax")
            assert found == str(path)
        rows = read_split(GLUE["mnli"], found, "ax", BadRows())
        assert [(r.guid, r.texts) for r in rows] == [
            ("0", ("a b", "c")),
            ("1", ("d", "e f")),
        ]
