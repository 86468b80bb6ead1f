"""The metrics that every request counts in, each child looked up once.

A look-up by labels makes strings, takes a lock and asks two dictionaries; a request has three of them.
"""

import functools

from prometheus_client import Counter, Histogram

from memproxy.metrics import metrics


@functools.cache
def requests(route: str, status: int) -> Counter:
    """``memproxy_requests_total`` of this route and status."""
    return metrics().requests.labels(route, str(status))


@functools.cache
def overhead(route: str) -> Histogram:
    """``memproxy_request_overhead_seconds`` of this route."""
    return metrics().request_overhead.labels(route)


@functools.cache
def recalls(result: str, reason: str) -> Counter:
    """``memproxy_recall_total`` of this result and reason; both are words of ours."""
    return metrics().recall.labels(result, reason)
