"""The seams: what the rest of memproxy expects of stores, models and clocks. Small Protocols, no implementation.

Anything concrete is chosen in ``wiring`` alone. Values that cross a seam are the structs defined here and in ``core``.
"""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.receipt import Noted, Outcome, Receipt, ReceiptPart
from memproxy.core.scope import Scope


class SparseVector(msgspec.Struct, frozen=True):
    """Token ids and their weights, same length; BM25's half of a memory."""

    indices: list[int]
    values: list[float]


class Point(msgspec.Struct, kw_only=True):
    """A memory with its vectors, as it is written to a store.

    ``dense`` holds one vector per part of the text (long messages are split for the embedder and scored by their best
    part); empty when it is not embedded yet. ``bm25`` is always there.
    """

    memory: Memory
    dense: list[list[float]] = []
    bm25: SparseVector


class MemoryFilter(msgspec.Struct, frozen=True, kw_only=True):
    """Narrows a read within a scope. ``None`` or empty means "any"; lists mean "one of these".

    ``active`` None is both. ``as_of`` keeps what held at that instant (validity interval around it, learned by then is
    not required). Expired memories (``expires_at`` before ``now``) are never returned when ``now`` is given.
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
    exclude_ids: tuple[str, ...] = ()
    active: bool | None = None
    quarantined: bool | None = None
    as_of: datetime | None = None
    now: datetime | None = None


class HybridQuery(msgspec.Struct, frozen=True, kw_only=True):
    """One search by vector and by words at once. ``dense`` None searches by words alone, ``bm25`` None by vector."""

    dense: list[float] | None = None
    bm25: SparseVector | None = None
    limit: int = 100
    where: MemoryFilter = MemoryFilter()


class Candidate(msgspec.Struct, kw_only=True):
    """One memory found, with its raw scores; ``None`` when that side was not searched or has no vector for it.

    ``cosine`` lies in [-1, 1]; ``bm25`` is the sum of IDF-weighted term scores over the scope's own corpus, 0 when no
    term matches. Both are filled for every candidate, whichever side found it.
    """

    memory: Memory
    cosine: float | None = None
    bm25: float | None = None


class Page(msgspec.Struct, kw_only=True):
    """A page of a list, newest first, and the cursor of the next one (None at the end)."""

    memories: list[Memory]
    next_cursor: str | None = None


class MemoryStore(Protocol):
    """Where memories and their vectors live (Qdrant Edge, a Qdrant server).

    Every call is scoped: tenant and user are in every filter, project and agent visibility as `Scope` says. All calls
    raise `errors.StoreUnavailable` when the store does not answer, and nothing else of the backend's own.
    """

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
        """Change payload fields (JSON types) of memories by id, vectors untouched. Unknown ids are passed over."""

    async def get(self, scope: Scope, ids: Sequence[str]) -> dict[str, Memory]:
        """The memories of this owner with these ids; missing ones are simply not in the answer."""

    async def page(self, scope: Scope, where: MemoryFilter, *, limit: int, cursor: str | None = None) -> Page:
        """A page, newest first by ``created_at``. Raises `errors.RequestError` for a cursor that is not one."""

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

    async def flush(self) -> None:
        """Returns when every upsert, change and delete so far survives a crash."""

    async def points(self) -> int:
        """How many points the whole store holds (a number for a metric; no content)."""


class JournalKind(enum.StrEnum):
    """What a journal row asks for. ``turns`` and ``plan`` share the ``index`` lane, ``learn`` has its own."""

    TURNS = "turns"
    PLAN = "plan"
    LEARN = "learn"


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is appended. ``body`` is JSON whose shape belongs to the kind (`core.protocol`), ``version`` its version."""

    kind: JournalKind
    scope: Scope
    body: bytes
    request_id: str | None = None
    version: int = 1


class JournalRow(msgspec.Struct, frozen=True, kw_only=True):
    """A claimed row: the entry, its number (order of arrival) and how often it was tried before."""

    number: int
    entry: JournalEntry
    attempts: int
    plan: bytes | None = None


class ParkedRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row that was given up after its retries: kept, counted and listed."""

    number: int
    kind: JournalKind
    scope: Scope
    error: str
    attempts: int
    parked_at: datetime


class SessionProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far learning is in one session: turns indexed since the last extraction, and when the last one came."""

    scope: Scope
    unlearned: int
    last_turn_at: datetime


class KnownSession(msgspec.Struct, frozen=True, kw_only=True):
    """A session that a conversation prefix belongs to. ``answer`` is the digest of the answer that followed it (used
    only to choose between conversations that began alike); ``said_at`` when its last user message first came.
    """

    session: str
    said_at: datetime
    answer: str | None = None


class BlockLine(msgspec.Struct, frozen=True, kw_only=True):
    """One line of an injected block; ``memory_id`` None belongs to its frame (delimiters, headings)."""

    text: str
    memory_id: str | None = None


class SessionBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of a session by the message they stand before. ``erasures`` counts what was erased of the owner (and of
    those counted with it) so far: it is given back with a new block, which must not outlive an erasure.
    """

    blocks: dict[str, list[BlockLine]] = {}
    erasures: int = 0


class SlotChange(msgspec.Struct, frozen=True, kw_only=True):
    """Compare-and-set on one slot: from the memory id expected there (None: free) to the new one (None: free it)."""

    slot: str
    expected: str | None
    new: str | None


class StateStore(Protocol):
    """The journal, the slot register, sessions and learning progress (SQLite, later Redis).

    Several processes open the same state. All calls raise `errors.StateUnavailable` when it does not answer.
    """

    async def open(self) -> None:
        """Open, create or migrate."""

    async def close(self) -> None:
        """Finish what was begun and release everything."""

    async def append(self, entry: JournalEntry) -> int:
        """Durable when it returns (one commit shared by all that wait); answers the row's number."""

    async def recover(self) -> int:
        """Move rows that a dead engine had claimed back to waiting; called once by the engine at its start."""

    async def claim(self, lane: str, *, limit: int, now: datetime) -> list[JournalRow]:
        """Take waiting rows of a lane (``index`` or ``learn``) that are due, oldest first, never two of one owner at
        once and never one before an older unfinished row of the same owner and lane.
        """

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        """Store the plan with its row and change the slot register, in one commit. False, with nothing changed, when
        a slot does not hold what was expected: the caller reads again and makes another plan.

        Raises:
            NotFound: the row was erased meanwhile; there is nothing left to do.
        """

    async def finish(self, number: int, *, error: str | None = None) -> None:
        """The row is done and its body erased. With ``error`` it was refused for good (kept for the count)."""

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        """Put it back until ``due``; ``counted`` False leaves its number of attempts as it was (an outage)."""

    async def park(self, number: int, *, error: str) -> None:
        """Give it up for now; it stays listed. Rows behind it go on."""

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        """The parked rows, newest first (of one owner, or all: numbers and errors hold no message text)."""

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        """Rows by lane and state: ``{"index": {"waiting": 3, "running": 1, "parked": 0}, "learn": {...}}``."""

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        """As `queue_sizes`, of one owner's rows alone."""

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        """Who holds these slots of the owner: slot name to memory id; free ones are left out."""

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        """Compare-and-set of several slots at once, without a plan."""

    async def forget(self, scope: Scope, *, session: str | None) -> None:
        """Erase rows, slots, progress, session keys and receipts of the owner (or of one session): nothing is left."""

    async def note_turns(self, scope: Scope, *, count: int, at: datetime) -> None:
        """``count`` more turns of ``scope.session`` are indexed and not learned from yet."""

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        """Sessions with at least ``every`` unlearned turns, or with any and none newer than ``idle_before``, that have
        no learning under way.
        """

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        """Append a ``learn`` row and take ``unlearned`` off the session's count, in one commit. None when the session
        has learning under way already.
        """

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        """Which sessions of the owner continue these conversation prefixes (newest first for each key)."""

    async def remember_session(self, scope: Scope, keys: Sequence[str], known: KnownSession) -> None:
        """Note that these prefixes belong to that session."""

    async def note_receipts(self, parts: Sequence[ReceiptPart]) -> None:
        """Write parts of receipts, in one commit. Receipts are kept for some days, and so many at most."""

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        """The receipt of one of the owner's requests; None when there is none (any more)."""

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        """Write what the learning of a journal row came to; once, however often it is told. Nothing is written when
        the row is gone: its owner was erased.
        """

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        """What was learned of the owner (or in one session) lately, newest first."""

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        """The blocks that ``scope.session`` was given before these messages (names of the caller's choice), as far as
        memory lines are left in them.
        """

    async def save_block(
        self, scope: Scope, message: str, lines: Sequence[BlockLine], *, erasures: int, at: datetime
    ) -> bool:
        """Keep the block given before a message, in place of an earlier one (no lines: forget that one). False, and
        nothing is changed, when something of the owner was erased since ``find_blocks`` answered ``erasures``.
        """

    async def drop_from_blocks(self, scope: Scope, memory_ids: Sequence[str] | None) -> int:
        """Delete the lines of these memories from all blocks of the owner (None: delete all its blocks); answers how
        many lines went. Called after the memories can no longer be recalled.
        """

    async def get_meta(self, key: str) -> str | None:
        """A fact about this installation (the store's id, the embedder it was built with)."""

    async def set_meta(self, key: str, value: str) -> None:
        """Note a fact about this installation."""


class Embedder(Protocol):
    """Turns text into unit vectors of ``dimension`` floats."""

    @property
    def name(self) -> str:
        """Provider and model, as the store remembers it (``fastembed:sentence-transformers/all-MiniLM-L6-v2``)."""

    @property
    def dimension(self) -> int | None:
        """Length of a vector; None while that is not known yet."""

    @property
    def state(self) -> str:
        """``ready``, ``loading``, ``unavailable: why``, or ``off``."""

    async def start(self) -> None:
        """Begin loading in the background; returns at once."""

    async def close(self) -> None:
        """Stop loading, release the model."""

    async def embed_query(self, text: str) -> list[float]:
        """One query (cached). Raises `errors.EmbedderUnavailable` at once when the model is not there."""

    async def embed_texts(self, texts: Sequence[str]) -> list[list[list[float]]]:
        """For each text the vectors of its parts (at least one). Raises `errors.EmbedderUnavailable`."""


class LexicalEncoder(Protocol):
    """Text to BM25 sparse vectors; needs no model."""

    def encode_document(self, text: str) -> SparseVector:
        """Weights with term-frequency saturation and length normalisation."""

    def encode_query(self, text: str) -> SparseVector:
        """Each distinct term with weight 1."""


class Credential(msgspec.Struct, frozen=True, kw_only=True):
    """How to reach a chat model: base URL, key (held in memory only) and model name."""

    base_url: str
    model: str
    api_key: str | None = None


class ModelReply(msgspec.Struct, frozen=True, kw_only=True):
    """A chat model's answer and what it cost."""

    text: str
    input_tokens: int = 0
    output_tokens: int = 0


class ChatModel(Protocol):
    """A chat model that answers one prompt (extraction, rewriting, judging)."""

    async def complete(self, credential: Credential, *, system: str, user: str, json_mode: bool) -> ModelReply:
        """Ask once, within the role's own timeout.

        Raises:
            ModelRefused: no key, or 401/403.
            ModelError: anything else that may pass (timeouts, 429, 5xx, connection errors).
        """

    async def close(self) -> None:
        """Close connections."""


class Clock(Protocol):
    """Wall-clock time; tests bring their own."""

    def now(self) -> datetime:
        """The current instant, aware, in UTC."""
