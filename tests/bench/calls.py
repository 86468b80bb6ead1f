"""Requests and streams: every target in every round, one after the other, compared with direct and bare."""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence

import msgspec

from tests.bench.figures import Row, Times, median, percentile
from tests.bench.jobs import Job, Result, chat_job
from tests.bench.machine import cpu_seconds
from tests.bench.plan import Plan
from tests.bench.stage import LoadClient
from tests.bench.targets import BARE, DIRECT, Kind, Target
from tests.bench.upstream import STREAM_CHUNKS, STREAM_GAP_S

SLICE_LIMIT_S = 20.0
"""A slice of a counted number of requests is over after this long, whatever has been answered."""

SMALL_BYTES = 10_000
"""Bodies up to this size are small."""

_WARMUP = 3
_MANY = 1_000_000


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What one table cell stands for."""

    kind: str
    body_bytes: int
    concurrency: int

    @property
    def stream(self) -> bool:
        return self.kind == "stream"


class Slice(msgspec.Struct, frozen=True, kw_only=True):
    """One target's turn in one round."""

    result: Result
    relay_cpu_s: float | None
    engine_cpu_s: float | None
    indexed_after_s: float | None
    recovered: bool


def situations(plan: Plan) -> list[Situation]:
    """All that a plan asks for, calls first."""
    calls = [
        Situation(kind="call", body_bytes=size, concurrency=concurrency)
        for size in plan.bodies
        for concurrency in plan.concurrencies
    ]
    streams = [Situation(kind="stream", body_bytes=plan.bodies[0], concurrency=number) for number in plan.streams]
    return [*calls, *streams]


def rounds(plan: Plan, situation: Situation) -> int:
    """How often each target has its turn."""
    if situation.stream:
        return plan.stream_rounds
    return plan.latency_rounds if situation.concurrency == 1 else plan.rate_rounds


def takes_part(kind: Kind, situation: Situation) -> bool:
    """Whether it is measured there. Exchanges of large bodies are captured one at a time only, to save time."""
    if situation.stream:
        return kind.streams
    return not kind.captures or situation.concurrency == 1 or situation.body_bytes <= SMALL_BYTES


def steps(plan: Plan, kinds: Sequence[Kind]) -> int:
    return sum(
        rounds(plan, situation) * sum(takes_part(kind, situation) for kind in kinds) for situation in situations(plan)
    )


async def measure(
    client: LoadClient, plan: Plan, situation: Situation, targets: Sequence[Target], step: Callable[[str], None]
) -> list[Row]:
    """All rounds of one situation; ``step`` is called before each slice with what comes."""
    slices: defaultdict[str, list[Slice]] = defaultdict(list)
    targets = [target for target in targets if takes_part(target.kind, situation)]
    for number in range(rounds(plan, situation)):
        # Each round begins with another target, so that none always follows the same one.
        first = number % len(targets)
        for target in [*targets[first:], *targets[:first]]:
            step(f"{_words(situation)}: {target.name}")
            slices[target.name].append(await _slice(client, plan, situation, target))
    rows = [_row(situation, target.kind, slices[target.name], slices[DIRECT.name]) for target in targets]
    return _compared(rows)


def _words(situation: Situation) -> str:
    what = "streams" if situation.stream else f"{situation.body_bytes // 1000} KB"
    return f"{what} at {situation.concurrency}"


async def _slice(client: LoadClient, plan: Plan, situation: Situation, target: Target) -> Slice:
    job = _job(plan, situation, target)
    engine_pids = target.instance.engine_pids if target.instance is not None else []
    recovered = True
    if target.instance is not None and target.kind.remembers:
        recovered = await target.instance.recovered(target.user)
    before = cpu_seconds(target.relay_pids), cpu_seconds(engine_pids)
    result = await client.run(job)
    after = cpu_seconds(target.relay_pids), cpu_seconds(engine_pids)
    settled = None
    if target.instance is not None and target.kind.captures:
        settled = await target.instance.settle(target.user)
    return Slice(
        result=result,
        relay_cpu_s=_difference(before[0], after[0]),
        engine_cpu_s=_difference(before[1], after[1]),
        indexed_after_s=settled,
        recovered=recovered,
    )


def _difference(before: float | None, after: float | None) -> float | None:
    return None if before is None or after is None else after - before


def _job(plan: Plan, situation: Situation, target: Target) -> Job:
    count, seconds = _bounds(plan, situation, target)
    warmup = 1 if situation.stream else _WARMUP
    # Where memory is searched each request has a question of its own; elsewhere a few will do.
    different = count + warmup * situation.concurrency if target.kind.remembers else 20
    return chat_job(
        target.port,
        target.take(different),
        target.headers,
        body_bytes=situation.body_bytes,
        stream=situation.stream,
        # What is not measured is not captured either.
        warmup_headers={"x-memproxy-memory": "read"} if target.kind.captures else {},
        concurrency=situation.concurrency,
        warmup=warmup,
        count=count,
        seconds=seconds,
        stagger_s=STREAM_CHUNKS * STREAM_GAP_S / situation.concurrency if situation.stream else 0.0,
    )


def _bounds(plan: Plan, situation: Situation, target: Target) -> tuple[int, float]:
    """Most requests and longest time of a slice."""
    if situation.stream:
        return plan.streams_each * situation.concurrency, SLICE_LIMIT_S
    if target.kind.captures:
        return max(plan.captured_requests, situation.concurrency), SLICE_LIMIT_S
    if situation.concurrency == 1:
        return plan.remembered_latency_requests if target.kind.remembers else plan.latency_requests, SLICE_LIMIT_S
    if target.kind.remembers:
        return max(plan.remembered_requests, situation.concurrency), SLICE_LIMIT_S
    return _MANY, plan.rate_seconds


def _row(situation: Situation, kind: Kind, slices: Sequence[Slice], direct: Sequence[Slice]) -> Row:
    results = [each.result for each in slices]
    total = [value for result in results for value in result.total_ms]
    first = [value for result in results for value in result.first_ms]
    added = [
        percentile(_judged(situation, ours.result), 0.5) - percentile(_judged(situation, theirs.result), 0.5)
        for ours, theirs in zip(slices, direct, strict=True)
    ]
    tails = [
        percentile([value for each in side for value in _judged(situation, each.result)], 0.99)
        for side in (slices, direct)
    ]
    units = sum(result.pieces if situation.stream else result.answered for result in results)
    outcomes = _shares(results)
    settled = [each.indexed_after_s for each in slices if each.indexed_after_s is not None]
    return Row(
        kind=situation.kind,
        target=kind.name,
        body_bytes=situation.body_bytes,
        concurrency=situation.concurrency,
        total=Times.of(total),
        first_byte=Times.of(first),
        added_p50_ms=round(median(added), 3),
        added_p50_range_ms=(round(min(added), 3), round(max(added), 3)),
        added_p99_ms=round(tails[0] - tails[1], 3),
        per_second=round(median([len(one.total_ms) / one.elapsed_s for one in results if one.elapsed_s]), 1),
        relay_cpu_us=_per_unit([each.relay_cpu_s for each in slices], units) if kind is not DIRECT else None,
        engine_cpu_us=_per_unit([each.engine_cpu_s for each in slices], units),
        outcomes=outcomes,
        expected=outcomes.get(kind.expected, 0.0) if kind.expected is not None else None,
        stages_p50_ms=_stages(results),
        indexed_after_s=round(median(settled), 3) if settled else None,
        begun_degraded=sum(not each.recovered for each in slices),
        errors=dict(sum((Counter(result.errors) for result in results), Counter())),
    )


def _judged(situation: Situation, result: Result) -> list[float]:
    """What a user waits for: of a call the whole answer, of a stream its beginning."""
    return result.first_ms if situation.stream else result.total_ms


def _per_unit(seconds: Sequence[float | None], units: int) -> float | None:
    known = [each for each in seconds if each is not None]
    return round(sum(known) / units * 1e6, 1) if known and units else None


def _shares(results: Sequence[Result]) -> dict[str, float]:
    counts: Counter[str] = sum((Counter(result.outcomes) for result in results), Counter())
    return {name: round(count / counts.total(), 4) for name, count in counts.most_common()}


def _stages(results: Sequence[Result]) -> dict[str, float]:
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for result in results:
        for name, values in result.stages.items():
            stages[name] += values
    return {name: round(percentile(values, 0.5), 3) for name, values in stages.items()}


def _compared(rows: list[Row]) -> list[Row]:
    """The rows with their ratios to the bare relay's."""
    bare = next(row for row in rows if row.target == BARE.name)
    for row in rows:
        if row.target == DIRECT.name:
            continue
        row.ratio_added_p50 = _ratio(row.added_p50_ms, bare.added_p50_ms)
        row.ratio_per_second = _ratio(row.per_second, bare.per_second)
        row.ratio_cpu = _ratio(row.relay_cpu_us, bare.relay_cpu_us)
    return rows


def _ratio(ours: float | None, theirs: float | None) -> float | None:
    """None where it would say nothing: no figure, or a yardstick that noise made zero."""
    return round(ours / theirs, 3) if ours is not None and theirs is not None and theirs > 0 else None
