"""Claims of a study: Student's interval, Holm's correction, seeds needed."""

import math

import numpy as np
import pytest

from studies.runner import study_claims
from studies.runner.seed_table import Row
from studies.runner.study_file import Claim, ResultColumn
from tests.studies.toy_studies import report_options

NAMES = ("a base", "b near", "c far", "d alone")
COLUMNS = (
    ResultColumn("f1", digits=1),
    ResultColumn("loss", digits=2, higher=False),
)


def options_of(*claims):
    return report_options(NAMES, claims, COLUMNS)


def rows_of(**values):
    """The rows of NAMES; `b_f1=(1, 2)` are two seeds of row b."""
    rows = {name[0]: Row(name) for name in NAMES}
    for key, seeds in values.items():
        row, _, column = key.partition("_")
        rows[row].values[column] = {str(i): v for i, v in enumerate(seeds)}
    return list(rows.values())


def test_interval_and_p_are_those_of_the_tables_of_student():
    differences = (1.0, 2.0, 3.0, 4.0, 5.0)
    # t of 4 degrees of freedom at 97.5 % is 2.776; the error sqrt(2.5 / 5).
    half = 2.7764451 * math.sqrt(0.5)
    np.testing.assert_allclose(
        study_claims.interval(differences), (3 - half, 3 + half), rtol=1e-7
    )
    # t = 3 / sqrt(0.5); the distribution of four degrees of freedom is closed.
    t = 3 / math.sqrt(0.5)
    x = t / math.sqrt(t * t + 4)
    p = 1 - (1.5 * x - 0.5 * x**3)
    assert study_claims.p_value(differences) == pytest.approx(p, rel=1e-9)
    assert study_claims.p_value((-1.0, -2.0, -3.0, -4.0, -5.0)) == (
        pytest.approx(p, rel=1e-9)
    )


def test_equal_differences_have_the_p_of_the_sign_test():
    # All of n signs by chance, on either side: 2 / 2^n.
    assert study_claims.p_value((-0.5, -0.5)) == 0.5
    assert study_claims.p_value((-0.5, -0.5, -0.5)) == 0.25
    assert study_claims.p_value((0.5,) * 6) == 1 / 32 < study_claims.LEVEL
    assert study_claims.p_value((0.0, 0.0, 0.0)) == 1.0
    assert study_claims.pairs_needed((0.5, 0.5), 0.05) == 6
    assert study_claims.pairs_needed((0.5, 0.5), 0.01) == 8
    assert study_claims.pairs_needed((0.0, 0.0), 0.05) is None


def test_correction_of_holm():
    found = study_claims.holm([0.01, 0.04, 0.03, 0.005])
    np.testing.assert_allclose(found, [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(study_claims.holm([0.4, 0.9]), [0.8, 0.9])
    np.testing.assert_allclose(study_claims.holm([0.7, 0.6]), [1.0, 1.0])
    assert study_claims.holm([0.03]) == [0.03]
    assert study_claims.holm([]) == []


def with_effect(effect):
    """Differences of this mean, with a sample deviation of 1."""
    values = np.array([-1.0, 0.0, 1.0])
    return tuple(values + effect)


@pytest.mark.parametrize(
    "effect, level, pairs",
    # As the tables of Cohen (1988) and G*Power have them.
    [(0.5, 0.05, 34), (-0.5, 0.05, 34), (0.8, 0.05, 15), (0.5, 0.01, 51)],
)
def test_seeds_are_those_of_the_power_of_a_paired_test(effect, level, pairs):
    assert study_claims.pairs_needed(with_effect(effect), level) == pairs


def test_more_seeds_than_anybody_trains_are_none():
    assert study_claims.pairs_needed(with_effect(0.01), 0.05) is None
    assert study_claims.pairs_needed(with_effect(20.0), 0.05) == 2


def test_power_of_that_many_seeds_in_drawn_samples():
    """One seed less has less than 80 %, as many have it: by simulation."""
    from scipy import stats

    pairs = study_claims.pairs_needed(with_effect(1.2), 0.05)
    rng = np.random.default_rng(3)
    powers = []
    for n in (pairs - 1, pairs):
        drawn = rng.normal(1.2, 1.0, (40_000, n))
        powers.append(
            np.mean(stats.ttest_1samp(drawn, 0, axis=1).pvalue < 0.05)
        )
    assert powers[0] < 0.8 <= powers[1]


def test_claims_are_decided_together_and_each_column_has_its_better_side():
    claims = (
        Claim("far is better", ("c",), ("a",), ("f1", "loss")),
        Claim("near is better", ("b",), ("a",), ("f1", "loss")),
        Claim("alone is better", ("d",), ("a",), ("f1", "loss")),
    )
    rows = rows_of(
        a_f1=(1.0, 1.0, 1.0, 1.0),
        c_f1=(9.0, 9.1, 8.9, 9.0),
        b_f1=(2.0, 2.4, 2.3, 1.9),
        d_f1=(7.0,),
        a_loss=(5.0, 5.0, 5.0),
        c_loss=(8.0, 8.1, 7.9),
        b_loss=(4.0, 5.5, 5.1),
    )
    options = options_of(*claims)
    found = study_claims.compare(options, rows)
    assert [c.tested for c in found] == [True] * 4 + [False] * 2
    raw = [study_claims.p_value(c.differences) for c in found[:4]]
    np.testing.assert_allclose([c.p for c in found[:4]], study_claims.holm(raw))
    assert math.isnan(found[4].p)
    # Alone it would be decided, among four it is decided still: p is Holm's.
    assert found[2].p == pytest.approx(2 * raw[2])
    lines = study_claims.text(options, rows).splitlines()
    far_f1, far_loss = lines[1:3]
    assert far_f1.startswith(
        "  - f1, c less a: +8.0 [+7.9, +8.1], 4 pairs, p ="
    )
    assert far_f1.endswith("holds")
    assert far_loss.startswith("  - loss, c less a: +3.00 [")
    assert far_loss.endswith(
        "contradicted"
    )  # a loss is better where it is lower
    assert lines[4].endswith("holds")
    hardest = study_claims.pairs_needed(found[3].differences, 0.05 / 4)
    alone = study_claims.pairs_needed(found[3].differences, 0.05)
    assert lines[5].endswith(f"an effect of this size takes {hardest} seeds")
    assert alone < hardest
    assert lines[7] == "  - f1, d less a: +6.0, one pair of seeds"
    assert lines[8] == "  - loss, d less a: not run"
    assert "Holm's of 4 tests" in lines[-1]


def test_a_mean_near_zero_names_the_seeds_that_would_decide_it():
    claim = Claim("it helps", ("b",), ("a",), ("f1",))
    options = options_of(claim)
    rows = rows_of(a_f1=(0.0, 0.0, 0.0), b_f1=(-0.5, 0.5, 1.5))
    line = study_claims.text(options, rows).splitlines()[1]
    assert line.endswith("not decided; an effect of this size takes 34 seeds")
    rows = rows_of(a_f1=(0.0, 0.0), b_f1=(-1.0, 1.01))
    line = study_claims.text(options, rows).splitlines()[1]
    assert line.endswith("not decided, nor by 1,000 seeds")


def test_a_tuning_is_no_pair_of_its_own():
    """Two tunings of each pretraining are averaged before they are paired."""
    claim = Claim("it helps", ("b",), ("a",), ("f1",))
    a, b, *others = rows_of()
    a.values["f1"] = {"0.0": 1.0, "0.1": 3.0, "1.0": 1.0, "1.1": 1.0}
    b.values["f1"] = {"0.0": 4.0, "0.1": 4.0, "1.0": 2.0, "1.1": 5.0}
    (found,) = study_claims.compare(options_of(claim), [a, b, *others])
    assert found.differences == (2.0, 2.5)


def test_without_tests_nothing_is_said_of_them():
    assert study_claims.text(options_of(), rows_of()) == ""
    claim = Claim("it helps", ("b",), ("a",), ("f1",))
    assert study_claims.text(options_of(claim), rows_of()) == (
        "- it helps\n  - f1, b less a: not run\n"
    )


def test_rows_without_a_pair_say_why():
    """One has failed, or each has seeds that the other has not."""
    claim = Claim("it helps", ("b", "c"), ("a",), ("f1",))
    a, b, c, d = rows_of(a_f1=(1.0, 2.0))
    b.errors["f1"] = "b-0: no such objective"
    c.values["f1"] = {"0.0": 3.0, "1.0": 4.0}
    text = study_claims.text(options_of(claim), [a, b, c, d])
    assert text.splitlines()[1:] == [
        "  - f1, b less a: failed: b-0: no such objective",
        "  - f1, c less a: not compared, the rows have no seed in common",
    ]
