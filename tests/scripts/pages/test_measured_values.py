"""Tables of the pages agree with the files that hold every single value."""

import collections
import csv
import statistics

import pytest

from scripts.pages import blocks
from studies.kinds.registry import load
from studies.runner import study_claims, study_figure, study_file
from tests.conftest import ROOT

MEASURED = ROOT / "docs/measured"


# Claims of the ablation's page: the rows that are compared.
CLAIMED = {
    "(i) above BERT (row 1)": ("4", "1"),
    "(i) above DAE + Transformer-XL (row 2)": ("4", "2"),
    "(ii) row 2 above row 1": ("2", "1"),
    "(iii) memory (row 5)": ("4", "5"),
    "(iv) spans (row 6)": ("4", "6"),
    "(iv) both directions (row 7)": ("4", "7"),
    "(v) next-sentence prediction does not help (row 8)": ("4", "8"),
}


def values(name):
    """Rows of a file of single values."""
    with open(MEASURED / name, encoding="utf-8", newline="") as f:
        return list(csv.DictReader(f, delimiter="\t"))


def table(page, name):
    """Rows of a measured table without its head."""
    return blocks.read_file(MEASURED / f"tables/{page}.tsv")[name].rows[1:]


@pytest.fixture(scope="module")
def results():
    """(task, labels, start) -> seed -> run -> value in per cent."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in values("results_table.tsv"):
        per_cent = 1 if row["task"] == "squad1" else 100
        seeds = found[row["task"], row["labels"], row["start"]]
        seeds[row["seed"]][row["run"]] = per_cent * float(row["value"])
    return found


def shown(numbers):
    """As the tables have it."""
    mean, deviation = statistics.mean(numbers), statistics.stdev(numbers)
    return f"{mean:.1f} ± {deviation:.1f} ({len(numbers)})"


@pytest.mark.parametrize(
    "name, labels", [("all_labels", None), ("few_labels", 2)]
)
def test_results_are_means_of_their_values(results, name, labels):
    """Pretrained of the second run; random weights of the first that has it."""
    rows = table("ten_tasks", name)
    assert len(rows) >= 10
    for row in rows:
        count = "all" if labels is None else row[labels].replace(",", "")
        tuned = results[row[0], count, "pretrained"].values()
        assert row[3] == shown([runs["2"] for runs in tuned]), row
        random = results[row[0], count, "random"].values()
        assert row[4] == shown([runs[min(runs)] for runs in random]), row


@pytest.fixture(scope="module")
def five_seeds():
    """(task, labels, start) -> rate -> values in per cent, by seed."""
    found = collections.defaultdict(lambda: collections.defaultdict(list))
    for row in values("results_five_seeds.tsv"):
        value = 100 * float(row["value"])
        key = row["task"], row["labels"], row["start"]
        found[key][row["rate"]].append(value)
    return found


STARTS = ("pretrained", "random")
SETS = ("trec", "ag", "sst-2", "imdb", "sts-b", "cola")


def test_five_seeds_are_means_of_their_values(five_seeds):
    """At the rate that is best for the start."""
    rows = table("ten_tasks", "five_seeds")
    for row, task in zip(rows, SETS, strict=True):
        assert row[0].lower().split()[0] == task
        rates = (row[1].split(", ") * 2)[:2]
        for start, rate in zip(STARTS, rates, strict=True):
            by_rate = five_seeds[task, "all", start]
            means = {k: statistics.mean(v) for k, v in by_rate.items()}
            assert max(means, key=means.get) == rate, (task, start)
        both = [
            five_seeds[task, "all", start][rate]
            for start, rate in zip(STARTS, rates, strict=True)
        ]
        assert row[2:4] == [shown(numbers) for numbers in both]
        assert all(len(numbers) == 5 for numbers in both)
        gain = statistics.mean(both[0]) - statistics.mean(both[1])
        error = sum(statistics.variance(x) / len(x) for x in both) ** 0.5
        assert row[4] == f"{gain:+.1f} ± {error:.1f}"


def test_rates_of_starts_are_means_of_their_values(five_seeds):
    rows = table("ten_tasks", "start_rates")
    searched = [
        (task, start)
        for task in SETS
        for start in STARTS
        if len(five_seeds[task, "all", start]) > 1
    ]
    for row, (task, start) in zip(rows, searched, strict=True):
        assert (row[0].lower().split()[0], row[1]) == (task, start)
        by_rate = five_seeds[task, "all", start]
        assert row[2:] == [shown(by_rate[rate]) for rate in ("3e-4", "1e-3")]


@pytest.mark.parametrize(
    "file,name,column",
    [
        ("results_tunings.tsv", "tunings", "tuning"),
        ("results_night.tsv", "night", "labels"),
        ("results_reviews.tsv", "reviews", "pretraining"),
        ("results_continued.tsv", "continued", "labels"),
    ],
)
def test_gains_paired_by_seed_are_means_of_their_values(file, name, column):
    found = collections.defaultdict(dict)
    for row in values(file):
        key = row["task"], row[column], row["start"]
        found[key][row["seed"]] = 100 * float(row["value"])
    rows = table("ten_tasks", name)
    assert len(rows) * 2 == len(found)
    for row in rows:
        pretrained, random = (
            found[row[0].lower(), row[1], start] for start in STARTS
        )
        numbers = [shown(list(x.values())) for x in (pretrained, random)]
        assert row[2:4] == numbers
        gains = [pretrained[seed] - random[seed] for seed in random]
        error = statistics.stdev(gains) / len(gains) ** 0.5
        assert row[4] == f"{statistics.mean(gains):+.1f} ± {error:.1f}"


def test_few_labels_are_means_of_their_values(five_seeds):
    rows = table("ten_tasks", "five_seeds_few")
    assert len(rows) == 2 * 3
    for k, row in enumerate(rows):
        task, start = SETS[k // 2], STARTS[k % 2]
        assert (row[0].lower().split()[0], row[1]) == (task, start)
        by_rate = five_seeds[task, "200", start]
        assert row[2:4] == [shown(by_rate[rate]) for rate in ("3e-4", "1e-3")]
        if start == "random":
            assert row[4:] == ["", ""]
            continue
        ours, theirs = (five_seeds[task, "200", s]["3e-4"] for s in STARTS)
        gains = [a - b for a, b in zip(ours, theirs, strict=True)]
        apart = sum(statistics.variance(x) / 5 for x in (ours, theirs)) ** 0.5
        together = (statistics.variance(gains) / 5) ** 0.5
        assert row[4] == f"{statistics.mean(gains):+.1f} ± {apart:.1f}"
        assert row[5] == f"± {together:.1f}"


def test_released_weights_are_means_of_their_values(results):
    """Beside the pretrained rows of the second run."""
    seeds = collections.defaultdict(list)
    with open(MEASURED / "released_table.tsv", encoding="utf-8") as f:
        lines = [line for line in f if not line.startswith("#")]
    for row in csv.DictReader(lines, delimiter="\t"):
        seeds[row["task"], row["labels"]].append(100 * float(row["value"]))
    rows = table("released_bert", "released")
    assert len(rows) == len(seeds) == 8
    for task, _, labels, released, ours in rows:
        assert released == shown(seeds[task, labels]), (task, labels)
        tuned = results[task, labels, "pretrained"].values()
        assert ours == shown([runs["2"] for runs in tuned]), (task, labels)


def test_the_plateau_is_that_of_all_seeds_of_the_study():
    found = collections.defaultdict(list)
    for row in values("plateau_table.tsv"):
        key = row["row"].split()[0]
        found[key, row["column"]].append(float(row["value"]))

    def spread(numbers, digits):
        text = f"{statistics.mean(numbers):.{digits}f}"
        if len(numbers) > 1:
            text += f" ± {statistics.stdev(numbers):.{digits}f}"
        return f"{text} ({len(numbers)})"

    rows = table("unigram_plateau", "plateau")
    assert len(rows) == len({key for key, _ in found}) >= 12
    for key, *_, step, left, gain in rows:
        assert step == spread(found[key, "step"], 0), key
        seeds = found[key, "left"]
        assert left == f"{sum(seeds):.0f} of {len(seeds)}", key
        assert gain == spread(found[key, "gain"], 2), key


def test_attacks_are_those_of_the_file():
    found = {(r["nice"], r["attack"]): r for r in values("attacks.tsv")}
    rows = table("robustness", "attacks")
    assert len(rows) > 10
    for name, *numbers in rows:
        own, same = found["10", name], found["0", name]
        ratios = ("p99_ms", "p99_by_quiet")
        assert numbers == [
            *(own[key] for key in ratios),
            *(same[key] for key in (*ratios, "p99_by_control")),
        ]


def test_losses_of_the_ablation_are_those_of_its_file():
    rows = table("ablation", "rows")
    losses = {}
    for r in values("ablation_table.tsv"):
        if r["column"] == "held-out loss":
            losses.setdefault(r["row"], []).append(float(r["value"]))
    assert {name: loss for name, loss, *_ in rows} == {
        name: f"{statistics.median(of):.2f}" for name, of in losses.items()
    }
    assert len(rows) == 8


def test_claims_of_the_ablation_are_those_of_its_file():
    places = {"out": "", "data": "", "text": ""}
    options = load(study_file.path_of("ablation"), places)
    path = MEASURED / "ablation_table.tsv"
    rows = study_figure.read_rows(str(path), options)
    compared = study_claims.compare(options, rows)
    tests = sum(c.tested for c in compared)
    found = {(c.more, c.less, c.column.name): c for c in compared if c.tested}
    count = 0
    for name in ("random", "claims"):
        block = blocks.read_file(MEASURED / "tables/ablation.tsv")[name]
        (_, *columns), *lines = block.rows
        for head, *cells in lines:
            more, less = (
                (head.split()[0], "0") if name == "random" else CLAIMED[head]
            )
            for column, cell in zip(columns, cells, strict=True):
                if not cell:
                    continue
                claim, count = found[more, less, column], count + 1
                digits = 3 if column == "common loss" else 1
                low, high = study_claims.interval(claim.differences)
                mean = statistics.fmean(claim.differences)
                text = f"{mean:+.{digits}f} [{low:+.{digits}f}, {high:+.{digits}f}]"
                assert cell.startswith(text), (head, column)
                assert ("holds" in cell) == (claim.p < 0.05)
                if claim.p >= 0.05:
                    of = claim.differences
                    pairs = study_claims.pairs_needed(of, 0.05 / tests)
                    assert cell.endswith(f", {pairs or 'over 1,000'} seeds")
    assert count == tests
