"""What asking for proxy keys costs: ``python -m tests.bench.identity``.

Two proxies run side by side, one with ``auth.mode: passthrough`` and one with ``keys``, whose key `memproxy keys new`
made. They are asked in turn, one request at a time, in blocks, as two versions are (`versions`): whatever else the
machine does hits both.
"""

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import msgspec
import typer
from rich.console import Console
from rich.table import Table

from tests.bench.instance import Instance
from tests.bench.machine import Pinning
from tests.bench.stage import Stage, open_stage
from tests.bench.versions import BLOCK, Versions, VersionsRow

BODY = 2_000
WARM_UP = 5
"""Blocks that are not counted."""

TARGET_MS = 0.1
"""How much later an answer may be complete with keys (p50)."""


async def measure(blocks: int) -> VersionsRow:
    """Ask both so many blocks of requests with memory off; ``before`` is passthrough, ``after`` keys.

    Raises:
        ConfigError: one of them does not start.
    """
    async with open_stage(Pinning(wanted=False)) as stage:
        both = _started(stage, "passthrough", keys=False), _started(stage, "keys", keys=True)
        passthrough, keys = await asyncio.gather(*both)
        try:
            versions = Versions(stage.client, passthrough, keys, memories=1_000, cached=False)
            await versions.compare(BODY, "off", WARM_UP)
            return await versions.compare(BODY, "off", blocks)
        finally:
            await asyncio.gather(passthrough.stop(), keys.stop())


async def _started(stage: Stage, name: str, *, keys: bool) -> Instance:
    return await Instance.start(
        stage.nursery, stage.folder, name, upstream_port=stage.upstream_port, model_path=None, keys=keys
    )


def main(
    *,
    blocks: Annotated[int, typer.Option(min=1, help=f"Blocks of {BLOCK} requests of each.")] = 200,
    out: Annotated[Path | None, typer.Option("--json", help="Write the figures there.")] = None,
) -> None:
    """Compare proxy keys with passthrough, asked in turn, one request at a time, memory off."""
    row = asyncio.run(measure(blocks))
    Console(width=None if sys.stdout.isatty() else 120).print(_table(row))
    if out is not None:
        out.write_bytes(msgspec.json.format(msgspec.json.encode(row)) + b"\n")


def _table(row: VersionsRow) -> Table:
    errors = ", ".join(f"{name} {count}" for name, count in row.errors.items())
    table = Table(
        "", "passthrough", "keys", "more", "aim", title=f"{row.blocks} blocks of {BLOCK}{errors and ': '}{errors}"
    )
    for name, figure, digits, aim in (
        ("p50 until answered, ms", row.p50_ms, 3, f"{TARGET_MS}"),
        ("relay's processor time, µs", row.relay_us, 0, ""),
    ):
        told = (figure.before, figure.after, figure.after - figure.before)
        table.add_row(name, *(f"{value:,.{digits}f}" for value in told), aim)
    return table


if __name__ == "__main__":
    typer.run(main)
