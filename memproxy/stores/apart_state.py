"""The engine's view of the embedded state: it reads the file itself, and lets the state's own process write.

In a process that computes, a transaction may stand open for seconds while another thread keeps Python's lock, and every
relay's commit would wait for it. The state's process does nothing but these transactions (docs/decisions/0032).

The two speak over a Unix socket in the private runtime folder: a length, then MessagePack. A call is the number that
its answer repeats, the method's name, and the arguments as the port's signature types them.
"""

import asyncio
import inspect
import struct
import typing
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from memproxy import errors
from memproxy.core.protocol import STATE_PROBE
from memproxy.core.scope import Scope
from memproxy.errors import MemproxyError, RequestError, StateUnavailable
from memproxy.ports import StateStore
from memproxy.stores.sqlite_state import SqliteState
from memproxy.tasks import TaskOwner

WRITES = tuple(
    """
    append recover claim give_back save_plan finish retry make_due park unpark unpark_killed begin_learning change_slots
    drop_slots note_turns note_end note_tokens remember_session save_block drop_from_blocks note_receipts note_outcomes
    begin_erasure forget forget_receipts forget_queries wipe allot_numbers adopt_palace erase_wings
    erase_aliases rename_wings erase_closets add_proxy_key revoke_proxy_key set_meta swap_meta spend choose
    keep_answer drop_answer erase_answers note_audit backup put_working drop_working sweep_working begin_dream
    put_dream take_up_dreams
    """.split()  # noqa: SIM905
)
"""Methods of the port that write; all others read."""

CONNECT_S = 10.0  # how long an opening engine waits for the state's process to listen; both start at once
CONNECT_AGAIN_S = 0.02
DONE_S = 60.0  # how long the calls of an engine that is gone may still take

_LENGTH = struct.Struct(">I")


class _Call(msgspec.Struct, array_like=True):
    number: int
    name: str
    arguments: msgspec.Raw


class _Answer(msgspec.Struct, array_like=True):
    """``error`` is the class of `memproxy.errors` that was raised, and its message."""

    number: int
    result: msgspec.Raw = msgspec.Raw(b"\xc0")
    error: tuple[str, str] | None = None


class _Form:
    """How calls of one method are written."""

    def __init__(self, method: Callable[..., Any]) -> None:
        hints = typing.get_type_hints(method)
        self._signature = inspect.signature(method)
        names = [name for name in self._signature.parameters if name != "self"]
        arguments = msgspec.defstruct("Arguments", [(name, hints[name]) for name in names], array_like=True)
        self._names = names
        self._arguments: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(arguments, dec_hook=_path)
        self._result: msgspec.msgpack.Decoder[Any] = msgspec.msgpack.Decoder(hints["return"])

    def arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
        """The arguments in the signature's order."""
        bound = self._signature.bind(None, *args, **kwargs)
        bound.apply_defaults()
        return [bound.arguments[name] for name in self._names]

    def read_arguments(self, data: msgspec.Raw) -> dict[str, Any]:
        """The arguments by name."""
        read = self._arguments.decode(data)
        return {name: getattr(read, name) for name in self._names}

    def read_result(self, data: msgspec.Raw) -> Any:
        return self._result.decode(data)


class _Own(typing.Protocol):
    """Messages between the two processes besides the port's methods."""

    async def open(self) -> None: ...

    async def make_key(self, scope: Scope) -> None: ...


def _path(kind: type, value: Any) -> Any:
    if kind is Path:
        return Path(value)
    raise NotImplementedError(kind)  # msgspec turns this into its own error


def _plain(value: Any) -> Any:
    """What MessagePack has no form for: paths, and views of mappings."""
    return str(value) if isinstance(value, Path) else list(value)


_FORMS = {name: _Form(getattr(StateStore, name)) for name in WRITES}
_FORMS |= {name: _Form(getattr(_Own, name)) for name in ("open", "make_key")}
_ENCODER = msgspec.msgpack.Encoder(enc_hook=_plain)


class WriterCalls:
    """Calls of the state's process from the engine."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._numbers = count()
        self._waiting: dict[int, asyncio.Future[_Answer]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._tasks = TaskOwner("state calls")

    async def open(self) -> None:
        """Connect, and let the process open the state. Raises `StateUnavailable`; `ConfigError`: it is newer."""
        if self._writer is None:
            reader, self._writer = await self._connect()
            self._tasks.start(self._read(reader), "answers")
        await self.call("open")

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        try:
            async with asyncio.timeout(CONNECT_S):
                while True:
                    try:
                        return await asyncio.open_unix_connection(str(self._socket))
                    except (FileNotFoundError, ConnectionError):
                        await asyncio.sleep(CONNECT_AGAIN_S)
        except TimeoutError:
            raise StateUnavailable(
                f"The process that writes the state does not listen on {self._socket}; the log says why."
            ) from None

    async def call(self, name: str, *args: Any, **kwargs: Any) -> Any:
        """What the method answers or raises. Raises `StateUnavailable`, too: nobody knows then whether it was done."""
        if self._writer is None:
            raise StateUnavailable("The process that writes the state is away; it is started again.")
        form, number = _FORMS[name], next(self._numbers)
        try:
            message = _ENCODER.encode((number, name, form.arguments(args, kwargs)))
        except UnicodeEncodeError as error:
            raise RequestError(f"This cannot be written to the state: {type(error).__name__}.") from error
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            if self._writer.is_closing():  # it broke just now, and the reader does not know it yet
                raise _lost()
            self._writer.write(_LENGTH.pack(len(message)) + message)
            await self._writer.drain()
            reply = await answer
        except OSError as error:
            raise _lost() from error
        finally:
            del self._waiting[number]
        if reply.error is not None:
            raise _error_of(*reply.error)
        return form.read_result(reply.result)

    async def close(self) -> None:
        """Close the connection; calls under way are still carried out."""
        await self._tasks.cancel()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        decoder = msgspec.msgpack.Decoder(_Answer)
        try:
            while (message := await _message(reader)) is not None:
                answer = decoder.decode(message)
                waiting = self._waiting.get(answer.number)
                if waiting is not None and not waiting.done():
                    waiting.set_result(answer)
        finally:
            if self._writer is not None:
                self._writer.close()
                self._writer = None
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(_lost())


def _lost() -> StateUnavailable:
    return StateUnavailable("The process that writes the state ended; what it was doing may be done or not.")


def _error_of(name: str, message: str) -> Exception:
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, MemproxyError):
        return kind(message)
    return RuntimeError(f"the process that writes the state failed: {name}: {message}")


class WritesApart(SqliteState):
    """The part of a state that is the same with and without encryption: mixed into either, before it."""

    def writes_by(self, socket: Path) -> None:
        """Call the process that listens there. Before `open`."""
        self._calls = WriterCalls(socket)

    async def open(self) -> None:
        await self._calls.open()
        await super().open()

    async def close(self) -> None:
        await super().close()
        await self._calls.close()


def _by_the_writer(name: str) -> Callable[..., Awaitable[Any]]:
    async def method(self: WritesApart, *args: Any, **kwargs: Any) -> Any:
        return await self._calls.call(name, *args, **kwargs)

    method.__name__, method.__doc__ = name, getattr(StateStore, name).__doc__
    return method


for _name in WRITES:
    setattr(WritesApart, _name, _by_the_writer(_name))


class ApartState(WritesApart):
    """The engine's state, not encrypted."""


class Writing:
    """Answers the calls of one engine after the other. The next one's wait until the former's are done: what it claimed
    at its end is the next one's to recover. The supervisor's probes wait for nobody.
    """

    def __init__(self, state: SqliteState) -> None:
        self._state = state
        self._is_open = False
        self._lock = asyncio.Lock()
        self._tasks = TaskOwner("state engines")

    def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer an engine that has connected, until it is gone."""
        self._tasks.start(self._serve(reader, writer), "engine")

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        decoder, calls = msgspec.msgpack.Decoder(_Call), TaskOwner("state writer")
        message = await _message(reader)
        if message == b"":
            writer.write(STATE_PROBE)
            writer.close()
            return
        async with self._lock:
            try:
                while message is not None:
                    calls.start(self._answer(decoder.decode(message), writer), "call")
                    message = await _message(reader)
            finally:
                await calls.drain(DONE_S)
                writer.close()

    async def close(self) -> None:
        """Close the state when the engine that uses it is gone: it may have been told to end in the same moment."""
        async with self._lock:
            await self._tasks.cancel()
            if self._is_open:
                await self._state.close()

    async def _answer(self, call: _Call, writer: asyncio.StreamWriter) -> None:
        try:
            result = await self._called(call)
            message = _ENCODER.encode(_Answer(call.number, msgspec.Raw(_ENCODER.encode(result))))
        except MemproxyError as error:
            message = _ENCODER.encode(_Answer(call.number, error=(type(error).__name__, error.message)))
        except Exception as error:
            message = _ENCODER.encode(_Answer(call.number, error=(type(error).__name__, str(error)[:500])))
            writer.write(_LENGTH.pack(len(message)) + message)
            raise  # a mistake of ours: logged and counted by the task's owner
        writer.write(_LENGTH.pack(len(message)) + message)

    async def _called(self, call: _Call) -> Any:
        if call.name == "open":
            if not self._is_open:
                await self._state.open()
                self._is_open = True
            return None
        arguments = _FORMS[call.name].read_arguments(call.arguments)
        return await getattr(self._state, call.name)(**arguments)


async def _message(reader: asyncio.StreamReader) -> bytes | None:
    """None: the other one is gone."""
    try:
        (size,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
        return await reader.readexactly(size)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
