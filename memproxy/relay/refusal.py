"""Reads why an upstream refused an injected request, and learns from it where blocks go.

``auto`` puts blocks late, where prompt caches want them, until an upstream's template refuses that; then at the
beginning; and where no system message is taken at all, into the user's messages. This holds for the tenant of the
request alone, because a client can provoke an upstream's words (a validator quotes what it refuses).
"""

import asyncio
import enum
import logging
import re
from types import MappingProxyType

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.errors import StateUnavailable, UpstreamTimeout, UpstreamUnreachable
from memproxy.metrics import metrics
from memproxy.ports import MetaStore
from memproxy.relay.upstream import UpstreamAnswer
from memproxy.tasks import TaskOwner
from memproxy.wire.encoding import BodyDecoder
from memproxy.wire.request_body import Position

log = logging.getLogger(__name__)

REFUSING = frozenset({400, 413, 422})
"""Statuses by which an upstream may refuse what we injected (role order, context length)."""

MOST_READ = 64 * 1024
"""Bytes of an error that are looked at."""

PATIENCE_S = 2.0
"""The longest wait for an error's body; then what has come decides."""

_LENGTH = re.compile(
    r"context[ _](?:length|window|size)|maximum[ _]context|max_?(?:model_?len|context)"
    r"|too[ _](?:long|large|many tokens)|exceed\w{0,4} .{0,40}\b(?:tokens|context|length)|tokens?_limit"
    r"|reduce the length",
    re.IGNORECASE,
)
_ROLES = re.compile(r"role|system message|template|alternat", re.IGNORECASE)
_SYSTEM = re.compile(r"\bsystem\b", re.IGNORECASE)
_TOKENS = re.compile(r"\btokens\b", re.IGNORECASE)


class Refusal(enum.StrEnum):
    """What an error speaks of."""

    LENGTH = "length"
    ROLES = "roles"
    SYSTEM = "system"
    OTHER = "other"


def judge(body: str) -> Refusal:
    """What this error speaks of. Length comes first: such errors often say to shorten a role's messages."""
    if _LENGTH.search(body):
        return Refusal.LENGTH
    if _ROLES.search(body):
        return Refusal.ROLES
    if _TOKENS.search(body):
        return Refusal.LENGTH
    return Refusal.SYSTEM if _SYSTEM.search(body) else Refusal.OTHER


async def refusal_of(answer: UpstreamAnswer) -> Refusal | None:
    """Whether this answer refuses a request because of what may have been injected, and why; its body stays readable.

    Some servers answer 500 when a chat template fails; there the words decide.
    """
    if answer.status not in REFUSING and answer.status != 500:
        return None
    refusal = judge(await _beginning(answer))
    if answer.status == 500 and refusal not in {Refusal.ROLES, Refusal.SYSTEM}:
        return None
    return refusal


async def _beginning(answer: UpstreamAnswer) -> str:
    body = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            body = await answer.peek(MOST_READ)
    except (TimeoutError, UpstreamUnreachable, UpstreamTimeout):
        pass  # an error without its words: relaying the answer meets the same trouble and reports it
    return BodyDecoder(answer.header("content-encoding"), MOST_READ).feed(body).decode("utf-8", "replace")


REMEMBERED_BYTES = 1024 * 1024
"""Bytes for learned positions: some 2,000 models of tenants; those used least recently are forgotten first."""

MOST_OF_A_TENANT = 16
"""Most models of one tenant, so that made-up names displace only its own."""

_META_KEYS: MappingProxyType[Position, str] = MappingProxyType(
    {"system": "inject.system_first.tenants", "within_user": "inject.within_user.tenants"}
)
_INSTEAD: MappingProxyType[Position, Position] = MappingProxyType(
    {"before_last_user": "system", "system": "within_user"}
)
"""The next position where a template refused blocks at one."""

_LEARNED = msgspec.json.Decoder(list[tuple[str, list[tuple[str, str]]]])


class Positions:
    """Knows the position for each tenant's upstream and model; what was learned is in the state for the next start."""

    def __init__(self, configured: Position, state: MetaStore, tasks: TaskOwner) -> None:
        self._configured = configured
        self._state = state
        self._tasks = tasks
        self._learned: dict[Position, BoundedCache[str, list[tuple[str, str]]]] = {
            position: BoundedCache(REMEMBERED_BYTES) for position in _META_KEYS
        }
        self._writing = asyncio.Lock()

    def of(self, tenant: str, upstream: str, model: str | None) -> Position:
        """The position for a request to this model; ``upstream`` is its host and path, without a key."""
        if self._configured != "auto":
            return self._configured
        pair = (upstream, model or "")
        learned = [position for position, by_tenant in self._learned.items() if pair in (by_tenant.get(tenant) or ())]
        return learned[-1] if learned else "before_last_user"

    def refused(self, tenant: str, upstream: str, model: str | None, at: Position) -> None:
        """This model's template refused system text ``at`` a position: from now on this tenant has it elsewhere."""
        pair, instead = (upstream, model or ""), _INSTEAD.get(at)
        if self._configured != "auto" or instead is None:
            return
        pairs = self._learned[instead].get(tenant) or []
        if pair in pairs:
            return
        log.info("model %r at %s refuses system text (%s); from now on blocks go %s", pair[1], pair[0], at, instead)
        self._learned[instead].put(tenant, [*pairs, pair][-MOST_OF_A_TENANT:])
        self._tasks.start(self._note(), "note position")

    async def load(self) -> None:
        """Read what was learned before; the state must be open. Raises `StateUnavailable` where it does not answer."""
        for position, learned in self._learned.items():
            for tenant, pairs in await self._stored(_META_KEYS[position]):
                newer = learned.get(tenant) or []
                older = [pair for pair in pairs if pair not in newer]
                learned.put(tenant, [*older, *newer][-MOST_OF_A_TENANT:])

    async def _stored(self, key: str) -> list[tuple[str, list[tuple[str, str]]]]:
        stored = await self._state.get_meta(key)
        try:
            return _LEARNED.decode(stored) if stored else []
        except msgspec.MsgspecError:
            log.warning("what was learned of upstreams' templates cannot be read and is learned again")
            return []

    async def _note(self) -> None:
        async with self._writing:
            try:
                await self.load()  # another relay may have learned something meanwhile
                for position, learned in self._learned.items():
                    stored = [(tenant, learned.get(tenant)) for tenant in list(learned)]
                    await self._state.set_meta(_META_KEYS[position], msgspec.json.encode(stored).decode())
            except StateUnavailable as error:
                metrics().internal_errors.labels(where="relay.position").inc()
                log.warning("a model's position could not be noted, a restart learns it again: %s", error.message)
