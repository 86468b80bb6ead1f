"""The memory API: how fast memories go in, and how fast they are found again among so many."""

from collections.abc import Callable
from itertools import islice

from tests.bench import payloads
from tests.bench.figures import RecallRow, Times
from tests.bench.instance import Instance
from tests.bench.jobs import Job
from tests.bench.plan import Population
from tests.bench.stage import LoadClient

SEARCH_LIMIT_S = 60.0
"""Searches in one population are over after this long, whatever has been answered."""

ASKED_USERS = 20
"""Most users of a population whose memories are searched; the others are there to be in the way."""

_PARTS = 10
STEPS = _PARTS + 1
"""How often `measure_population` calls ``step``."""

_WARMUP = 5


async def measure_population(
    client: LoadClient,
    instance: Instance,
    population: Population,
    *,
    user: str,
    embedder: str,
    searches: int,
    step: Callable[[str], None],
) -> RecallRow:
    """Put the memories in, then search them. With one user, they are ``user``'s; else numbered users'."""
    words = f"{population.memories:,} memories ({embedder})"
    names = [user if population.users == 1 else f"{user}-{number}" for number in range(population.users)]
    each = population.memories // population.users
    seconds = 0.0
    for share in _shares(len(names) * each, population.users, each):
        step(f"putting in {words}")
        for number, first, count in share:
            seconds += await instance.ingest(names[number], first, count)
    step(f"searching {words}")
    times, errors = await _search(client, instance, names[:ASKED_USERS], each, searches)
    return RecallRow(
        memories=each * population.users,
        users=population.users,
        embedder=embedder,
        search=Times.of(times),
        errors=errors,
        ingest_seconds=round(seconds, 2),
        turns_per_second=round(each * population.users / seconds, 1),
        residence=instance.residence(),
    )


def _shares(total: int, users: int, each: int) -> list[list[tuple[int, int, int]]]:
    """All (user, first, count) in `_PARTS` portions of about one size, so that progress can be told."""
    size = -(-total // _PARTS)
    pieces: list[list[tuple[int, int, int]]] = []
    for part in range(_PARTS):
        start, end = part * size, min((part + 1) * size, total)
        portion = []
        while start < end:
            user, first = divmod(start, each)
            count = min(each - first, end - start)
            portion.append((min(user, users - 1), first, count))
            start += count
        pieces.append(portion)
    return pieces


async def _search(
    client: LoadClient, instance: Instance, users: list[str], each: int, searches: int
) -> tuple[list[float], dict[str, int]]:
    prefix, suffix = payloads.search_template()
    times: list[float] = []
    errors: dict[str, int] = {}
    numbers = payloads.numbers(each // 2, each)
    for user in users:
        share = -(-searches // len(users))
        result = await client.run(
            Job(
                port=instance.port,
                path="/v1/memory/search",
                prefix=prefix,
                suffix=suffix,
                questions=[payloads.question(number) for number in islice(numbers, share + _WARMUP)],
                headers={"authorization": f"Bearer {payloads.KEY}", "x-memproxy-user": user},
                warmup=_WARMUP,
                count=share,
                seconds=SEARCH_LIMIT_S / len(users),
            )
        )
        times += result.total_ms
        errors = {name: errors.get(name, 0) + result.errors.get(name, 0) for name in {*errors, *result.errors}}
    return times, errors
