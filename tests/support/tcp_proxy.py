"""A TCP proxy before a server, which a test can make slow, silent or broken."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.support.proxy import free_port


class TcpProxy:
    """Passes bytes on between whoever connects to ``port`` and the server."""

    def __init__(self, target: int) -> None:
        self.port = free_port()
        self.delay_s = 0.0
        """How long every piece of an answer waits."""
        self.passes = asyncio.Event()
        """While it is not set nothing is passed on, in either direction."""
        self.passes.set()
        self.answers = True
        """False: what the server answers is thrown away; what it is asked reaches it."""
        self.loses_answer_to: bytes | None = None
        """Once these bytes have gone to the server, as after ``answers`` = False."""
        self.breaks_before: bytes | None = None
        """What holds these bytes does not reach the server: the connection breaks."""
        self.broke = False
        self._target = target
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", self.port)

    async def stop(self) -> None:
        """Refuse connections, and break those that there are."""
        if self._server is not None:
            self._server.close()
            self._server = None
        await self.cut()

    async def cut(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            with contextlib.suppress(OSError):
                there, back = await asyncio.open_connection("127.0.0.1", self._target)
                try:
                    async with asyncio.TaskGroup() as both:
                        both.create_task(self._pass(reader, back, answers=False))
                        both.create_task(self._pass(there, writer, answers=True))
                finally:
                    back.transport.abort()
        except (asyncio.CancelledError, ExceptionGroup):
            pass  # cut, or one side has gone
        finally:
            writer.transport.abort()
            self._tasks.discard(task)

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, answers: bool) -> None:
        while piece := await reader.read(65536):
            await self.passes.wait()
            if answers and self.delay_s:
                await asyncio.sleep(self.delay_s)
            if not answers and self.breaks_before is not None and self.breaks_before in piece:
                self.broke = True
                break
            if not answers and self.loses_answer_to is not None and self.loses_answer_to in piece:
                self.answers = False
            if answers and not self.answers:
                continue
            writer.write(piece)
            await writer.drain()
        raise ConnectionResetError


@asynccontextmanager
async def tcp_proxy(target: int) -> AsyncIterator[TcpProxy]:
    """A proxy before the server at this port of this machine."""
    proxy = TcpProxy(target)
    await proxy.start()
    try:
        yield proxy
    finally:
        await proxy.stop()
