"""How fast memories come in and go out: ``python -m tests.bench.transfer --memories 100000``.

Made-up memories with vectors are imported, exported, imported into an empty installation and exported again. Printed:
memories per second and processor time per memory of each step (no embedding: the vectors come along), the process's
memory after every piece of an import with what it grew by for each memory behind the first third, and whether both
exports are the same bytes. Of the memory, files of the store that it maps (mapped) leave when others need the room; its
own pages (anonymous) hold a piece of the file, which is all the same at every piece, and the store's indexes of payload
and words, which are in memory for every memory there is (docs/transfer.md). Each step is a process of its own: pages
that one has left would hide what the next one adds.
"""

import argparse
import asyncio
import filecmp
import os
import random
import re
import resource
import tempfile
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, NamedTuple

import numpy as np
from rich.console import Console

from memproxy.commands import export_import
from memproxy.core.transfer_lines import Header, line
from memproxy.core.vectors import packed
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
        _measured(Path(folder), given.memories)


def _measured(folder: Path, memories: int) -> None:
    first, second = folder / "first.jsonl", folder / "second.jsonl"
    _write(folder / "made.jsonl", memories)
    _apart(_taken, folder / "a", folder / "made.jsonl", memories, "import of what has no place yet")
    _apart(_given, folder / "a", first, memories, "export")
    _apart(_taken, folder / "b", first, memories, "import of an export")
    _apart(_given, folder / "b", second, memories, "export")
    same = filecmp.cmp(first, second, shallow=False)
    Console().print(f"both exports are {'the same bytes' if same else 'DIFFERENT'}: {first.stat().st_size:,} bytes")


_Step = Callable[[Path, Path, int, str], Coroutine[Any, Any, None]]


def _apart(step: _Step, home: Path, path: Path, memories: int, what: str) -> None:
    """Do it in a process of its own."""
    with ProcessPoolExecutor(max_workers=1, mp_context=get_context("spawn")) as process:
        process.submit(_done, step, home, path, memories, what).result()


def _done(step: _Step, home: Path, path: Path, memories: int, what: str) -> None:
    asyncio.run(step(home, path, memories, what))


def _settings(home: Path) -> Settings:
    """Of an installation whose embedder is configured and never needed."""
    os.environ["MEMPROXY_HOME"] = str(home)
    return Settings(
        embedding=EmbeddingSettings(provider="openai", model="none-asked", dimension=DIMENSION, base_url=NOWHERE),
        learn=LearnSettings(enabled=False),
    )


async def _taken(home: Path, path: Path, memories: int, what: str) -> None:
    resident: list[Resident] = []
    console = Console()

    def show(done: int, total: int) -> None:
        resident.append(_resident())

    with _timed(console, what, memories):
        taken = await export_import.import_file(
            _settings(home), path, show, file_format="memproxy", tenant=None, user=None, dry_run=False
        )
    console.print(f"  {taken.imported} imported, {taken.rejected} rejected {taken.notes}")
    console.print(f"  anonymous MiB {[one.anonymous for one in resident]}{_grown(resident, memories)}")
    console.print(f"  mapped MiB {[one.mapped for one in resident]}")


async def _given(home: Path, path: Path, memories: int, what: str) -> None:
    with _timed(Console(), what, memories), path.open("wb") as out:
        await export_import.export(_settings(home), out, _quiet, tenant=None, user="ann", vectors=True)


def _quiet(done: int, total: int) -> None:
    """Shows nothing."""


class Resident(NamedTuple):
    """What of a process is in memory, in MiB: its own pages, and those of files that it maps."""

    anonymous: int
    mapped: int


def _resident() -> Resident:
    """This process's; outside of Linux its peak stands for its own pages."""
    try:
        told = Path("/proc/self/smaps_rollup").read_text(encoding="ascii")
    except OSError:
        return Resident(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, 0)
    kib = {name: int(value) for name, value in re.findall(r"^(\w+): +(\d+) kB$", told, re.MULTILINE)}
    return Resident(kib["Anonymous"] // 1024, (kib["Rss"] - kib["Anonymous"]) // 1024)


def _grown(resident: list[Resident], memories: int) -> str:
    """What a memory adds, told of enough pieces; the heap first grows to what one piece needs."""
    begin, pieces = len(resident) // 3, len(resident)
    if begin < 2:
        return ""
    grown = (resident[-1].anonymous - resident[begin].anonymous) * 2**20
    return f", {grown / (memories * (pieces - 1 - begin) / pieces):,.0f} bytes a memory"


@contextmanager
def _timed(console: Console, what: str, memories: int) -> Iterator[None]:
    """Tell how fast it went: by the clock, and in processor time, which other work on the machine changes less."""
    begin, busy = perf_counter(), process_time()
    yield
    seconds, busy = perf_counter() - begin, process_time() - busy
    per_memory = f"{1000 * busy / memories:.3f} ms of processor time each"
    console.print(f"{what}: {memories / seconds:,.0f} memories/s ({seconds:.1f} s), {per_memory}", highlight=False)


def _write(path: Path, memories: int) -> None:
    chosen, drawn, lexical = random.Random(SEED), np.random.default_rng(SEED), Bm25Encoder()
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
