"""The seam to where memories and their vectors live, and to their being encoded anew (`RebuildableStore`)."""

from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

from memproxy.core.backup_manifest import Snapshot
from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope

if TYPE_CHECKING:  # the relay passes such by and does without NumPy, a tenth of its start
    import numpy as np
    import numpy.typing as npt


class SparseVector(msgspec.Struct, frozen=True):
    """Token ids and their weights, same length; BM25's half of a memory."""

    indices: list[int]
    values: list[float]


class Point(msgspec.Struct, kw_only=True):
    """A memory with its vectors, as it is written to a store: ``dense`` has one for each part of the text (long
    messages are split for the embedder and scored by their best part), or none yet, ``tokens`` those of its single
    tokens (`core.vectors`), or none.
    """

    memory: Memory
    dense: list[list[float]] = []
    bm25: SparseVector
    tokens: bytes = b""


class MemoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Narrows a read within a scope. ``None`` or empty means "any"; lists mean "one of these".

    ``active`` None is both. ``as_of`` keeps what held at that instant (validity interval around it, learned by then is
    not required). Expired memories (``expires_at`` before ``now``) are never returned when ``now`` is given.
    ``telling`` leaves out turns that only ask for what is the user's own, or suppose something (`core.telling`); a
    search does not count them in its IDF either.
    """

    ids: tuple[str, ...] = ()
    kinds: tuple[Kind, ...] = ()
    session_ids: tuple[str, ...] = ()
    project_ids: tuple[str, ...] = ()
    agent_ids: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    turn_ids: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    wings: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    closets: tuple[str, ...] = ()
    active: bool | None = None
    quarantined: bool | None = None
    telling: bool = False
    as_of: datetime | None = None
    now: datetime | None = None


class HybridQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One search by vector and by words at once. ``dense`` None searches by words alone, ``bm25`` None by vector.

    ``tokens`` and ``words`` as in `Question`: candidates are compared with them; without them theirs need not be read.
    ``facts``: this many of the best non-turns on each side are candidates too, however many turns are better.
    ``background``: no request waits for it, so the store need not put off other work for what may follow it.
    """

    dense: list[float] | None = None
    bm25: SparseVector | None = None
    tokens: "npt.NDArray[np.float32] | None" = None
    words: Sequence[str] = ()
    limit: int = 100
    facts: int = 0
    where: MemoryFilter = MemoryFilter()
    background: bool = False


class Notes(msgspec.Struct):
    """What ranking derived from a memory's text, to be used when it is found again (None: nothing yet). A store keeps
    it beside its copy of the memory and nowhere else: nothing is left of it when the memory is changed or erased.
    """

    derived: object = None


@runtime_checkable
class NotesAhead(Protocol):
    """A store that reads memories before a search finds them, and can have their notes made then."""

    def note_ahead(self, make: Callable[[Memory, Notes], None]) -> None:
        """``make`` fills the notes of each memory that is read ahead from now on. It takes less than 0.1 ms."""


class Candidate(msgspec.Struct, kw_only=True, gc=False):
    """One memory found, with its raw scores; ``None`` when that side was not searched or has no vector for it.
    ``cosine`` lies in [-1, 1]; ``bm25`` is the sum of IDF-weighted term scores over the scope's own corpus, 0 when no
    term matches. Both are filled for every candidate. ``tokens`` as in `Point`. Nothing of it refers back to it: it is
    no garbage.
    """

    memory: Memory
    cosine: float | None = None
    bm25: float | None = None
    tokens: bytes = b""
    notes: Notes = msgspec.field(default_factory=Notes)


class Page(msgspec.Struct, kw_only=True):
    """A page of a list, newest first, and the cursor of the next one (None at the end)."""

    memories: list[Memory]
    next_cursor: str | None = None


class PointPage(msgspec.Struct, kw_only=True):
    """A page of memories with their vectors, newest first, and the cursor of the next one (None at the end)."""

    points: list[Point]
    next_cursor: str | None = None


class Conversation(msgspec.Struct, kw_only=True):
    """A conversation as far as a scope sees it. ``begun_at`` is the time of its first turn, where it has one, else of
    its first memory; project, agent and ``last_words`` (no more than their beginning; empty where they cannot be read)
    are those of its last turn, or of its newest memory. ``memories`` are not turns, and may be superseded.
    """

    id: str
    project_id: str | None
    agent_id: str | None
    begun_at: datetime
    last_turn_at: datetime | None
    turns: int
    memories: int
    last_words: str = ""


class ConversationPage(msgspec.Struct, kw_only=True):
    """A page of conversations, the one last spoken in first, and the cursor of the next page (None at the end)."""

    conversations: list[Conversation]
    next_cursor: str | None = None


Written = Callable[[Scope, Sequence[Memory] | None], Awaitable[None]]
"""Called with an owner and what was written of it; None: something else was changed or deleted."""


@runtime_checkable
class TellsChanges(Protocol):
    """A store that announces each change before the call that makes it returns."""

    def on_changed(self, callback: Written) -> None:
        """``callback`` is awaited with every change; it raises nothing."""


HotPlace = tuple[str | None, str | None]
"""Project and agent for which an owner's memories are kept."""


class HotStore(Protocol):
    """Where an owner's best memories are kept for some minutes, for each place. Raises `errors.CacheUnavailable`."""

    async def generation(self, owner: tuple[str, str]) -> str:
        """A name that changes with each `forget`."""

    async def places(self, owner: tuple[str, str]) -> list[HotPlace]:
        """The places for which memories are kept."""

    async def forget(self, owner: tuple[str, str]) -> list[HotPlace]:
        """Keep nothing of the owner's any more, nor take what was read before; the places for which some were kept."""

    async def read(self, owner: tuple[str, str], place: HotPlace) -> list[Memory] | None:
        """What is kept, best first; None: nothing is."""

    async def write(
        self, owner: tuple[str, str], place: HotPlace, memories: Sequence[tuple[float, Memory]], generation: str
    ) -> bool:
        """Keep these with their scores, in place of others; False: not, after a `forget` since ``generation``."""


@runtime_checkable
class HeldStore(Protocol):
    """A store in files of this machine, which can be copied while it serves."""

    def held(self) -> AbstractAsyncContextManager[Path]:
        """Within it nobody writes, and everything written is in the files of the folder that it answers."""


@runtime_checkable
class SnapshotStore(Protocol):
    """A store on a server that makes snapshots of itself."""

    def snapshot(self) -> AbstractAsyncContextManager[Snapshot]:
        """Make one, removed again after an error; within it nobody here writes. Raises `StoreUnavailable`."""


class MemoryStore(Protocol):
    """Where memories and their vectors live. Tenant and user are in every call's filter, project and agent visibility
    is as `Scope` says. All calls raise `errors.StoreUnavailable` when the store does not answer, and nothing of the
    backend's own.
    """

    @property
    def dimension(self) -> int:
        """Length of the vectors that it takes."""

    async def open(self, expected_id: str | None) -> str:
        """Open or create, and answer the store's own id (made when it was created). What an attempt that failed had
        opened is opened anew.

        Raises:
            StoreUnavailable: it does not answer, or ``expected_id`` is given and this is not that store (its files are
                gone or another store's are there): an empty store must not silently take the place of a full one.
            ConfigError: it was built with another embedding model or dimension; the message says `memproxy reindex`.
        """

    async def close(self) -> None:
        """Flush and release everything."""

    async def upsert(self, scope: Scope, points: Sequence[Point]) -> None:
        """Insert or replace by memory id (for turns: by session and id). Durable only after `flush`."""

    async def set_fields(self, scope: Scope, changes: Mapping[str, Mapping[str, Any]]) -> None:
        """Change payload fields (JSON types) of memories by id, vectors untouched; where the content changes its token
        vectors go. Unknown ids are passed over. Raises `errors.RequestError` for fields that say whose they are.
        """

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of this owner with these ids; missing ones are simply not in the answer."""

    async def page(self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        """A page, newest first by ``created_at``. Raises `errors.RequestError` for a cursor that is not one."""

    async def conversations(
        self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None
    ) -> ConversationPage:
        """A page of the conversations of the matching memories; one without a turn stands where its newest memory does.
        It takes as long as the page is long. Raises `errors.RequestError` for a wrong cursor.
        """

    async def point_page(self, scope: Scope, *, limit: int, cursor: str | None = None) -> PointPage:
        """As `page` of all that the scope may see, with the vectors: for taking memories along, not for searching."""

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        """The best ``limit`` by vector and the best ``limit`` by words, in any order, with every raw score. BM25's IDF
        is that of the scope's owner where the engine can.
        """

    async def neighbours(self, scope: Scope, turns: Sequence[Memory], *, reach: int) -> list[Memory]:
        """Up to ``reach`` turns said before and after each given turn in its session (those given not included)."""

    async def delete(self, scope: Scope, where: MemoryFilter) -> int:
        """Delete all that matches of the scope's owner (exactly its project and agent, where set); how many."""

    async def count(self, scope: Scope, where: MemoryFilter) -> int:
        """How many match, exactly."""

    async def columns(self, scope: Scope, where: MemoryFilter, fields: Sequence[str]) -> list[tuple[Any, ...]]:
        """These payload fields of all memories that match, in no order that means something: far cheaper than the
        memories themselves. Only fields that hold no text (ids, kinds, times): others may be encrypted here.
        """

    async def count_tenant(self, tenant: str) -> int:
        """How many memories all users of a tenant have; a number, for quotas: nothing of them is read."""

    @property
    def is_flushed(self) -> bool:
        """Whether a flush has something to do: a server's writes are durable when they return."""

    async def flush(self) -> None:
        """Returns when every upsert, change and delete so far survives a crash."""

    def hurry(self) -> None:
        """Somebody waits for a flush that waits for searches to pause: it begins soon, whatever is searched."""

    async def optimize(self) -> bool:
        """Drop what was deleted from the store's files, where that is ours to do; answers whether there was something.
        May take seconds, during which an embedded store answers nothing.
        """

    async def points(self) -> int:
        """How many points the whole store holds (a number for a metric; no content)."""


class Scanned(msgspec.Struct, frozen=True, kw_only=True):
    """Some of all memories: where the next call goes on (None at the end), and how many could not be read."""

    memories: list[Memory]
    next_id: str | None
    damaged: int = 0


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A memory as the new collection holds it; ``embedded``: it has a dense vector, ``late``: vectors of its tokens."""

    memory: Memory
    bm25: SparseVector
    embedded: bool
    late: bool = False


class Rebuild(Protocol):
    """A new collection in the making. Memories go by their point ids. Every call raises `errors.StoreUnavailable` when
    the store fails. Until `switch` the first collection serves; what is written to it is noted for `take_changed`.
    """

    @property
    def resumed(self) -> bool:
        """Whether an earlier attempt left something that is gone on with."""

    @property
    def total(self) -> int:
        """Memories in the first collection when this began."""

    def point_id(self, memory: Memory) -> str:
        """The memory's point id, which is the same in both collections."""

    async def scan(self, after: str | None, *, limit: int) -> Scanned:
        """Memories of all owners in the first collection, in the order of their point ids, from behind ``after``."""

    async def turns(self, scope: Scope, cursor: str | None, *, limit: int) -> Page:
        """Turns of ``scope.session`` (None: of no session) in the first collection, newest first."""

    async def current(self, point_ids: Collection[str]) -> list[Memory]:
        """These memories as the first collection has them now; those that are gone are left out."""

    async def neighbours(self, scope: Scope, turns: Sequence[Memory]) -> list[Memory]:
        """The turns right before and after these in their sessions, in the first collection."""

    async def stored(self, point_ids: Collection[str]) -> dict[str, Kept]:
        """What the new collection has of these, by point id."""

    async def write(self, points: Sequence[Point]) -> None:
        """Write to the new collection."""

    async def remove(self, point_ids: Collection[str]) -> None:
        """Delete from the new collection."""

    async def remove_strays(self) -> None:
        """Delete from the new collection what the first one has no more."""

    async def flush(self) -> None:
        """Returns when everything written to the new collection survives a crash."""

    def take_changed(self) -> set[str]:
        """Points written or deleted in the first collection since the last call."""

    def paused(self) -> AbstractAsyncContextManager[None]:
        """Within it, writes to the first collection wait."""

    async def switch(self) -> None:
        """The new collection takes the first one's place for good, which is removed. In `paused`, after `flush`."""

    async def close(self) -> None:
        """Let go; without `switch` what was written stays for the next attempt."""


class RebuildableStore(MemoryStore, Protocol):
    """A memory store that can be rebuilt: a second collection takes the place of the first. For a reindex alone: what
    is read here is not bound to an owner.
    """

    async def begin_rebuild(self, expected_id: str | None) -> Rebuild:
        """Make a new collection for the configured embedder beside the present one, or go on with one that was begun.

        A store that `open` refused because of its embedder is opened as it was built, and is open as configured after
        the switch; without a switch it is closed again by `Rebuild.close`.

        Raises:
            StoreUnavailable: as for `open`.
            ConfigError: a newer version wrote it.
        """


async def every(store: MemoryStore, scope: Scope, where: MemoryFilter, *, at_once: int = 200) -> AsyncIterator[Memory]:
    """All memories that match, newest first, ``at_once`` read in one call."""
    cursor: str | None = None
    while True:
        page = await store.page(scope, where, limit=at_once, cursor=cursor)
        for memory in page.memories:
            yield memory
        if (cursor := page.next_cursor) is None:
            return
