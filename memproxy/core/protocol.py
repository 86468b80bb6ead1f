"""What relay and engine say to each other (by a private socket, so identities are trusted), and journal rows."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.backup_manifest import Snapshot
from memproxy.core.dream import Step
from memproxy.core.history import CompressAsked, Said
from memproxy.core.memory import Memory
from memproxy.core.receipt import Decided, Outcome
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import GivenVectors
from memproxy.core.turn import Message

RECALL_PATH = "/internal/recall"
CAPTURED_PATH = "/internal/captured"
DECIDED_PATH = "/internal/decided"
FULL_PATH = "/internal/full"
REPLAY_PATH = "/internal/replay"
READY_PATH = "/internal/ready"
LEARNING_PATH = "/internal/learning"
REINDEX_PATH = "/internal/reindex"
PRUNE_PATH = "/internal/prune"
OWNERS_PATH = "/internal/owners"
BACKUP_PATH = "/internal/backup"

STATE_PROBE = bytes(4)  # a message of no bytes, which the state's process echoes at once even while it works
IDENTITY_HEADER = "x-memproxy-internal-identity"
"""Header of API requests passed to the engine: the `Identity` as JSON. A client's own is removed before."""


class UpstreamAccess(msgspec.Struct, frozen=True, kw_only=True):
    """The request's own way to its model, kept in memory only. ``model`` empty: it named none (an API call)."""

    base_url: str
    model: str
    api_key: str | None = None


class RecallLimits(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one request changes of the configured recall limits (``memory_config``); None leaves a setting as it is."""

    memory_types: list[str] | None = None
    retrieval_limit: int | None = None
    similarity_threshold: float | None = None
    max_tokens: int | None = None
    rerank: bool | None = None


class RecallRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Asks for the block to inject. ``queries``: the user's last messages, four at most. ``present``: digests
    (`core.turn.text_digest`) of the request's messages; ``shown``: ids of memories in its earlier blocks. ``nonce``
    names the session's block. ``verdict``: why the gate let it through; ``only_if_told``: it seems to ask for general
    knowledge, and is answered ``skipped`` (``fact``) unless the user's memories speak of it. ``first_turn``: the
    session begins; ``chained``: the upstream keeps what was said before, so earlier messages are those captured.
    """

    request_id: str
    scope: Scope
    queries: list[str]
    nonce: str
    present: list[str] = []
    shown: list[str] = []
    limits: RecallLimits = RecallLimits()
    explain: bool = False
    verdict: str | None = None
    only_if_told: bool = False
    first_turn: bool = False
    chained: bool = False
    asked_at: datetime | None = None


class Citation(msgspec.Struct, frozen=True, kw_only=True):
    """One injected line: where it comes from and how well it fits."""

    memory_id: str
    turn_id: str | None
    score: float
    snippet: str


class RecallAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """The block (empty: nothing is worth injecting), its tokens and lines. ``result``: ``injected``, ``empty``,
    ``skipped`` or ``degraded``, the last two with a ``reason`` (``cache``: made of hot memories, as the store is away
    or slow). ``timings``: milliseconds by stage (own_words, rewrite, embed, search, look, rank, hops, former, rerank,
    first_turn, assemble, cache, recall). ``query``: what was searched after rewriting; ``floor``: the score in [0, 1]
    needed; ``notes``: what was done without (``rewrite: timeout``); ``expiring``: when cited memories expire.
    """

    result: str
    context: str = ""
    reason: str | None = None
    tokens: int = 0
    citations: list[Citation] = []
    timings: dict[str, float] = {}
    query: str = ""
    floor: float | None = None
    candidates: list[dict[str, Any]] = []
    notes: list[str] = []
    expiring: dict[str, datetime] = {}

    @property
    def has_block(self) -> bool:
        """Whether there is something to inject."""
        return self.result == "injected" or bool(self.context)


class ReplayAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Asks for the last ``turns`` messages of the scope's session, of ``tokens`` at most (`core.history.replayed`)."""

    scope: Scope
    turns: int
    tokens: int


REPLAY_WAIT_S = 1.0  # how long a replay waits for what was said just before: a person takes longer to read the answer


class ReplayTold(msgspec.Struct, frozen=True, kw_only=True):
    """These messages, in order. ``reason``: why they cannot be told, or (``late``) why the last may be missing."""

    said: Sequence[Said] = ()
    reason: str | None = None


class Full(msgspec.Struct, frozen=True, kw_only=True):
    """Whose quota of memories has no room any more: ``user``, ``tenant``, or None."""

    whose: str | None = None


class Captured(msgspec.Struct, frozen=True, kw_only=True):
    """Tells the engine that the journal has a new row for this owner, and how the request reached its model."""

    scope: Scope
    access: UpstreamAccess | None = None


class ReindexAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the engine to reindex; has the embedder of the asking configuration, for comparison."""

    provider: str
    model: str
    dimension: int | None = None


class Told(msgspec.Struct, kw_only=True):
    """The progress of a long work. ``run`` names it; ``state``: ``idle`` (there was none), ``loading`` (the embedder),
    ``copying``, ``done`` or ``failed`` (``error`` says why); ``done`` of ``total`` are copied.
    """

    run: str = ""
    state: str = "idle"
    error: str | None = None
    done: int = 0
    total: int = 0


class ReindexTold(Told, kw_only=True):
    """Counts memories: ``kept`` were written by an earlier attempt, ``damaged`` cannot be read and are left out."""

    kept: int = 0
    damaged: int = 0


class BackupAsked(msgspec.Struct, frozen=True, kw_only=True):
    """Asks the engine for a backup into this folder, an absolute path; ``state``: of the state as well."""

    folder: str
    state: bool = True


class BackupTold(Told, kw_only=True):
    """Counts bytes. ``snapshot`` is where a server's memories were put."""

    snapshot: Snapshot | None = None


class Identity(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Who calls the API. ``named_user``: by ``X-Memproxy-User``; ``default_user``: whom an unnamed user means (None:
    not allowed), and without the permission ``act_as_user`` the only one. ``bound_project``, ``bound_user``: the key is
    for ``project``, or ``default_user``, alone. ``by`` says who calls in the audit log: never a key.
    """

    tenant: str
    named_user: str | None = None
    default_user: str | None = None
    project: str | None = None
    bound_project: bool = False
    bound_user: bool = False
    by: str | None = None
    agent: str | None = None
    session: str | None = None
    permissions: frozenset[str] = frozenset({"chat", "memory:read", "memory:write", "act_as_user"})

    @property
    def only_project(self) -> str | None:
        """The project that the caller's key is for alone."""
        return self.project if self.bound_project else None


class TurnsBody(msgspec.Struct, kw_only=True):
    """Journal row ``turns``: messages to be indexed as verbatim turns, in order. ``said_at`` is the time of those
    that have none of their own; ``learn_now`` asks to learn at once. ``decision`` goes into the request's receipt.
    ``is_machine_time``: ``said_at`` is by the clock of the machine that took them in, for the state that all share was
    not reached yet; it is put right when the row is appended.
    """

    messages: list[Message]
    said_at: datetime
    source: str = "conversation"
    metadata: dict[str, Any] = {}
    learn_now: bool = False
    decision: Decided | None = None
    is_machine_time: bool = False


class Deletion(msgspec.Struct, frozen=True, kw_only=True):
    """What is deleted of the scope's owner when the plan is applied: all that matches every list given (an empty list
    means "any"; all empty is everything of the owner). The scope's own project and agent do not narrow it.
    """

    ids: list[str] = []
    session_ids: list[str] = []
    project_ids: list[str] = []
    agent_ids: list[str] = []


class PlanBody(msgspec.Struct, kw_only=True):
    """Journal row ``plan``, and the stored plan of a ``learn`` row: exact writes with their ids; replaying is harmless.
    ``upserts``: whole memories, embedded when applied; ``changes``: payload fields by memory id, ``turn_changes``: of
    turns by session and id; ``deletes``: ids; ``delete_where``: what matches when it is applied, rows before it too.
    ``outcomes`` go into receipts; ``deleted_by``: a call, or what pruned it (``expired``, ``limit``). Of a row alone:
    ``undo_session`` (its turns and what was learned from it alone go, what it ended is active again), ``expects``
    (versions by memory id, `core.memory.version_of`: if one is another, nothing is done), ``vectors`` (of an import's
    upserts, by `core.transfer_lines.vector_key`), ``gives_back`` (what the ``deletes`` took the place of holds again),
    ``dream`` (a step of one).
    """

    upserts: list[Memory] = []
    changes: dict[str, dict[str, Any]] = {}
    turn_changes: dict[str, dict[str, dict[str, Any]]] = {}
    deletes: list[str] = []
    delete_where: Deletion | None = None
    undo_session: str | None = None
    expects: dict[str, str] = {}
    outcomes: list[Outcome] = []
    deleted_by: str = "api"
    gives_back: bool = False
    vectors: dict[str, GivenVectors] = {}
    dream: Step | None = None


def takes_back(plan: PlanBody) -> bool:
    """Whether the plan ends or changes something that was given out before."""
    changes = plan.deletes or plan.changes or plan.turn_changes or plan.undo_session
    return bool(changes) or plan.delete_where is not None


IDLE = "idle"  # reason of a row of a session that fell silent
SILENT = "silent"  # reason of a row of a session that was silent long enough to count as over: it is summarised, too
DRIFT = "drift"  # reason of a row of a session whose topic has just changed: it is summarised, too
REFINE = "refine"  # reason of a row that splits, labels and relates a memory that was saved as it was told
COMPRESS = "compress"  # reason of a row that makes a session's state


class LearnBody(msgspec.Struct, kw_only=True):
    """Journal row ``learn``: extract from the last ``unlearned`` turns of the scope's session (with their window), of
    those said until ``until`` (the newest one when the row was made; what comes later has a later row). ``compress``:
    nothing is learned, the session's state is made; ``refine`` is the id of a memory that alone is read.
    """

    unlearned: int
    reason: str
    model: str | None = None
    until: datetime | None = None
    compress: CompressAsked | None = None
    refine: str | None = None
