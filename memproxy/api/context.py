"""What the API's calls work with, and what they share: one way to write, the audit log, filters, finding a memory,
the pages of what is counted or computed.
"""

import asyncio
import base64
import binascii
import logging
import secrets
import weakref
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import TypeVar

import msgspec

from memproxy.api.models import Filters
from memproxy.api.quotas import Quotas
from memproxy.auth.experiment import Experiment
from memproxy.auth.identity import resolve_scope
from memproxy.core.audit import AuditEntry
from memproxy.core.changes import ChangeNotices
from memproxy.core.memory import Kind, Memory, is_cited_by
from memproxy.core.protocol import Identity, PlanBody, takes_back
from memproxy.core.scope import Scope
from memproxy.core.turn import name_within
from memproxy.errors import Ambiguous, NotFound, RequestError, StateUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.budget import QuestionTally
from memproxy.learn.worker import Worker
from memproxy.metrics import metrics
from memproxy.ports import (
    Clock,
    Embedder,
    HeldStore,
    JournalEntry,
    JournalKind,
    LexicalEncoder,
    MemoryFilter,
    MemoryStore,
    OpenModel,
    RebuildableStore,
    SharedServer,
    SnapshotStore,
    StateStore,
    UsageStore,
    WorkingStore,
)
from memproxy.recall.hot import Hot
from memproxy.recall.pipeline import Recall
from memproxy.retention.accesses import AccessCounter
from memproxy.retention.erasing import Eraser
from memproxy.retention.pruning import Pruner
from memproxy.settings import Settings

log = logging.getLogger(__name__)

T = TypeVar("T")

WRITE_TIMEOUT_S = 10.0
"""How long a write waits to be applied; after that it is queued (202), and still durable."""

CITED = "m:"
"""Prefix of the short ids by which blocks cite memories."""

_MOST_NAMED = 5
"""Ids listed in an error message."""

MOST_READ = 10_000
"""Memories that one call reads at most, the newest: what is counted over more is a picture of these."""

_PAGE = 200

QUEUED = {"x-memproxy-write": "queued"}
"""Header of a 202: the write is in the journal and will be applied when the store answers again."""


class Locks:
    """One lock a key, for calls that read and then write; dropped when nobody holds it."""

    def __init__(self) -> None:
        self._locks: weakref.WeakValueDictionary[tuple[str, ...], asyncio.Lock] = weakref.WeakValueDictionary()

    def of(self, *key: str) -> AbstractAsyncContextManager[None]:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        return lock


@dataclass(frozen=True, kw_only=True, slots=True)
class Parts:
    """What an engine is made of; nothing of it is open yet.

    ``held`` is the store where its files are ours to copy, or where its server makes snapshots. ``models`` are those
    of worker and recall, closed with the engine. ``changes`` tell every engine whose memories have
    changed. ``usage`` (what limits count) and ``working`` (working memory) are the state by default. ``hot``: the
    memories that are kept hot, where they are; ``shared``: the server of what may be forgotten. ``tally`` counts what
    questions cost a paid embedder. ``secret`` keys the nonces of blocks and the versions of memories (by default one
    for this process). ``write_timeout_s`` is how long an API write waits to be applied before it is answered as queued.
    """

    settings: Settings
    state: StateStore
    store: RebuildableStore
    embedder: Embedder
    lexical: LexicalEncoder
    recall: Recall
    worker: Worker
    access: ModelAccess
    clock: Clock
    held: HeldStore | SnapshotStore | None = None
    changes: ChangeNotices = field(default_factory=ChangeNotices)
    usage: UsageStore | None = None
    working: WorkingStore | None = None
    hot: Hot | None = None
    shared: SharedServer | None = None
    models: Sequence[OpenModel] = ()
    tally: QuestionTally | None = None
    lexical_version: int = 0
    secret: bytes = field(default_factory=partial(secrets.token_bytes, 32))
    write_timeout_s: float = WRITE_TIMEOUT_S


@dataclass(frozen=True, kw_only=True)
class Backends:
    """The parts behind the API, and the one way to write: a journal row first, then wait until it is applied.

    ``require`` raises `errors.StoreUnavailable` or `errors.StateUnavailable` while a part that it names (``store``,
    ``state``) is not open; so do the properties of these names. ``receipts_written`` returns when the receipts of all
    recalls answered so far are written. ``quotas`` are what callers may keep, ``working`` is working memory. ``eraser``
    drops deleted text from the files, ``pruner`` keeps to the limits, ``accesses`` counts what was recalled,
    ``experiment`` what its arms came to. ``listeners`` counts each owner's open streams of activity.
    """

    parts: Parts
    require: Callable[..., None]
    receipts_written: Callable[[], Awaitable[None]]
    quotas: Quotas
    working: WorkingStore
    eraser: Eraser
    pruner: Pruner
    accesses: AccessCounter
    experiment: Experiment
    locks: Locks = field(default_factory=Locks)
    import_locks: Locks = field(default_factory=Locks)
    call_locks: Locks = field(default_factory=Locks)
    listeners: Counter[tuple[str, str]] = field(default_factory=Counter)

    @property
    def state(self) -> StateStore:
        self.require("state")
        return self.parts.state

    @property
    def store(self) -> MemoryStore:
        self.require("store")
        return self.parts.store

    @property
    def redacted(self) -> frozenset[str]:
        """Kinds of secrets that are replaced before a text is kept."""
        return frozenset[str](self.parts.settings.privacy.redact)

    async def append(
        self, scope: Scope, kind: JournalKind, body: msgspec.Struct, *, erases: tuple[Scope, ...] = ()
    ) -> int:
        """Append a row to the journal; returns its number once it is durable. From then on nothing more is accepted for
        the scopes that it ``erases``.

        Raises:
            StateUnavailable: the journal does not take it; nothing is written.
        """
        self.require("state")
        entry = JournalEntry(kind=kind, scope=scope, body=msgspec.json.encode(body), erases=erases)
        return await self.parts.worker.submit(entry)

    async def write(self, scope: Scope, plan: PlanBody, *, erases: tuple[Scope, ...] = ()) -> bool:
        """Write a plan (``erases`` is `append`'s); True when it is applied and flushed, False when it is queued (the
        store is away).

        Raises:
            StateUnavailable: the journal does not take it; nothing is written.
        """
        number = await self.append(scope, JournalKind.PLAN, plan, erases=erases)
        if self.parts.hot is not None and takes_back(plan):
            await self.parts.hot.hold(scope, number)
        applied = await self.parts.worker.applied(number, self.parts.write_timeout_s)
        if applied and self.parts.hot is not None:
            self.parts.hot.release(number)
        return applied

    async def audit(self, identity: Identity, action: str, counts: dict[str, int], **scope: str | None) -> None:
        """Add to the audit log what ``identity`` did: ids and counts, never content. A failure is logged and
        counted, and does not undo the call.
        """
        entry = AuditEntry(
            at=self.parts.clock.now(),
            tenant=identity.tenant,
            by=identity.by or identity.tenant,
            action=action,
            scope={name: value for name, value in scope.items() if value is not None},
            counts=counts,
        )
        try:
            await self.state.note_audit([entry])
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="engine.audit").inc()
            log.error("%s is done and not in the audit log: %s", action, error.message)


def scope_and_filter(identity: Identity, filters: Filters, now: datetime) -> tuple[Scope, MemoryFilter]:
    """What a list or search reads.

    One project (agent) means what a request of that project sees: its memories and those that have none. Several mean
    exactly theirs. Expired memories are left out.
    """
    project, projects = _one_or_several(filters.project_id)
    agent, agents = _one_or_several(filters.agent_id)
    scope = resolve_scope(identity, user=filters.user_id, project=project, agent=agent)
    where = MemoryFilter(
        kinds=tuple(Kind(kind) for kind in filters.kind),
        session_ids=tuple(filters.session_id),
        project_ids=projects,
        agent_ids=agents,
        categories=tuple(filters.category),
        tags=tuple(filters.tag),
        entities=spellings(filters.entity),
        active=filters.active[0] if len(set(filters.active)) == 1 else None,
        quarantined=filters.quarantined,
        as_of=filters.as_of,
        now=now,
    )
    return scope, where


def spellings(names: Sequence[str]) -> tuple[str, ...]:
    """The names in their usual spellings, because stores compare entities exactly."""
    written = (spelling for name in names for spelling in (name, name.lower(), name.title(), name.upper()))
    return tuple(dict.fromkeys(written))


def _one_or_several(values: list[str]) -> tuple[str | None, tuple[str, ...]]:
    return (values[0], ()) if len(values) == 1 else (None, tuple(values))


async def sees_session(backends: Backends, scope: Scope, session: str | None, timeout_s: float) -> bool:
    """Whether the scope sees anything of a conversation: to a key of one project, another's is one that is not there.
    True also when what was said just before is not indexed within the time: some of it may be the scope's own.

    Raises:
        StoreUnavailable, StateUnavailable: that cannot be known.
    """
    backends.require("store", "state")
    if not await backends.parts.worker.indexed(scope, timeout_s):
        return True
    return await backends.store.count(scope, MemoryFilter(session_ids=(session or "",))) > 0


async def find(backends: Backends, scope: Scope, memory_id: str, *, session: str | None = None) -> Memory:
    """One memory of this owner, by its id or by the short one that a block cites it by (``m:1a2b3c4d``). ``session`` is
    the one that the call names for it: a turn of another one, whose id is the same, is not what is meant. In a project
    an id that its key chose stands for the name made of both.

    Raises:
        NotFound: it is not there, is somebody else's, or has expired: nobody can tell which.
        Ambiguous: the short id is that of several.
        StoreUnavailable: the store does not answer.
    """
    names = [memory_id, *([name_within(scope.project, memory_id)] if scope.project is not None else [])]
    stored = await backends.store.get(scope, names)
    if not stored and memory_id.startswith(CITED) and (name := await _cited_id(backends, scope, memory_id, session)):
        names = [name]
        stored = await backends.store.get(scope, names)
    memory = next((stored[name] for name in names if name in stored), None)
    if memory is not None and memory.kind is Kind.TURN and session not in (None, memory.session_id):
        memory = None
    if memory is None or (memory.expires_at is not None and memory.expires_at <= backends.parts.clock.now()):
        raise NotFound(f"No memory has the id {memory_id!r}.", param="id")
    return memory


async def _cited_id(backends: Backends, scope: Scope, cited: str, session: str | None) -> str | None:
    """The id of the memory that is cited so, among those that the scope sees and that have not expired."""
    where = MemoryFilter(now=backends.parts.clock.now())
    ids = {
        memory_id
        for memory_id, kind, session_id in await backends.store.columns(scope, where, ["id", "kind", "session_id"])
        if isinstance(memory_id, str)
        and is_cited_by(memory_id, cited.removeprefix(CITED))
        and (session is None or kind != Kind.TURN.value or session_id == session)
    }
    if len(ids) > 1:
        several = ", ".join(sorted(ids)[:_MOST_NAMED])
        raise Ambiguous(
            f"{cited[:100]!r} stands for {len(ids)} memories: give the whole id, or more of it ({several}).", param="id"
        )
    return next(iter(ids), None)


def write_cursor(listing: str, *position: int | str) -> str:
    """A cursor of the list ``listing``, holding the place after which it goes on."""
    return base64.urlsafe_b64encode(msgspec.json.encode([listing, *position])).decode().rstrip("=")


def read_cursor(listing: str, cursor: str | None) -> list[int | str]:
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
    if kind != listing:
        raise foreign_cursor()
    return position


def number_after(listing: str, cursor: str | None) -> int:
    """The number that a cursor of this list holds; 0 without one.

    Raises:
        RequestError: it is not a cursor of this list.
    """
    position = read_cursor(listing, cursor) or [0]
    if not isinstance(position[0], int) or not 0 <= position[0] < 2**53:
        raise foreign_cursor()
    return position[0]


def page_of(listing: str, items: Sequence[T], cursor: str | None, limit: int) -> tuple[Sequence[T], str | None]:
    """The page of a computed list that is asked for, and the cursor of the next one.

    Raises:
        RequestError: the cursor is not one of this list.
    """
    after = number_after(listing, cursor)
    until = after + limit
    return items[after:until], write_cursor(listing, until) if len(items) > until else None


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
