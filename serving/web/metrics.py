"""Prometheus series of the server, and logs that cannot be flooded."""

import logging
import threading
import time

import prometheus_client


class Metrics:
    """Series of one application."""

    def __init__(self):
        self.registry = prometheus_client.CollectorRegistry()
        self.requests = self._counter(
            "xlnet_requests", "Predict requests by status.", ["status"]
        )
        self.disconnects = self._counter(
            "xlnet_disconnects", "Clients that left before their answer."
        )
        self.keys = self._counter(
            "xlnet_key_requests", "Calls by the name of their key.", ["key"]
        )
        self.unauthorized = self._counter(
            "xlnet_unauthorized", "Calls without a known key."
        )
        self.connections_refused = self._counter(
            "xlnet_connections_refused", "Connections there was no room for."
        )
        self.too_often = self._counter(
            "xlnet_requests_refused",
            "Requests of addresses that asked too often.",
        )
        self.seconds = prometheus_client.Histogram(
            "xlnet_request_seconds",
            "Time from a request's arrival to its answer.",
            registry=self.registry,
        )
        self.rows = prometheus_client.Histogram(
            "xlnet_batch_rows",
            "Rows that ran together.",
            buckets=(1, 2, 4, 8, 16, 32, 64, 128),
            registry=self.registry,
        )
        self.waiting = prometheus_client.Gauge(
            "xlnet_waiting_rows", "Rows in the queue.", registry=self.registry
        )

    def _counter(self, name: str, text: str, labels=()):
        return prometheus_client.Counter(
            name, text, labels, registry=self.registry
        )


class RateLimit(logging.Filter):
    """Lets `most` records pass in `seconds`, then counts what it leaves out."""

    def __init__(self, most: int = 5, seconds: float = 10.0):
        super().__init__()
        self._most = most
        self._seconds = seconds
        self._lock = threading.Lock()
        self._begin = -seconds
        self._passed = self._left_out = 0

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether `record` is shown; says how many were not."""
        with self._lock:
            now = time.monotonic()
            if now - self._begin >= self._seconds:
                if self._left_out:
                    record.msg = (
                        f"{record.getMessage()} ({self._left_out} more lines "
                        "were left out before)"
                    )
                    record.args = ()
                self._begin, self._passed, self._left_out = now, 0, 0
            self._passed += 1
            if self._passed <= self._most:
                return True
            self._left_out += 1
            return False
