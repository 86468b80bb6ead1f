"""How many tokens a session's requests may carry; less after its upstream found a request too long."""

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.core.scope import Scope
from memproxy.settings import Settings

BLOCKS_IN_A_SESSION = 4
"""Unless ``inject.session_tokens`` says otherwise, a session's blocks together cost as much as this many whole ones."""

LEAST_BLOCK_TOKENS = 100
"""Below it there is no room for more than a block's heading."""

SESSIONS_BYTES = 4 * 1024 * 1024
"""For the sessions whose budget shrank: some 8,000."""


class Budget(msgspec.Struct, frozen=True, kw_only=True):
    """Tokens of a new block, and of all blocks of a request together."""

    block: int
    total: int

    def beside(self, used: int) -> int:
        """Tokens of a new block beside others that use so many; 0 when there is no room for one."""
        room = min(self.block, self.total - used)
        return room if room >= min(self.block, LEAST_BLOCK_TOKENS) else 0


class Budgets:
    """The budgets of sessions; the shrunken ones in memory, the oldest of them forgotten first."""

    def __init__(self, settings: Settings) -> None:
        self._block = settings.recall.max_tokens
        self._total = settings.inject.session_tokens
        self._halvings: BoundedCache[tuple[str, str, str], int] = BoundedCache(SESSIONS_BYTES)

    def of(self, scope: Scope, asked: int | None) -> Budget:
        """The budget of a request of this session; ``asked`` is its own limit for a block."""
        halvings = self._halvings.get(_name(scope)) or 0
        block = self._block if asked is None else asked
        total = BLOCKS_IN_A_SESSION * block if self._total is None else self._total
        return Budget(block=block >> halvings, total=total >> halvings)

    def halve(self, scope: Scope) -> None:
        """The upstream found a request of this session too long."""
        name = _name(scope)
        self._halvings.put(name, min((self._halvings.get(name) or 0) + 1, 30))


def _name(scope: Scope) -> tuple[str, str, str]:
    return (*scope.owner, scope.session or "")
