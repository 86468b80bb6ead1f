"""What the parts of the state in PostgreSQL share: the database, how an owner's columns are written, who was erased.

Each part is one module with one or a few of the state's contracts (`ports.state`): a class whose methods are the
contract, over statements that run inside a transaction which their caller opened. `postgres_state` puts them together.
"""

import hmac
from datetime import datetime
from itertools import product
from typing import Any, Protocol

from memproxy.core.scope import Scope
from memproxy.stores.postgres_state_database import Db, Owner, PostgresDatabase, one
from memproxy.stores.sqlite_erased import ERASED_KEPT, MARK
from memproxy.stores.sqlite_part import Columns, PlainColumns
from memproxy.tasks import TaskOwner

PLACE = "tenant, user_id, project, agent, session"
"""Columns of a scope."""


class Sealing(Protocol):
    """Whose columns are written how."""

    async def of(self, db: Db, owner: Owner) -> Columns | None:
        """The owner's; None: there is no key, hence nothing of the owner that could be read."""

    async def made(self, db: Db, owner: Owner) -> Columns:
        """The same for writing, under the owner's lock: its key is made where there is none."""


class NoSealing:
    """Nothing is encrypted."""

    def __init__(self) -> None:
        self._columns = PlainColumns()

    async def of(self, db: Db, owner: Owner) -> Columns | None:  # noqa: ARG002 - the protocol's
        return self._columns

    async def made(self, db: Db, owner: Owner) -> Columns:  # noqa: ARG002 - the protocol's
        return self._columns


class Erased:
    """Who was erased, and when: a message said before an erasure that arrives after it is dropped. Erased owners are
    kept as keyed digests, which name nobody. Times are the database's: replicas' clocks may differ.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._key = b""

    async def open(self, db: Db) -> None:
        """Read the key of the digests."""
        (self._key,) = await one(db, "SELECT value FROM secrets WHERE name = 'erased'")

    async def note(self, db: Db, scope: Scope) -> None:
        """The owner, or what is narrower of the scope, is erased now."""
        await db.execute("DELETE FROM erased WHERE at < clock_timestamp() - %s", [ERASED_KEPT])
        await db.execute(
            "INSERT INTO erased VALUES (%s, clock_timestamp()) ON CONFLICT (name) DO UPDATE SET at = excluded.at",
            [self._digest(scope)],
        )

    async def is_too_late(self, db: Db, scope: Scope, said_at: datetime | None) -> bool:
        """Whether the scope, or a wider one, was erased after this was said; None: that does not matter."""
        if said_at is None:
            return False
        wider = product({None, scope.session}, {None, scope.project}, {None, scope.agent})
        names = [self._digest(_of(scope.owner, *place)) for place in wider]
        (found,) = await one(
            db,
            "SELECT EXISTS (SELECT FROM erased WHERE name = ANY(%s) AND at >= %s)",
            [names, self._database.shared(said_at)],
        )
        return bool(found)

    def name_of(self, owner: Owner) -> str:
        """The owner's digest in place of the user's name, where something is kept that an erasure leaves."""
        return MARK + self._digest(_of(owner)).hex()[:32]

    async def name_now(self, db: Db, owner: Owner) -> str:
        """How the owner may be called: by name, or by `name_of` once erased."""
        return self.name_of(owner) if await self.is_gone(db, owner) else owner[1]

    async def is_gone(self, db: Db, owner: Owner) -> bool:
        """Whether the owner was erased, and nothing came since."""
        (gone,) = await one(
            db,
            "SELECT EXISTS (SELECT FROM erased WHERE name = %s) "
            "AND NOT EXISTS (SELECT FROM owners WHERE tenant = %s AND user_id = %s)",
            [self._digest(_of(owner)), *owner],
        )
        return bool(gone)

    async def leave_choices(self, db: Db, owner: Owner) -> None:
        """What an erased owner has chosen holds on, without the name."""
        if await self.is_gone(db, owner):
            await db.execute("DELETE FROM choices WHERE tenant = %s AND user_id = %s", [owner[0], self.name_of(owner)])
            await _rename_choices(db, owner[0], owner[1], self.name_of(owner))

    async def came_back(self, db: Db, owner: Owner) -> None:
        """Something of the owner is written: from here on the name stands there, beside what was chosen, too."""
        known = await db.execute("INSERT INTO owners VALUES (%s, %s) ON CONFLICT DO NOTHING RETURNING 1", owner)
        if await known.fetchone() is not None:
            await _rename_choices(db, owner[0], self.name_of(owner), owner[1])

    def _digest(self, scope: Scope) -> bytes:
        """The name of an owner, or of what is narrower, which only this state's key makes."""
        places = {"session": scope.session, "project": scope.project, "agent": scope.agent}
        names = [*scope.owner, *(f"{kind}={name}" for kind, name in places.items() if name is not None)]
        parts = [name.encode("utf-8", "surrogatepass") for name in names]
        return hmac.digest(self._key, b"".join(len(part).to_bytes(4, "big") + part for part in parts), "sha256")


async def _rename_choices(db: Db, tenant: str, name: str, other: str) -> None:
    """Give choices another name; what is chosen under that one already stays as it is."""
    await db.execute(
        """
        UPDATE choices SET user_id = %(other)s WHERE tenant = %(tenant)s AND user_id = %(name)s AND NOT EXISTS (
            SELECT FROM choices AS there
            WHERE there.tenant = %(tenant)s AND there.user_id = %(other)s AND there.agent = choices.agent)
        """,
        {"tenant": tenant, "name": name, "other": other},
    )


class PostgresPart:
    """A part of the state."""

    def __init__(self, database: PostgresDatabase, tasks: TaskOwner, sealing: Sealing) -> None:
        self._database = database
        self._tasks = tasks
        self._sealing = sealing
        self._erased = Erased(database)


async def read_meta(database: PostgresDatabase, key: str) -> str | None:
    """A fact of the state (`ports.MetaStore`)."""
    async with database.connected() as db:
        row = await (await db.execute("SELECT value FROM meta WHERE key = %s", [key])).fetchone()
    return None if row is None else str(row[0])


async def write_meta(database: PostgresDatabase, key: str, value: str) -> None:
    """Note a fact of the state."""
    async with database.connected() as db:
        await db.execute(
            "INSERT INTO meta VALUES (%s, %s) ON CONFLICT (key) DO UPDATE SET value = excluded.value", [key, value]
        )


def scope_of(tenant: str, user: str, project: str | None, agent: str | None, session: str | None) -> Scope:
    """The scope in the columns `PLACE`."""
    return Scope(tenant=tenant, user=user, project=project, agent=agent, session=session or None)


def place_of(scope: Scope) -> tuple[str, str, str | None, str | None, str | None]:
    """The values of the columns `PLACE`."""
    return (*scope.owner, scope.project, scope.agent, scope.session)


def seen(scope: Scope) -> tuple[str, dict[str, Any]]:
    """A condition on rows with the columns `PLACE`: of the owner, and of the scope's project (agent) or of none. With
    its values.
    """
    where, values = "tenant = %(tenant)s AND user_id = %(user)s", {"tenant": scope.tenant, "user": scope.user}
    for name, mine in (("project", scope.project), ("agent", scope.agent)):
        if mine is not None:
            where, values = f"{where} AND coalesce({name}, %({name})s) = %({name})s", {**values, name: mine}
    return where, values


def _of(owner: Owner, session: str | None = None, project: str | None = None, agent: str | None = None) -> Scope:
    return Scope(tenant=owner[0], user=owner[1], session=session, project=project, agent=agent)
