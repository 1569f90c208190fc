"""The table of a ranking run, its tests, files and figures."""

import dataclasses
import os
from collections.abc import Callable

import numpy as np

from common import figures, files
from data.finetuning.ranking import metrics, runs
from data.finetuning.ranking.collection import Collection
from data.finetuning.ranking.metrics import Result
from training.finetuning.ranking.folded import System
from training.finetuning.ranking.kernel_features import BINS, Features

MASS_LIMIT = 0.9


def file_name(name: str) -> str:
    """A system's name in file names."""
    return "".join(c if c.isalnum() else "_" for c in name).strip("_")


def write_runs(folder: str, name: str, system: System) -> None:
    """`NAME.run`, or `NAME.seedS.run` and `NAME.seedS.foldF.run`.

    Those of an earlier run with more seeds or folds are removed.
    """
    files.make_directory(folder)
    base = os.path.join(folder, file_name(name))
    if not system.parts:
        runs.write(f"{base}.run", system.runs[0], file_name(name))
        return
    there = files.beginning_with(f"{base}.seed")
    written = set()
    for seed, run in enumerate(system.runs):
        of_seed = {f"{base}.seed{seed}.run": run} | {
            f"{base}.seed{seed}.fold{fold}.run": part[seed]
            for fold, part in enumerate(system.parts)
        }
        for path, rows in of_seed.items():
            runs.write(path, rows, file_name(name))
        written |= set(of_seed)
    for path in there:
        if path.endswith(".run") and path not in written:
            files.remove(path)


class Evaluation:
    """Judges systems on the same queries."""

    def __init__(self, collection: Collection, queries: list[str], seed: int):
        self.collection, self.seed = collection, seed
        self.qrels = {q: collection.qrels[q] for q in queries}
        self.results: dict[str, list[Result]] = {}

    def add(self, name: str, system: System) -> None:
        """Evaluates a system."""
        options = self.collection.options
        self.results[name] = [
            metrics.evaluate(
                self.qrels,
                run,
                options.cutoff,
                options.err_max_grade,
                options.trec_measures,
            )
            for run in system.runs
        ]

    def mean_result(self, name: str) -> Result:
        """Per-query values averaged over the seeds."""
        results = self.results[name]
        first = results[0]
        per_query = {
            q: {
                m: float(np.mean([r.per_query[q][m] for r in results]))
                for m in first.names
            }
            for q in first.per_query
        }
        return dataclasses.replace(first, per_query=per_query)

    def rows(self) -> dict[str, dict[str, dict[str, float]]]:
        """System -> measure -> mean, median, sd, min, max, seeds, queries."""
        summary: dict = {}
        for name, results in self.results.items():
            of_system = summary.setdefault(name, {})
            for measure in results[0].names:
                means = [r.mean(measure) for r in results]
                values = np.array([m.value for m in means])
                of_system[measure] = {
                    "mean": float(values.mean()),
                    "median": float(np.median(values)),
                    "sd": float(values.std(ddof=1)) if len(values) > 1 else 0.0,
                    "min": float(values.min()),
                    "max": float(values.max()),
                    "seeds": len(values),
                    "queries": means[0].queries,
                }
        return summary

    def differences(self, bases: list[str]) -> list[dict]:
        """Each system against each base, by the paired randomisation test."""
        measure = metrics.ndcg_name(self.collection.options.cutoff)
        rows, compared = [], set()
        for base in bases:
            other = self.mean_result(base)
            queries = other.queries("gdeval")
            theirs = [other.per_query[q][measure] for q in queries]
            for name in self.results:
                if name in (base, "oracle") or (base, name) in compared:
                    continue
                compared.add((name, base))
                per_query = self.mean_result(name).per_query
                test = metrics.compare(
                    [per_query[q][measure] for q in queries], theirs, self.seed
                )
                rows.append(
                    {"system": name, "base": base, "measure": measure}
                    | dataclasses.asdict(test)
                )
        return rows

    def report(
        self, folder: str, bases: list[str], say: Callable[[str], None]
    ) -> dict:
        """Prints the table and the tests and writes both; the content."""
        rows, tests = self.rows(), self.differences(bases)
        grade = self.collection.options.err_max_grade
        for line in (*table_lines(rows), "", *test_lines(tests)):
            say(line)
        say(
            f"ERR with highest grade {grade}; means over the queries that have "
            "candidates and (gdeval) a relevant document"
        )
        content = {
            "systems": rows,
            "differences": tests,
            "err_max_grade": grade,
            "queries": list(self.qrels),
        }
        files.write_json(os.path.join(folder, "results.json"), content)
        table = metrics.per_query_table(
            {name: self.mean_result(name) for name in self.results}
        )
        files.write_text(os.path.join(folder, "per_query.tsv"), table)
        return content


def table_lines(rows: dict) -> list[str]:
    """The table as Markdown: mean (and sd over seeds) of each measure."""
    measures = list(next(iter(rows.values())))
    lines = [
        "| system | " + " | ".join(measures) + " | queries | seeds |",
        "|---" * (len(measures) + 3) + "|",
    ]
    for name, values in rows.items():
        cells = []
        for measure in measures:
            cell = values[measure]
            text = f"{cell['mean']:.4f}"
            if cell["seeds"] > 1:
                text += f" ± {cell['sd']:.4f}"
            cells.append(text)
        counts = dict.fromkeys(values[m]["queries"] for m in measures)
        queries = "/".join(map(str, counts))
        seeds = values[measures[0]]["seeds"]
        cells += [queries, str(seeds)]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def test_lines(tests: list[dict]) -> list[str]:
    """Each difference with its interval and p."""
    return [
        f"{t['system']} - {t['base']}: {t['mean']:+.4f} "
        f"[{t['low']:+.4f}, {t['high']:+.4f}], p = {t['p']:.4f} "
        f"({t['queries']} queries, {t['measure']})"
        for t in tests
    ]


# --- What the kernels saw ------------------------------------------------------

_BARS = " .:-=+*#%@"


def kernel_lines(features: Features, mu: tuple[float, ...]) -> list[str]:
    """Histograms of cosines, firing rates, mass; a warning where one has all."""
    statistics = features.statistics
    shares, rates = statistics.mass_shares(), statistics.firing_rates()
    lines = ["kernels      " + " ".join(f"{m:6.2f}" for m in mu)]
    for i, layer in enumerate(features.layers):
        counts = statistics.histogram[i]
        top = max(counts.max(), 1.0)
        bars = "".join(
            _BARS[int(np.ceil(c / top * (len(_BARS) - 1)))] for c in counts
        )
        lines.append(f"layer {layer:2d} cosines -1 |{bars}| 1")
        for name, values in (("fires", rates[i]), ("mass", shares[i])):
            lines.append(
                f"  {name:10s} " + " ".join(f"{v:6.1%}" for v in values)
            )
        if shares[i].max() > MASS_LIMIT:
            lines.append(
                f"warning: layer {layer}: the kernel at "
                f"{mu[int(shares[i].argmax())]:.2f} holds "
                f"{shares[i].max():.0%} of the soft term frequencies: its "
                "vectors can hardly be distinguished; try --center or another "
                "--layer"
            )
    return lines


def draw_kernels(path: str, features: Features, mu: tuple[float, ...]) -> None:
    """A PNG: per layer the histogram of cosines and the firing rates."""
    count = len(features.layers)
    figure, axes = figures.new(count, 2, figsize=(9, 1.8 * count + 0.6))
    edges = np.linspace(-1, 1, BINS + 1)
    rates = features.statistics.firing_rates()
    shares = features.statistics.mass_shares()
    for i, layer in enumerate(features.layers):
        counts = features.statistics.histogram[i]
        left, right = axes[i]
        left.stairs(counts / max(counts.sum(), 1), edges, fill=True)
        left.set_ylabel(f"layer {layer}")
        left.set_xlim(-1, 1)
        places = np.arange(len(mu))
        right.bar(places - 0.2, rates[i], 0.4, label="fires")
        right.bar(places + 0.2, shares[i], 0.4, label="share of mass")
        right.set_xticks(places, [f"{m:.1f}" for m in mu])
        right.set_ylim(0, 1)
    axes[0][0].set_title("cosines of query and document pieces")
    axes[0][1].set_title("kernels by centre")
    axes[0][1].legend()
    with files.atomic_open(path) as f:
        figure.savefig(f, format="png", dpi=100, metadata={"Software": None})
