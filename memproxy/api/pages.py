"""Pages of what is counted or computed: cursors, and reading all memories of an owner bit by bit."""

import base64
import binascii
from collections.abc import AsyncIterator, Sequence
from typing import TypeVar

import msgspec

from memproxy.api.context import Backends
from memproxy.core.memory import Memory
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import MemoryFilter

T = TypeVar("T")

MOST_READ = 10_000
"""Memories that one call reads at most, the newest: what is counted over more is a picture of these."""

_PAGE = 200


def write_cursor(what: str, *position: int | str) -> str:
    """A cursor of the list ``what``, holding the place after which it goes on."""
    return base64.urlsafe_b64encode(msgspec.json.encode([what, *position])).decode().rstrip("=")


def read_cursor(what: str, cursor: str | None) -> list[int | str]:
    """The place that a cursor of this list holds; empty without one.

    Raises:
        RequestError: it is not a cursor of this list.
    """
    if cursor is None:
        return []
    try:
        padded = cursor.encode() + b"=" * (-len(cursor) % 4)
        kind, *position = msgspec.json.decode(base64.urlsafe_b64decode(padded), type=list[int | str])
    except (binascii.Error, UnicodeEncodeError, ValueError, msgspec.DecodeError) as error:
        raise foreign_cursor() from error
    if kind != what:
        raise foreign_cursor()
    return position


def number_after(what: str, cursor: str | None) -> int:
    """The number that a cursor of this list holds; 0 without one.

    Raises:
        RequestError: it is not a cursor of this list.
    """
    position = read_cursor(what, cursor) or [0]
    if not isinstance(position[0], int) or not 0 <= position[0] < 2**53:
        raise foreign_cursor()
    return position[0]


def page_of(what: str, items: Sequence[T], cursor: str | None, limit: int) -> tuple[Sequence[T], str | None]:
    """The page of a computed list that is asked for, and the cursor of the next one.

    Raises:
        RequestError: the cursor is not one of this list.
    """
    after = number_after(what, cursor)
    until = after + limit
    return items[after:until], write_cursor(what, until) if len(items) > until else None


def foreign_cursor() -> RequestError:
    """The error of a cursor that is not one of the list."""
    return RequestError("cursor: is not one of this list; take next_cursor of its last page.", param="cursor")


async def each_page(backends: Backends, scope: Scope, where: MemoryFilter) -> AsyncIterator[list[Memory]]:
    """The newest memories that match, a page at a time, `MOST_READ` of them at most.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    cursor, read = None, 0
    while read < MOST_READ:
        page = await backends.store.page(scope, where, limit=_PAGE, cursor=cursor)
        read += len(page.memories)
        yield page.memories
        cursor = page.next_cursor
        if cursor is None:
            return
