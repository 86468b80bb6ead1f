"""How large an installation must be: ``python -m tests.bench.capacity``, for a thousand to a hundred million users.

The constants of a store are lines through what `tests.bench.stores` has measured (its output, ``--points``): bytes by
the memories that it holds, processor time of a recall by the memories of the user who asks. Each measured point is
predicted from the others first, and how far that misses is printed: what follows is no better. Then users with uneven
activity are spread over shards by hash, one by one, and the busiest shard's hour of most traffic is played through,
request by request. Nothing of a cluster runs here.
"""

import heapq
import json
import math
from pathlib import Path
from typing import Annotated

import msgspec
import numpy as np
import typer
from rich.console import Console
from rich.table import Table

from tests.bench.figures import percentile

MEASURED = Path(__file__).with_name("stores_measured.jsonl")
USERS = (1_000, 100_000, 1_000_000, 10_000_000, 100_000_000)

RELAY_MS = 2.8
"""Processor milliseconds of the relay for a request with memory (docs/lab/speed.md)."""

BEHIND_MS = 3.75
"""Of relay and engine for an exchange behind its answer, by words (docs/lab/speed.md)."""

EMBED_MS = 3.0
"""Of MiniLM for a short text: what a question's vector adds to a recall (docs/lab/speed.md)."""

STATE_BYTES = 2_500
"""On the state's disk for an exchange: its row, receipt, session and block."""

MEMORIES_EACH = 2.2
"""Memories that an exchange leaves: two turns, and a fact from every fifth."""

_CHUNK = 1_000_000
_PLAYED = 20_000
"""Requests of the hour of most traffic that are played through."""


class Measured(msgspec.Struct, frozen=True):
    """A line of `tests.bench.stores`; of the embedded store memory is this process's beyond what it had before."""

    store: str
    memories: int
    users: int
    cpu_ms: float
    ingest_cpu_ms: float
    disk_mb: float
    memory_mb: float
    memory_before_mb: float
    p95_ms: float
    server_cpu_ms: float | None = None
    server_ingest_cpu_ms: float | None = None

    @property
    def recall_ms(self) -> float:
        """Processor milliseconds of a recall, ours and the server's."""
        return self.cpu_ms + (self.server_cpu_ms or 0.0)

    @property
    def write_ms(self) -> float:
        """The same of a memory that is stored."""
        return self.ingest_cpu_ms + (self.server_ingest_cpu_ms or 0.0)


class Line(msgspec.Struct, frozen=True):
    """``at_none`` and ``each`` more for one more, never less than nothing."""

    at_none: float
    each: float

    @classmethod
    def through(cls, points: list[tuple[float, float]]) -> "Line":
        """The line that misses the points by the smallest share of them."""
        xs, ys = np.array([x for x, _ in points]), np.array([y for _, y in points])
        if len(points) == 1:
            return cls(0.0, float(ys[0] / xs[0]))
        weights = 1 / ys
        rows = np.stack([weights, xs * weights], axis=1)
        at_none, each = np.linalg.lstsq(rows, ys * weights, rcond=None)[0]
        return cls(float(at_none), float(each)) if each > 0 else cls(float(ys.mean()), 0.0)

    def at(self, number: float) -> float:
        return max(0.0, self.at_none + self.each * number)


class Model(msgspec.Struct, frozen=True):
    """What a store takes: megabytes by its memories, milliseconds of a recall by those of the user, of a memory."""

    disk_mb: Line
    memory_mb: Line
    recall_ms: Line
    write_ms: float

    @classmethod
    def of(cls, points: list[Measured]) -> "Model":
        return cls(
            disk_mb=Line.through([(one.memories, one.disk_mb) for one in points]),
            memory_mb=Line.through([(one.memories, max(1.0, one.memory_mb - one.memory_before_mb)) for one in points]),
            recall_ms=Line.through([(one.memories / one.users, one.recall_ms) for one in points]),
            write_ms=max(one.write_ms for one in points),
        )

    def missed(self, point: Measured) -> dict[str, float]:
        """What it says of a point, by what was measured there, less one."""
        return {
            "disk": self.disk_mb.at(point.memories) / point.disk_mb - 1,
            "memory": self.memory_mb.at(point.memories) / max(1.0, point.memory_mb - point.memory_before_mb) - 1,
            "recall": self.recall_ms.at(point.memories / point.users) / point.recall_ms - 1,
        }


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """How it is used, by users of whom some say far more than others."""

    exchanges: float
    """Of a user in a day, in the mean."""
    days: int
    """For so long memories are kept."""
    most: int
    """Memories of a user at most (``retention.max_per_user``)."""
    peak: float
    """The busiest hour by the mean."""
    hot: float
    """Share of the memories that has to be in main memory: of users who come back soon."""

    @property
    def memories(self) -> float:
        return min(self.most, self.exchanges * self.days * MEMORIES_EACH)


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """A machine of a shard, and what things cost in a month: assumptions, no offers."""

    cores: int
    memory_gb: int
    busy: float
    """Share of its cores that the busiest hour may take."""
    core_price: float
    memory_price: float
    disk_price: float


class Need(msgspec.Struct, frozen=True, kw_only=True):
    users: int
    requests: float
    """A second in the busiest hour."""
    memories: float
    disk_tb: float
    memory_tb: float
    cores: float
    request_ms: float
    """Processor milliseconds of an exchange, all of it."""
    shards: int
    bound_by: str
    price: float


def need(users: int, use: Use, model: Model, machine: Machine, replicas: int) -> Need:
    """On paper: shards of `Machine`, each with all of its users' memories and the engines that ask for them."""
    own, memories = use.memories, users * use.memories
    request_ms = RELAY_MS + BEHIND_MS + EMBED_MS * (1 + MEMORIES_EACH) + model.recall_ms.at(own)
    request_ms += MEMORIES_EACH * model.write_ms * replicas
    requests = users * use.exchanges / 86_400 * use.peak
    cores = requests * request_ms / 1000
    state_tb = users * use.exchanges * min(use.days, 30) * STATE_BYTES / 1e12
    disk_tb = replicas * (model.disk_mb.each * memories / 1e6 + state_tb)
    # what is in main memory is files, whoever keeps them there: a server's own memory is as large as it is set to be
    memory_tb = replicas * max(model.memory_mb.each, model.disk_mb.each) * memories * use.hot / 1e6
    by_cores = cores / machine.busy / machine.cores
    by_memory = memory_tb * 1000 / machine.memory_gb
    shards = max(1, math.ceil(max(by_cores, by_memory)))
    month = shards * (machine.cores * machine.core_price + machine.memory_gb * machine.memory_price)
    return Need(
        users=users,
        requests=requests,
        memories=memories,
        disk_tb=disk_tb,
        memory_tb=memory_tb,
        cores=cores,
        request_ms=request_ms,
        shards=shards,
        bound_by="cores" if by_cores >= by_memory else "memory",
        price=month + disk_tb * 1000 * machine.disk_price,
    )


class Played(msgspec.Struct, frozen=True):
    """The busiest shard: its load by the mean, the share of its cores that is busy, and what requests wait for them."""

    uneven: float
    busy: float
    wait_p95_ms: float


def play(needed: Need, machine: Machine, seed: int = 7) -> Played:
    """Spread every user over the shards by hash, and play the busiest one's hour of most traffic."""
    random = np.random.default_rng(seed)
    loads = np.zeros(needed.shards)
    for start in range(0, needed.users, _CHUNK):
        count = min(_CHUNK, needed.users - start)
        activity = random.lognormal(sigma=1.5, size=count)  # the busiest hundredth says a fifth
        numbers = np.arange(start, start + count, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        shards = ((numbers >> np.uint64(32)) % np.uint64(needed.shards)).astype(np.int64)
        loads += np.bincount(shards, activity, needed.shards)
    uneven = float(loads.max() / loads.mean())
    rate = needed.requests / needed.shards * uneven
    waits = _waits(rate, needed.request_ms / 1000, machine.cores, random)
    return Played(uneven, rate * needed.request_ms / 1000 / machine.cores, percentile(waits, 0.95) * 1000)


def _waits(rate: float, work_s: float, cores: int, random: np.random.Generator) -> list[float]:
    """Seconds that each of `_PLAYED` requests waits for a core; they come at random, and some take longer."""
    comes = np.cumsum(random.exponential(1 / rate, _PLAYED))
    takes = work_s * random.lognormal(mean=-0.125, sigma=0.5, size=_PLAYED)
    free, waits = [0.0] * cores, []
    for at, length in zip(comes.tolist(), takes.tolist(), strict=True):
        begins = max(at, heapq.heappop(free))
        heapq.heappush(free, begins + length)
        waits.append(begins - at)
    return waits


def read_points(path: Path) -> dict[str, list[Measured]]:
    """The measured points by store: of many users, since one who has all the memories is another case."""
    found: dict[str, list[Measured]] = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        if "memories" in fields and fields["users"] > 1:
            point = msgspec.convert(fields, Measured)
            found.setdefault(point.store, []).append(point)
    return found


def main(
    *,
    points: Annotated[Path, typer.Option(help="Output of tests.bench.stores.")] = MEASURED,
    store: Annotated[str | None, typer.Option(help="This one alone.")] = None,
    exchanges: Annotated[float, typer.Option(help="Of a user in a day.")] = 3.0,
    days: Annotated[int, typer.Option(help="So long memories are kept.")] = 365,
    most: Annotated[int, typer.Option(help="Memories of a user (retention.max_per_user).")] = 20_000,
    peak: Annotated[float, typer.Option(help="The busiest hour by the mean.")] = 3.0,
    hot: Annotated[float, typer.Option(help="Share of the memories that is to be in main memory.")] = 0.1,
    replicas: Annotated[int, typer.Option(min=1, help="Copies of each memory.")] = 2,
    cores: Annotated[int, typer.Option(help="Of a machine.")] = 16,
    memory_gb: Annotated[int, typer.Option(help="Of a machine.")] = 128,
    busy: Annotated[float, typer.Option(help="Share of its cores that may be busy.")] = 0.5,
    core_price: Annotated[float, typer.Option(help="A core in a month.")] = 15.0,
    memory_price: Annotated[float, typer.Option(help="A gigabyte of memory in a month.")] = 2.0,
    disk_price: Annotated[float, typer.Option(help="A gigabyte of disk in a month.")] = 0.1,
) -> None:
    """Say what an installation takes, and how well the model behind it agrees with what was measured."""
    console = Console(width=150)
    use = Use(exchanges=exchanges, days=days, most=most, peak=peak, hot=hot)
    machine = Machine(
        cores=cores,
        memory_gb=memory_gb,
        busy=busy,
        core_price=core_price,
        memory_price=memory_price,
        disk_price=disk_price,
    )
    for name, measured in read_points(points).items():
        if store not in {None, name}:
            continue
        title = f"{name}: each point predicted from the others, by what was measured"
        checked = Table("memories", "disk", "memory", "processor of a recall", title=title)
        for point in measured if len(measured) > 2 else ():
            missed = Model.of([one for one in measured if one is not point]).missed(point)
            checked.add_row(f"{point.memories:,}", *(f"{share:+.0%}" for share in missed.values()))
        console.print(checked)
        model = Model.of(measured)
        heads = ("users", "requests/s", "memories", "disk TB", "memory TB", "ms each", "cores", "shards", "by", "month")
        table = Table(*heads, "busiest", "busy", "wait p95", title=name)
        for users in USERS:
            one = need(users, use, model, machine, replicas)
            played = play(one, machine)
            table.add_row(
                f"{users:,}",
                f"{one.requests:,.1f}",
                f"{one.memories:.3g}",
                f"{one.disk_tb:,.3g}",
                f"{one.memory_tb:,.3g}",
                f"{one.request_ms:.1f}",
                f"{one.cores:,.1f}",
                f"{one.shards:,}",
                one.bound_by,
                f"{one.price:,.0f}",
                f"{played.uneven:.2f}",
                f"{played.busy:.0%}",
                f"{played.wait_p95_ms:.1f} ms",
            )
        console.print(table)


if __name__ == "__main__":
    typer.run(main)
