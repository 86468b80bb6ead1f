"""The embedded state with every text of a user encrypted (`state_sealed`)."""

import logging
from pathlib import Path
from typing import Literal

from memproxy.core.scope import Scope
from memproxy.errors import StateUnavailable
from memproxy.ports import JournalEntry
from memproxy.stores.apart_state import WritesApart
from memproxy.stores.sealing import MasterKeys
from memproxy.stores.sqlite_file import CHECKPOINT_PAGES
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_part import Db
from memproxy.stores.state_sealed import SealedOwners

log = logging.getLogger(__name__)


class SealedState(SealedOwners, SqliteState):
    """`ports.StateStore` in one SQLite file, with the texts in it encrypted."""

    def __init__(
        self,
        path: Path,
        *,
        sync: Literal["normal", "full"],
        masters: MasterKeys,
        checkpoint_pages: int = CHECKPOINT_PAGES,
        spares: bool = False,
        reads_only: bool = False,
    ) -> None:
        """``masters``: the installation's keys. The rest is `SqliteState`'s."""
        super().__init__(
            path,
            sync=sync,
            checkpoint_pages=checkpoint_pages,
            spares=spares,
            reads_only=reads_only,
            sealing=self._seal_by(masters),
        )

    async def open(self) -> None:
        """As the port says. A state that is not encrypted yet is, before this returns.

        Raises:
            StateUnavailable: also when its keys are wrapped by a master key that is not here.
        """
        await super().open()
        try:
            if self._reads_only:
                await self._database.read(self._keys.check)
                return
            sealed = await self._database.write(self._prepare)
            await self._begun(sealed)
        except StateUnavailable:
            await self.close()
            raise
        if sealed:
            await self._wiped()

    async def _wiped(self) -> None:
        try:
            await self._file.wipe()
        except StateUnavailable as error:  # another process reads: the next checkpoint overwrites it
            log.warning("the log of the state may hold plain text until it is written over: %s", error.message)

    async def _tell_destroyed(self, db: Db) -> None:
        """They look for it in the file before they use it."""

    async def rewrap(self) -> int:
        wrapped = await super().rewrap()
        await self._wiped()
        return wrapped


class ApartSealedState(WritesApart, SealedState):
    """The engine's view of it: its keys are read here, and made and destroyed by the state's process."""

    async def make_key(self, scope: Scope) -> None:
        await self._calls.call("make_key", scope)

    async def begin_erasure(self, entry: JournalEntry) -> tuple[int, list[int]]:
        begun = await super().begin_erasure(entry)
        self.drop_key(entry.scope.owner)
        return begun

    async def forget(self, scope: Scope, *, session: str | None, until: int | None = None) -> list[int]:
        gone = await super().forget(scope, session=session, until=until)
        if session is None:
            self.drop_key(scope.owner)
        return gone
