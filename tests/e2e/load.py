"""Chat requests without pause while something is broken on purpose."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from memproxy.tasks import TaskOwner
from tests.e2e.talk import Exchange, chat
from tests.support.proxy import Proxy

QUESTION = "What is my budget for the Hawaii vacation?"


@dataclass
class Load:
    """What the requests so far got."""

    answers: list[Exchange] = field(default_factory=list)

    @property
    def statuses(self) -> Counter[int]:
        return Counter(answer.status for answer in self.answers)

    def recalls_since(self, begin: int) -> set[str]:
        """What the recall header said, without its reason, from the answer at ``begin`` on."""
        return {answer.recall.split(";")[0] for answer in self.answers[begin:]}


@asynccontextmanager
async def under_load(proxy: Proxy, clients: int = 4) -> AsyncIterator[Load]:
    """Some clients that ask one question after another until the block ends; a broken connection fails the test."""
    load, stop, owner = Load(), asyncio.Event(), TaskOwner("load")
    workers = [owner.start(_ask(proxy, load, stop), f"client-{number}") for number in range(clients)]
    try:
        yield load
    finally:
        stop.set()
        await asyncio.gather(*workers)


async def _ask(proxy: Proxy, load: Load, stop: asyncio.Event) -> None:
    async with proxy.client() as client:
        while not stop.is_set():
            load.answers.append(await chat(client, QUESTION, stream=True, headers={"x-memproxy-memory": "read"}))
