"""The state in PostgreSQL with every text of a user encrypted (`state_sealed`)."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Literal

from memproxy.stores.postgres_state import PostgresState
from memproxy.stores.postgres_state_database import lock_key
from memproxy.stores.postgres_state_replicas import DESTROYED, LEASE
from memproxy.stores.sealing import MasterKeys
from memproxy.stores.state_part import Db
from memproxy.stores.state_sealed import SEALED_TABLES, SealedOwners

SEALED_S = 3600.0
"""How long it may take to encrypt a state that was not."""


class PostgresSealedState(SealedOwners, PostgresState):
    """`ports.StateStore` in a database, with the texts in it encrypted."""

    def __init__(
        self,
        url: str,
        spill: Path,
        *,
        sync: Literal["normal", "full"],
        masters: MasterKeys,
        spares: bool = False,
        lease: timedelta = LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``masters``: the installation's keys. The rest is `PostgresState`'s."""
        sealing = self._seal_by(masters)
        super().__init__(url, spill, sync=sync, spares=spares, sealing=sealing, lease=lease, now=now)
        self._replicas.on(DESTROYED, lambda _: self.drop_key(None))

    async def open(self) -> None:
        """As the port says. A state that is not encrypted yet is, before this returns.

        Raises:
            StateUnavailable: also when its keys are wrapped by a master key that is not here.
        """
        await super().open()
        try:
            async with self._database.transaction(SEALED_S) as db:
                await self._keys.check(db)
                await db.execute("SELECT set_config('statement_timeout', '0', true)")
                await db.execute("SELECT pg_advisory_xact_lock(%s)", [lock_key("sealing")])
                sealed = await self._prepare(db)
        except BaseException:
            await self.close()
            raise
        await self._begun(sealed)

    async def _lock_tables(self, db: Db) -> None:
        await db.run(f"LOCK TABLE {', '.join(SEALED_TABLES)} IN EXCLUSIVE MODE")

    async def _tell_destroyed(self, db: Db) -> None:
        await self._replicas.tell(db, DESTROYED)
