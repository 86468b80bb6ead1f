"""Two versions side by side: ``python -m tests.bench.versions --before FOLDER``.

A proxy of this code and one of another checkout (``git archive COMMIT | tar -x -C FOLDER``) get the same memories, and
are asked the same in turn, so that whatever else the machine does hits both. What is compared is the processor time per
request, of the relay and of the engine, and the median until an answer is complete: in each block of requests the two
are divided, and of these ratios the median is shown, with the share of blocks that were below 1.
"""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from memproxy.evals.output import progress
from tests.bench import payloads
from tests.bench.figures import median
from tests.bench.instance import Instance
from tests.bench.jobs import chat_job
from tests.bench.machine import Pinning
from tests.bench.stage import LoadClient, Stage, open_stage

BLOCK = 10
"""Requests of one version between two of the other."""

BLOCK_LIMIT_S = 30.0
USER = "benchmark"
BODIES = (2_000, 200_000)
MODES = ("off", "read", "on")
SAME = 4
"""Questions that are repeated with a model: their vectors come from the cache."""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How one version did in one block: milliseconds until answered (median), and processor time per request in µs."""

    p50_ms: float
    relay_us: float
    engine_us: float


class Compared(msgspec.Struct, frozen=True, kw_only=True):
    """One figure of both versions: their medians over all blocks, the median of the blocks' ratios (after by before),
    and the share of blocks in which it was less after than before.
    """

    before: float
    after: float
    ratio: float
    less: float

    @classmethod
    def of(cls, before: Sequence[float], after: Sequence[float]) -> "Compared":
        """The figures of the blocks, in their order."""
        ratios = [new / old for old, new in zip(before, after, strict=True) if old > 0]
        less = sum(ratio < 1 for ratio in ratios) / max(1, len(ratios))
        return cls(before=median(before), after=median(after), ratio=median(ratios), less=less)


class VersionsRow(msgspec.Struct, frozen=True, kw_only=True):
    """Both versions with bodies of this size, in this mode; ``errors`` of both together."""

    body_bytes: int
    mode: str
    blocks: int
    p50_ms: Compared
    relay_us: Compared
    engine_us: Compared
    outcomes: dict[str, int]
    errors: dict[str, int]


class Versions:
    """The two, and what they are asked."""

    def __init__(self, client: LoadClient, before: Instance, after: Instance, *, memories: int, cached: bool) -> None:
        """``cached``: the same few questions come again and again."""
        self._client = client
        self._before = before
        self._after = after
        self._numbers = payloads.numbers(0, SAME if cached else memories)
        self._outcomes: dict[str, int] = {}
        self._errors: dict[str, int] = {}

    async def compare(self, body_bytes: int, mode: str, blocks: int) -> VersionsRow:
        """So many blocks of requests; each begins with the other version than the last."""
        self._outcomes, self._errors = {}, {}
        before: list[Asked] = []
        after: list[Asked] = []
        for block in range(blocks):
            questions = [payloads.question(next(self._numbers)) for _ in range(BLOCK)]
            pair = [(self._before, before), (self._after, after)]
            for instance, found in pair if block % 2 else reversed(pair):
                found.append(await self._ask(instance, body_bytes, mode, questions))
        return VersionsRow(
            body_bytes=body_bytes,
            mode=mode,
            blocks=blocks,
            p50_ms=Compared.of([one.p50_ms for one in before], [one.p50_ms for one in after]),
            relay_us=Compared.of([one.relay_us for one in before], [one.relay_us for one in after]),
            engine_us=Compared.of([one.engine_us for one in before], [one.engine_us for one in after]),
            outcomes=self._outcomes,
            errors=self._errors,
        )

    async def _ask(self, instance: Instance, body_bytes: int, mode: str, questions: list[str]) -> Asked:
        headers, count = payloads.headers(USER, mode), len(questions)
        bounds: dict[str, Any] = {"warmup": 0, "count": count, "seconds": BLOCK_LIMIT_S}
        job = chat_job(instance.port, questions, headers, body_bytes=body_bytes, **bounds)
        spent = instance.spent()
        result = await self._client.run(job)
        relay_s, engine_s = (now - was for now, was in zip(instance.spent(), spent, strict=True))
        for total, more in ((self._outcomes, result.outcomes), (self._errors, result.errors)):
            for name, count in more.items():
                total[name] = total.get(name, 0) + count
        answered = max(1, result.answered)
        return Asked(
            p50_ms=median(result.total_ms), relay_us=relay_s / answered * 1e6, engine_us=engine_s / answered * 1e6
        )


async def measure(
    before: Path, *, bodies: Sequence[int], modes: Sequence[str], memories: int, blocks: int, model_path: Path | None
) -> list[VersionsRow]:
    """Start both, fill them, ask them.

    Raises:
        ConfigError: one of them does not start.
    """
    console = Console(stderr=True)
    async with open_stage(Pinning(wanted=False)) as stage:
        old = await _filled(stage, "before", memories, model_path, before)
        new = await _filled(stage, "after", memories, model_path, Path(__file__).parents[2])
        versions = Versions(stage.client, old, new, memories=memories, cached=model_path is not None)
        rows = []
        with progress(console, "situations", len(bodies) * len(modes)) as step:
            for mode in modes:
                for body_bytes in bodies:
                    rows.append(await versions.compare(body_bytes, mode, blocks))
                    step(1)
    return rows


async def _filled(stage: Stage, name: str, memories: int, model_path: Path | None, code: Path) -> Instance:
    environment = {"PYTHONPATH": str(code), "PYTHONSAFEPATH": "1"}
    instance = await stage.start_instance(name, model_path=model_path, environment=environment)
    await instance.ingest(USER, 0, memories)
    return instance


def main(
    *,
    before: Annotated[Path, typer.Option(exists=True, file_okay=False, resolve_path=True, help="The other checkout.")],
    body: Annotated[list[int] | None, typer.Option(help="Bytes of a body; by default 2,000 and 200,000.")] = None,
    mode: Annotated[list[str] | None, typer.Option(help="X-Memproxy-Memory; by default off, read and on.")] = None,
    memories: Annotated[int, typer.Option(min=1, help="Memories of the user who asks.")] = 2_000,
    blocks: Annotated[int, typer.Option(min=1, help=f"Blocks of {BLOCK} requests for each situation.")] = 40,
    model_path: Annotated[
        Path | None, typer.Option(help="Folder of an ONNX embedding model; a few questions come again and again then.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
) -> None:
    """Compare this code with another checkout's, asked in turn, one request at a time."""
    rows = asyncio.run(
        measure(
            before, bodies=body or BODIES, modes=mode or MODES, memories=memories, blocks=blocks, model_path=model_path
        )
    )
    Console(width=None if sys.stdout.isatty() else 160).print(_table(rows))
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(rows)) + b"\n")


def _table(rows: Sequence[VersionsRow]) -> Table:
    ratio = "ratio, less in"
    heads = ("body", "mode", "relay µs", ratio, "engine µs", ratio, "p50 ms", ratio, "")
    table = Table(*heads, title="before and after")
    for row in rows:
        cells = [f"{row.body_bytes // 1000} KB", row.mode]
        for figure, digits in ((row.relay_us, 0), (row.engine_us, 0), (row.p50_ms, 2)):
            both = f"{figure.before:,.{digits}f} {figure.after:,.{digits}f}"
            cells += [both, f"{figure.ratio:.2f}, {figure.less:.0%}"]
        table.add_row(*cells, ", ".join(f"{name} {count}" for name, count in {**row.outcomes, **row.errors}.items()))
    return table


if __name__ == "__main__":
    typer.run(main)
