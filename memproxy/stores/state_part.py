"""What the parts of the state share, in whichever database it is.

Each part is a module for some contracts of `ports.state`: a class with their methods, and functions of statements, each
of which runs inside a transaction that its caller opened. A statement is written once, for SQLite and for PostgreSQL:
`Db` says how. What the two do otherwise, the journal above all, stands in modules of their own.
"""

import hmac
from abc import ABC
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import Any, Protocol, TypeVar

from memproxy.core.scope import OwnerKey, Scope
from memproxy.tasks import TaskOwner

Row = tuple[Any, ...]
Result = TypeVar("Result")

OWNED = "tenant = :tenant AND user_id = :user"
"""Condition on a row: it is the owner's (`owned`)."""

PRUNE_EVERY = 500  # calls of one kind between two prunings of what they have written

MARK = "erased:"
"""How a digest in place of a user's name begins."""

ERASED_KEPT = timedelta(days=30)
"""What waits is written within seconds once the state can be; a state that nobody opens forgets nobody meanwhile."""

_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)


class Db(Protocol):
    """A connection, and how statements are written on it: ``:name`` is the place of a value, ``= ANY(:names)`` that of
    a list, ``user_id`` the column of the user. Times and structs are written as the database keeps them. On SQLite
    nothing here waits, whatever its signature says.
    """

    scope_columns: str
    """Columns of a scope, as they are written; ``scope_values`` are their values' (`scope_params`)."""
    scope_values: str
    scope_update: str
    """Gives a row that is there the new row's scope: the columns that are not in the key."""
    scope_read: str
    """Columns of a scope, as `scope` reads them."""
    now: str
    """What time it is by the clock that is the same for everybody; it may be the value ``now``."""
    arrival: str
    """The column by which rows of a table without a number come in their order."""
    true: str
    """As an index that is limited to some rows writes it."""
    names_users: bool
    """Whether the table ``audit`` has columns for the users that an entry names."""

    async def all(self, statement: str, /, **values: Any) -> list[Row]:
        """The rows that a statement answers."""

    async def first(self, statement: str, /, **values: Any) -> Row | None:
        """The first of them."""

    async def run(self, statement: str, /, **values: Any) -> int:
        """How many rows a statement changed."""

    async def run_each(self, statement: str, values: Sequence[dict[str, Any]]) -> None:
        """Run a statement once with each of these values."""

    async def numbered(self, statement: str, /, **values: Any) -> int | None:
        """The number of the row that a statement inserts; None: it inserted none."""

    async def insert(
        self, table: str, columns: str, rows: Sequence[Sequence[Any]], conflict: str = "DO NOTHING"
    ) -> None:
        """Insert rows, with times as `stored_time`; ``conflict`` says what becomes of one whose key is there."""

    async def drop_some(self, table: str, key: str, where: str, most: int, **values: Any) -> int:
        """Delete up to ``most`` matching rows, told apart by ``key``, that no other transaction holds; how many."""

    def json(self, value: Any) -> str | bytes:
        """JSON as the database stores it."""

    def stored_time(self, time: datetime) -> Any:
        """A time as the database stores it."""

    def moment(self, stored: Any) -> datetime:
        """The time that was stored so."""

    def scope(self, *stored: Any) -> Scope:
        """The scope in the columns `scope_read`."""

    def scope_params(self, scope: Scope) -> dict[str, Any]:
        """The values `scope_values`."""

    def scoped(self, name: str) -> str:
        """The project or agent of a row's scope: ``progress.agent``."""

    def begins(self, column: str, text: str) -> str:
        """Condition on a column: it begins with the value ``text``."""

    def holds(self, column: str, text: str) -> str:
        """Condition on a column of JSON: it has the value ``text`` (`json`) in it."""


Work = Callable[[Db], Coroutine[Any, Any, Result]]


class Database(Protocol):
    """The state's database, as one process uses it. Times that replicas compare are `shared`."""

    location: str
    """Where it is, in words."""
    is_measured: bool
    """Whether it is known what time the clock says that times are kept by."""

    async def read(self, work: Work[Result]) -> Result:
        """Run ``work``, which only reads."""

    async def glance(self, work: Work[Result]) -> Result:
        """The same for a few rows that are found by an index, and that a request waits for."""

    async def write(self, work: Work[Result], *owners: OwnerKey) -> Result:
        """Run ``work`` in a transaction, in which nobody else changes what is these owners'."""

    async def once(self, work: Work[Result]) -> Result:
        """Run one statement that writes, as a transaction of its own."""

    async def run(self, statement: str, /, **values: Any) -> int:
        """The same; how many rows it changed."""

    def shared(self, time: datetime) -> datetime:
        """A time by the caller's clock, by the one that times are kept by."""

    def local(self, time: datetime) -> datetime:
        """Such a time by the caller's clock."""

    def clock(self) -> Callable[[], datetime]:
        """That clock; from now on the caller gives all times by it."""

    def time(self) -> datetime:
        """What time it is."""

    async def erased_key(self, db: Db) -> bytes:
        """The key of the digests of who was erased."""

    async def has_erased(self, db: Db) -> bool:
        """Whether anybody was erased; True, too, where to ask takes as long as to look for somebody."""


class Columns(Protocol):
    """How one owner's texts are written into columns (``what`` names one): as they are, or encrypted."""

    def seal(self, plain: bytes, label: str) -> bytes:
        """Bytes as they are written."""

    def open(self, sealed: bytes, label: str) -> bytes:
        """What `seal` was given; nothing where it cannot be read."""

    def seal_text(self, plain: str, label: str) -> str:
        """As `seal`, of a text."""

    def open_text(self, sealed: str, label: str) -> str:
        """As `open`, of a text."""

    def name(self, plain: str) -> str:
        """A name by which rows are looked up: always the same for the same name."""

    def plain_name(self, name: str) -> str:
        """What `name` was given; empty where it cannot be read."""

    def slot(self, name: str) -> str:
        """A slot of the register; nobody needs to read it again."""


class PlainColumns:
    """Columns that are not encrypted."""

    def seal(self, plain: bytes, label: str) -> bytes:  # noqa: ARG002 - the protocol's
        return plain

    open = seal

    def seal_text(self, plain: str, label: str) -> str:  # noqa: ARG002 - the protocol's
        return plain

    open_text = seal_text

    def name(self, plain: str) -> str:
        return plain

    plain_name = slot = name


_PLAIN = PlainColumns()


class Sealing(Protocol):
    """Chooses the columns' form for each owner."""

    async def of(self, db: Db, owner: OwnerKey) -> Columns | None:
        """The owner's; None: there is no key, hence nothing of the owner that could be read."""

    async def for_writing(self, db: Db, owner: OwnerKey) -> Columns:
        """The same for writing, under the owner's lock: its key is made where there is none."""


class NoSealing:
    """Nothing is encrypted."""

    async def of(self, db: Db, owner: OwnerKey) -> Columns:  # noqa: ARG002 - the protocol's
        return _PLAIN

    for_writing = of


class Erased:
    """Who was erased, and when: a message said before an erasure that arrives after it is dropped.

    A turn arrives late when its answer was under way, or when it waited in a relay, or beside the state, while the
    state could not be written. Erased owners are kept as keyed digests, which name nobody.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def note(self, db: Db, scope: Scope) -> None:
        """The owner, or what is narrower of the scope, is erased now."""
        now = datetime.now(UTC)
        await db.run("DELETE FROM erased WHERE at < :before", before=now - ERASED_KEPT)
        await db.run(
            f"INSERT INTO erased VALUES (:name, {db.now}) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
            name=await self._digest(db, scope),
            now=now,
        )

    async def is_too_late(self, db: Db, scope: Scope, said_at: datetime | None) -> bool:
        """Whether the scope, or a wider one, was erased after this was said; None: that does not matter."""
        if said_at is None or not await self._database.has_erased(db):
            return False
        wider = product({None, scope.session}, {None, scope.project}, {None, scope.agent})
        row = await db.first(
            "SELECT 1 FROM erased WHERE name = ANY(:names) AND at >= :said LIMIT 1",
            names=[await self._digest(db, _of(scope.owner, *narrowing)) for narrowing in wider],
            said=self._database.shared(said_at),
        )
        return row is not None

    async def name_of(self, db: Db, owner: OwnerKey) -> str:
        """The owner's digest in place of the user's name, where something is kept that an erasure leaves."""
        return MARK + (await self._digest(db, _of(owner))).hex()[:32]

    async def name_now(self, db: Db, owner: OwnerKey) -> str:
        """How the owner may be called: by name, or by `name_of` once erased."""
        return await self.name_of(db, owner) if await self.is_gone(db, owner) else owner[1]

    async def is_gone(self, db: Db, owner: OwnerKey) -> bool:
        """Whether the owner was erased, and nothing came since."""
        gone = await db.first(
            f"SELECT 1 FROM erased WHERE name = :name AND NOT EXISTS (SELECT 1 FROM owners WHERE {OWNED})",
            name=await self._digest(db, _of(owner)),
            **owned(owner),
        )
        return gone is not None

    async def keep_choices_unnamed(self, db: Db, owner: OwnerKey) -> None:
        """What an erased owner has chosen holds on, without the name."""
        if await self.is_gone(db, owner):
            name = await self.name_of(db, owner)
            await db.run(f"DELETE FROM choices WHERE {OWNED}", tenant=owner[0], user=name)
            await _rename_choices(db, owner[0], owner[1], name)

    async def came_back(self, db: Db, owner: OwnerKey) -> None:
        """Something of the owner is written: from here on the name stands there, beside what was chosen, too."""
        if await db.run("INSERT INTO owners VALUES (:tenant, :user) ON CONFLICT DO NOTHING", **owned(owner)):
            await _rename_choices(db, owner[0], await self.name_of(db, owner), owner[1])

    async def _digest(self, db: Db, scope: Scope) -> bytes:
        """The name of an owner, or of what is narrower, which only this state's key makes."""
        key = await self._database.erased_key(db)
        places = {"session": scope.session, "project": scope.project, "agent": scope.agent}
        names = [*scope.owner, *(f"{kind}={name}" for kind, name in places.items() if name is not None)]
        parts = [name.encode("utf-8", "surrogatepass") for name in names]
        return hmac.digest(key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")


async def _rename_choices(db: Db, tenant: str, name: str, other: str) -> None:
    """Give choices another name; what is chosen under that one already stays as it is."""
    await db.run(
        """
        UPDATE choices SET user_id = :other WHERE tenant = :tenant AND user_id = :name AND NOT EXISTS (
            SELECT 1 FROM choices AS there
            WHERE there.tenant = :tenant AND there.user_id = :other AND there.agent = choices.agent)
        """,
        tenant=tenant,
        name=name,
        other=other,
    )


class StatePart(ABC):  # noqa: B024 - its parts have abstract methods
    """A part of the state."""

    def __init__(self, database: Database, tasks: TaskOwner, sealing: Sealing) -> None:
        self._database = database
        self._tasks = tasks
        self._sealing = sealing
        self._erased = Erased(database)


def owned(owner: OwnerKey) -> dict[str, str]:
    """The values of `OWNED`."""
    return {"tenant": owner[0], "user": owner[1]}


def visible(db: Db, scope: Scope) -> tuple[str, dict[str, str]]:
    """A condition on rows: the owner's, and of the scope's project (agent) or of none. With its values."""
    where, values = OWNED, owned(scope.owner)
    for name, mine in (("project", scope.project), ("agent", scope.agent)):
        if mine is not None:
            where, values = f"{where} AND coalesce({db.scoped(name)}, :{name}) = :{name}", {**values, name: mine}
    return where, values


def within(session: str | None) -> str:
    """Condition on a row: it is of the session; None: of any."""
    return "" if session is None else " AND session = :session"


def micros(time: datetime) -> int:
    """Microseconds since 1970."""
    return (time - _EPOCH) // _MICROSECOND


def moment(stored: int) -> datetime:
    """The instant that `micros` counted."""
    return _EPOCH + timedelta(microseconds=stored)


def _of(owner: OwnerKey, session: str | None = None, project: str | None = None, agent: str | None = None) -> Scope:
    return Scope(tenant=owner[0], user=owner[1], session=session, project=project, agent=agent)
