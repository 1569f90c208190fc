"""From a package to documents: what repeats or is short is left out."""

import functools
import json

from data.corpus.registry import extraction
from data.corpus.registry.source_table import Package
from tests.data.corpus.registry import packages

ONE, TWO = packages.story(3, 4), packages.story(8, 3)


def package(**changes):
    values = dict(
        name="manual",
        registry="debian",
        package="x",
        version="1",
        file="x.deb",
        sha256="0" * 64,
        licence="MIT",
    )
    return Package(**(values | changes))


def pack(folder):
    members = {
        "doc/a.txt": "\n\n".join(ONE).encode(),
        # Its first three sentences stood in the one before.
        "doc/b.txt": "\n\n".join([*ONE[:3], *TWO]).encode(),
        "doc/c.txt": TWO[0].encode(),
        "doc/d.txt": packages.story(9, 1)[0].encode(),
        "bin/e.txt": "\n\n".join(packages.story(11)).encode(),
    }
    return str(packages.debian(folder / "x.deb", members))


def test_a_sentence_is_taken_once_and_a_short_member_not_at_all(tmp_path):
    path = pack(tmp_path)
    source = package(include="^doc/")
    name, counts = extraction.extract(str(tmp_path), (source, path))
    assert name == "manual"
    text = (tmp_path / "manual.txt").read_text()
    assert text == "\n".join(ONE) + "\n\n" + "\n".join(TWO) + "\n\n"
    assert (counts["members"], counts["documents"]) == (4, 2)
    repeated = [*ONE[:3], TWO[0]]
    assert counts["repeated_bytes"] == sum(len(s) + 1 for s in repeated)
    assert counts["short_bytes"] == len(packages.story(9, 1)[0]) + 1
    assert counts["bytes"] == len(text.encode())


def test_a_finished_text_is_kept_until_something_changes(tmp_path):
    path = pack(tmp_path)
    extract = functools.partial(extraction.extract, str(tmp_path))
    _, counts = extract((package(include="^doc/"), path))
    # Neither the package nor its weight is needed again.
    gone = str(tmp_path / "gone.deb")
    _, again = extract((package(include="^doc/", weight=3.0), gone))
    assert again == counts
    _, fewer = extract((package(include="^doc/a"), path))
    assert fewer["documents"] == 1
    about = json.loads((tmp_path / "manual.json").read_text())
    assert about["identity"]["package"]["include"] == "^doc/a"
    (tmp_path / "manual.txt").write_text("half")
    extract((package(include="^doc/a"), path))
    assert (tmp_path / "manual.txt").read_text().startswith(ONE[0])
