"""`POST /v1/memory/turns`: ingest a conversation as verbatim turns."""

import asyncio
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from pydantic import FailFast, Field, ValidationInfo, field_validator

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import QUEUED, Backends
from memproxy.api.fields import (
    MAX_MESSAGES,
    Label,
    MessageContent,
    Metadata,
    Name,
    OptionalTime,
    ReachableId,
    Role,
    parse_content,
)
from memproxy.api.models import Body, one_of
from memproxy.core.block import strip_blocks
from memproxy.core.memory import Kind, Source
from memproxy.core.protocol import TurnsBody
from memproxy.core.redact import redact, redact_all
from memproxy.core.scope import Scope
from memproxy.core.turn import Message, name_within, turn_id
from memproxy.errors import RequestError, StoreUnavailable
from memproxy.ports import JournalKind, MemoryFilter

WAIT_S = 55.0
"""How long `?wait=true` (and the indexing of a large call) may take (docs/api.md)."""

STEP_S = 1.0
"""Seconds between two checks that the store answers and has room: an outage ends the wait for a large call."""

_MOST_IDS = 200
"""Turns that are looked up at once."""

UNTIMED = datetime(1, 1, 1, tzinfo=UTC)
"""Stands for "no timestamp" in a turn's identity: the same turns sent twice without one are the same turns."""


RESERVED_METADATA = frozenset({"role", "seq", "name"})
"""Keys of a turn's metadata that are ours."""

_FIELDS_INSTEAD_OF_TEXT = ("tool_calls", "tool_call_id", "function_call", "refusal", "audio")
"""What a message without text may hold instead; a tool may also have answered nothing."""

Unread = Annotated[Any, Field(description="Taken, as chat takes it, and not kept.")]


class MessageBody(Body):
    """One message of a conversation, as chat takes it and answers it: beside what it says, what it calls is not kept. A
    message without text (it only calls tools, or shows a picture) is no turn.
    """

    role: Role
    id: Annotated[ReachableId | None, Field(description="Its turn's id from then on.")] = None
    name: Label | None = None
    timestamp: OptionalTime = None
    tool_calls: Unread = None
    tool_call_id: Unread = None
    function_call: Unread = None
    refusal: Unread = None
    audio: Unread = None
    annotations: Unread = None
    reasoning: Unread = None
    reasoning_content: Unread = None
    content: MessageContent = Field("", validate_default=True)

    @field_validator("content", mode="before")
    @classmethod
    def _says_or_calls(cls, content: object, info: ValidationInfo) -> object:
        """Only what stands for something else may be without text; any other message is a mistake."""
        return parse_content(content, may_be_empty=any(info.data.get(name) for name in _FIELDS_INSTEAD_OF_TEXT))


class NewTurns(Body):
    """`POST /v1/memory/turns`. ``timestamp`` is the time of the messages that have none of their own."""

    session_id: Name | None = None
    user_id: Name | None = None
    project_id: Name | None = None
    agent_id: Name | None = None
    messages: Annotated[list[MessageBody], FailFast(), Field(min_length=1, max_length=MAX_MESSAGES)]
    timestamp: OptionalTime = None
    metadata: Metadata = Field({})

    @field_validator("metadata")
    @classmethod
    def _metadata_is_theirs(cls, metadata: dict[str, Any]) -> dict[str, Any]:
        if reserved := sorted(RESERVED_METADATA & metadata.keys()):
            raise ValueError(f"must not set {', '.join(reserved)}: these say who spoke and in which order")
        return metadata


class TurnsQuery(Body):
    """The query string of `POST /v1/memory/turns`."""

    wait: bool = False


class TurnIds(msgspec.Struct, kw_only=True):
    """The ids of the turns, one for each message."""

    turn_ids: list[str]
    session_id: str
    conflicts: list[str] | UnsetType = UNSET
    learning: Annotated[Any, one_of("done", "pending")] | UnsetType = UNSET


@operation("POST", "/v1/memory/turns", "memory:write", statuses=(201, 202), errors=(429,))
async def ingest(api: Backends, call: Call, query: TurnsQuery, body: NewTurns) -> Reply[TurnIds]:
    """Ingest a conversation as verbatim turns."""
    scope = call.scope(body.session_id)
    if scope.session is None:
        scope = msgspec.structs.replace(scope, session=call.new_id("ses"))
    check_ids(body)
    deadline = asyncio.get_running_loop().time() + WAIT_S
    messages = await _messages(api, scope, body, call.identity.only_project)
    await api.quotas.admit_turns(scope, sum(bool(message.content.strip()) for message in messages))
    number = await _append(api, scope, body, messages, Source.API)
    indexed = number is None or await _is_indexed(api, scope, number, deadline)
    pairs = zip(body.messages, messages, strict=True)
    client_id_of = {stored.id or "": sent.id or stored.id or "" for sent, stored in pairs}
    answer = TurnIds(turn_ids=[client_id_of[message.id or ""] for message in messages], session_id=scope.session or "")
    if indexed and (conflicts := await conflicting(api, scope, _with_own_ids(body, messages))):
        answer.conflicts = [client_id_of[name] for name in conflicts]
    if query.wait:
        learned = indexed and await api.parts.worker.learned(scope, _seconds_left(deadline))
        answer.learning = "done" if learned else "pending"
    return Reply(answer, 201) if indexed else Reply(answer, 202, QUEUED)


class JournaledConversation(NamedTuple):
    """A conversation in the journal: its row's number (None when nothing was said), its scope, and those of its
    messages that say something under an id of their own.
    """

    number: int | None
    scope: Scope
    named: list[Message]


async def journal_conversation(
    api: Backends, scope: Scope, body: NewTurns, *, only_project: str | None
) -> JournaledConversation:
    """Journal a conversation of an import for the owner, without waiting."""
    scope = Scope(
        tenant=scope.tenant,
        user=scope.user,
        project=only_project or body.project_id,
        agent=body.agent_id,
        session=body.session_id or f"ses_{uuid.uuid4().hex}",
    )
    messages = await _messages(api, scope, body, only_project)
    number = await _append(api, scope, body, messages, Source.IMPORT)
    return JournaledConversation(number, scope, _with_own_ids(body, messages))


async def _messages(api: Backends, scope: Scope, body: NewTurns, only_project: str | None) -> list[Message]:
    """The messages as they are kept, each with the id that it will have: its own, else one made of
    what identifies it and of its occurrence within this call. Ids that a key of one project gives are the project's
    own, except those under which the key sees a turn of this conversation already.
    """
    own_ids = [message.id for message in body.messages if message.id is not None]
    stored = {} if only_project is None else await _stored(api, scope, own_ids)
    counts: Counter[tuple[str, str, datetime]] = Counter()
    messages = []
    for sent in body.messages:
        message = Message(
            role=sent.role,
            content=redact(strip_blocks(sent.content), api.redacted),
            id=sent.id,
            name=redact(sent.name, api.redacted) if sent.name else None,
            timestamp=sent.timestamp or body.timestamp,
        )
        said_at = message.timestamp or UNTIMED
        key = (message.role, message.content, said_at)
        name = turn_id(scope, message, counts[key], said_at)
        counts[key] += 1
        if only_project is not None and sent.id is not None and sent.id not in stored:
            name = name_within(only_project, sent.id)
        messages.append(msgspec.structs.replace(message, id=name))
    return messages


async def conflicting(api: Backends, scope: Scope, named: Sequence[Message]) -> list[str]:
    """The ids of those messages of a session, indexed by now, under which another one is stored: it came first and
    stays (an id names one statement for ever). Only of those that the scope sees, and empty where the store went away
    meanwhile.
    """
    statements = {message.id or "": (message.role, message.content) for message in named}
    stored = await _stored(api, scope, list(statements))
    return [name for name in statements if name in stored and stored[name] != statements[name]]


async def _stored(api: Backends, scope: Scope, ids: Sequence[str]) -> dict[str, tuple[object, str]]:
    """Who says what in those turns of a session, by these ids, that the scope sees; nothing while the store is away."""
    statements: dict[str, tuple[object, str]] = {}
    user_scope = msgspec.structs.replace(scope, session=None)
    try:
        for begin in range(0, len(ids), _MOST_IDS):
            batch = tuple(ids[begin : begin + _MOST_IDS])
            where = MemoryFilter(ids=batch, kinds=(Kind.TURN,), session_ids=(scope.session or "",))
            page = await api.store.page(user_scope, where, limit=_MOST_IDS)
            statements |= {turn.id: (turn.metadata.get("role"), turn.content) for turn in page.memories}
    except StoreUnavailable:
        return {}
    return statements


async def _append(api: Backends, scope: Scope, body: NewTurns, messages: list[Message], source: Source) -> int | None:
    """Journal the messages that say something; the row's number, None where none does."""
    turns = TurnsBody(
        messages=[message for message in messages if message.content.strip()],
        said_at=api.parts.clock.now(),
        source=source,
        metadata=redact_all(body.metadata, api.redacted),
    )
    return await api.append(scope, JournalKind.TURNS, turns) if turns.messages else None


async def _is_indexed(api: Backends, scope: Scope, number: int, deadline: float) -> bool:
    """Wait until the row's turns are indexed; False when the store is away, or has no room for them."""
    while not await api.parts.worker.applied(number, min(STEP_S, _seconds_left(deadline))):
        if _seconds_left(deadline) <= 0 or api.parts.worker.waits(scope):
            return False
        try:
            await api.store.points()
        except StoreUnavailable:
            return False
    return True


def _with_own_ids(body: NewTurns, messages: Sequence[Message]) -> list[Message]:
    """Those of the messages, as they are kept, that came with an id and say something."""
    pairs = zip(body.messages, messages, strict=True)
    return [message for sent, message in pairs if sent.id is not None and message.content.strip()]


def check_ids(body: NewTurns) -> None:
    """An id names one statement: the same message may be sent twice, another one under its id may not.

    Raises:
        RequestError: two messages of one id say different things.
    """
    first_by_id: dict[str, tuple[int, MessageBody]] = {}
    for index, message in enumerate(body.messages):
        if message.id is None:
            continue
        first, first_message = first_by_id.setdefault(message.id, (index, message))
        if (first_message.role, first_message.content) != (message.role, message.content):
            raise RequestError(
                f"messages.{index}.id: is that of message {first}, which says something else; every message has an id "
                "of its own.",
                param=f"messages.{index}.id",
            )


def _seconds_left(deadline: float) -> float:
    return max(0.0, deadline - asyncio.get_running_loop().time())
