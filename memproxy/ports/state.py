"""The seam to the state: the journal, slots, sessions, receipts, and what is kept about callers, one contract each."""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

import msgspec

from memproxy.core.audit import Audited, AuditEntry
from memproxy.core.changes import ChangeNotices
from memproxy.core.choices import Choices
from memproxy.core.dream import Dream
from memproxy.core.palace import Names
from memproxy.core.proxykey import KeyRecord
from memproxy.core.receipt import Noted, Outcome, Receipt, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.core.working_memory import Place, WorkingEntry, WorkingPage
from memproxy.errors import ConfigError

STORE_ID = "store_id"
"""Key in the state's facts: the id of the store that belongs to this state."""

MOVED = "moved"
"""Key of the fact that the state must not be used: another one has its place now, or is not complete yet (the value
says which, in words)."""


def has_moved(location: str, moved: str) -> ConfigError:
    """The state must not be used; ``moved`` says why (`MOVED`)."""
    return ConfigError(
        f"The state in {location} {moved}. `memproxy move --help` says how to go on, or to take it back."
    )


class JournalKind(enum.StrEnum):
    """What a journal row asks for. ``turns`` and ``plan`` share the ``index`` lane, ``learn`` has its own."""

    TURNS = "turns"
    PLAN = "plan"
    LEARN = "learn"


class JournalEntry(msgspec.Struct, frozen=True, kw_only=True):
    """What is appended. ``body`` is JSON whose shape belongs to the kind (`core.protocol`), ``version`` its version.
    ``captured_at``: when the request of its turns came. Where they come behind the erasure of their owner, session,
    project or agent, they are dropped. ``erases``: what the row is going to erase, so that they are from now on.
    """

    kind: JournalKind
    scope: Scope
    body: bytes
    request_id: str | None = None
    version: int = 1
    captured_at: datetime | None = None
    erases: tuple[Scope, ...] = ()

    @property
    def erases_all(self) -> bool:
        """Whether nothing of its owner is to be left."""
        return Scope(tenant=self.scope.tenant, user=self.scope.user) in self.erases


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


class Recovered(msgspec.Struct, frozen=True, kw_only=True):
    """What a dead engine had claimed: how many rows go on, and which are parked (their number and tries)."""

    again: int = 0
    parked: dict[int, int] = {}


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a row ended: well, or with an ``error`` (``kind``: its class in `errors`) refused for good or parked."""

    error: str | None = None
    kind: str = "MemproxyError"


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
    """A line of an injected block, until ``expires_at``; ``memory_id`` None: of its frame (delimiters, headings)."""

    text: str
    memory_id: str | None = None
    expires_at: datetime | None = None


class SessionBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """Blocks of a session by the message they stand before. ``erasures`` counts what was erased of the owner (and of
    those counted with it) so far: it is given back with a new block, which must not outlive an erasure.
    """

    blocks: dict[str, list[BlockLine]] = {}
    erasures: int = 0


class Placed(msgspec.Struct, frozen=True):
    """Where a memory stands: its wing's name (one name, whatever alias was given) and its pointer."""

    wing: str
    pointer: str


class PalacePlace(msgspec.Struct, frozen=True):
    """A wing, room or closet: its number within what it is in, and its name."""

    number: int
    name: str


class SlotChange(msgspec.Struct, frozen=True, kw_only=True):
    """Compare-and-set on one slot: from the memory id expected there (None: free) to the new one (None: free it)."""

    slot: str
    expected: str | None
    new: str | None


ANSWERS_KEPT = timedelta(hours=24)
"""How long a call can be repeated by its idempotency key."""


class Charge(msgspec.Struct, frozen=True, kw_only=True):
    """``amount`` uses of ``what`` by a user (or, with ``user`` None, by the whole tenant) in the window under way: one
    begins with the first use after the last, and is ``seconds`` long. ``limit`` None counts without a bound.
    """

    tenant: str
    user: str | None = None
    what: str
    seconds: int
    amount: int = 1
    limit: int | None = None


ARM = "arm/"
"""How ``what`` of a charge begins that counts for an experiment: such counts go when their user is erased."""


class Use(msgspec.Struct, frozen=True):
    """A count of one user's, who appears as a digest."""

    who: str
    what: str
    used: int


class Spent(msgspec.Struct, frozen=True, kw_only=True):
    """What was counted in a charge's window under way, and in how many seconds (at least one) it is past."""

    charge: Charge
    used: int
    wait_s: int


class GivenAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A call that came with an idempotency key: the digest of its request, and the sealed answer. ``answer`` None:
    it has not been answered yet, or (``erased``) what it answered was deleted since.
    """

    request_digest: str
    at: datetime
    answer: bytes | None = None
    erased: bool = False


class JournalStore(Protocol):
    """Rows that wait to be indexed, applied and learned from, in their order for each owner and lane; and the slot
    register, which says what memory holds a slot.

    Where several engines share the state, one of them at a time handles rows of an owner, of both lanes.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other engines may handle rows, too."""

    async def other_engines(self) -> int:
        """How many others share the state just now."""

    def shared(self, time: datetime) -> datetime:
        """A time by this machine's clock, by the one that all machines on this state go by: for texts of rows, in which
        the state does not look. Times that calls are given are translated by them.
        """

    @property
    def knows_time(self) -> bool:
        """Whether `shared` can tell: a server that was not reached yet has not said what time it is."""

    async def append(self, entry: JournalEntry) -> int:
        """Durable when it returns; the row's number. 0: nothing is written, its owner (or session) was erased since."""

    async def recover(self, *, max_attempts: int, now: datetime) -> Recovered:
        """Take back the rows that a dead engine had claimed; called once by the engine at its start.

        For each of these the death counts as a try, because the row may have caused it: one that was claimed at
        ``max_attempts`` deaths (or failures) is parked, one at two or more waits a little, so that others go first.
        Where it was a death, `unpark_killed` tries it again some hours later, a few times.
        """

    async def claim(
        self, lane: str, *, limit: int, now: datetime, run: int = 1, leaving: Collection[str] = ()
    ) -> list[JournalRow]:
        """Take waiting rows of a lane (``index`` or ``learn``) that are due, oldest first: of ``limit`` owners at most,
        and of each up to ``run`` rows in their order (fewer when they are large; a row that was tried before comes
        alone). None comes before an older unfinished row of the same owner and lane that is not in the answer too,
        nor a ``learn`` row before an older unfinished one of the ``index`` lane: it reads what that one writes.
        ``leaving``: tenants whose rows are left to other engines, where there are any.
        """

    async def give_back(self, lane: str, held: Collection[int]) -> int:
        """Let rows of a lane wait again that this engine claimed and does not hold, because the answer of the claim was
        lost; how many.
        """

    def alone(self, scope: Scope) -> AbstractAsyncContextManager[bool]:
        """Within it no other engine handles rows of the owner, for work beside them; False: one does just now."""

    async def save_plan(self, number: int, plan: bytes, slots: Sequence[SlotChange]) -> bool:
        """Store the plan with its row and change the slot register, in one commit. False, with nothing changed, when a
        slot does not hold what was expected: the caller reads again and makes another plan. Raises `NotFound`: the row
        was erased meanwhile; there is nothing left to do.
        """

    async def finish(self, number: int, *, error: str | None = None, kind: str = "MemproxyError") -> None:
        """The row is done and its body erased. With ``error`` (and its class) it was refused for good: kept for the
        count, and where other engines may ask how it ended, for some minutes.
        """

    async def ending(self, number: int) -> Ending | None:
        """How a row ended that another engine may have handled; None: it has not, or there is no other engine."""

    async def retry(self, number: int, *, error: str, due: datetime, counted: bool) -> None:
        """Put a claimed row back until ``due``; ``counted`` False is no attempt (an outage). Others stay."""

    async def make_due(self, numbers: Sequence[int], now: datetime) -> None:
        """Let those of these rows that wait be claimed from now on; others stay as they are."""

    async def park(self, number: int, *, error: str) -> None:
        """Give it up for now; it stays listed. Rows behind it go on."""

    async def parked(self, scope: Scope | None, *, limit: int) -> list[ParkedRow]:
        """The parked rows, newest first (that one scope sees, or all: numbers and errors hold no message text)."""

    async def unpark(self, scope: Scope | None) -> int:
        """Let parked rows (of one owner, or all) be claimed again, with all tries, behind what waits; how many."""

    async def unpark_killed(self, now: datetime) -> int:
        """Let rows that were parked because engines died at them be claimed once more, when it is time; how many."""

    async def queue_sizes(self) -> dict[str, dict[str, int]]:
        """Rows by lane and state: ``{"index": {"waiting": 3, "running": 1, "parked": 0}, "learn": {...}}``."""

    async def queue_ages(self, now: datetime) -> dict[str, float]:
        """Seconds since the oldest row of each lane was written that waits or runs; 0 where there is none."""

    async def backlog(self, scope: Scope) -> dict[str, dict[str, int]]:
        """As `queue_sizes`, of one owner's rows alone."""

    async def set_aside(self, entry: JournalEntry) -> int | None:
        """Keep an entry that `append` has not taken (yet) where it survives this process: the next one that opens the
        state appends it. Returns the number that `drop_aside` takes; None when it cannot be kept. Never raises, never
        waits for what `append` waits for.
        """

    async def read_aside(self, number: int) -> JournalEntry | None:
        """An entry that was set aside and not dropped; None when it cannot be read."""

    async def drop_aside(self, number: int) -> None:
        """The journal has the entry by now."""

    async def slots(self, scope: Scope, names: Sequence[str]) -> dict[str, str]:
        """Who holds these slots of the owner: slot name to memory id; free ones are left out."""

    async def change_slots(self, scope: Scope, changes: Sequence[SlotChange]) -> bool:
        """Compare-and-set of several slots at once, without a plan."""

    async def drop_slots(self, scope: Scope, prefix: str) -> None:
        """Free every slot of the owner whose name begins so."""


class SessionStore(Protocol):
    """How far learning is in each session, and which one a conversation belongs to, by the prefixes it had."""

    async def note_turns(self, scope: Scope, *, count: int, at: datetime) -> None:
        """``count`` more turns of ``scope.session`` are indexed and not learned from yet."""

    async def note_end(self, scope: Scope, *, at: datetime) -> None:
        """The scope's session is over; the next turns that are noted open it again."""

    async def ended(self, scope: Scope, names: Sequence[str]) -> set[str]:
        """Which of these sessions of the scope's owner are over (`note_end`)."""

    async def due_sessions(self, *, every: int, idle_before: datetime, limit: int) -> list[SessionProgress]:
        """Sessions with ``every`` unlearned turns, or any and silent since ``idle_before``, and not being learned."""

    async def silent_sessions(self, *, silent_before: datetime, limit: int) -> list[SessionProgress]:
        """Sessions not over and silent since then, without learning under way; the longest silent first."""

    async def progress(self, scope: Scope) -> SessionProgress | None:
        """How far learning is in ``scope.session``; None when nothing was ever said in it."""

    async def begin_learning(self, entry: JournalEntry, *, unlearned: int) -> int | None:
        """Append a ``learn`` row and take ``unlearned`` off the session's count; None: one is there already."""

    async def find_session(self, scope: Scope, keys: Sequence[str]) -> dict[str, list[KnownSession]]:
        """Which sessions of the owner continue these conversation prefixes (newest first for each key)."""

    async def remember_session(
        self, scope: Scope, keys: Sequence[str], session: KnownSession, *, asked_at: datetime | None = None
    ) -> None:
        """Note that these prefixes belong to that session; not if it was erased since ``asked_at``."""


class BlockStore(Protocol):
    """The blocks that sessions were given, to be repeated byte for byte."""

    async def find_blocks(self, scope: Scope, messages: Sequence[str]) -> SessionBlocks:
        """The blocks that ``scope.session`` was given before these messages (the caller's names), with lines left."""

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


class ReceiptStore(Protocol):
    """What was recalled and injected for each request, and what was learned from it."""

    async def note_receipts(self, parts: Sequence[ReceiptPart]) -> None:
        """Write parts of receipts, but of what was erased since, for some days and up to a fixed number."""

    async def receipt(self, scope: Scope, request_id: str) -> Receipt | None:
        """The receipt of one of the owner's requests; None when there is none (any more)."""

    async def receipts(
        self,
        scope: Scope,
        *,
        session: str | None,
        memory_id: str | None,
        before: tuple[datetime, str] | None,
        limit: int,
    ) -> list[Receipt]:
        """The newest receipts that the scope sees, without what was learned; of one session, of requests that may have
        been given one memory, and those before one (its time and id), where these are named.
        """

    async def note_outcomes(self, number: int, outcomes: Sequence[Outcome], at: datetime) -> None:
        """Write the outcomes of learning from a journal row once, however often it is called, and while it is there."""

    async def outcomes(self, scope: Scope, *, session: str | None, limit: int) -> list[Noted]:
        """What was learned lately (or in one session) as far as the scope sees it, newest first."""

    async def forget_receipts(self, scope: Scope, projects: Collection[str], sessions: Collection[str]) -> None:
        """Erase receipts of requests in these projects (of all sessions, or of these) and what was learned there."""

    async def forget_queries(self, scope: Scope, sessions: Collection[str], turn_ids: Collection[str]) -> None:
        """Erase the words of these deleted turns from receipts, and queries of their sessions (empty: of none)."""


class PalaceStore(Protocol):
    """The numbers and names of every owner's wings, rooms and closets."""

    async def allot_numbers(self, scope: Scope, names: Sequence[Names]) -> list[Placed]:
        """Where each stands in the owner's palace. What has no number gets one, which never gets another meaning."""

    async def palace(
        self, scope: Scope, parent: str, *, after: int, limit: int, name: str | None = None
    ) -> list[PalacePlace]:
        """The places below ``parent`` with numbers over ``after``, in order (or the one of that name): the wings for an
        empty parent, the rooms of a wing (``W-001``), the closets of a room (``W-001/R-01``).
        """

    async def palace_names(self, scope: Scope, *, writing: bool = False) -> dict[str, str]:
        """Every name of the owner's wings, and every alias that the scope may see: name to the wing's own name. Within
        a project (agent) an alias comes before a wing of the same name. ``writing``: the aliases for what is written
        in the scope; without a project (agent) those that were told in none.
        """

    async def palace_rows(self, scope: Scope) -> list[PalaceRow]:
        """The whole palace of the owner, for taking it along: by kind, place and number."""

    async def adopt_palace(self, scope: Scope, rows: Sequence[PalaceRow]) -> bool:
        """Take over an exported palace's numbers. False, with nothing changed: one or its name is another's here."""

    async def stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        """Whether wing (its name), room (its name) and pointer belong together in the owner's palace."""

    async def erase_wings(self, scope: Scope, wings: Sequence[str]) -> None:
        """Erase these wings and what is in them from the palace: nothing stands there any more."""

    async def erase_aliases(self, scope: Scope, project: str) -> None:
        """Erase the other names of wings that were told in this project."""

    async def rename_wings(self, scope: Scope, wings: Mapping[str, str], aliases: Collection[str]) -> None:
        """Give wings of the owner another name (the old one to the new one), and erase these other names of wings."""

    async def erase_closets(self, scope: Scope, closets: Sequence[tuple[str, str]]) -> None:
        """Erase closets, each the pointer of its room and its name: nothing stands there any more."""


class OwnerStore(Protocol):
    """Who has anything here, and the erasure of all of it."""

    async def owners(self, *, after: tuple[str, str] | None, limit: int) -> list[tuple[str, str]]:
        """All tenants and users with anything written and not forgotten, in order, from behind ``after``."""

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        """Erase rows, slots, progress, session keys and receipts of the owner (or of one session); the rows' numbers.
        ``until``: the last journal row that goes; later ones stay, but for ``learn`` rows, which rest on what is gone.
        """

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        """Append a row that erases all of its owner. With encryption the owner's key goes in the same commit, so that
        nothing can be read from then on, and with it the rows that it sealed. The row's number, and theirs.
        """

    async def wipe(self) -> None:
        """Drop from the state's files what was deleted in it, as far as that is ours to do."""


class UsageStore(Protocol):
    """What was used: counted against limits, and tokens of our own model calls."""

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:
        """Count all of these in all processes, or none when one would go over its limit: that one is answered."""

    async def spent(self, charge: Charge, now: datetime) -> Spent:
        """What was counted so far in the window under way; nothing is counted by asking."""

    async def uses(self, tenant: str, beginning: str) -> list[Use]:
        """Everything that was counted of the tenant's users whose ``what`` begins so, past windows too."""

    async def note_tokens(
        self, tenant: str, source: str, *, input_tokens: int, output_tokens: int, at: datetime
    ) -> None:
        """Count input and output tokens of a model call of ours in the hour that begins ``at``."""

    async def tokens_spent(self, tenant: str, *, since: datetime) -> dict[str, tuple[int, int]]:
        """Input and output tokens of our own model calls in the hours since then, by source."""


class CallerStore(Protocol):
    """What owners and their agents have chosen (memory off, learning off ...), answers to calls with an idempotency
    key, who did what through the API, and the records of proxy keys.
    """

    def news(self) -> bytes:
        """Other bytes than before whenever choices or proxy keys were changed, by whatever process."""

    async def choices(self, scope: Scope) -> Choices:
        """What holds for the owner and ``scope.agent``: the agent's settings over the user's. Kept in memory for some
        seconds, and forgotten at once in every process when somebody changes them.
        """

    async def own_choices(self, scope: Scope) -> Choices | None:
        """What was set for exactly the owner (``scope.agent`` None) or that agent; None when nothing was."""

    async def choose(self, scope: Scope, choices: Choices, at: datetime) -> None:
        """Set them for the owner, or its agent; `NOTHING_CHOSEN` deletes them."""

    async def given_answer(self, scope: Scope, name: str) -> GivenAnswer | None:
        """What is kept under this name of the owner's; None when there is nothing (any more)."""

    async def keep_answer(self, scope: Scope, name: str, answer: GivenAnswer) -> None:
        """Keep it, in place of an earlier one; for `ANSWERS_KEPT` at least."""

    async def drop_answer(self, scope: Scope, name: str) -> None:
        """The call came to nothing: it may be made again, also with another body."""

    async def erase_answers(self, scope: Scope) -> None:
        """Delete what the owner's answers said; that they were given stays."""

    async def note_audit(self, entries: Sequence[AuditEntry]) -> None:
        """Write entries, in one commit. Only the newest are kept, up to a fixed number."""

    async def audit(self, tenant: str | None, *, before: int | None, limit: int) -> list[Audited]:
        """Entries of a tenant (None: of all) with numbers below ``before``, newest first."""

    async def proxy_key(self, key_id: str) -> KeyRecord | None:
        """The record of a proxy key, revoked ones included."""

    async def proxy_keys(self, tenant: str | None) -> list[KeyRecord]:
        """The records of a tenant's keys, or of all, oldest first."""

    async def add_proxy_key(self, record: KeyRecord) -> None:
        """Keep the record of a new key."""

    async def revoke_proxy_key(self, key_id: str, at: datetime) -> bool:
        """End a key's validity; False when there is none of that id that was valid."""


class MetaStore(Protocol):
    """Facts about this installation."""

    async def get_meta(self, key: str) -> str | None:
        """A fact about this installation (the store's id, the embedder it was built with)."""

    async def set_meta(self, key: str, value: str) -> None:
        """Note a fact about this installation."""

    async def swap_meta(self, key: str, expected: str | None, value: str) -> bool:
        """Note it in place of what was ``expected``; False, with nothing changed, when it is something else by now."""


class WorkingStore(Protocol):
    """Working memory of each user (`core.working_memory`). A scope with a project sees that project's entries and
    those of none; what has expired by ``now`` is not there.
    """

    async def put_working(self, scope: Scope, entry: WorkingEntry, *, most: int) -> bool | None:
        """Keep an entry until it expires: True when it is new, False when it takes the place of an earlier one of its
        key, None when its namespace holds ``most`` others; then nothing is changed.
        """

    async def working(self, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
        """The entry of this key, with its data."""

    async def newest_working(
        self, scope: Scope, now: datetime, *, most: int, words: bool = False
    ) -> list[WorkingEntry]:
        """The ``most`` entries that were changed last, those first; without their data, with their ``words``."""

    async def working_page(
        self, scope: Scope, prefix: str, now: datetime, *, after: Place | None, most: int, words: bool = False
    ) -> WorkingPage:
        """Entries whose keys begin with the prefix, from behind a place on, in the order of their keys (where keys are
        encrypted, in another one that stays the same). ``most`` are looked at, so that no call takes long: a page may
        be short, or empty, and not the last.
        """

    async def drop_working(self, scope: Scope, key: str, now: datetime) -> bool:
        """Delete an entry; False when there is none."""

    async def sweep_working(self, now: datetime) -> int:
        """Delete what has expired, of everybody; answers how many."""


class DreamStore(Protocol):
    """The records of each user's dreams (`core.dream`): ids, numbers and times, no text. One is open at a time."""

    async def begin_dream(self, scope: Scope, dream: Dream) -> bool:
        """Keep a new record, of many the newest; False, and nothing is kept, while another of the owner is open."""

    async def put_dream(self, scope: Scope, dream: Dream, *, due: datetime | None = None) -> bool:
        """Write what became of it, nobody else's before ``due`` while it is open. False: there is no such record."""

    async def dream(self, scope: Scope, dream_id: str) -> Dream | None:
        """One of the owner's; None when there is none."""

    async def dreams(self, scope: Scope, *, after: int, limit: int) -> list[Dream]:
        """The owner's, newest first, behind the first ``after``."""

    async def take_up_dreams(self, now: datetime, due: datetime) -> list[Scope]:
        """Whose open dreams nobody works on since ``now``; from now on they are the caller's until ``due``."""


class WorkingApart(WorkingStore, Protocol):
    """Working memory that is kept apart from the state, where `OwnerStore.forget` does not reach it."""

    async def forget_working(self, scope: Scope, session: str | None) -> None:
        """Erase all of the owner's entries, or the namespace of one session; called behind `OwnerStore.forget`."""


class SharedServer(Protocol):
    """A server of what may be forgotten, which all replicas share; nothing waits for it."""

    @property
    def state(self) -> str:
        """``ready``, ``loading`` or ``degraded: why``."""

    async def start(self, patience_s: float = 0.0) -> None:
        """Begin to use it; returns when it is used, or after ``patience_s``."""

    async def close(self) -> None:
        """Let go of it."""


class StateStore(
    JournalStore,
    SessionStore,
    BlockStore,
    ReceiptStore,
    PalaceStore,
    OwnerStore,
    UsageStore,
    CallerStore,
    MetaStore,
    WorkingStore,
    DreamStore,
    Protocol,
):
    """All of these contracts over one state, which several processes open. Every call raises `errors.StateUnavailable`
    when the state does not answer. Users declare only the contracts that they need.
    """

    @property
    def changes(self) -> ChangeNotices:
        """Notices of changes to all that share this state; beside an embedded one, within this process alone."""

    def clock(self) -> Callable[[], datetime]:
        """The clock that all machines on this state go by. The caller gives the state all times by it from now on."""

    def on_rows(self, callback: Callable[[], None]) -> None:
        """``callback`` is called when another engine may have written rows to be claimed."""

    async def open(self) -> None:
        """Open, create or migrate."""

    async def close(self) -> None:
        """Finish what was begun and release everything."""

    async def backup(self, path: Path) -> None:
        """Copy the whole state, as it is at one moment, into a new file."""
