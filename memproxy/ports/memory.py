"""The seam to where memories and their vectors live."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import msgspec

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
    """A memory with its vectors, as it is written to a store.

    ``dense`` holds one vector per part of the text (long messages are split for the embedder and scored by their best
    part); empty when it is not embedded yet. ``bm25`` is always there. ``tokens`` are the vectors of its single tokens
    (`core.vectors`); empty when there are none.
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
    subjects: tuple[str, ...] = ()
    slots: tuple[str, ...] = ()
    turn_ids: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    wings: tuple[str, ...] = ()
    rooms: tuple[str, ...] = ()
    closets: tuple[str, ...] = ()
    exclude_ids: tuple[str, ...] = ()
    active: bool | None = None
    quarantined: bool | None = None
    telling: bool = False
    as_of: datetime | None = None
    now: datetime | None = None


class HybridQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One search by vector and by words at once. ``dense`` None searches by words alone, ``bm25`` None by vector.

    ``tokens`` and ``words`` as in `Question`: nothing is searched by them, but candidates are compared with them.
    Without them the candidates' tokens need not be read.

    ``facts``: so many of the best on each side that are no turns are candidates too, however many turns are better.

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
    """What whoever ranks a memory made of its text, to be used when it is found again (None: nothing yet).

    A store keeps it beside its own copy of the memory in this process and nowhere else, so that nothing of it is left
    when the memory is changed, forgotten or erased.
    """

    made: object = None


@runtime_checkable
class NotesAhead(Protocol):
    """A store that reads memories before a search finds them, and can have their notes made then."""

    def note_ahead(self, make: Callable[[Memory, Notes], None]) -> None:
        """``make`` fills the notes of each memory that is read ahead from now on. It takes less than 0.1 ms."""


class Candidate(msgspec.Struct, kw_only=True, gc=False):
    """One memory found, with its raw scores; ``None`` when that side was not searched or has no vector for it.

    ``cosine`` lies in [-1, 1]; ``bm25`` is the sum of IDF-weighted term scores over the scope's own corpus, 0 when no
    term matches. Both are filled for every candidate, whichever side found it. ``tokens`` as in `Point`. Nothing of it
    refers back to it, so that Python need not look it through for garbage.
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


class HeldStore(Protocol):
    """A store in files of this machine, which can be copied while it serves."""

    def held(self) -> AbstractAsyncContextManager[Path]:
        """Within it nobody writes, and everything written is in the files of the folder that it answers."""


class MemoryStore(Protocol):
    """Where memories and their vectors live (Qdrant Edge, a Qdrant server).

    Every call is scoped: tenant and user are in every filter, project and agent visibility as `Scope` says. All calls
    raise `errors.StoreUnavailable` when the store does not answer, and nothing else of the backend's own.
    """

    @property
    def dimension(self) -> int:
        """Length of the vectors that it takes."""

    async def open(self, expected_id: str | None) -> str:
        """Open or create, and answer the store's own id (made when it was created).

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
        vectors go. Unknown ids are passed over.
        """

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of this owner with these ids; missing ones are simply not in the answer."""

    async def page(self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        """A page, newest first by ``created_at``. Raises `errors.RequestError` for a cursor that is not one."""

    async def point_page(self, scope: Scope, *, limit: int, cursor: str | None = None) -> PointPage:
        """As `page` of all that the scope may see, with the vectors: for taking memories along, not for searching."""

    async def search(self, scope: Scope, query: HybridQuery) -> list[Candidate]:
        """The union of the best ``limit`` by vector and the best ``limit`` by words, every raw score filled in.

        BM25's IDF is that of the scope's owner where the engine can; order is unspecified (fusion decides).
        """

    async def neighbours(self, scope: Scope, turns: Sequence[Memory], *, reach: int) -> list[Memory]:
        """Up to ``reach`` turns said before and after each given turn in its session (those given not included)."""

    async def delete(self, scope: Scope, where: MemoryFilter) -> int:
        """Delete all that matches and answer how many. An empty filter deletes all of the scope's owner (narrowed by
        the scope's project and agent, exactly those, when set).
        """

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
