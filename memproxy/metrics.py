"""Every metric of memproxy, in one place. No label ever holds a user, a tenant or message text.

Both processes write into one directory (`PROMETHEUS_MULTIPROC_DIR`, set by the supervisor before they start), so one
scrape of any relay shows all of them, also when the engine is down.
"""

import functools
import os
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import prometheus_client as prometheus
from prometheus_client import multiprocess, values
from prometheus_client.registry import Collector

FAST_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.25, 0.5, 1, 2.5)
SLOW_BUCKETS = (0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
COUNT_BUCKETS = (0, 1, 2, 3, 5, 8, 12, 20, 50)
TOKEN_BUCKETS = (0, 50, 100, 200, 300, 450, 600, 900, 1500, 3000)

RELAY, ENGINE, STATE = "relay", "engine", "state"

Rows = tuple[tuple[str, ...], ...]
"""Label values of one counter, in the order of its labels."""


def _each(*words: str) -> Rows:
    """Rows of a counter with one label."""
    return tuple((word,) for word in words)


def _pairs(table: Mapping[str, str]) -> Rows:
    """Rows of a counter with two labels: each value of the first with those of the second, which stand as words."""
    return tuple((first, second) for first, words in table.items() for second in words.split(" "))


_SHOWN = " memories fact session_total"
_ARMS = ("memory", "holdout")
_KINDS = "input output cached"
"""Reasons beside a recall that found something, or nothing; the empty word is the usual one."""

_OF_TASKS = {
    RELAY: "experiment relay relay.notices relay.unwritten relay.aside relay.journal auth state redis",
    ENGINE: "experiment engine engine.receipts engine.backup engine.reindex embedder store.flags store.index "
    "retention.accesses retention.erasing retention.pruning worker rows dreams questions state mcp hot redis",
    STATE: "state",
}
"""Owners of background tasks (`tasks.TaskOwner`), whose failures count under the owner's name."""

_ERRORS = {
    RELAY: "relay.blocks relay.blocks_late relay.capture relay.captured relay.choices relay.decide relay.full "
    "relay.inject relay.journal_late relay.limits relay.made relay.position relay.read relay.sessions "
    "relay.conversation relay.replay relay.tap relay.tools state.sealed",
    ENGINE: "engine.api engine.audit engine.close models.quantise models.reranker learn.turns learn.learn learn.index "
    "learn.triggers learn.vectors learn.recover learn.settle learn.plan learn.outage learn.model_outage learn.judge "
    "learn.deletion learn.dream recall.rewrite recall.rerank recall.own_words recall.tokens store.payload "
    "store.rebuild store.sealed state.sealed state.taken_over",
    STATE: "state.sealed",
}
"""Where else failures are counted, by the process."""

KNOWN: dict[str, dict[str, Rows]] = {
    "requests": {RELAY: _pairs(dict.fromkeys(("chat", "responses", "relayed", "memory"), "200 499 500 502 503 504"))},
    "recall": {
        RELAY: _pairs(
            {
                "injected": _SHOWN,
                "shadow": f"{_SHOWN} holdout",
                "empty": " memories",
                "off": " settings write",
                "skipped": "no_identity no_user user_not_allowed unusable_user memories no_user_message control "
                "housekeeping unreadable turns_per_minute greeting smalltalk tool fact empty",
                "degraded": "timeout busy engine loading store cache state upstream_rejected internal",
            }
        )
    },
    "queries": {ENGINE: _each("yes", "off", "loading", "unavailable", "timeout", "unread")},
    "upstream_tokens": {RELAY: _pairs(dict.fromkeys(("injected", "none"), _KINDS))},
    "tool_calls": {
        RELAY: _pairs(
            dict.fromkeys(
                (
                    *("save_memory", "search_memory", "delete_memory", "list_memory_categories"),
                    *("save_to_working_memory", "get_from_working_memory", "list_working_memory"),
                    "search_working_memory",
                ),
                "done refused unavailable",
            )
        )
    },
    "control": {RELAY: _each("about", "forget", "unremember", "stop", "start")},
    "experiment_tokens": {RELAY: _pairs(dict.fromkeys(_ARMS, _KINDS))},
    "experiment_feedback": {ENGINE: _pairs(dict.fromkeys(_ARMS, "helpful wrong correction followup"))},
    "turns_lost": dict.fromkeys((RELAY, ENGINE, STATE), _each("journal", "refused")),
    "capture_skipped": {RELAY: _each("memory", "internal", "encoding", "incomplete", "background", "empty")},
    "learn_failures": {ENGINE: _each("store", "key", "model", "tokens", "refused", "failed", "fault")},
    "memories_written": {
        ENGINE: _each("turn", "add", "update", "duplicate", "coexist", "retract", "nothing", "change", "delete")
    },
    "dreams": {ENGINE: _each("done", "failed")},
    "dream_changes": {
        ENGINE: _each(
            "merge", "supersede", "end", "delete", "categorise", "infer", "avoid", "reflect", "conflict", "refused"
        )
    },
    "memories_pruned": {ENGINE: _each("expired", "limit")},
    "candidates_rejected": {
        ENGINE: _each(
            *("unparsable", "empty", "instructions", "markup", "request", "source", "evidence", "ungrounded", "echo"),
            *("pleasantry", "question", "other", "forgotten", "trust", "unknown", "summary"),
        )
    },
    "extractions_skipped": {ENGINE: _each("idle")},
    "model_answers_cut": {ENGINE: _each("extract", "judge", "rewrite", "rerank")},
    "model_tokens": {
        ENGINE: _pairs(
            dict.fromkeys(
                ("compress", "embed", "extract", "judge", "rerank", "rewrite", "summary", "dream"), "input output"
            )
        )
    },
    "store_searches": {ENGINE: _each("index", "engine")},
    "limits_reached": {
        RELAY: _pairs(dict.fromkeys(("chat_per_minute", "turns_per_minute", "memories"), "tenant user")),
        ENGINE: (
            *_pairs(dict.fromkeys(("turns_per_minute", "model_tokens_per_hour", "memories"), "tenant user")),
            ("model_tokens_per_day", "tenant"),
        ),
    },
    "cache_failures": dict.fromkeys((RELAY, ENGINE), _each("timeout", "away", "refused", "memory")),
    "trace_spans": dict.fromkeys((RELAY, ENGINE), _each("sent", "failed", "dropped")),
    "receipts_dropped": {RELAY: _each("relay"), ENGINE: _each("full", "state")},
    "internal_errors": {
        RELAY: _each("relay process", *_ERRORS[RELAY].split(), *_OF_TASKS[RELAY].split()),
        ENGINE: _each("engine process", "state calls", *_ERRORS[ENGINE].split(), *_OF_TASKS[ENGINE].split()),
        STATE: _each("state engines", "state writer", *_ERRORS[STATE].split(), *_OF_TASKS[STATE].split()),
    },
}
"""The label values of counters that are known words, by the process that counts them; a test compares the code."""


gauge = partial(prometheus.Gauge, multiprocess_mode="mostrecent")


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
        self.queries = counter(
            "memproxy_queries",
            "Queries of recall and search, by whether they had a vector: yes; off (no model is configured); or why "
            "they went by words alone.",
            ["vector"],
        )
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
        self.upstream_tokens = counter(
            "memproxy_upstream_tokens",
            "Tokens as the upstream counts them, by whether memory was injected; cached ones are part of the input.",
            ["memory", "kind"],
        )
        self.tool_calls = counter(
            "memproxy_tool_calls", "Calls of memory tools by the models of chat requests.", ["tool", "result"]
        )
        self.control = counter("memproxy_control", "Messages to memory that were answered in the chat.", ["command"])
        self.experiment_seconds = histogram(
            "memproxy_experiment_seconds",
            "From a request to the end of its answer, by arm of the experiment (experiment.holdout).",
            ["arm"],
            buckets=SLOW_BUCKETS,
        )
        self.experiment_tokens = counter(
            "memproxy_experiment_tokens",
            "Tokens as the upstream counts them, by arm of the experiment.",
            ["arm", "kind"],
        )
        self.experiment_feedback = counter(
            "memproxy_experiment_feedback",
            "What users said of memories, by arm of the experiment; followup: a correction in the chat.",
            ["arm", "signal"],
        )
        self.turns_captured = counter("memproxy_turns_captured", "Verbatim turns written to the journal.")
        self.turns_lost = counter(
            "memproxy_turns_lost", "Turns whose answer went out although the journal failed.", ["reason"]
        )
        self.capture_skipped = counter("memproxy_capture_skipped", "Answers that were not captured.", ["reason"])
        self.learn_jobs = gauge("memproxy_learn_jobs", "Journal rows by lane and state.", ["lane", "state"])
        self.learn_seconds = histogram("memproxy_learn_seconds", "Time of one learning job.", buckets=SLOW_BUCKETS)
        self.memories_written = counter("memproxy_memories_written", "Memories written.", ["operation"])
        self.memories_pruned = counter("memproxy_memories_pruned", "Memories erased by retention.", ["reason"])
        self.dreams = counter("memproxy_dreams", "Dreams that ended.", ["result"])
        self.dream_changes = counter("memproxy_dream_changes", "What dreams did to memories.", ["action"])
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
        self.learn_model_outages = gauge(
            "memproxy_learn_model_outages",
            "Models, or accounts at one, that learning waits for: they do not answer just now.",
        )
        self.learn_key_waits = gauge(
            "memproxy_learn_key_waits", "Tenants whose learning waits for a key that its model takes."
        )
        self.learn_oldest = gauge(
            "memproxy_learn_oldest_seconds",
            "Age of the oldest journal row of a lane that is not done and not parked; 0 without one.",
            ["lane"],
        )
        self.learn_failures = counter(
            "memproxy_learn_failures",
            "Tries of journal rows that did not succeed: for want of the store, a key, a model or tokens; refused for "
            "good; failed otherwise (answers that cannot be read); by a fault of ours.",
            ["reason"],
        )
        self.model_tokens = counter("memproxy_model_tokens", "Tokens of our own model calls.", ["source", "direction"])
        self.store_seconds = histogram(
            "memproxy_store_seconds", "Time of one store operation.", ["operation"], buckets=FAST_BUCKETS
        )
        self.store_points = gauge("memproxy_store_points", "Points in the store.")
        self.store_searches = counter(
            "memproxy_store_searches",
            "Searches of the memory store, by whether an index in memory or the engine answered.",
            ["answered_by"],
        )
        self.store_index_bytes = gauge(
            "memproxy_store_index_bytes", "About what the indexes in memory of users searched lately take."
        )
        self.store_index_owners = gauge("memproxy_store_index_owners", "Users who have an index in memory.")
        self.cache_failures = counter(
            "memproxy_cache_failures", "Calls of Redis (cache.backend: redis) that it did not do.", ["reason"]
        )
        self.limits_reached = counter(
            "memproxy_limits_reached",
            "Requests and calls over a limit: refused, or done without memory.",
            ["limit", "of"],
        )
        self.receipts_dropped = counter(
            "memproxy_receipts_dropped", "Receipts that were not written; the requests are not concerned.", ["reason"]
        )
        self.trace_spans = counter(
            "memproxy_trace_spans",
            "Spans (telemetry.traces): sent; failed, where the collector did not take them; dropped, where too many "
            "waited to be sent.",
            ["result"],
        )
        self.internal_errors = counter(
            "memproxy_internal_errors", "Failures that were caught so that requests go on.", ["where"]
        )
        self.process_restarts = counter("memproxy_process_restarts", "Processes started again.", ["process"])
        self.build_info = prometheus.Gauge(
            "memproxy_build_info", "Always 1; the version is a label.", ["version"], multiprocess_mode="max"
        )
        self.part_state = gauge(
            "memproxy_part_state",
            "The parts that /readyz names, at the time of the scrape: 1 for the state that a part is in, 0 for others.",
            ["part", "state"],
        )
        self.disk_free = gauge(
            "memproxy_disk_free_bytes",
            "Room on the disk of the home folder, and of the embedded store and the state where they are elsewhere.",
            ["place"],
        )

    def begin_at_zero(self, process: str) -> None:
        """Make the children of every counter that this process (``relay``, ``engine``, ``state``) counts in and whose
        label values are known words: a counter that appears with its first event has no increase, and an alert on it
        would wait for the second.
        """
        for name, rows in KNOWN.items():
            for row in rows.get(process, ()):
                getattr(self, name).labels(*row)
        self.process_restarts.labels(process)


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


@functools.cache
def child(metric: prometheus.Counter | prometheus.Histogram, *labels: str) -> Any:
    """The child of a metric with these label values: to look it up in each request would take a lock each time."""
    return metric.labels(*labels)


class _AllProcesses(Collector):
    """The metrics of all processes, and those without a sample yet: dashboards find every metric from the start."""

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
