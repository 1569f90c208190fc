"""Options of a collection that contradict each other, and its files by name."""

import pytest

from common import files
from common.errors import UserError
from data.finetuning.ranking.options import (
    RankingDataOptions,
    collection_files,
)

FILES = {"topics_file": "t", "documents": "d", "qrels_file": "q"}


@pytest.mark.parametrize(
    "values, message",
    [
        (FILES | {"dataset": "x/y"}, "--dataset=x/y has its own files: leave"),
        ({"topics_file": "t"}, "--documents must be given"),
        (FILES | {"folds": 2}, "--folds must be at least 3"),
        (FILES | {"bm25_b": 1.1}, "--bm25_b must be in"),
        (FILES | {"err_max_grade": 33}, "--err_max_grade must be in .1, 20."),
        (FILES | {"unjudged": "one"}, "--unjudged must be one of zero, skip"),
    ],
)
def test_what_cannot_be_is_one_line(values, message):
    with pytest.raises(UserError, match=message):
        RankingDataOptions(**values)


def test_a_file_of_folds_needs_no_number():
    assert RankingDataOptions(**FILES, folds=1, folds_file="f").folds == 1
    assert RankingDataOptions(dataset="x/y").documents == ""


@pytest.mark.parametrize("bucket", ["", "ram:/"])
def test_the_files_of_a_named_collection(tmp_path, bucket):
    folder = bucket + str(tmp_path)
    files.make_directory(folder)
    for name in ("cran.qry", "cran.all.1400.xz", "cranqrel.q001", "other"):
        files.write_text(f"{folder}/{name}", "")
    found = collection_files("cranfield", folder)
    assert found["documents"] == f"{folder}/cran.all.1400.xz"
    assert found["qrels_file"] == f"{folder}/cranqrel.q001"
    assert found["topics_format"] == "cranfield"
    files.remove(f"{folder}/cran.qry")
    for name, other, message in (
        ("cranfield", folder, "has no file cran.qry of cranfield: giv"),
        ("cisi", "", "--collection=cisi needs --data_dir"),
        ("cisi", "/nowhere", "has no file CISI.QRY of cisi"),
        ("trec", folder, "--collection must be one of cranfield, cisi"),
    ):
        with pytest.raises(UserError, match=message):
            collection_files(name, other)
