"""Newest first, page by page, exactly: nothing is skipped and nothing comes twice, however many share one time.

The order is (``created_at`` descending, point id ascending). Engines order by time but leave ties as they like, so
a page's last time is read again in id order.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

import msgspec

from memproxy.errors import RequestError
from memproxy.stores.backend import ORDER_FIELD, Found
from memproxy.stores.filters import Between, Where
from memproxy.stores.payload import Points, pass_over


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last point of a page: its time and its point id."""

    time: datetime
    place: UUID

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Read what `text` wrote.

        Raises:
            RequestError: it is not a cursor.
        """
        try:
            padded = text + "=" * (-len(text) % 4)
            cursor = msgspec.json.decode(base64.b64decode(padded, altchars=b"-_", validate=True), type=cls)
        except (binascii.Error, ValueError) as error:
            raise _not_a_cursor() from error
        if cursor.time.tzinfo is None:
            raise _not_a_cursor()
        return cursor

    def text(self) -> str:
        """An opaque string, safe in a URL."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode().rstrip("=")


def _not_a_cursor() -> RequestError:
    return RequestError("`cursor` is not one that a list call gave; pass `next_cursor` unchanged.", param="cursor")


def created_at(found: Found) -> datetime:
    """The time that orders a point."""
    return msgspec.convert(found.payload[ORDER_FIELD], datetime)


async def newest(
    engine: Points, where: Where, *, limit: int, cursor: Cursor | None
) -> tuple[list[Found], Cursor | None]:
    """The page after ``cursor``, and where the next one starts (None at the end)."""
    found: list[Found] = []
    older = where
    if cursor is not None:
        found = await _of_time(engine, where, cursor.time, limit=limit + 1, after=str(cursor.place))
        older = where.also(Between(key=ORDER_FIELD, before=cursor.time))
    if len(found) <= limit:
        found += await _next_times(engine, where, older, limit=limit + 1 - len(found))
    if len(found) <= limit:
        return found, None
    last = found[limit - 1]
    return found[:limit], Cursor(created_at(last), UUID(last.id))


async def _next_times(engine: Points, where: Where, older: Where, *, limit: int) -> list[Found]:
    rows = await _dated(engine, older, limit=limit, order="desc")
    if len(rows) < limit:
        return [one for group in _by_time(rows) for one in group]
    *whole, cut = _by_time(rows)
    # the last time may have more points than were read: any of them, so all are read again in id order
    again = await _of_time(engine, where, created_at(cut[0]), limit=len(cut), after=None)
    return [one for group in whole for one in group] + again


async def _of_time(engine: Points, where: Where, time: datetime, *, limit: int, after: str | None) -> list[Found]:
    same = where.also(Between(key=ORDER_FIELD, at_or_after=time, at_or_before=time))
    return await _dated(engine, same, limit=limit, after=after)


async def _dated(
    engine: Points, where: Where, *, limit: int, order: str | None = None, after: str | None = None
) -> list[Found]:
    """As `Points.scroll`, without the points that have no time (what is left of a damaged file); fewer than ``limit``
    only where there are no more.
    """
    asked = limit
    while True:
        rows = await engine.scroll(where, limit=asked, order=order, after_id=after)
        damaged = {one.id: error for one in rows if (error := _undated(one)) is not None}
        if len(rows) == asked and len(rows) - len(damaged) < limit:
            asked = limit + len(damaged)
            continue
        for place, error in damaged.items():
            pass_over(place, error)
        return [one for one in rows if one.id not in damaged][:limit]


def _undated(found: Found) -> Exception | None:
    """What keeps the point's time from being read; None where it has one."""
    try:
        created_at(found)
    except (KeyError, msgspec.ValidationError) as error:
        return error
    return None


def _by_time(rows: Sequence[Found]) -> Iterator[list[Found]]:
    for _, group in groupby(rows, key=created_at):
        yield sorted(group, key=lambda one: UUID(one.id))
