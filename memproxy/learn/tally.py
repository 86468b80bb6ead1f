"""What questions cost an embedder that is paid by the token: counted beside the answer, written down a little later."""

import asyncio
import logging

from memproxy.core.tokens import estimate
from memproxy.errors import StateUnavailable
from memproxy.learn.budget import TokenMeter
from memproxy.tasks import TaskOwner

log = logging.getLogger(__name__)

WRITE_SECONDS = 1.0
"""How long a count is held at most: what a killed process loses of it."""

_CLOSE_SECONDS = 5.0


class QuestionTally:
    """Adds up tokens of questions by tenant and writes the sums, at most once every ``write_s`` seconds and at the end.

    What cannot be written is kept and tried again.
    """

    def __init__(self, meter: TokenMeter, *, write_s: float = WRITE_SECONDS) -> None:
        self._meter = meter
        self._write_s = write_s
        self._tasks = TaskOwner("questions")
        self._closing = asyncio.Event()
        self._due: dict[str, int] = {}
        self._writer: asyncio.Task[None] | None = None

    def add(self, tenant: str, text: str) -> None:
        """A question of this tenant went to the embedder. Takes microseconds; needs a running event loop."""
        self._due[tenant] = self._due.get(tenant, 0) + estimate(text)
        if self._writer is None or self._writer.done():
            self._writer = self._tasks.start(self._write(), "tokens")

    async def close(self) -> None:
        """Write what is left. The state must still be open."""
        self._closing.set()
        await self._tasks.drain(_CLOSE_SECONDS)
        try:
            await self._write_down()
        except StateUnavailable as error:
            log.warning("tokens of %d tenants' questions are not counted: %s", len(self._due), error.message)

    async def _write(self) -> None:
        told = False
        while self._due and not self._closing.is_set():
            try:
                async with asyncio.timeout(self._write_s):
                    await self._closing.wait()
            except TimeoutError:
                pass  # nobody closes: the usual case
            try:
                await self._write_down()
            except StateUnavailable as error:
                log.log(logging.DEBUG if told else logging.WARNING, "questions are counted later: %s", error.message)
                told = True

    async def _write_down(self) -> None:
        while self._due:
            tenant, tokens = self._due.popitem()
            try:
                await self._meter.note_given(tenant, "embed", tokens)
            except StateUnavailable:
                self._due[tenant] = self._due.get(tenant, 0) + tokens
                raise
