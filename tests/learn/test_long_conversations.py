"""While many long messages are written at once, others have their turns of the event loop."""

import asyncio
import time
from pathlib import Path

from tests.learn.rig import rig

MESSAGES = 60
LETTERS = 20_000
WORDS = "The tower of the vault has a code and a gate. "


async def spans(until: asyncio.Event) -> list[float]:
    """Processor time of the loop's thread between two turns of this task: the machine's other work does not count."""
    found, last = [], time.thread_time()
    while not until.is_set():
        await asyncio.sleep(0)
        now = time.thread_time()
        found.append(now - last)
        last = now
    return found


async def test_no_step_of_it_takes_more_than_a_small_part(tmp_path: Path) -> None:
    text = WORDS * (LETTERS // len(WORDS))
    async with rig(tmp_path, enabled=False) as r:
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            watching = group.create_task(spans(done))
            await r.say(*(f"{number} {text}" for number in range(MESSAGES)))
            done.set()
    found = watching.result()
    # all words were counted in one step, which took a third of it
    assert max(found) < sum(found) / 6, f"{max(found):.2f} of {sum(found):.2f} s"
