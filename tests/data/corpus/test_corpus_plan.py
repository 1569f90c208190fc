"""Blocks of files and runs of them."""

import gzip
import pathlib

import numpy as np
import pytest

from common.errors import UserError
from data.corpus import corpus_plan
from data.corpus import documents as corpus
from tests.helpers.runs import builds


@pytest.mark.parametrize("ending", [".bz2", ".xz", ".zip", ".zst"])
def test_files_of_other_packers_are_refused_by_name(tmp_path, ending):
    """Their bytes would be text of `--unit=byte`."""
    path = tmp_path / f"a.txt{ending}"
    path.write_bytes(b"BZh9 packed\n")
    for read in (
        lambda: corpus_plan.plan_corpus([str(path)], 1000),
        lambda: corpus.open_text(str(path)),
    ):
        with pytest.raises(UserError, match="wanted plain text or .gz, found"):
            read()


@pytest.mark.parametrize("name", ["text", "gzip", "jsonl"])
def test_runs_cover_all_files_in_order(tmp_path, name):
    import gzip
    import json

    rng = np.random.default_rng(0)
    paths, wanted = [], []
    for number in range(40):
        lines = [
            f"{number} {i} " + "x" * int(rng.integers(60)) for i in range(4)
        ]
        data = "\n".join(lines) + "\n"
        wanted.append(lines)
        if name == "jsonl":
            data = json.dumps({"text": data}) + "\n"
        elif number % 3:
            data += "\n"
        path = (
            tmp_path / f"{number:02d}.{'jsonl' if name == 'jsonl' else 'txt'}"
        )
        if name == "gzip":
            path = path.with_suffix(".txt.gz")
            path.write_bytes(gzip.compress(data.encode()))
        else:
            path.write_text(data)
        paths.append(str(path))
    (tmp_path / "empty.txt").write_text("")
    paths.insert(7, str(tmp_path / "empty.txt"))
    runs = corpus_plan.plan_corpus(paths, 900)
    assert 3 < len(runs) < 20
    assert max(len(parts) for parts in runs) > 3
    reader, found = corpus.BlockReader(), []
    for parts in runs:
        documents, digest = corpus.read_run(parts, reader)
        assert digest == corpus.read_parts(parts, reader)[1]
        found += [d.lines for d in documents]
    assert found == wanted
    size = [sum(p.end - p.start for p in parts) for parts in runs]
    assert min(size[:-1]) >= 900 and max(size) < 900 + 600


def test_blocks_of_gzip_and_text_agree(tmp_path):
    path = pathlib.Path(builds.write_corpus(tmp_path / "corpus.txt"))
    text = path.read_text()
    packed = tmp_path / "blocks.txt.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    reader = corpus.BlockReader()
    for path in (str(tmp_path / "corpus.txt"), str(packed)):
        blocks = corpus_plan.plan_blocks(path, 2000)
        assert len(blocks) > 3
        data = [reader.read(b) for b in blocks]
        assert b"".join(data).decode() == text
        counts = [
            len(corpus.documents(d, b))
            for d, b in zip(data, blocks, strict=True)
        ]
        assert sum(counts) == 40
    reader.close()
