"""Headers whose bytes are no UTF-8 (RFC 9110's obs-text, mostly Latin-1), sent upstream as they came.

aiohttp's writer takes text and encodes it as UTF-8, lone surrogates it drops: no text comes out as such bytes. So a
random word stands for each of these values until the request's head is written, and there the bytes take its place.
Other requests go another way, which knows nothing of this (`Upstream.send`).
"""

import secrets
from collections.abc import Iterable
from typing import Any, Self, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.connector import Connection
from multidict import CIMultiDict


class Bytes(str):
    """A header's value: ``raw`` are its bytes, the text is the word that stands for them."""

    __slots__ = ("raw",)
    raw: bytes

    def __new__(cls, raw: bytes) -> Self:
        made = super().__new__(cls, secrets.token_hex(16))
        made.raw = raw
        return made


def text_or_bytes(value: bytes) -> str:
    """The value's text; `Bytes` where it is no UTF-8."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return Bytes(value)


class HeadersAsBytes(CIMultiDict[str]):
    """Headers of which some values are `Bytes`; to be sent by a session whose requests are `RawRequest`."""


class RawRequest(aiohttp.ClientRequest):
    """A request whose `Bytes` are sent as bytes."""

    async def send(self, conn: Connection) -> aiohttp.ClientResponse:
        """As aiohttp's own; the first thing that it writes begins with the whole head."""
        protocol = conn.protocol
        if protocol is not None and protocol.transport is not None:
            values = [value for value in self.headers.values() if isinstance(value, Bytes)]
            protocol.transport = cast(Any, _Head(protocol, protocol.transport, values))
        return await super().send(conn)


class _Head:
    """A connection's transport for its next write, which it is gone after."""

    def __init__(self, protocol: ResponseHandler, transport: Any, values: Iterable[Bytes]) -> None:
        self._protocol = protocol
        self._transport = transport
        self._values = values

    def write(self, data: bytes) -> None:
        self._protocol.transport = self._transport
        for value in self._values:
            data = data.replace(value.encode(), value.raw, 1)
        self._transport.write(data)

    def writelines(self, parts: Iterable[bytes]) -> None:
        self.write(b"".join(parts))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)
