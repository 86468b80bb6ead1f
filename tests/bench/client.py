"""The load client: a process of its own that reads jobs from standard input and writes results to standard output.

Raw sockets and a C parser, because a client that is slower than what it measures measures itself.
"""

import asyncio
import errno
import gc
import sys
import time
from collections import Counter, defaultdict
from itertools import cycle
from typing import cast

import httptools
import msgspec
import uvloop

from memproxy.tasks import TaskOwner
from tests.bench.jobs import RECALL_HEADER, TIMING_HEADER, Job, Result

PATIENCE_S = 15.0
"""How long after a job's own time the last answers may take, until they count as errors."""


class Answered(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """What is noted of one answer."""

    status: int
    first_s: float
    total_s: float
    pieces: int
    recall: bytes | None
    timing: bytes | None


class Connection(asyncio.Protocol):
    """One keep-alive connection and the request that is under way on it."""

    def __init__(self, load: "Load") -> None:
        self._load = load
        self._parser = httptools.HttpResponseParser(self)
        self._transport: asyncio.Transport | None = None
        self._busy = False
        self._began = self._now = self._first = 0.0
        self._pieces = 0
        self._recall: bytes | None = None
        self._timing: bytes | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        if self._busy:
            self._busy = False
            self._load.failed("connection lost")
            self._load.replace(self)

    def go(self) -> None:
        """Send the next request, if there is one."""
        if self._transport is None or self._transport.is_closing():
            self._load.replace(self)
            return
        request = self._load.next_request()
        if request is None:
            self._load.idle()
            return
        self._busy, self._first, self._pieces = True, 0.0, 0
        self._recall = self._timing = None
        self._began = time.perf_counter()
        self._transport.write(request)

    def close(self) -> None:
        self._busy = False
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        self._now = time.perf_counter()
        self._parser.feed_data(data)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by the parser, which keeps a header's name as it came."""
        lower = name.lower()
        if lower == RECALL_HEADER:
            self._recall = value
        elif lower == TIMING_HEADER:
            self._timing = value

    def on_body(self, body: bytes) -> None:
        """Called by the parser with every part of the body."""
        self._pieces += 1
        if not self._first:
            self._first = self._now

    def on_message_complete(self) -> None:
        """Called by the parser at the answer's end."""
        self._busy = False
        self._load.answered(
            Answered(
                status=self._parser.get_status_code(),
                first_s=(self._first or self._now) - self._began,
                total_s=self._now - self._began,
                pieces=self._pieces,
                recall=self._recall,
                timing=self._timing,
            )
        )
        self.go()


class Load:
    def __init__(self, job: Job) -> None:
        self._job = job
        self._head = _head(job, {**job.headers, **job.warmup_headers})
        self._prefix, self._suffix = job.prefix.encode(), job.suffix.encode()
        self._questions = cycle([question.encode() for question in job.questions])
        self._left = self._active = 0
        self._deadline = 0.0
        self._measured = False
        self._finished: asyncio.Future[None] | None = None
        self._totals: list[float] = []
        self._firsts: list[float] = []
        self._answered = self._pieces = 0
        self._errors: Counter[str] = Counter()
        self._outcomes: Counter[bytes] = Counter()
        self._timings: list[bytes] = []
        self._connections: list[Connection] = []
        self._tasks = TaskOwner("load")

    async def run(self) -> Result:
        """Open the connections, warm up, measure, hang up."""
        job = self._job
        try:
            connect_by = asyncio.get_running_loop().time() + job.connect_s
            for _ in range(job.concurrency):
                self._connections.append(await self._connected(connect_by))
            await self._phase(job.warmup * job.concurrency, 0.0)
            self._measured, self._head = True, _head(job, job.headers)
            began = time.perf_counter()
            await self._phase(job.count, job.stagger_s)
            elapsed = time.perf_counter() - began
        finally:
            await self._tasks.cancel()
            for connection in self._connections:
                connection.close()
        return self._result(elapsed)

    async def _connected(self, connect_by: float) -> Connection:
        """A new connection. A server whose queue is full leaves who connects without any answer, for minutes."""
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout_at(connect_by):
                _, connection = await loop.create_connection(lambda: Connection(self), "127.0.0.1", self._job.port)
        except TimeoutError as error:
            said = f"{len(self._connections)} of {self._job.concurrency} within {self._job.connect_s:g} s"
            raise ConnectionError(errno.ETIMEDOUT, said) from error
        return connection

    async def _phase(self, count: int, stagger_s: float) -> None:
        loop = asyncio.get_running_loop()
        self._left, self._active = count, len(self._connections)
        late = stagger_s * len(self._connections)
        self._deadline = time.perf_counter() + self._job.seconds + late
        self._finished = loop.create_future()
        for number, connection in enumerate(self._connections):
            if stagger_s:
                loop.call_later(number * stagger_s, connection.go)
            else:
                connection.go()
        try:
            await asyncio.wait_for(self._finished, self._job.seconds + late + PATIENCE_S)
        except TimeoutError:
            self._errors["not answered in time"] += self._active

    @property
    def _is_over(self) -> bool:
        return self._left <= 0 or time.perf_counter() > self._deadline

    def next_request(self) -> bytes | None:
        """The next request's bytes; None when the phase is over."""
        if self._is_over:
            return None
        self._left -= 1
        question = next(self._questions)
        length = len(self._prefix) + len(question) + len(self._suffix)
        return b"".join((self._head, b"%d\r\n\r\n" % length, self._prefix, question, self._suffix))

    def answered(self, answer: Answered) -> None:
        """Note an answer."""
        self._answered += 1
        self._pieces += answer.pieces
        if not 200 <= answer.status < 300:
            self._errors[f"status {answer.status}"] += 1
        elif self._measured:
            self._totals.append(answer.total_s)
            self._firsts.append(answer.first_s)
            if answer.recall is not None:
                self._outcomes[answer.recall] += 1
            if answer.timing is not None:
                self._timings.append(answer.timing)

    def failed(self, what: str) -> None:
        """Note a request that got no answer."""
        self._errors[what] += 1

    def replace(self, lost: Connection) -> None:
        """A connection is gone: another one takes its place, so that as many requests as before are under way."""
        if self._is_over:
            self.idle()
        else:
            self._tasks.start(self._replaced(lost), "connect")

    async def _replaced(self, lost: Connection) -> None:
        try:
            connection = await self._connected(asyncio.get_running_loop().time() + self._job.connect_s)
        except OSError as error:
            self.failed(f"no connection: {error.strerror}")
            self.idle()
            return
        self._connections[self._connections.index(lost)] = connection
        connection.go()

    def idle(self) -> None:
        """One connection has nothing more to do."""
        self._active -= 1
        if self._active <= 0 and self._finished is not None and not self._finished.done():
            self._finished.set_result(None)

    def _result(self, elapsed_s: float) -> Result:
        return Result(
            total_ms=[round(seconds * 1000, 4) for seconds in self._totals],
            first_ms=[round(seconds * 1000, 4) for seconds in self._firsts],
            elapsed_s=elapsed_s,
            answered=self._answered,
            pieces=self._pieces,
            errors=dict(self._errors),
            outcomes={name.decode("latin-1"): count for name, count in self._outcomes.items()},
            stages=_stages(self._timings),
        )


def _head(job: Job, headers: dict[str, str]) -> bytes:
    """A request's beginning, up to the number of its body's bytes."""
    lines = {"host": f"127.0.0.1:{job.port}", "content-type": "application/json", **headers}
    fields = "".join(f"{name}: {value}\r\n" for name, value in lines.items())
    return f"POST {job.path} HTTP/1.1\r\n{fields}content-length: ".encode()


def _stages(timings: list[bytes]) -> dict[str, list[float]]:
    """Durations by stage of ``gate;dur=0.03, search;dur=1.20``."""
    stages: defaultdict[str, list[float]] = defaultdict(list)
    for timing in timings:
        for part in timing.decode("latin-1").split(","):
            name, _, duration = part.strip().partition(";dur=")
            if duration:
                stages[name].append(float(duration))
    return dict(stages)


def main() -> None:
    """Do jobs until standard input ends."""
    decoder = msgspec.json.Decoder(Job)
    for line in sys.stdin.buffer:
        gc.collect()
        gc.disable()
        try:
            result = uvloop.run(Load(decoder.decode(line)).run())
        except OSError as error:
            result = Result(errors={f"no connection: {error.strerror}": 1})
        finally:
            gc.enable()
        sys.stdout.buffer.write(msgspec.json.encode(result) + b"\n")
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
