"""Every metric of memproxy, in one place (CONTRACT section 8). No label ever holds a user, a tenant or message text.

Both processes write into one directory (`PROMETHEUS_MULTIPROC_DIR`, set by the supervisor before they start), so one
scrape of any relay shows all of them, also when the engine is down.
"""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import prometheus_client as prometheus
from prometheus_client import multiprocess, values
from prometheus_client.registry import Collector

FAST_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
SLOW_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
COUNT_BUCKETS = (0, 1, 2, 3, 5, 8, 12, 20, 50)
TOKEN_BUCKETS = (0, 50, 100, 200, 300, 450, 600, 900, 1500, 3000)


class Metrics:
    """The metric objects of this process."""

    def __init__(self) -> None:
        counter, histogram = prometheus.Counter, prometheus.Histogram
        self.requests = counter("memproxy_requests", "Requests answered.", ["route", "status"])
        self.request_overhead = histogram(
            "memproxy_request_overhead_seconds",
            "Our own part of a request, upstream time excluded.",
            ["route"],
            buckets=FAST_BUCKETS,
        )
        self.recall = counter("memproxy_recall", "Recall decisions on chat requests.", ["result", "reason"])
        self.recall_stage = histogram(
            "memproxy_recall_stage_seconds", "Time of one stage of recall.", ["stage"], buckets=FAST_BUCKETS
        )
        self.injected_memories = histogram(
            "memproxy_injected_memories", "Memories in an injected block.", buckets=COUNT_BUCKETS
        )
        self.injected_tokens = histogram(
            "memproxy_injected_tokens", "Tokens of an injected block.", buckets=TOKEN_BUCKETS
        )
        self.upstream = histogram(
            "memproxy_upstream_seconds", "From sending to the upstream to the end of its answer.", buckets=SLOW_BUCKETS
        )
        self.upstream_cached_tokens = counter(
            "memproxy_upstream_cached_tokens", "Prompt tokens that the upstream says it had cached."
        )
        self.turns_captured = counter("memproxy_turns_captured", "Verbatim turns written to the journal.")
        self.turns_lost = counter(
            "memproxy_turns_lost", "Turns whose answer went out although the journal failed.", ["reason"]
        )
        self.capture_skipped = counter("memproxy_capture_skipped", "Answers that were not captured.", ["reason"])
        self.learn_jobs = prometheus.Gauge(
            "memproxy_learn_jobs", "Journal rows by lane and state.", ["lane", "state"], multiprocess_mode="mostrecent"
        )
        self.learn_seconds = histogram("memproxy_learn_seconds", "Time of one learning job.", buckets=SLOW_BUCKETS)
        self.memories_written = counter("memproxy_memories_written", "Memories written.", ["operation"])
        self.memories_pruned = counter("memproxy_memories_pruned", "Memories erased by retention.", ["reason"])
        self.accesses_dropped = counter(
            "memproxy_accesses_dropped", "Retrievals that were not counted, because too many waited to be."
        )
        self.erasure_seconds = histogram(
            "memproxy_erasure_seconds", "Time to drop deleted text from the files.", buckets=SLOW_BUCKETS
        )
        self.candidates_rejected = counter(
            "memproxy_candidates_rejected", "Extracted candidates that were not stored.", ["reason"]
        )
        self.extractions_skipped = counter(
            "memproxy_extractions_skipped", "Parts of conversations that no model was asked about.", ["reason"]
        )
        self.model_answers_cut = counter(
            "memproxy_model_answers_cut", "Answers of models that ended at the token limit of their role.", ["source"]
        )
        self.learn_budget_waits = counter(
            "memproxy_learn_budget_waits", "Times that learning had to wait for its tenant's next hour of model tokens."
        )
        self.learn_model_outages = prometheus.Gauge(
            "memproxy_learn_model_outages",
            "Models, or accounts at one, that learning waits for: they do not answer just now.",
            multiprocess_mode="mostrecent",
        )
        self.model_tokens = counter("memproxy_model_tokens", "Tokens of our own model calls.", ["source", "direction"])
        self.store_seconds = histogram(
            "memproxy_store_seconds", "Time of one store operation.", ["operation"], buckets=FAST_BUCKETS
        )
        self.store_points = prometheus.Gauge(
            "memproxy_store_points", "Points in the store.", multiprocess_mode="mostrecent"
        )
        self.store_searches = counter(
            "memproxy_store_searches",
            "Searches of the memory store, by whether an index in memory or the engine answered.",
            ["answered_by"],
        )
        self.store_index_bytes = prometheus.Gauge(
            "memproxy_store_index_bytes",
            "About what the indexes in memory of users searched lately take.",
            multiprocess_mode="mostrecent",
        )
        self.store_index_owners = prometheus.Gauge(
            "memproxy_store_index_owners", "Users who have an index in memory.", multiprocess_mode="mostrecent"
        )
        self.limits_reached = counter(
            "memproxy_limits_reached",
            "Requests and calls over a limit: refused, or done without memory.",
            ["limit", "of"],
        )
        self.receipts_dropped = counter(
            "memproxy_receipts_dropped", "Receipts that were not written; the requests are not concerned.", ["reason"]
        )
        self.internal_errors = counter(
            "memproxy_internal_errors", "Failures that were caught so that requests go on.", ["where"]
        )
        self.process_restarts = counter("memproxy_process_restarts", "Processes started again.", ["process"])
        self.build_info = prometheus.Gauge(
            "memproxy_build_info", "Always 1; the version is a label.", ["version"], multiprocess_mode="max"
        )


def count_as(process: str) -> None:
    """Count in the files of this process (a name without ``_``), on from where its predecessor's end left them: a
    counter never falls, and processes that die again and again leave no files behind. Before `metrics`.
    """
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        values.ValueClass = values.MultiProcessValue(lambda: process)  # type: ignore[no-untyped-call]


@functools.cache
def metrics() -> Metrics:
    """This process's metrics, made at first use."""
    return Metrics()


class _AllProcesses(Collector):
    """What the processes counted, and the names of what none has counted yet: whoever writes a dashboard or an alert
    finds every metric from the start.
    """

    def collect(self) -> Iterator[prometheus.Metric]:
        """All families, those without a sample last."""
        found: set[str] = set()
        if folder := os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
            # something that tidies up may have taken it away
            Path(folder).mkdir(mode=0o700, parents=True, exist_ok=True)
        for family in multiprocess.MultiProcessCollector(None).collect():  # type: ignore[no-untyped-call]
            found.add(family.name)
            yield family
        for metric in vars(metrics()).values():
            yield from (family for family in metric.describe() if family.name not in found)


def render() -> bytes:
    """The Prometheus text of all processes."""
    registry = prometheus.CollectorRegistry(auto_describe=False)
    registry.register(_AllProcesses())
    return prometheus.generate_latest(registry)
