"""Relays an answer: every byte as it arrives, except the very end, which waits until the turn is in the journal."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from memproxy.metrics import metrics
from memproxy.relay.memory_tools import ToolAnswer
from memproxy.relay.request import Request
from memproxy.relay.upstream import UpstreamAnswer
from memproxy.wire.answer import Answer, Usage
from memproxy.wire.encoding import BodyDecoder
from memproxy.wire.format import WireFormat
from memproxy.wire.hold import Holder, HolderPair, LengthHolder, PieceHolder, TailHolder

log = logging.getLogger(__name__)


MOST_COPIES = 256 * 1024 * 1024
"""Bytes of copies of answers in a relay, together. An answer beyond them is relayed and not captured."""

COPY_STEP = 64 * 1024
"""A copy is counted in steps of this many bytes: most are smaller, and cost nothing."""

READ_AT_ONCE = 64 * 1024
"""Bytes of an answer that are read without a pause: some 20 ms where all of them are ends of lines."""

MOST_HELD = 64 * 1024
"""Most bytes after what looks like the end mark; with more it was none."""

NOTED_WITHIN_S = 1.0
"""How long an answer's end waits for the note of its name."""

AnyAnswer = UpstreamAnswer | ToolAnswer
"""An answer as it is relayed: the upstream's own, or one with something taken out of it."""

Keep = Callable[[Answer], Awaitable[None]]
"""Keeps a complete answer; the answer's end waits for it."""

NoteName = Callable[[str], asyncio.Task[None]]
"""Notes the name that the upstream gave an answer; the answer's end waits for it."""


class Copies:
    """The bytes of all answers that are being read, together."""

    def __init__(self, most_bytes: int = MOST_COPIES) -> None:
        self._most_bytes = most_bytes
        self.bytes = 0

    def take(self, size: int) -> bool:
        """Count more bytes that are kept; False: there is no room for them."""
        if size > 0 and self.bytes + size > self._most_bytes:
            return False
        self.bytes += size
        return True


class Tap:
    """Reads a copy of one answer and has it kept when it is complete, or will be completed elsewhere."""

    def __init__(
        self,
        answer: AnyAnswer,
        wire: WireFormat,
        request_id: str,
        keep: Keep | None,
        *,
        copies: Copies,
        asked_for_stream: bool = False,
        note_name: NoteName | None = None,
        captures: bool = True,
    ) -> None:
        """``keep`` None: only the answer's name is noted. ``captures`` False: what is kept is no turn, so nothing is
        missing where it cannot be. ``copies`` are those of all answers.
        """
        self._copies = copies
        self._counted = 0
        self._note_name = note_name
        self._naming: asyncio.Task[None] | None = None
        streamed = answer.is_stream(asked_for=asked_for_stream)
        encoding = answer.header("content-encoding")
        self._decoder = BodyDecoder(encoding)
        self._streamed = streamed
        self._make_reader = partial(wire.answer, streamed=streamed)
        self._reader: Answer = self._make_reader()
        self._tail = TailHolder() if streamed and wire.end_line and encoding is None else None
        self._holder = Holder()
        if streamed:
            self._holder = self._tail or PieceHolder(lambda: self.done)
        length = answer.header("content-length")
        if length is not None and length.isdigit():
            self._holder = HolderPair(self._holder, LengthHolder(int(length)))
        self._request_id = request_id
        self._keep = keep
        self._captures = captures
        self._written = False
        self.is_kept = False
        """Whether the answer was passed on to be kept."""
        self._skipped: str | None = None
        self._late = b""

    async def feed(self, chunk: bytes) -> bytes:
        """Read a copy of the chunk; returns what may be sent now."""
        pause = False
        for decoded in self._decoder.parts(chunk):
            for start in range(0, len(decoded), READ_AT_ONCE):
                if pause:
                    await asyncio.sleep(0)  # others come between
                part = decoded if len(decoded) <= READ_AT_ONCE else decoded[start : start + READ_AT_ONCE]
                self._look(partial(self._reader.feed, part))
                pause = True
        self._count()
        self._name()
        if self._tail is not None:
            self._tail.may_end = self.done or (self._reader.ending and self._tail.held <= MOST_HELD)
        ready = self._holder.feed(chunk)
        if not self.done or self._tail is None or self._tail.has_end:
            return ready
        self._late = ready  # it holds the end, written in a way that the holder does not recognise
        return b""

    def _count(self) -> None:
        """Give up the copy where there is no room for its growth."""
        grown = self._reader.held - self._counted
        if grown < COPY_STEP:
            return
        if self._copies.take(grown):
            self._counted += grown
        else:
            self._give_up("memory")
            log.warning("there is no room for more answers in memory; %s is relayed but not captured", self._request_id)

    def _give_up(self, why: str) -> None:
        self._skipped = self._skipped or why
        self._reader = self._make_reader()
        self.close()

    def close(self) -> None:
        self._copies.take(-self._counted)
        self._counted = 0

    def _name(self) -> None:
        if self._note_name is not None and self._naming is None and self._reader.response_id:
            self._naming = self._note_name(self._reader.response_id)

    def _look(self, read: Callable[[], None]) -> None:
        if self._skipped is not None:
            return
        try:
            read()
        except Exception:
            # Answers are read for memory alone: a fault of ours in that, whatever it is, costs the capture only.
            self._give_up("internal")
            metrics().internal_errors.labels(where="relay.tap").inc()
            log.exception("reading an answer failed; %s is relayed but not captured", self._request_id)

    @property
    def done(self) -> bool:
        """Whether the answer said its own end (``[DONE]``, its last event), although more bytes may come."""
        return self._streamed and self._reader.done

    @property
    def usage(self) -> Usage | None:
        """What the answer cost, as far as the upstream has said so far."""
        return self._reader.usage

    @property
    def goes_on(self) -> bool:
        """Whether the answer is completed elsewhere, should this stream of it end here."""
        return self._reader.begun

    async def finish(self) -> bytes:
        """Have the answer kept; the bytes that were kept back."""
        if not self._written:
            self._written = True
            await self._write()
        late, self._late = self._late, b""
        return late + self._holder.release()

    async def _write(self) -> None:
        self._look(self._reader.finish)
        self._name()
        if self._naming is not None:
            await asyncio.wait({self._naming}, timeout=NOTED_WITHIN_S)
        if self._keep is None:
            return
        why = self._skipped
        if why is None and not self._decoder.usable:
            why = "encoding"
        if why is None and not self._reader.complete and not self._reader.begun:
            why = "incomplete"
        if why is None:
            self.is_kept = True
            try:
                await self._keep(self._reader)
            except Exception:
                # An answer is kept for memory alone: a fault of ours in that, whatever it is, costs the capture only.
                self.is_kept, why = False, "internal"
                metrics().internal_errors.labels(where="relay.capture").inc()
                log.exception("keeping an answer failed; %s is relayed but not captured", self._request_id)
        if why is not None and self._captures:
            metrics().capture_skipped.labels(reason=why).inc()


async def relay_body(request: Request, answer: AnyAnswer, tap: Tap | None) -> None:
    """Relay the answer's body; with a tap, its end waits for the journal. Raises `UpstreamError` where the upstream
    breaks off; nothing is captured then.
    """
    if tap is None or request.method == "HEAD":
        await _relay_rest(request, answer)
        return
    try:
        async for chunk in answer:
            if ready := await tap.feed(chunk):
                await request.write(ready)
            if tap.done:
                await request.write(await tap.finish())
                break
        else:
            await request.end(await tap.finish())
            return
    finally:
        tap.close()
    await _relay_rest(request, answer)


async def _relay_rest(request: Request, answer: AnyAnswer) -> None:
    """Relay what is left, the last part together with the body's end where both are there."""
    async for chunk in answer:
        if answer.ended:
            await request.end(chunk)
            return
        await request.write(chunk)
    await request.end()
