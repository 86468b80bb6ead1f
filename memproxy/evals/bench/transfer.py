"""How fast memories come in and go out: ``python -m memproxy.evals.bench.transfer --memories 100000``.

Made-up memories with vectors are imported, exported, imported into an empty installation and exported again. Printed:
memories per second of each step (no embedding: the vectors come along), the process's peak memory after every part of
an import (it should not grow with the file), and whether both exports are the same bytes.
"""

import argparse
import asyncio
import filecmp
import os
import random
import resource
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console

from memproxy import transfers
from memproxy.core.transfer import Header, line, packed
from memproxy.models.lexical import Bm25Encoder
from memproxy.settings import EmbeddingSettings, LearnSettings, Settings

SEED = 7
DIMENSION = 384
TURNS_OF_A_SESSION = 40
NOWHERE = "http://127.0.0.1:9"
"""Nobody listens there: the embedder is named, so that vectors fit, and never asked."""

_WORDS = [f"{first}{second}" for first in ("lan", "mor", "tas", "vil", "ber", "nok") for second in "abcdefghijklmnop"]


def main() -> None:
    """Run it and print the figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--memories", type=int, default=100_000)
    parser.add_argument("--folder", type=Path, help="Where the installations are made (default: the system's).")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder, prefix="memproxy-bench-") as folder:
        asyncio.run(_measured(Path(folder), given.memories, Console()))


async def _measured(folder: Path, memories: int, console: Console) -> None:
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    _write(folder / "made.jsonl", memories)
    await _taken(folder / "a", folder / "made.jsonl", memories, console, "import of what has no place yet")
    await _given(folder / "a", first, memories, console)
    await _taken(folder / "b", first, memories, console, "import of an export")
    await _given(folder / "b", second, memories, console)
    same = await asyncio.to_thread(filecmp.cmp, first, second, shallow=False)
    console.print(f"both exports are {'the same bytes' if same else 'DIFFERENT'}: {first.stat().st_size:,} bytes")


def _settings(home: Path) -> Settings:
    """Of an installation whose embedder is configured and never needed."""
    os.environ["MEMPROXY_HOME"] = str(home)
    return Settings(
        embedding=EmbeddingSettings(provider="openai", model="none-asked", dimension=DIMENSION, base_url=NOWHERE),
        learn=LearnSettings(enabled=False),
    )


async def _taken(home: Path, path: Path, memories: int, console: Console, what: str) -> None:
    peaks: list[int] = []

    def show(done: int, total: int) -> None:  # noqa: ARG001 - the bar is not wanted
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)

    begin = perf_counter()
    taken = await transfers.import_file(
        _settings(home), path, show, file_format="memproxy", tenant=None, user=None, dry_run=False
    )
    _tell(console, what, memories, perf_counter() - begin)
    console.print(f"  {taken.imported} imported, {taken.rejected} rejected {taken.notes}; peak MiB {peaks}")


async def _given(home: Path, path: Path, memories: int, console: Console) -> None:
    begin, quiet = perf_counter(), _quiet
    with path.open("wb") as out:
        await transfers.export(_settings(home), out, quiet, tenant=None, user="ann", vectors=True)
    _tell(console, "export", memories, perf_counter() - begin)


def _quiet(done: int, total: int) -> None:
    """Shows nothing."""


def _tell(console: Console, what: str, memories: int, seconds: float) -> None:
    console.print(f"{what}: {memories / seconds:,.0f} memories/s ({seconds:.1f} s)", highlight=False)


def _write(path: Path, memories: int) -> None:
    chosen, drawn, lexical = random.Random(SEED), np.random.default_rng(SEED), Bm25Encoder()  # noqa: S311
    header = Header(embedder="openai:none-asked", lexical=Bm25Encoder.VERSION)
    with path.open("wb") as file:
        file.write(line(header))
        for number in range(memories):
            file.write(line(_made(number, chosen, drawn, lexical.encode_document)))


def _made(number: int, chosen: random.Random, drawn: Any, encode: Callable[[str], Any]) -> dict[str, Any]:
    vector = drawn.normal(size=DIMENSION)
    content = f"said {number}: {' '.join(chosen.choices(_WORDS, k=15))}"
    words = encode(content)
    memory = {
        "id": f"turn-{number}",
        "content": content,
        "kind": "turn",
        "created_at": 1_600_000_000 + number * 60,
        "user_id": "ann",
        "session_id": f"session-{number // TURNS_OF_A_SESSION}",
        "turn_ids": [f"turn-{number}"],
        "metadata": {"role": "user", "seq": number % TURNS_OF_A_SESSION},
    }
    dense = [packed(vector / np.linalg.norm(vector))]
    return {"memory": memory, "vectors": {"dense": dense, "indices": words.indices, "values": words.values}}


if __name__ == "__main__":
    main()
