"""When learning begins: enough new turns in a session, another topic, or a session silent for a while."""

import asyncio
import math
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.bounded import BoundedCache
from memproxy.core.memory import Kind, Trust
from memproxy.core.protocol import DRIFT, IDLE, SILENT, LearnBody
from memproxy.core.scope import Scope
from memproxy.core.slots import singular
from memproxy.core.text import key_terms
from memproxy.learn.extract import turns_of
from memproxy.learn.parts import Parts
from memproxy.ports import JournalEntry, JournalKind, MemoryFilter

_LEAST_TERMS = 3  # fewest key terms of a message that has a topic ("ok, thanks" has none)

_MOST_TURNS = 40
_MOST_CHARACTERS = 1_000


def centroid_cosine(vector: Sequence[float], other_vectors: Sequence[Sequence[float]]) -> float:
    """Cosine of a vector and the mean of others; 0 when either has no direction."""
    mean = [sum(values) / len(other_vectors) for values in zip(*other_vectors, strict=True)]
    length = math.hypot(*vector) * math.hypot(*mean)
    return sum(a * b for a, b in zip(vector, mean, strict=True)) / length if length else 0.0


def shared_terms(text: str, other_texts: Sequence[str]) -> float:
    """The share of a text's key terms that the others hold."""
    terms = _terms(text)
    return len(terms & _terms("\n".join(other_texts))) / len(terms) if terms else 1.0


def _terms(text: str) -> frozenset[str]:
    return frozenset(singular(term) for term in key_terms(text, 200))


_AT_ONCE = 1_000
_AGAIN_S = 0.05  # pause before another try to begin for an owner whose rows another engine handles
_MODEL = "model:"  # prefix of the state's entries for tenants' models
_NOTED_BYTES = 1024 * 1024

_TAKEN_ALONG = 0.25  # sessions silent for this share of ``learn.idle_s`` are learned with a due one of their user


class Triggers:
    """Looks for sessions whose turns are due, and appends their ``learn`` rows."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._settings = parts.settings.learn
        self._silence = timedelta(seconds=parts.settings.conversation.silence_s)
        # The rules ask no model: there is nothing to save up for.
        self._every = parts.settings.learn.every_turns if parts.by_model else 1
        self._noted: BoundedCache[str, str] = BoundedCache(_NOTED_BYTES)
        self.beginning = asyncio.Lock()
        """Held while the rows of a user's sessions are appended, so that all of them are claimed together."""

    async def look(self) -> int:
        """Begin learning wherever it is due; answers in how many sessions."""
        every, now = self._every, self._parts.clock.now()
        idle = timedelta(seconds=self._settings.idle_s)
        idle_since = now - idle * _TAKEN_ALONG
        silent = await self._parts.state.due_sessions(every=every, idle_before=idle_since, limit=_AT_ONCE)
        due = [ready for ready in silent if ready.unlearned >= every or ready.last_turn_at <= now - idle]
        begun = 0
        for owner in {session.scope.owner for session in due}:
            owner_scope = Scope(tenant=owner[0], user=owner[1])
            async with self._parts.locks.of(owner), self._parts.state.alone(owner_scope) as is_alone, self.beginning:
                for progress in (session for session in silent if session.scope.owner == owner and is_alone):
                    reason = "turns" if progress.unlearned >= every else IDLE
                    begun += await self._begin_locked(progress.scope, reason, must_exist=True) is not None
        return begun + await self._end_silent()

    async def _end_silent(self) -> int:
        """Note as over what fell silent, once, and where a model reads have it summarised; answers how many are."""
        silent_since = self._parts.clock.now() - self._silence
        begun = 0
        for silent in await self._parts.state.silent_sessions(silent_before=silent_since, limit=_AT_ONCE):
            owner_scope = silent.scope.whole
            async with (
                self._parts.locks.of(owner_scope.owner),
                self._parts.state.alone(owner_scope) as is_alone,
                self.beginning,
            ):
                now = await self._parts.state.progress(silent.scope)
                if not is_alone or now is None or now.last_turn_at > silent_since:
                    continue
                if self._parts.by_model and (await self._parts.state.choices(now.scope)).learns:
                    if await self._begin_locked(now.scope, SILENT, must_exist=True) is None:
                        continue
                    begun += 1
                await self._parts.state.note_end(now.scope, at=self._parts.clock.now())
        return begun

    async def turns_came(self, scope: Scope, *, learn_now: bool) -> None:
        """Turns were indexed: note the tenant's model for restarts; begin if that was asked or the topic changed."""
        model = self._parts.access.model_of(scope.tenant)
        if model is not None and self._noted.get(scope.tenant) != model:
            await self._parts.state.set_meta(_MODEL + scope.tenant, model)
            self._noted.put(scope.tenant, model)
        if learn_now:
            await self.begin(scope, "asked")
        elif await self._is_drifting(scope):
            await self.begin(scope, DRIFT)

    async def _is_drifting(self, scope: Scope) -> bool:
        """Whether the session's newest message of the user is of another topic than those that are unlearned before it:
        below ``learn.drift_threshold`` (None: off) is the cosine against the mean of their vectors, or without vectors
        the share of its key terms that were said.
        """
        if self._settings.drift_threshold is None:
            return False
        progress = await self._parts.state.progress(scope)
        if progress is None or progress.unlearned < 2:
            return False
        turns = await turns_of(self._parts.store, scope, last=min(progress.unlearned, _MOST_TURNS))
        user_turns = [turn for turn in turns if turn.trust is Trust.USER]
        # an exchange's turns have one time
        if len(user_turns) < 2 or turns[-1].created_at != max(turn.created_at for turn in user_turns):
            return False
        *earlier, newest = (strip_blocks(turn.content)[:_MOST_CHARACTERS] for turn in user_turns)
        if len(key_terms(newest)) < _LEAST_TERMS:
            return False
        computed = await self._parts.vectors.statement_vectors([newest, *earlier])
        if len(vectors := [vector for vector in computed if vector is not None]) == len(user_turns):
            return centroid_cosine(vectors[0], vectors[1:]) < self._settings.drift_threshold
        return shared_terms(newest, earlier) < self._settings.drift_threshold

    async def begin(self, scope: Scope, reason: str) -> int | None:
        """Begin learning in a session; the row's number, or None while that is under way there. A row is made with
        nothing new too: it stands behind all earlier ones of its owner.
        """
        while True:
            async with self._parts.locks.of(scope.owner), self._parts.state.alone(scope) as is_alone:
                if is_alone:
                    return await self._begin_locked(scope, reason)
            await asyncio.sleep(_AGAIN_S)

    async def _begin_locked(self, scope: Scope, reason: str, *, must_exist: bool = False) -> int | None:
        """Under the owner's lock: what came while we waited for it is among the turns that are counted here."""
        progress = await self._parts.state.progress(scope)
        if must_exist and progress is None:
            return None  # it was erased since it was found due: nothing may name it again
        scope, unlearned = (progress.scope, progress.unlearned) if progress is not None else (scope, 0)
        where = MemoryFilter(kinds=(Kind.TURN,), session_ids=scope.sessions)
        newest = (await self._parts.store.page(scope, where, limit=1)).memories
        until = newest[0].created_at if newest else None
        model = self._parts.access.model_of(scope.tenant)
        model = model or await self._parts.state.get_meta(_MODEL + scope.tenant) or None
        body = LearnBody(unlearned=unlearned, reason=reason, model=model, until=until)
        entry = JournalEntry(kind=JournalKind.LEARN, scope=scope, body=msgspec.json.encode(body))
        return await self._parts.state.begin_learning(entry, unlearned=unlearned)
