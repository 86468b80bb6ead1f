"""`POST /v1/memory/turns`: ingest a conversation as verbatim turns."""

import asyncio
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from memproxy.api.context import QUEUED, Backends, Writer
from memproxy.api.http import answer, caller, read_body, read_query
from memproxy.api.idempotency import new_id
from memproxy.api.queries import TurnsQuery
from memproxy.api.schemas import MessageBody, NewTurns
from memproxy.auth import resolve_scope
from memproxy.core.block import strip_blocks
from memproxy.core.memory import Kind, Source
from memproxy.core.protocol import TurnsBody
from memproxy.core.redact import redact, redact_all
from memproxy.core.scope import Scope
from memproxy.core.turn import Message, name_within, turn_id
from memproxy.errors import RequestError, StoreUnavailable
from memproxy.ports import JournalKind, MemoryFilter

WAIT_S = 55.0
"""How long `?wait=true` (and the indexing of a large call) may take; the contract's number."""

STEP_S = 1.0
"""Between two looks at whether the store answers, and has room: a large call is waited for, an outage is not."""

_MOST_IDS = 200
"""Turns that are looked up at once."""

UNTIMED = datetime(1, 1, 1, tzinfo=UTC)
"""Stands for "no timestamp" in a turn's identity: the same turns sent twice without one are the same turns."""


class Said(msgspec.Struct, frozen=True):
    """A conversation in the journal: its row's number (None when nothing was said), its scope, and those of its
    messages that say something under an id of their own.
    """

    number: int | None
    scope: Scope
    named: list[Message]


class Turns:
    """The ingest call."""

    def __init__(self, backends: Backends, writer: Writer) -> None:
        self._backends = backends
        self._writer = writer
        self._max_bytes = backends.settings.server.max_body_bytes
        self._redact = frozenset[str](backends.settings.privacy.redact)

    async def ingest(self, request: Request) -> Response:
        """Store the messages in order; 201 when they can be found, 202 when they wait for the store."""
        identity = caller(request, "memory:write")
        wait = read_query(request, TurnsQuery).wait
        body = await read_body(request, NewTurns, self._max_bytes)
        scope = resolve_scope(
            identity, user=body.user_id, project=body.project_id, agent=body.agent_id, session=body.session_id
        )
        if scope.session is None:
            scope = msgspec.structs.replace(scope, session=new_id(request, "ses", uuid.uuid4().hex))
        check_ids(body)
        deadline = asyncio.get_running_loop().time() + WAIT_S
        messages = await self._messages(scope, body, identity.only_project)
        await self._backends.quotas.admit_turns(scope, sum(bool(message.content.strip()) for message in messages))
        indexed = await self._index(scope, body, messages, deadline)
        pairs = zip(body.messages, messages, strict=True)
        called = {kept.id or "": given.id or kept.id or "" for given, kept in pairs}
        turn_ids = [called[message.id or ""] for message in messages]
        data: dict[str, object] = {"turn_ids": turn_ids, "session_id": scope.session}
        if indexed and (conflicts := await self.conflicts(scope, _named(body, messages))):
            data["conflicts"] = [called[name] for name in conflicts]
        if wait:
            learned = indexed and await self._backends.worker.learned(scope, _left(deadline))
            data["learning"] = "done" if learned else "pending"
        return answer(data, 201) if indexed else answer(data, 202, QUEUED)

    async def _messages(self, scope: Scope, body: NewTurns, only_project: str | None) -> list[Message]:
        """The messages as they are kept, each with the id that it will have. Ids that a key of one project gives are
        the project's own, but for those by which it sees a turn of the conversation.
        """
        given = [self._kept(message, body.timestamp) for message in body.messages]
        names = _names(scope, given)
        if only_project is not None:
            chosen = [message.id for message in given if message.id is not None]
            seen = (await self._stored(scope, chosen)).keys()
            names = [
                name_within(only_project, message.id) if message.id is not None and message.id not in seen else name
                for message, name in zip(given, names, strict=True)
            ]
        return [msgspec.structs.replace(message, id=name) for message, name in zip(given, names, strict=True)]

    def _kept(self, message: MessageBody, default_time: datetime | None) -> Message:
        return Message(
            role=message.role,
            content=redact(strip_blocks(message.content), self._redact),
            id=message.id,
            name=redact(message.name, self._redact) if message.name else None,
            timestamp=message.timestamp or default_time,
        )

    async def journalled(self, scope: Scope, body: NewTurns, *, source: Source, only_project: str | None) -> Said:
        """Journal a conversation of the owner, without waiting."""
        scope = Scope(
            tenant=scope.tenant,
            user=scope.user,
            project=only_project or body.project_id,
            agent=body.agent_id,
            session=body.session_id or f"ses_{uuid.uuid4().hex}",
        )
        messages = await self._messages(scope, body, only_project)
        return Said(await self._append(scope, body, messages, source), scope, _named(body, messages))

    async def conflicts(self, scope: Scope, named: Sequence[Message]) -> list[str]:
        """The ids of those messages of a session, indexed by now, under which another one is stored: it came first and
        stays (an id names one statement for ever). Only of those that the scope sees, and empty where the store went
        away meanwhile.
        """
        said = {message.id or "": (message.role, message.content) for message in named}
        kept = await self._stored(scope, list(said))
        return [name for name in said if name in kept and kept[name] != said[name]]

    async def _stored(self, scope: Scope, ids: Sequence[str]) -> dict[str, tuple[object, str]]:
        """Who says what in those turns of a session, by these ids, that the scope sees; nothing while the store is
        away.
        """
        kept: dict[str, tuple[object, str]] = {}
        here = msgspec.structs.replace(scope, session=None)
        try:
            for begin in range(0, len(ids), _MOST_IDS):
                some = tuple(ids[begin : begin + _MOST_IDS])
                where = MemoryFilter(ids=some, kinds=(Kind.TURN,), session_ids=(scope.session or "",))
                page = await self._backends.store.page(here, where, limit=_MOST_IDS)
                kept |= {turn.id: (turn.metadata.get("role"), turn.content) for turn in page.memories}
        except StoreUnavailable:
            return {}
        return kept

    async def _append(self, scope: Scope, body: NewTurns, messages: list[Message], source: Source) -> int | None:
        turns = TurnsBody(
            messages=[message for message in messages if message.content.strip()],
            said_at=self._backends.clock.now(),
            source=source,
            metadata=redact_all(body.metadata, self._redact),
        )
        return await self._writer.append(scope, JournalKind.TURNS, turns) if turns.messages else None

    async def _index(self, scope: Scope, body: NewTurns, messages: list[Message], deadline: float) -> bool:
        """Journal the turns that say something and wait until they are indexed; False when the store is away, or
        has no room for them.
        """
        number = await self._append(scope, body, messages, Source.API)
        if number is None:
            return True
        while not await self._backends.worker.applied(number, min(STEP_S, _left(deadline))):
            if _left(deadline) <= 0 or self._backends.worker.waits(scope) or not await self._store_answers():
                return False
        return True

    async def _store_answers(self) -> bool:
        try:
            self._backends.require_store()
            await self._backends.store.points()
        except StoreUnavailable:
            return False
        return True


def _named(body: NewTurns, messages: Sequence[Message]) -> list[Message]:
    """Those of the messages, as they are kept, that came with an id and say something."""
    pairs = zip(body.messages, messages, strict=True)
    return [kept for given, kept in pairs if given.id is not None and kept.content.strip()]


def check_ids(body: NewTurns) -> None:
    """An id names one statement: the same message may be sent twice, another one under its id may not.

    Raises:
        RequestError: two messages of one id say different things.
    """
    said: dict[str, tuple[int, MessageBody]] = {}
    for place, message in enumerate(body.messages):
        if message.id is None:
            continue
        first, known = said.setdefault(message.id, (place, message))
        if (known.role, known.content) != (message.role, message.content):
            raise RequestError(
                f"messages.{place}.id: is that of message {first}, which says something else; every message has an id "
                "of its own.",
                param=f"messages.{place}.id",
            )


def _names(scope: Scope, messages: Sequence[Message]) -> list[str]:
    """The turn ids (CONTRACT section 6): a message's own id, else what identifies it; occurrence within this call."""
    seen: dict[tuple[str, str, datetime], int] = {}
    names = []
    for message in messages:
        said_at = message.timestamp or UNTIMED
        key = (message.role, message.content, said_at)
        occurrence = seen.get(key, 0)
        seen[key] = occurrence + 1
        names.append(turn_id(scope, message, occurrence, said_at))
    return names


def _left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())
