"""The local server: requests, batching, metrics, one page."""
