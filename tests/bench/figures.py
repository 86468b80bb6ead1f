"""The figures of a run: what the JSON file holds. Times are in milliseconds unless a name says otherwise."""

import math
import statistics
from collections.abc import Sequence

import msgspec

from tests.bench.instance import Residence, Starting
from tests.bench.machine import Machine

FORMAT = 1
"""The number of the JSON file's format; another one when a name changes its meaning."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest of the values that at least ``share`` of them do not exceed (nearest rank); 0 of none."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)] if ordered else 0.0


def median(values: Sequence[float]) -> float:
    """The median; 0 of none."""
    return statistics.median(values) if values else 0.0


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """A distribution: its median, its tail, and how many were measured."""

    count: int
    p50_ms: float
    p95_ms: float
    p99_ms: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Times":
        """The distribution of these milliseconds."""
        p50, p95, p99 = (round(percentile(values, share), 3) for share in (0.5, 0.95, 0.99))
        return cls(count=len(values), p50_ms=p50, p95_ms=p95, p99_ms=p99)


class Row(msgspec.Struct, kw_only=True):
    """One target in one situation.

    ``added_p50_ms`` is the difference to a direct call, of the medians of each round, and of these the median; the
    range is from the least to the greatest of them. ``added_p99_ms`` is the difference over all rounds. For streams
    both are those of the first byte. ``per_second`` is the median over the rounds. ``ratio_*`` is the figure divided
    by the bare relay's.
    """

    kind: str
    """``call`` or ``stream``."""
    target: str
    body_bytes: int
    concurrency: int
    total: Times
    first_byte: Times
    added_p50_ms: float
    added_p50_range_ms: tuple[float, float]
    added_p99_ms: float
    per_second: float
    relay_cpu_us: float | None
    """Processor time of the relay, in microseconds: per request, or per part of a stream."""
    engine_cpu_us: float | None
    ratio_added_p50: float | None = None
    ratio_per_second: float | None = None
    ratio_cpu: float | None = None
    outcomes: dict[str, float]
    """Share of each value of ``X-Memproxy-Recall``."""
    expected: float | None
    """Share of the value that the target stands for; the figures of other requests are those of another target."""
    stages_p50_ms: dict[str, float]
    """From ``Server-Timing``."""
    indexed_after_s: float | None = None
    """How long after a slice the last captured exchange was indexed (median)."""
    begun_degraded: int = 0
    """Rounds that began although no request was recalled for any more, however long that was waited for."""
    errors: dict[str, int]


class RecallRow(msgspec.Struct, frozen=True, kw_only=True):
    """Searches among so many memories, through the proxy, one at a time."""

    memories: int
    users: int
    embedder: str
    search: Times
    errors: dict[str, int]
    ingest_seconds: float
    turns_per_second: float
    """Verbatim turns put in by calls of 100, each answered when its turns can be found."""
    residence: Residence
    """After the searches."""


class MemoryUse(msgspec.Struct, frozen=True, kw_only=True):
    """Resident memory of one proxy at its start, and at the end of the run after so many requests."""

    instance: str
    at_start: Residence
    at_end: Residence
    requests: int


class Report(msgspec.Struct, kw_only=True):
    format: int = FORMAT
    plan: str
    machine: Machine
    warnings: list[str]
    seconds: float
    starts: list[Starting]
    calls: list[Row]
    streams: list[Row]
    recall: list[RecallRow]
    memory_use: list[MemoryUse]
