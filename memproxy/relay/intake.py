"""The bodies of all requests together: how many are under way, and how many bytes of them are in memory.

A client that sends half a body, or sends slowly, holds a place among the bodies under way. When all places are taken,
the body that was begun first gives way, unless it ends within `GRACE_S` of its beginning.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial

import msgspec

from memproxy.errors import BodyTimeout, Overloaded
from memproxy.relay.bodies import BodyWork
from memproxy.settings import ServerSettings

GRACE_S = 3.0
"""How long after its beginning a body is protected from giving way to later ones."""

Part = Callable[[], Awaitable[tuple[bytes, bool]]]
"""Reads the next part of a body; returns it and whether it was the last."""


class Share(msgspec.Struct):
    """One request's share of the memory; given back by `Intake.release`."""

    bytes: int = 0
    uploads: bool = False


class Intake:
    """Bounds the bodies of all requests: their bytes in memory (``server.max_held_bytes``), and how many are under way,
    those that are relayed as they come included (half of ``server.max_concurrent_requests``).
    """

    def __init__(self, server: ServerSettings, work: BodyWork) -> None:
        """``work`` puts the parts of large bodies together."""
        self._work = work
        self.take(server)
        self._reading: dict[asyncio.Timeout, float] = {}
        self._uploads = 0
        self._bytes = 0

    def take(self, server: ServerSettings) -> None:
        """Set new bounds; bodies that are there already stay."""
        self._most_bytes = server.max_held_bytes
        self._most_under_way = max(1, server.max_concurrent_requests // 2)

    async def whole(self, share: Share, part: Part, limit: int) -> bytes | None:
        """A body; None: it is more than ``limit`` bytes.

        Raises:
            BodyTimeout: it gave way to later ones.
            Overloaded: there is no room for it.
        """
        parts: list[bytes] = []
        size, ended = 0, False
        try:
            async with asyncio.timeout(None) as turn:
                self._reading[turn] = asyncio.get_running_loop().time()
                if len(self._reading) + self._uploads > self._most_under_way:
                    self._end_first(after_s=GRACE_S)
                while not ended:
                    data, ended = await part()
                    size += len(data)
                    if size > limit:
                        return None
                    self._take(share, len(data), turn)
                    parts.append(data)
        except TimeoutError as error:
            raise BodyTimeout(
                "The end of the request's body did not come, and others wait: too many are being sent at once (half of "
                "server.max_concurrent_requests). Send it again, as a whole."
            ) from error
        finally:
            self._reading.pop(turn, None)
        return parts[0] if len(parts) == 1 else await self._work.run(partial(b"".join, parts), size)

    def _end_first(self, *, after_s: float = 0.0) -> None:
        """End the body that was begun first, this long after its beginning."""
        first = next(iter(self._reading))
        first.reschedule(self._reading.pop(first) + after_s)

    def upload(self, share: Share) -> None:
        """A body that is relayed as it comes begins; raises `Overloaded` where too many are under way."""
        if len(self._reading) + self._uploads >= self._most_under_way:
            raise Overloaded(
                "Too many bodies are being sent at once (half of server.max_concurrent_requests). Try again."
            )
        share.uploads = True
        self._uploads += 1

    def end_upload(self, share: Share) -> None:
        """The body is complete, or its client left."""
        self._uploads -= share.uploads
        share.uploads = False

    def hold(self, share: Share, size: int) -> None:
        """Count bytes that are held for this request until it is over; `Overloaded` where there is no room for them."""
        if self._bytes + size > self._most_bytes:
            raise Overloaded(
                f"The bodies of all requests are more than {self._most_bytes} bytes (server.max_held_bytes). Try again."
            )
        self._add(share, size)

    def _take(self, share: Share, size: int, turn: asyncio.Timeout) -> None:
        """As `hold`, for a new part of a body; where there is no room, an older body under way is ended."""
        if self._bytes + size <= self._most_bytes or next(iter(self._reading), turn) is turn:
            self.hold(share, size)
        else:
            self._end_first()
            self._add(share, size)

    def _add(self, share: Share, size: int) -> None:
        self._bytes += size
        share.bytes += size

    def release(self, share: Share) -> None:
        self._bytes -= share.bytes
        share.bytes = 0
        self.end_upload(share)
