"""Every reason leaves out what it should, and nothing else changes."""

import json
import random
import subprocess
import sys

import pytest

from common.errors import UserError
from data.corpus import document_filter, quality
from data.corpus.options import FilterOptions
from tests.conftest import ROOT

WORDS = (
    "the mill by river was old and its wheel turned when water came from "
    "hills people there say that nobody remembers who built it after long "
    "winter some farmer bought every house near bridge but did not stay"
).split()


def prose(seed, lines=8):
    """English-looking lines that no two seeds share."""
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=14)) + "." for _ in range(lines)]


def changed(lines, places=1):
    """The same text with a few other words."""
    words = "\n".join(lines).split(" ")
    for i in range(places):
        words[(i + 1) * len(words) // (places + 2)] = "changed"
    return " ".join(words).split("\n")


def write(path, documents, end=""):
    text = "\n\n".join("\n".join(lines) for lines in documents)
    path.write_text(text + "\n\n" + end, "utf-8")
    return path


def run(path, **options):
    output = path.parent / "clean.txt"
    values = {"input_glob": str(path), "output_file": str(output)} | options
    report = document_filter.filter_corpus(FilterOptions(**values))
    if values["output_file"] != str(output):
        return report, None
    return report, output.read_text("utf-8")


GERMAN = [
    "Die alte Mühle am Fluss gehörte niemandem mehr, und das Rad stand still.",
    "Nach einem langen Winter kaufte ein Bauer aus der Stadt das ganze Haus.",
    "Er blieb nicht, denn die Brücke war zu weit und das Wasser zu kalt.",
    "Heute erinnert sich keiner daran, wer das alles einmal gebaut hat.",
]


def corpus_with_every_reason():
    """(documents, what should happen to each)."""
    good = [prose(i) for i in range(6)]
    bad = {
        "short": ["Too short."],
        "symbols": ["| 1 | + - * / | == | {} | [] | <> |"] * 9,
        "language": GERMAN,
        "repeated_lines": [*prose(20, 4), *prose(20, 4), *prose(20, 4)],
        "exact_duplicate": good[0],
        "near_duplicate": changed(good[1]),
    }
    frequent = ["Our shop is open from nine to five on all days. " * 3]
    boilerplate = [
        [*frequent, f"Item {i} of {i * 7}: " + "x" * i] for i in range(4)
    ]
    documents = [*good, *bad.values(), *boilerplate]
    fates = ["kept"] * 6 + [*bad] + ["boilerplate"] * 4
    return documents, fates


OPTIONS = {
    "languages": ("en",),
    "min_characters": 100,
    "near_duplicates": 0.8,
    "boilerplate_documents": 4,
}


def test_each_document_is_left_out_for_its_reason(tmp_path):
    documents, fates = corpus_with_every_reason()
    path = write(tmp_path / "in.txt", documents)
    report, text = run(path, examples=9, **OPTIONS)
    found = report.as_dict()
    for reason in document_filter.REASONS:
        assert found["left_out"][reason]["documents"] == fates.count(reason)
        assert found["left_out"][reason]["documents"] > 0, reason
    lines = path.read_text("utf-8").split("\n")
    for reason, about in found["left_out"].items():
        for example in about["examples"]:
            number = int(example["place"].rsplit(" ", 1)[1])
            assert lines[number - 1].startswith(example["begins"][:60])
            first = documents[fates.index(reason)][0][:60]
            assert example["begins"].startswith(first)
    kept = [d for d, f in zip(documents, fates, strict=True) if f == "kept"]
    assert text == "".join("\n".join(lines) + "\n\n" for lines in kept)
    stored = json.loads((tmp_path / "clean.txt.report.json").read_text())
    assert stored == json.loads(json.dumps(found))
    total = sum(a["characters"] for a in found["left_out"].values())
    assert total + found["kept"]["characters"] == found["characters"]


def test_workers_and_blocks_change_no_byte(tmp_path):
    documents, _ = corpus_with_every_reason()
    documents += [prose(i) for i in range(40, 70)] + [prose(50)]
    path = write(tmp_path / "in.txt", documents)
    report, text = run(path, **OPTIONS)
    first = report.as_dict()
    for change in (
        {"block_bytes": 900},
        {"block_bytes": 900, "num_workers": 2},
    ):
        again, same = run(path, **OPTIONS | change)
        assert same == text
        assert again.as_dict()["left_out"] == first["left_out"]


def test_each_filter_can_be_off(tmp_path):
    documents, fates = corpus_with_every_reason()
    path = write(tmp_path / "in.txt", documents)
    off = {
        "min_characters": 0,
        "max_symbol_ratio": 1.0,
        "max_repeated_lines": 1.0,
        "near_duplicates": 1.0,
        "max_boilerplate": 1.0,
    }
    report, _ = run(path, **off)
    assert report.documents["kept"] == len(documents) - 1
    assert report.documents["exact_duplicate"] == 1


def test_copies_of_a_document_do_not_make_it_boilerplate(tmp_path):
    one, other = prose(1), prose(2, 40)
    documents = [one] * 30 + [changed(other, i % 3) for i in range(30)]
    path = write(tmp_path / "in.txt", documents)
    report, text = run(path, boilerplate_documents=5)
    other = changed(other, 0)
    assert text == "\n".join(one) + "\n\n" + "\n".join(other) + "\n\n"
    assert report.documents["boilerplate"] == 0


SCRIPTS = {
    "zh": "磨坊在河边已经很久没有人住过了冬天过去以后一个农民买下了桥旁所有的房子",
    "th": "โรงสีริมแม่น้ำเก่ามากแล้วไม่มีใครจำได้ว่าใครสร้างและชาวนาคนหนึ่งก็ซื้อบ้าน",
    "hi": "नदी के किनारे पुरानी मिल थी और किसी को याद नहीं कि उसे किसने बनाया था",
}


@pytest.mark.parametrize("script", SCRIPTS)
def test_near_duplicates_in_other_scripts(script):
    rng = random.Random(script)
    units = list(SCRIPTS[script])
    if script == "hi":
        units = SCRIPTS[script].split()
    blank = " " if script == "hi" else ""
    one = [blank.join(rng.choices(units, k=90)) for _ in range(8)]
    other = [blank.join(rng.choices(units, k=90)) for _ in range(8)]
    near = [*one[:-1], one[-1][:-3]]
    index = quality.NearDuplicates(0.8)
    index.add(7, quality.signature(one))
    assert index.find(quality.signature(other)) is None
    number, same = index.find(quality.signature(near))
    assert number == 7 and same > 0.8


def test_similarity_is_the_share_of_common_runs():
    one = prose(3, 60)
    for places in (20, 60, 120):
        other = changed(one, places)
        sets = []
        for lines in (one, other):
            words = "\n".join(lines).lower().split()
            sets.append(
                {tuple(words[i : i + 5]) for i in range(len(words) - 4)}
            )
        exact = len(sets[0] & sets[1]) / len(sets[0] | sets[1])
        same = quality.signature(one) == quality.signature(other)
        # The standard error of 128 draws is at most 0.044.
        assert same.mean() == pytest.approx(exact, abs=0.14)


def test_repeated_share_and_line_hashes():
    lines = ["abc", "de", " abc ", "f", "abc"]
    hashes = quality.line_hashes(lines)
    assert len(set(hashes.tolist())) == 3
    assert quality.repeated_share(lines, hashes) == pytest.approx(8 / 14)
    assert quality.repeated_share(lines[:2], hashes[:2]) == 0.0


def test_paragraph_ends_and_jsonl(tmp_path):
    path = tmp_path / "in.jsonl"
    text = "One line. <eop>\nTwo. \nThree.<eop>"
    rows = [{"text": text, "id": 3}, {"text": "x"}]
    path.write_text("".join(json.dumps(r) + "\n" for r in rows))
    _, found = run(path, min_characters=5)
    assert found == text + "\n\n"
    output = str(tmp_path / "clean.jsonl")
    run(path, min_characters=5, output_file=output)
    with open(output) as f:
        assert [json.loads(line) for line in f] == [{"text": text}]


def test_the_text_keeps_its_field(tmp_path):
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps({"body": "One line.", "text": "other"}) + "\n")
    output = tmp_path / "out.jsonl"
    run(
        *(path,),
        min_characters=5,
        text_field="body",
        output_file=str(output),
    )
    assert json.loads(output.read_text()) == {"body": "One line."}


@pytest.mark.parametrize("output", ["in.txt", "./in.txt", "link.txt", "in"])
def test_the_input_is_not_replaced(tmp_path, monkeypatch, output):
    monkeypatch.chdir(tmp_path)
    path = write(tmp_path / "in.txt", [prose(1)])
    (tmp_path / "link.txt").symlink_to(path)
    write(tmp_path / "in.report.json", [prose(2)])
    before = path.read_bytes()
    pattern = "in.txt,in.report.json"
    with pytest.raises(UserError, match="would replace the input"):
        run(path, input_glob=pattern, output_file=output, text_field="a")
    assert path.read_bytes() == before


def test_errors_leave_nothing(tmp_path, monkeypatch):
    path = write(tmp_path / "in.txt", [prose(1), ["short"]])
    with pytest.raises(UserError, match="no document is left"):
        run(path, min_characters=10_000)
    with pytest.raises(UserError, match="--languages: unknown xx; wanted"):
        run(path, languages=("en", "xx"))
    for options, message in (
        ({"dry_run": True}, "either --output_file or --dry_run"),
        ({"output_file": ""}, "either --output_file or --dry_run"),
        ({"output_file": "a.gz"}, "without .gz"),
        ({"near_duplicates": 0.0}, "--near_duplicates must be in \\(0, 1]"),
    ):
        with pytest.raises(UserError, match=message):
            run(path, **options)
    monkeypatch.setitem(sys.modules, "datasketch", None)
    with pytest.raises(UserError, match="-r requirements-corpus.txt"):
        run(path)
    path.write_bytes(path.read_bytes() + b"na\xefve\n")
    with pytest.raises(UserError, match=r"in.txt: line 12: not UTF-8"):
        run(path, near_duplicates=1.0)
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]


def test_dry_run_shows_examples_and_writes_nothing(tmp_path):
    documents, _ = corpus_with_every_reason()
    path = write(tmp_path / "in.txt", documents)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "data.filter_corpus", "--dry_run"),
            *(f"--input_glob={path}", "--languages=en", "--examples=2"),
            *("--min_characters=100", "--boilerplate_documents=4"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "in.txt: line 55: 10 characters\n        Too short." in done.stdout
    assert "language de\n        Die alte Mühle" in done.stdout
    assert "equals " in done.stdout and "in frequent lines" in done.stdout
    assert done.stdout.count("in frequent lines") == 2  # of four
    assert [p.name for p in tmp_path.iterdir()] == ["in.txt"]
