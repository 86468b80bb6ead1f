"""What may be forgotten: in each process by itself, or in Redis for all of them (``cache.backend``)."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from memproxy.core.changes import ChangeNotices
from memproxy.core.scope import OwnerKey
from memproxy.errors import CacheUnavailable, StateUnavailable
from memproxy.ports import STORE_ID, StateStore, UsageStore, WorkingApart
from memproxy.settings import Settings
from memproxy.stores.state_part import Columns, PlainColumns
from memproxy.wiring.state_stores import keys_of

if TYPE_CHECKING:
    from memproxy.stores.redis_server import RedisServer


@dataclass(frozen=True)
class Caches:
    """What a process uses of it; ``server`` None: there is none, each process is by itself."""

    changes: ChangeNotices
    usage: UsageStore
    working: WorkingApart | None = None
    server: "RedisServer | None" = None


class OwnersColumns:
    """How an owner's texts are written outside of the state: as they are, or sealed by the owner's key."""

    def __init__(self, state: StateStore) -> None:
        self._keys = keys_of(state)

    async def columns(self, owner: OwnerKey, *, make: bool) -> Columns | None:
        if self._keys is None:
            return PlainColumns()
        from memproxy.stores.state_sealed import SealedColumns  # noqa: PLC0415 - cryptography, which few need

        try:
            key = await self._keys.data_key(owner, make=make)
        except StateUnavailable as error:
            raise CacheUnavailable("The state does not tell the key by which it is sealed. Try again soon.") from error
        return None if key is None else SealedColumns(key)


def redis_server(settings: Settings, installation: Callable[[], Awaitable[str | None]]) -> "RedisServer":
    """The server of ``cache.url``, not connected yet; ``installation`` is `RedisServer`'s. `ConfigError`: it is no
    address.
    """
    from memproxy.stores.redis_server import RedisServer  # noqa: PLC0415 - an extra

    return RedisServer(settings.cache.url or "", installation)


def make_caches(settings: Settings, state: StateStore) -> Caches:
    """For one process that works with this state. Raises as `redis_server`."""
    if settings.cache.backend == "memory":
        return Caches(state.changes, state)
    from memproxy.stores.redis_uses import RedisNotices, RedisUses  # noqa: PLC0415 - an extra
    from memproxy.stores.redis_working import RedisWorking  # noqa: PLC0415 - an extra

    server = redis_server(settings, lambda: state.get_meta(STORE_ID))
    return Caches(
        changes=RedisNotices(server, state.changes),
        usage=RedisUses(server, state),
        working=RedisWorking(server, state, OwnersColumns(state)),
        server=server,
    )
