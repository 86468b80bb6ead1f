"""How much is measured: every count and time of a run."""

import msgspec


class Population(msgspec.Struct, frozen=True, kw_only=True):
    """Memories to search in: ``memories`` in all, spread evenly over ``users``."""

    memories: int
    users: int = 1


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One run's counts. Every measured slice ends by its count or its seconds, whichever comes first."""

    name: str
    bodies: tuple[int, ...] = (2_000, 200_000)
    """Sizes of request bodies, in bytes."""
    concurrencies: tuple[int, ...] = (1, 16, 64)
    streams: tuple[int, ...] = (1, 64)
    """Streams at once."""
    latency_rounds: int
    latency_requests: int
    """Requests of a slice at concurrency 1."""
    remembered_latency_requests: int
    """The same where memory is searched."""
    rate_rounds: int
    rate_seconds: float
    """Length of a slice at higher concurrencies."""
    remembered_requests: int
    """Most requests of such a slice when memory is searched, so that no question comes twice."""
    captured_requests: int
    """Most requests of a slice, at any concurrency up to that, when its exchanges are captured: they stay in the
    store, and the next slice waits until they are indexed."""
    stream_rounds: int
    streams_each: int
    """Streams of a slice, per connection."""
    populations: tuple[Population, ...]
    user_memories: int
    """Memories of the user whose chat requests are recalled for."""
    searches: int
    """Searches per population."""
    starts: int
    """Starts that nothing else is measured on, besides those of the proxies that are."""
    limit_s: float
    """The whole run is given up after this many seconds."""


QUICK = Plan(
    name="quick",
    latency_rounds=3,
    latency_requests=50,
    remembered_latency_requests=20,
    rate_rounds=1,
    rate_seconds=0.3,
    remembered_requests=100,
    captured_requests=6,
    stream_rounds=1,
    streams_each=1,
    populations=(Population(memories=1_000),),
    user_memories=1_000,
    searches=100,
    starts=1,
    limit_s=180,
)

STANDARD = Plan(
    name="standard",
    latency_rounds=6,
    latency_requests=100,
    remembered_latency_requests=30,
    rate_rounds=3,
    rate_seconds=0.5,
    remembered_requests=100,
    captured_requests=8,
    stream_rounds=3,
    streams_each=1,
    populations=(Population(memories=1_000), Population(memories=10_000)),
    user_memories=10_000,
    searches=400,
    starts=3,
    limit_s=600,
)

FULL = msgspec.structs.replace(
    STANDARD,
    name="full",
    latency_rounds=20,
    latency_requests=200,
    remembered_latency_requests=60,
    rate_rounds=5,
    rate_seconds=1.5,
    remembered_requests=1_000,
    captured_requests=50,
    stream_rounds=8,
    streams_each=2,
    populations=(*STANDARD.populations, Population(memories=100_000), Population(memories=100_000, users=1_000)),
    searches=1_000,
    starts=5,
    limit_s=3_600,
)


def scaled(plan: Plan, scale: float) -> Plan:
    """The plan with its counts and times multiplied by ``scale``; each stays at least large enough to give a figure.

    Below 1, fewer requests run at once too.
    """

    def count(number: int) -> int:
        return max(2, round(number * scale))

    def at_once(numbers: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(max(least, round(number * min(scale, 1))) for least, number in enumerate(numbers, 1))

    return msgspec.structs.replace(
        plan,
        concurrencies=at_once(plan.concurrencies),
        streams=at_once(plan.streams),
        latency_rounds=max(1, round(plan.latency_rounds * scale)),
        latency_requests=count(plan.latency_requests),
        remembered_latency_requests=count(plan.remembered_latency_requests),
        rate_rounds=max(1, round(plan.rate_rounds * scale)),
        rate_seconds=max(0.05, plan.rate_seconds * scale),
        remembered_requests=count(plan.remembered_requests),
        captured_requests=count(plan.captured_requests),
        stream_rounds=max(1, round(plan.stream_rounds * scale)),
        streams_each=max(1, round(plan.streams_each * scale)),
        populations=tuple(
            Population(memories=count(one.memories), users=min(one.users, count(one.memories)))
            for one in plan.populations
        ),
        user_memories=count(plan.user_memories),
        searches=count(plan.searches),
        starts=round(plan.starts * scale),
    )
