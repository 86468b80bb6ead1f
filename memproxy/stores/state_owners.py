"""Who has anything here, the erasure of all of it, and facts of the installation (`OwnerStore`, `MetaStore`)."""

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from memproxy.core.scope import OwnerKey, Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import MOVED, JournalEntry, has_moved
from memproxy.stores import state_dreams as dreams
from memproxy.stores import state_journal as journal
from memproxy.stores import state_palace as palace
from memproxy.stores import state_receipts as receipts
from memproxy.stores import state_sessions as sessions
from memproxy.stores import state_working as working
from memproxy.stores.journal_spill import Spill, TakingUp
from memproxy.stores.state_callers import StateCallers
from memproxy.stores.state_dreams import StateDreams
from memproxy.stores.state_palace import StatePalace
from memproxy.stores.state_part import OWNED, Database, Db, NoSealing, Sealing, owned
from memproxy.stores.state_receipts import StateReceipts
from memproxy.stores.state_sessions import StateSessions
from memproxy.stores.state_working import StateWorking
from memproxy.tasks import TaskOwner

if TYPE_CHECKING:
    from memproxy.stores.sealing import MasterKeys  # cryptography, which few need

SEALED = "privacy.sealed"
"""Fact of a state whose texts are encrypted (`state_sealed`)."""


class StateOwners(StateSessions, StatePalace, StateReceipts, StateCallers, StateWorking, StateDreams):
    """`ports.OwnerStore` and `ports.MetaStore`, over the parts that are alike in every database."""

    seals = False
    """Whether it encrypts texts, and can read those that are."""

    place_anew: ClassVar[str]
    """What an export is imported into, to be without encryption."""

    _reads_only = False
    """Whether another process writes for this one."""

    def __init__(
        self, database: Database, tasks: TaskOwner, masters: "MasterKeys | None", spill: Path, *, durable: bool
    ) -> None:
        """``masters``: the keys of encrypted texts. ``spill`` names local files of what the database does not take."""
        super().__init__(database, tasks, self._seal_by(masters))
        self.where = database.location
        self._spill = Spill(spill, durable=durable)
        self._taking_up = TakingUp(spill, self._append_left, tasks)

    def _seal_by(self, masters: "MasterKeys | None") -> Sealing:  # noqa: ARG002 - those with encrypted texts do
        return NoSealing()

    @abstractmethod
    async def wipe(self) -> None:
        """As `ports.OwnerStore` says."""

    async def _check_usable(self) -> None:
        """See that this process can read it, and may. Raises `StateUnavailable`: it is encrypted; `ConfigError`: it has
        moved.
        """
        if not self.seals and await self.get_meta(SEALED) is not None:
            raise StateUnavailable(
                f"The state in {self.where} is encrypted, and privacy.encrypt is off. Switch it on again with its "
                "MEMPROXY_MASTER_KEY; to be without encryption, export with it and import into a new "
                f"{self.place_anew}."
            )
        if moved := await self.get_meta(MOVED):
            raise has_moved(self.where, moved)

    async def _begin(self) -> None:
        """It is open, and may be used."""
        if not self._reads_only:
            await self._taking_up.begin()

    async def _end(self) -> None:
        """Finish pending work before the state closes."""
        self._taking_up.stop()
        await self._tasks.drain(grace_s=10.0)
        await self._spill.close()

    async def set_aside(self, entry: JournalEntry) -> int | None:
        return await self._spill.put(entry)

    async def read_aside(self, number: int) -> JournalEntry | None:
        return await self._spill.read(number)

    async def drop_aside(self, number: int) -> None:
        await self._spill.drop(number)

    async def _append_left(self, entry: JournalEntry) -> int:
        """Append entries that an ended process had set aside."""
        return await self.append(entry)

    async def owners(self, *, after: OwnerKey | None, limit: int) -> list[OwnerKey]:
        tenant, user = after or ("", "")
        rows = await self._database.read(
            lambda db: db.all(
                "SELECT tenant, user_id FROM owners WHERE (tenant, user_id) > (:tenant, :user) "
                "ORDER BY tenant, user_id LIMIT :limit",
                tenant=tenant,
                user=user,
                limit=limit,
            )
        )
        return [(tenant, user) for tenant, user in rows]

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        await self._empty_working(scope.owner, session)
        gone = await self._database.write(lambda db: self._forget(db, scope, session, until), scope.owner)
        await self.wipe()
        return gone

    async def _forget(self, db: Db, scope: Scope, session: str | None, until: int | None) -> list[int]:
        gone = await self._erase_texts(db, scope, session, until)
        await self.erase_caller(db, scope, session)
        await working.erase(db, await self._sealing.of(db, scope.owner), scope.owner, session)
        await self._erased.note(db, Scope(tenant=scope.tenant, user=scope.user, session=session))
        if session is None:
            await db.run(  # what came after it was to be forgotten keeps the owner here
                f"DELETE FROM owners WHERE {OWNED} AND NOT EXISTS (SELECT 1 FROM journal WHERE {OWNED})",
                **owned(scope.owner),
            )
            await self._erased.keep_choices_unnamed(db, scope.owner)
        return gone

    async def _erase_texts(self, db: Db, scope: Scope, session: str | None, until: int | None = None) -> list[int]:
        """Erase all that was said by the owner, or in one session, and what was made of it. The rows' numbers."""
        gone = await journal.erase(db, scope, session, until)
        await palace.erase(db, scope.owner, session)
        await sessions.erase(db, scope, session)
        await receipts.erase(db, scope, session)
        if session is None:
            await dreams.erase(db, scope.owner)
        return gone

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        return await self.append(entry), []  # nothing is encrypted here

    async def get_meta(self, key: str) -> str | None:
        return await read_meta(self._database, key)

    async def set_meta(self, key: str, value: str) -> None:
        await write_meta(self._database, key, value)

    async def swap_meta(self, key: str, expected: str | None, value: str) -> bool:
        if expected is None:
            new = "INSERT INTO meta VALUES (:key, :value) ON CONFLICT DO NOTHING"
            return await self._database.run(new, key=key, value=value) == 1
        change = "UPDATE meta SET value = :value WHERE key = :key AND value = :expected"
        return await self._database.run(change, key=key, value=value, expected=expected) == 1


async def read_meta(database: Database, key: str) -> str | None:
    """A fact of the state (`ports.MetaStore`)."""
    row = await database.read(lambda db: db.first("SELECT value FROM meta WHERE key = :key", key=key))
    return None if row is None else str(row[0])


async def write_meta(database: Database, key: str, value: str) -> None:
    """Note a fact of the state."""
    note = "INSERT INTO meta VALUES (:key, :value) ON CONFLICT (key) DO UPDATE SET value = excluded.value"
    await database.run(note, key=key, value=value)
