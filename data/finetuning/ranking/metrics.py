"""NDCG and ERR as gdeval computes them, and trec_eval's measures.

Both order by score, equal scores by document id, descending. gdeval's gain is
2^g - 1, trec_eval's g. They also average over other queries, so every mean
here says over how many:

| convention | queries of the mean |
|---|---|
| `gdeval` | of the run, with a relevant document |
| `gdeval -c` | all with a relevant document; 0 where the run has none |
| `trec_eval` | judged and in the run |
| `judged` | all judged; 0 where the run has none |

ERR: Chapelle et al. 2009; r = (2^g - 1) / 2^G with G = 4, fixed in gdeval.
"""

import dataclasses
import re
from collections.abc import Sequence

import numpy as np

from common.errors import UserError
from data.finetuning.ranking import lines, runs
from data.finetuning.ranking.judgments import Qrels
from data.finetuning.ranking.runs import Run

MAX_GRADE = 4
# Values of queries that are swapped at a time: SciPy keeps 60 bytes for each.
_SWAPPED = 1 << 20
TREC_MEASURES = ("ndcg_cut_20", "map", "recip_rank", "P_20", "recall_100")
# What trec_eval averages over queries. Of gm_map it has another mean, num_rel
# and its like are sums, and runid is a text.
_WHOLE = (
    *("map", "ndcg", "ndcg_rel", "Rndcg", "G", "binG", "recip_rank", "Rprec"),
    *("bpref", "infAP", "11pt_avg", "utility", "set_P", "set_relative_P"),
    *("set_recall", "set_map", "set_F"),
)
# With a cut-off: documents from 1 on, or a share. trec_eval writes two digits
# of it, and ends the process at documents 0.
_CUT = re.compile(
    r"(P|recall|success|relative_P|map_cut|ndcg_cut)_[1-9][0-9]{0,17}"
    r"|iprec_at_recall_(0\.[0-9]{2}|1\.00)|Rprec_mult_[0-9]\.[0-9]{2}"
)


@dataclasses.dataclass(frozen=True)
class Mean:
    """A mean and the number of queries that it is over."""

    value: float
    queries: int


@dataclasses.dataclass(frozen=True)
class Result:
    """Measures of a run."""

    # measures, gdeval's first: "NDCG@20 (gdeval)", "ERR@20 (gdeval)", "map
    # (trec_eval)", ...
    names: tuple[str, ...]
    # query -> measure -> value; every judged query is there, with 0 where the
    # run does not have it
    per_query: dict[str, dict[str, float]]
    in_run: frozenset[str]  # judged queries that the run has
    relevant: frozenset[str]  # judged queries with a relevant document

    def queries(self, convention: str) -> list[str]:
        """The queries that a convention averages over, in qrels' order."""
        chosen = {
            "gdeval": self.in_run & self.relevant,
            "gdeval -c": self.relevant,
            "trec_eval": self.in_run,
            "judged": frozenset(self.per_query),
        }[convention]
        return [q for q in self.per_query if q in chosen]

    def mean(self, name: str, convention: str | None = None) -> Mean:
        """The mean of a measure; default: by the tool that it is named after.

        Raises UserError: no query to average over.
        """
        if convention is None:
            convention = "trec_eval" if "(trec_eval)" in name else "gdeval"
        queries = self.queries(convention)
        if not queries:
            raise UserError(
                "no query of the run has a relevant document: check that run, "
                "topics and judgements use the same query ids"
            )
        values = [self.per_query[q][name] for q in queries]
        return Mean(sum(values) / len(values), len(queries))


def ndcg_name(depth: int) -> str:
    """The name of gdeval's NDCG."""
    return f"NDCG@{depth} (gdeval)"


def err_name(depth: int) -> str:
    """The name of gdeval's ERR."""
    return f"ERR@{depth} (gdeval)"


def check_grades(qrels: Qrels, max_grade: int = MAX_GRADE) -> None:
    """Raises UserError with a grade above `max_grade`: gdeval refuses it."""
    for query, judged in qrels.items():
        for document, grade in judged.items():
            if grade > max_grade:
                raise UserError(
                    f"query {query!r}, document {document!r} has grade "
                    f"{grade}: gdeval takes at most {max_grade}; map the "
                    "grades, or give --err_max_grade"
                )


def err(grades: list[int], depth: int, max_grade: int = MAX_GRADE) -> float:
    """Expected reciprocal rank of grades in ranked order; <= 0 counts as 0."""
    total, unsatisfied = 0.0, 1.0
    for rank, grade in enumerate(grades[:depth], start=1):
        stops = (2.0 ** max(grade, 0) - 1.0) / 2.0**max_grade
        total += unsatisfied * stops / rank
        unsatisfied *= 1.0 - stops
    return total


def ndcg(qrels: Qrels, run: Run, depth: int) -> dict[str, float]:
    """gdeval's NDCG of the queries that are judged and in the run.

    trec_eval's with the gains 2^g - 1: the same to the last bit.
    """
    gains = {
        query: {d: 2 ** max(g, 0) - 1 for d, g in judged.items()}
        for query, judged in qrels.items()
    }
    # trec_eval reads scores in single precision, where two may become equal;
    # places in the order do not.
    places = {
        query: {d: -i for i, d in enumerate(runs.ordered(scores))}
        for query, scores in run.items()
    }
    measure = f"ndcg_cut_{depth}"
    per_query = trec_eval(gains, places, (measure,))
    return {query: values[measure] for query, values in per_query.items()}


def trec_eval(
    qrels: Qrels, run: Run, measures: tuple[str, ...] = TREC_MEASURES
) -> dict[str, dict[str, float]]:
    """Query -> measure -> value, by trec_eval itself.

    Its names of measures, cut-offs after the last "_". Raises UserError: a
    measure that it does not have; the package is missing.
    """
    tool = lines.package("pytrec_eval")
    # All grades below 0 are "in the pool, not judged" to it. Where a query has
    # none above -2, as TREC's web tracks grade junk, it ends the process.
    evaluator = tool.RelevanceEvaluator(
        {
            q: {d: max(-1, int(g)) for d, g in j.items()}
            for q, j in qrels.items()
        },
        {_family(name) for name in measures},
    )
    values = evaluator.evaluate(
        {q: {d: float(s) for d, s in r.items()} for q, r in run.items()}
    )
    return {
        query: {name: of_query[name] for name in measures}
        for query, of_query in values.items()
    }


def _family(name: str) -> str:
    """`ndcg_cut_20` as the library wants it: `ndcg_cut.20`."""
    if _CUT.fullmatch(name):
        return ".".join(name.rsplit("_", 1))
    if name in _WHOLE:
        return name
    raise UserError(
        f"--trec_measures: wanted measures that trec_eval averages over "
        f"queries, found {name!r}; there are {', '.join(_WHOLE)}, and with a "
        "cut-off P_20, recall_100, success_5, relative_P_20, map_cut_20, "
        "ndcg_cut_20, iprec_at_recall_0.10, Rprec_mult_1.20"
    )


def evaluate(
    qrels: Qrels,
    run: Run,
    depth: int = 20,
    max_grade: int = MAX_GRADE,
    measures: tuple[str, ...] = TREC_MEASURES,
) -> Result:
    """All measures of a run, gdeval's at a cut-off of `depth`.

    `max_grade` is G of ERR. Raises UserError: a grade above it, an unknown
    measure.
    """
    check_grades(qrels, max_grade)
    gains = ndcg(qrels, run, depth)
    theirs = trec_eval(qrels, run, measures)
    names = (
        ndcg_name(depth),
        err_name(depth),
        *(f"{name} (trec_eval)" for name in measures),
    )
    per_query = {}
    for query, judged in qrels.items():
        if query not in gains:
            per_query[query] = dict.fromkeys(names, 0.0)
            continue
        grades = [judged.get(d, 0) for d in runs.ordered(run[query])]
        values = (gains[query], err(grades, depth, max_grade))
        values += tuple(theirs[query][name] for name in measures)
        per_query[query] = dict(zip(names, values, strict=True))
    relevant = {q for q, j in qrels.items() if max(j.values()) > 0}
    return Result(names, per_query, frozenset(gains), frozenset(relevant))


def oracle(qrels: Qrels, run: Run) -> Run:
    """The run's documents in their best order: the bound of re-ranking it."""
    return {
        query: {d: float(qrels.get(query, {}).get(d, 0)) for d in scores}
        for query, scores in run.items()
    }


def per_query_table(results: dict[str, Result]) -> str:
    """A TSV: query, system, and one column per measure."""
    first = next(iter(results.values()))
    rows = ["\t".join(["query", "system", *first.names])]
    for query in first.per_query:
        for system, result in results.items():
            values = result.per_query[query]
            cells = [f"{values[name]:.6f}" for name in first.names]
            rows.append("\t".join([query, system, *cells]))
    return "\n".join(rows) + "\n"


@dataclasses.dataclass(frozen=True)
class Difference:
    """A paired difference of means."""

    mean: float  # of a - b over the queries
    low: float  # lower end of its 95 % bootstrap interval
    high: float  # upper end
    p: float  # two-sided, of the paired randomisation test
    queries: int


def compare(
    a: Sequence[float],
    b: Sequence[float],
    seed: int,
    resamples: int = 9999,
    bootstrap: int = 2000,
) -> Difference:
    """The paired randomisation test: each query's two values may be swapped.

    `resamples` swaps are drawn; with 2^n below that all are tried.
    """
    from scipy import stats

    difference = np.asarray(a, np.float64) - np.asarray(b, np.float64)
    if len(difference) < 2 or not difference.any():
        mean = float(difference.mean())
        return Difference(mean, mean, mean, 1.0, len(difference))
    test = stats.permutation_test(
        (difference,),
        np.mean,
        permutation_type="samples",
        n_resamples=resamples,
        batch=max(1, _SWAPPED // len(difference)),  # changes no number
        vectorized=True,
        axis=-1,
        rng=np.random.default_rng((seed, 0)),
    )
    rng = np.random.default_rng((seed, 1))
    drawn = rng.integers(0, len(difference), (bootstrap, len(difference)))
    low, high = np.percentile(difference[drawn].mean(1), [2.5, 97.5])
    return Difference(
        float(difference.mean()),
        float(low),
        float(high),
        float(test.pvalue),
        len(difference),
    )
