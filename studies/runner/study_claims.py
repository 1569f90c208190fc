"""Claims of a study: what its seeds say of each, all tested together.

A claim is that one row is better than another in a column. Its number is the
mean of the differences, paired by the seed of pretraining; with few pairs a
bootstrap is too narrow, so that interval and p are Student's. A study has many
claims, and p is Holm's (1979): the chance that any true difference of 0 among
all of them is called decided stays below 5 %.
"""

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from studies.runner.jobs import NOT_RUN
from studies.runner.seed_table import Row, paired, same_rate
from studies.runner.study_file import Claim, ResultColumn, StudyOptions

LEVEL = 0.05
POWER = 0.8
MOST_PAIRS = 1000  # more seeds than anybody trains: the number is not searched


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Two rows in one column, as a claim names them.

    Attributes:
      column, more, less: the claim says that row `more` is the better one.
      differences: more less `less`, one per seed of pretraining.
      excluded: why both are not compared; "" = they are.
      p: two-sided, Holm's among all of the study; NaN with less than two pairs.
    """

    claim: Claim
    column: ResultColumn
    more: str
    less: str
    differences: tuple[float, ...]
    excluded: str = ""
    p: float = math.nan

    @property
    def tested(self) -> bool:
        """Whether there are pairs enough for a p of its own."""
        return not self.excluded and len(self.differences) > 1

    def line(self, tests: int) -> str:
        """Markdown: rows, mean, interval, p and the verdict.

        Args:
          tests: all comparisons of the study, for the number of seeds.
        """
        head = f"  - {self.column.name}, {self.more} less {self.less}: "
        if self.excluded:
            return head + self.excluded
        digits = self.column.digits
        text = f"{head}{np.mean(self.differences):+.{digits}f}"
        if not self.tested:
            return f"{text}, one pair of seeds"
        low, high = interval(self.differences)
        return (
            f"{text} [{low:+.{digits}f}, {high:+.{digits}f}], "
            f"{len(self.differences)} pairs, p = {self.p:.2g}: "
            f"{self._verdict(tests)}"
        )

    def _verdict(self, tests: int) -> str:
        if self.p < LEVEL:
            better = (np.mean(self.differences) > 0) == self.column.higher
            return "holds" if better else "contradicted"
        pairs = pairs_needed(self.differences, LEVEL / tests)
        if pairs is None:
            return f"not decided, nor by {MOST_PAIRS:,} seeds"
        return f"not decided; an effect of this size takes {pairs} seeds"


def interval(differences: Sequence[float]) -> tuple[float, float]:
    """Student's interval of 95 % around the mean of paired differences."""
    from scipy import stats

    mean, error = np.mean(differences), stats.sem(differences)
    half = stats.t.ppf(1 - LEVEL / 2, len(differences) - 1) * error
    return float(mean - half), float(mean + half)


def p_value(differences: Sequence[float]) -> float:
    """Two-sided, of Student's paired test; the sign test's of equal ones.

    Equal differences have no deviation: a metric that counts examples has few
    values, and two seeds soon agree.
    """
    from scipy import stats

    if np.ptp(differences) == 0:
        return _signs(len(differences)) if differences[0] else 1.0
    return float(stats.ttest_1samp(differences, 0).pvalue)


def _signs(pairs: int | np.ndarray) -> float | np.ndarray:
    """P of the sign test where all differences have one sign."""
    return 2.0 ** (1 - pairs)


def holm(p: Sequence[float]) -> list[float]:
    """Holm's step-down correction: sorted, times the number still open."""
    order = np.argsort(p, kind="stable")
    scaled = np.asarray(p)[order] * np.arange(len(p), 0, -1)
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(np.maximum.accumulate(scaled), 1.0)
    return corrected.tolist()


def pairs_needed(differences: Sequence[float], level: float) -> int | None:
    """Seeds with which this mean and deviation would be decided.

    The power of Student's paired test is that of the noncentral t.

    Args:
      level: of the test; one of m tests has 0.05 / m, Holm's hardest step.

    Returns:
      The fewest pairs with a power of 0.8; None = more than MOST_PAIRS.
    """
    from scipy import stats

    pairs = np.arange(2, MOST_PAIRS + 1)
    if np.ptp(differences) == 0:
        enough = _signs(pairs) < level
        return int(pairs[enough][0]) if differences[0] else None
    deviation = np.std(differences, ddof=1)
    edge = stats.t.ppf(1 - level / 2, pairs - 1)
    shift = abs(np.mean(differences)) / deviation * np.sqrt(pairs)
    # The other side adds less than level / 2 and is no finding.
    power = stats.nct.sf(edge, pairs - 1, shift)
    enough = np.flatnonzero(power >= POWER)
    return int(pairs[enough[0]]) if len(enough) else None


def compare(options: StudyOptions, rows: Sequence[Row]) -> list[Comparison]:
    """Every pair of rows of every claim and column, p corrected for all."""
    by_key = dict(zip([r.key for r in options.rows], rows, strict=True))
    columns = {c.name: c for c in options.columns}
    compared = [
        _comparison(claim, columns[name], by_key, more, less)
        for claim in options.claims
        for name in claim.columns
        for more in claim.more
        for less in claim.less
    ]
    tested = [c for c in compared if c.tested]
    p = iter(holm([p_value(c.differences) for c in tested]))
    return [
        dataclasses.replace(c, p=next(p)) if c.tested else c for c in compared
    ]


def _comparison(
    claim: Claim,
    column: ResultColumn,
    rows: dict[str, Row],
    more: str,
    less: str,
) -> Comparison:
    ours, theirs = paired(rows[more], rows[less], column.name)
    excluded = ""
    if not ours:
        excluded = _without_pairs(rows[more], rows[less], column.name)
    elif not same_rate(rows[more], rows[less]):
        excluded = "not compared, the rates of targets differ"
    differences = tuple(a - b for a, b in zip(ours, theirs, strict=True))
    return Comparison(claim, column, more, less, differences, excluded)


def _without_pairs(more: Row, less: Row, column: str) -> str:
    """Why two rows have no seed to be compared by."""
    for row in (more, less):
        error = row.errors.get(column, NOT_RUN)
        if not row.values.get(column):
            return error if error == NOT_RUN else f"failed: {error}"
    return "not compared, the rows have no seed in common"


def text(options: StudyOptions, rows: Sequence[Row]) -> str:
    """Markdown: each claim and a line for each of its comparisons."""
    compared = compare(options, rows)
    tests = sum(c.tested for c in compared)
    lines = []
    for claim in options.claims:
        lines.append(f"- {claim.text}\n")
        lines += [f"{c.line(tests)}\n" for c in compared if c.claim is claim]
    if tests:
        lines.append(
            f"\nMean of paired differences, Student's interval of 95 %; p is "
            f"Holm's of {tests} tests. Seeds: a power of {POWER:.0%} at the "
            "hardest of Holm's steps.\n"
        )
    return "".join(lines)
