"""Newest first, page by page, exactly: nothing is skipped and nothing comes twice, however many share one time.

The order is (``created_at`` descending, point id ascending). Engines order by time but leave ties as they like, so
a page's last time is read again in id order. A conversation stands where its newest turn does in that order.
"""

import asyncio
import base64
import binascii
from collections.abc import Collection, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from uuid import UUID

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.errors import RequestError
from memproxy.ports import Conversation
from memproxy.stores.backend import ORDER_FIELD, Fields, FoundPoint, Order
from memproxy.stores.filters import FACTS, Between, Missing, OneOf, Where, turns_of
from memproxy.stores.payload import Points, memories, pass_over

_ROWS = 64  # points read at once while conversations are looked for: some are of many short messages, some of thousands
_CONVERSATIONS = 8  # conversations that are counted at once: a server's connections are for others, too
_WORDS = 200  # characters by which a person knows a conversation again

_FIELDS = (ORDER_FIELD, "session_id", "project_id", "agent_id")


class Cursor(msgspec.Struct, frozen=True, array_like=True):
    """The last point of a page: its time and its point id."""

    time: datetime
    point_id: UUID

    @classmethod
    def read(cls, text: str) -> "Cursor":
        """Read what `text` wrote. Raises `RequestError`: it is not a cursor."""
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


def created_at(point: FoundPoint) -> datetime:
    """The time that orders a point."""
    return msgspec.convert(point.payload[ORDER_FIELD], datetime)


async def newest(
    engine: Points, where: Where, *, limit: int, cursor: Cursor | None, fields: Fields = None
) -> tuple[list[FoundPoint], Cursor | None]:
    """The page after ``cursor``, and where the next one starts (None at the end). ``fields`` have `ORDER_FIELD`."""
    points: list[FoundPoint] = []
    older = where
    if cursor is not None:
        points = await _of_time(engine, where, cursor.time, limit=limit + 1, after=str(cursor.point_id), fields=fields)
        older = where.also(Between(key=ORDER_FIELD, before=cursor.time))
    if len(points) <= limit:
        points += await _next_times(engine, where, older, limit=limit + 1 - len(points), fields=fields)
    if len(points) <= limit:
        return points, None
    return points[:limit], _cursor_at(points[limit - 1])


def _cursor_at(point: FoundPoint) -> Cursor:
    return Cursor(created_at(point), UUID(point.id))


async def conversations(
    engine: Points, where: Where, *, limit: int, cursor: Cursor | None
) -> tuple[list[Conversation], Cursor | None]:
    """The page after ``cursor`` of the conversations of the matching points, and where the next one starts (None at the
    end). Each is looked for behind the one before, without the points of those that were found: a page reads few
    points, counts each conversation's, and looks once at each of an earlier page that reaches into this one.
    """
    within = Where(where.must, (*where.must_not, Missing("session_id")))
    turns, facts = within.also(OneOf("kind", (Kind.TURN.value,))), within.also(FACTS)
    newest_points = await _newest_of_each(engine, turns, turns, most=limit + 1, cursor=cursor)
    silent = _without(facts, list(newest_points))
    if len(newest_points) > limit:
        last = created_at(list(newest_points.values())[limit])
        silent = silent.also(Between(key=ORDER_FIELD, at_or_after=last))
    newest_points |= await _newest_of_each(engine, silent, facts, most=limit + 1, cursor=cursor, none_of=turns)
    ordered = sorted(newest_points.items(), key=lambda item: (-created_at(item[1]).timestamp(), UUID(item[1].id)))
    page = ordered[:limit]
    words = {point.id: point.payload.get("content") for point in await engine.retrieve([point.id for _, point in page])}
    listed: list[Conversation] = []
    for start in range(0, len(page), _CONVERSATIONS):
        chunk = page[start : start + _CONVERSATIONS]
        listed += await asyncio.gather(*(_conversation(engine, turns, facts, name, newest) for name, newest in chunk))
    for conversation, (_, newest_point) in zip(listed, page, strict=True):
        text = words.get(newest_point.id)
        conversation.last_words = text[:_WORDS] if isinstance(text, str) else ""
    return listed, _cursor_at(page[-1][1]) if len(ordered) > limit else None


async def _newest_of_each(
    engine: Points, where: Where, among: Where, *, most: int, cursor: Cursor | None, none_of: Where | None = None
) -> dict[str, FoundPoint]:
    """The newest matching point of each conversation behind ``cursor``, in order, ``most`` or some more. One with a
    point of ``among`` before the cursor was on an earlier page; one with a point of ``none_of`` stands elsewhere.
    """
    newest_points: dict[str, FoundPoint] = {}
    passed: list[str] = []
    next_cursor = cursor
    while len(newest_points) < most:
        rows, next_cursor = await newest(
            engine, _without(where, passed), limit=_ROWS, cursor=next_cursor, fields=_FIELDS
        )
        firsts: dict[str, FoundPoint] = {}
        for row in rows:
            if isinstance(name := row.payload.get("session_id"), str):  # else damaged
                firsts.setdefault(name, row)
        for name, row in firsts.items():
            in_session = OneOf("session_id", (name,))
            if none_of is not None and await engine.scroll(none_of.also(in_session), limit=1, fields=_FIELDS):
                continue
            if cursor is None or not await _is_before(engine, among.also(in_session), cursor):
                newest_points[name] = row
        passed += firsts
        if next_cursor is None:
            break
    return newest_points


async def _is_before(engine: Points, where: Where, cursor: Cursor) -> bool:
    """Whether a matching point stands at or before ``cursor``."""
    if await engine.scroll(where.also(Between(key=ORDER_FIELD, after=cursor.time)), limit=1, fields=_FIELDS):
        return True
    same = await _of_time(engine, where, cursor.time, limit=1, after=None, fields=_FIELDS)
    return bool(same) and UUID(same[0].id) <= cursor.point_id


async def _conversation(
    engine: Points, turns: Where, facts: Where, name: str, newest_point: FoundPoint
) -> Conversation:
    its = OneOf("session_id", (name,))
    turn_count, learned = await asyncio.gather(engine.count(turns.also(its)), engine.count(facts.also(its)))
    first = await _dated_page(engine, (turns if turn_count else facts).also(its), limit=1, order="asc", fields=_FIELDS)
    last = created_at(newest_point)
    return Conversation(
        id=name,
        project_id=newest_point.payload.get("project_id"),
        agent_id=newest_point.payload.get("agent_id"),
        begun_at=created_at(first[0]) if first else last,  # gone meanwhile
        last_turn_at=last if turn_count else None,
        turns=turn_count,
        memories=learned,
    )


def _without(where: Where, names: Collection[str]) -> Where:
    if not names:
        return where
    return Where(where.must, (*where.must_not, OneOf("session_id", tuple(names))))


async def _next_times(engine: Points, where: Where, older: Where, *, limit: int, fields: Fields) -> list[FoundPoint]:
    rows = await _dated_page(engine, older, limit=limit, order="desc", fields=fields)
    if len(rows) < limit:
        return [point for group in _by_time(rows) for point in group]
    *whole, cut = _by_time(rows)
    # the last time may have more points than were read: any of them, so all are read again in id order
    rest = await _of_time(engine, where, created_at(cut[0]), limit=len(cut), after=None, fields=fields)
    return [point for group in whole for point in group] + rest


async def _of_time(
    engine: Points, where: Where, time: datetime, *, limit: int, after: str | None, fields: Fields
) -> list[FoundPoint]:
    same = where.also(Between(key=ORDER_FIELD, at_or_after=time, at_or_before=time))
    return await _dated_page(engine, same, limit=limit, after=after, fields=fields)


async def _dated_page(
    engine: Points,
    where: Where,
    *,
    limit: int,
    order: Order = None,
    after: str | None = None,
    fields: Fields = None,
) -> list[FoundPoint]:
    """As `Points.scroll`, without the undated points of a damaged file; fewer than ``limit`` where no more are."""
    batch = limit
    while True:
        rows = await engine.scroll(where, limit=batch, order=order, after_id=after, fields=fields)
        damaged = {row.id: error for row in rows if (error := _date_error(row)) is not None}
        if len(rows) == batch and len(rows) - len(damaged) < limit:
            batch = limit + len(damaged)
            continue
        for point_id, error in damaged.items():
            pass_over(point_id, error)
        return [row for row in rows if row.id not in damaged][:limit]


def _date_error(point: FoundPoint) -> Exception | None:
    """What keeps the point's time from being read; None where it has one."""
    try:
        created_at(point)
    except (KeyError, msgspec.ValidationError) as error:
        return error
    return None


def _by_time(rows: Sequence[FoundPoint]) -> Iterator[list[FoundPoint]]:
    for _, group in groupby(rows, key=created_at):
        yield sorted(group, key=lambda point: UUID(point.id))


_SPARE = 8  # turns read beyond ``reach`` at first, so that a few of the same time need no second read


async def around(engine: Points, scope: Scope, turn: Memory, *, reach: int) -> list[Memory]:
    """Up to ``reach`` turns before and after ``turn``, in order; the turn itself is not among them."""
    session = turns_of(scope, turn.session_id)
    earlier, later = await asyncio.gather(
        _side_turns(engine, session.also(Between(key=ORDER_FIELD, at_or_before=turn.created_at)), turn, reach, "desc"),
        _side_turns(engine, session.also(Between(key=ORDER_FIELD, at_or_after=turn.created_at)), turn, reach, "asc"),
    )
    return [*reversed(earlier), *later]


async def _side_turns(engine: Points, where: Where, turn: Memory, reach: int, order: Order) -> list[Memory]:
    """The nearest ``reach`` turns on one side, nearest first."""
    limit = reach + _SPARE
    while True:
        points = await engine.scroll(where, limit=limit, order=order)
        turns = memories(points)
        complete = len(points) < limit
        if not complete:  # of the last time read there may be more
            turns = [other for other in turns if other.created_at != turns[-1].created_at]
        position, back = _position(turn), order == "desc"
        beyond = [other for other in turns if (_position(other) < position if back else _position(other) > position)]
        beyond.sort(key=_position, reverse=back)
        if complete or len(beyond) >= reach:
            return beyond[:reach]
        limit *= 4  # many turns of one time (an import dated by the day): read on until their order is known


def _position(turn: Memory) -> tuple[datetime, int, str]:
    seq = turn.metadata.get("seq")
    return (turn.created_at, seq if isinstance(seq, int) else 0, turn.id)
