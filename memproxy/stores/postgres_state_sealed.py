"""The state in PostgreSQL with every text of a user encrypted (`state_sealed`)."""

from datetime import timedelta

from memproxy.stores.postgres_state import PostgresState
from memproxy.stores.postgres_state_database import PostgresDatabase, lock_key
from memproxy.stores.postgres_state_replicas import DESTROYED
from memproxy.stores.state_part import Db
from memproxy.stores.state_sealed import SEALED_TABLES, SealedOwners

SEALED_S = 3600.0  # how long it may take to encrypt a state that was not


class PostgresSealedState(SealedOwners, PostgresState):
    """`ports.StateStore` in a database, with the texts in it encrypted."""

    def _share(self, database: PostgresDatabase, lease: timedelta) -> None:
        super()._share(database, lease)
        self._replicas.on(DESTROYED, lambda _: self.drop_key(None))

    async def _sealed(self) -> int:
        async with self._database.transaction(SEALED_S) as db:
            await self._keys.check(db)
            await db.execute("SELECT set_config('statement_timeout', '0', true)")
            await db.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("sealing")])
            return await self._prepare(db)

    async def _lock_tables(self, db: Db) -> None:
        await db.run(f"LOCK TABLE {', '.join(SEALED_TABLES)} IN EXCLUSIVE MODE")

    async def _tell_destroyed(self, db: Db) -> None:
        await self._replicas.tell(db, DESTROYED)
