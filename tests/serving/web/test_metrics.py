"""What is counted, and logs that nobody can flood."""

import logging
import types

import pytest

prometheus_client = pytest.importorskip("prometheus_client")

from serving.web import metrics  # noqa: E402


@pytest.fixture
def now(monkeypatch):
    """The time, which the test sets."""
    time = [50.0]
    clock = types.SimpleNamespace(monotonic=lambda: time[0])
    monkeypatch.setattr(metrics, "time", clock)
    return time


def shown(limit, text, *values):
    """The line as it is shown, or None."""
    record = logging.LogRecord("a", logging.INFO, "f", 1, text, values, None)
    return record.getMessage() if limit.filter(record) else None


def test_lines_above_the_rate_are_left_out_and_counted(now):
    limit = metrics.RateLimit(most=2, seconds=10.0)
    lines = [shown(limit, "line %d", n) for n in range(5)]
    assert lines == ["line 0", "line 1", None, None, None]
    now[0] = 59.9
    assert shown(limit, "line 5") is None
    now[0] = 60.0
    # A per cent sign of a value is none of the text's.
    assert shown(limit, "%s done", "50% d") == (
        "50% d done (4 more lines were left out before)"
    )
    assert shown(limit, "line 7") == "line 7"
    assert shown(limit, "line 8") is None
    now[0] += 60.0
    assert shown(limit, "a") == "a (1 more lines were left out before)"
    now[0] += 60.0
    assert shown(limit, "b") == "b"  # none was left out


def test_a_limit_is_of_one_logger(now):
    one, other = (metrics.RateLimit(most=1) for _ in "ab")
    assert [shown(one, "a"), shown(one, "a")] == ["a", None]
    assert shown(other, "a") == "a"


def test_every_application_counts_for_itself():
    one, other = metrics.Metrics(), metrics.Metrics()
    one.requests.labels("200").inc()
    one.rows.observe(3)
    value = one.registry.get_sample_value
    assert value("xlnet_requests_total", {"status": "200"}) == 1.0
    buckets = [
        value("xlnet_batch_rows_bucket", {"le": le}) for le in ("2.0", "4.0")
    ]
    assert buckets == [0.0, 1.0]
    text = prometheus_client.generate_latest(other.registry).decode()
    assert 'status="200"' not in text
    assert "xlnet_batch_rows_count 0.0" in text


def test_every_attribute_is_a_series_of_its_own():
    made = metrics.Metrics()
    series = {k: v for k, v in vars(made).items() if k != "registry"}
    known = {family.name for family in made.registry.collect()}
    assert len(known) == len(series) == 9
    assert all(name.startswith("xlnet_") for name in known)
