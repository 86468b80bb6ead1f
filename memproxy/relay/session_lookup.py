"""Which conversation a request belongs to, when the client does not say.

A continued conversation is recognised by the user's messages alone: clients alter the assistant's, and put dates into
system prompts. A conversation is named by a chain of digests over its user messages; a request with messages 1..n
continues the session that was noted for 1..n-1. For clients that trim old messages there is a second key over the last
two. The digest of the assistant's last answer only breaks ties between conversations that began alike. Where the
message before was never seen here, the longest beginning counts whose answer the request brings.
"""

import functools
import hashlib
import itertools
import uuid
from collections.abc import Collection, Sequence
from datetime import datetime

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.core.changes import Change, ChangeNotices, What
from memproxy.core.scope import Scope
from memproxy.core.turn import text_digest
from memproxy.errors import StateUnavailable
from memproxy.ports import KnownSession, SessionStore
from memproxy.wire.responses import response_key

CACHE_BYTES = 32 * 1024 * 1024
"""Bytes for the prefixes that a relay caches in front of the state store: some 20,000."""


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """A request's session: its id, the time its last user message first came, and the keys to remember it by.

    ``asked_at`` is when this request came: what it brings is dropped if it is erased before its answer ends.
    ``begins`` says that nothing can be known of it yet: its id was made for this request. ``said_before`` are the times
    of user messages that the request brings once more (`Sessions.find`), None: not known.
    """

    session: str
    said_at: datetime
    asked_at: datetime
    keys: tuple[str, ...] = ()
    begins: bool = False
    said_before: tuple[datetime | None, ...] = ()

    @classmethod
    def beginning(cls, now: datetime, keys: tuple[str, ...] = ()) -> "Conversation":
        return cls(session=f"ses_{uuid.uuid4().hex}", said_at=now, asked_at=now, keys=keys, begins=True)

    def followed_by(self, response_id: str, *more_keys: str) -> "Conversation":
        """A copy that is also found by the response that follows: a later request may name nothing else."""
        return msgspec.structs.replace(self, keys=(*self.keys, *more_keys, response_key(response_id)))


class PrefixKeys(msgspec.Struct, frozen=True, kw_only=True):
    """Keys of a list of user messages: as a whole, without the last, and for trimmed histories."""

    whole: str
    shorter: str | None
    pair: str | None
    shorter_pair: str | None


EARLIER_BEGINNINGS = 64
"""How many shorter beginnings of a conversation are looked for where none of the usual keys is known."""

REMEMBERED_LINKS = 4_096
"""Cached links of chains (digests of digests): a conversation's messages come again with each request."""


def prefix_keys(digests: Sequence[str]) -> PrefixKeys:
    """Chain digests of the user's messages (`core.turn.text_digest` of each), oldest first (at least one)."""
    chains = _chains(digests, len(digests))
    shorter = chains[-2] if len(chains) > 1 else None
    return PrefixKeys(whole=chains[-1], shorter=shorter, pair=_pair(digests[-2:]), shorter_pair=_pair(digests[-3:-1]))


def _chains(digests: Sequence[str], last: int) -> list[str]:
    """The keys of the lists that end with each of the ``last`` messages."""
    chains = list(itertools.accumulate(digests, _link, initial=""))
    return [f"c:{chain}" for chain in chains[len(chains) - last :]]


@functools.lru_cache(REMEMBERED_LINKS)
def _link(chain: str, digest: str) -> str:
    return hashlib.blake2b(f"{chain}/{digest}".encode(), digest_size=16).hexdigest()


def _pair(digests: Sequence[str]) -> str | None:
    return f"p:{'/'.join(digests)}" if len(digests) == 2 else None


class Sessions:
    """Finds and remembers sessions; a bounded cache in front of the state store. Its calls raise `StateUnavailable`
    where that does not answer.
    """

    def __init__(self, state: SessionStore, *, shared: bool = False, changes: ChangeNotices | None = None) -> None:
        """``shared``: other relays remember sessions, too. ``changes`` tell whose conversations may be undone."""
        self._state = state
        self._shared = shared
        self._cache: BoundedCache[tuple[str, str, str], list[KnownSession]] = BoundedCache(CACHE_BYTES)
        if changes is not None:
            changes.subscribe(self._forget)

    def _forget(self, change: Change | None) -> None:
        """Forget the cached sessions of a changed owner; the state has those that are left."""
        if change is not None and change.what is What.REPLACED:
            return
        owner = None if change is None else (change.tenant, change.user)
        for name in [name for name in self._cache if owner in {None, name[:2]}]:
            self._cache.pop(name)

    async def find_chained(self, scope: Scope, chain: str, *, now: datetime) -> Conversation:
        """The session of a conversation that the upstream keeps, by what the request continues; else a new one."""
        if noted := (await self._look_up(scope, [chain])).get(chain):
            return Conversation(session=noted[0].session, said_at=now, asked_at=now, keys=(chain,))
        return Conversation.beginning(now, (chain,))

    async def last_noted(self, scope: Scope, key: str) -> KnownSession | None:
        return next(iter((await self._look_up(scope, [key])).get(key, [])), None)

    async def find(
        self,
        scope: Scope,
        digests: Sequence[str],
        *,
        answer: str | None,
        tool_followup: bool,
        now: datetime,
        named: str | None = None,
        repeated: int = 0,
        all_digests: Collection[str] = (),
    ) -> Conversation:
        """The session that the user messages of these digests continue, or a new one.

        ``answer`` is the text of the request's last assistant message. A conversation's first message always begins a
        new session, for it has no prefix, unless it is a tool loop's follow-up. ``named`` is the session that the
        client names. ``repeated`` messages before the last one are captured with it, perhaps once more: the
        conversation says when each came. ``all_digests`` are those of all messages, the assistant's too.
        """
        if not digests:
            return Conversation.beginning(now)
        keys = prefix_keys(digests)
        remembered = tuple(key for key in (keys.whole, keys.pair) if key)
        if len(digests) == 1 and not tool_followup:
            return Conversation.beginning(now, remembered)
        lookup_keys = [key for key in (keys.whole, keys.shorter, keys.shorter_pair) if key]
        noted, said_at = await self._look_up(scope, lookup_keys), now
        # a conversation in the same words as an earlier one is told apart by the answer that it brings
        begun = None if tool_followup else _answered(noted.get(keys.shorter or "", []), answer)
        if same := [hit for hit in noted.get(keys.whole, []) if begun is None or hit.session == begun.session]:
            session, said_at = same[0].session, same[0].said_at
        elif candidates := next((noted[key] for key in lookup_keys[1:] if noted.get(key)), None):
            session = (_answered(candidates, answer) or candidates[0]).session
        elif earlier := await self._find_earlier(scope, digests, all_digests):
            session = earlier
        else:
            return Conversation.beginning(now, remembered)
        said_before = await self._times(scope, named or session, _chains(digests[:-1], repeated)) if repeated else ()
        return Conversation(session=session, said_at=said_at, asked_at=now, keys=remembered, said_before=said_before)

    async def _find_earlier(self, scope: Scope, digests: Sequence[str], all_digests: Collection[str]) -> str | None:
        if not (shorter := digests[:-2]) or not all_digests:
            return None
        keys = _chains(shorter, min(len(shorter), EARLIER_BEGINNINGS))[::-1]
        noted = await self._look_up(scope, keys)
        return next((hit.session for key in keys for hit in noted.get(key, []) if hit.answer in all_digests), None)

    async def _times(self, scope: Scope, session: str, keys: list[str]) -> tuple[datetime | None, ...]:
        noted = await self._look_up(scope, keys, least=len(keys))
        return tuple({hit.session: hit.said_at for hit in noted.get(key, [])}.get(session) for key in keys)

    async def _look_up(self, scope: Scope, keys: list[str], *, least: int = 1) -> dict[str, list[KnownSession]]:
        """What is known of these keys; the cache is enough where it knows the ``least`` number of them."""
        owner = scope.owner
        cached = {key: noted for key in keys if (noted := self._cache.get((*owner, key)))}
        if len(cached) >= least and not self._shared:
            return cached
        try:
            return await self._state.find_session(scope, keys)
        except StateUnavailable:
            if not cached:
                raise
            return cached

    async def remember(self, scope: Scope, conversation: Conversation, answer: str | None) -> None:
        """Note that these messages, followed by ``answer``, belong to this session."""
        if not conversation.keys:
            return
        noted = KnownSession(
            session=conversation.session, said_at=conversation.said_at, answer=text_digest(answer) if answer else None
        )
        for key in conversation.keys:
            cache_key = (*scope.owner, key)
            other_sessions = [other for other in self._cache.get(cache_key) or [] if other.session != noted.session]
            self._cache.put(cache_key, [noted, *other_sessions[:3]])
        await self._state.remember_session(scope, conversation.keys, noted, asked_at=conversation.asked_at)


def _answered(candidates: list[KnownSession], answer: str | None) -> KnownSession | None:
    digest = text_digest(answer) if answer is not None else None
    return next((candidate for candidate in candidates if digest and candidate.answer == digest), None)
