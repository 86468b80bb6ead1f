"""Reading a window: what is known of its things is looked up, then a model or the rules nominate candidates."""

import asyncio
from collections.abc import Sequence

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import LearnBody
from memproxy.core.scope import Scope
from memproxy.errors import ModelRefused
from memproxy.learn import rules
from memproxy.learn.access import ModelAccess
from memproxy.learn.admission import Admission
from memproxy.learn.candidates import Read, Window
from memproxy.learn.extract import Extractor, is_read
from memproxy.learn.idle_turns import hold_nothing
from memproxy.learn.orders import heeded
from memproxy.learn.outages import ModelOutages
from memproxy.learn.outdated import PREDICATE
from memproxy.learn.pending import as_before, changed_by
from memproxy.learn.vectors import Vectors
from memproxy.metrics import metrics
from memproxy.ports import Candidate, Clock, Credential, HybridQuery, LexicalEncoder, MemoryFilter, MemoryStore
from memproxy.settings import ModelSettings

_FACTS = (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.EPISODIC, Kind.REFLECTIVE)
_KNOWN = 12
_LATEST = 24
"""Facts learned last that the rules see beside the nearest ones; a model is shown `_KNOWN` of both together."""

_QUERY = 2_000


class Reader:
    """Reads windows by a model, or with ``verbatim`` by the rules (``learn.mode``)."""

    def __init__(
        self,
        *,
        role: ModelSettings,
        store: MemoryStore,
        lexical: LexicalEncoder,
        vectors: Vectors,
        extractor: Extractor,
        admission: Admission,
        verbatim: bool,
        access: ModelAccess,
        outages: ModelOutages,
        clock: Clock,
    ) -> None:
        self._role = role
        self._store = store
        self._lexical = lexical
        self._vectors = vectors
        self._extractor = extractor
        self._admission = admission
        self._verbatim = verbatim
        self._access = access
        self._outages = outages
        self._clock = clock

    @property
    def version(self) -> str:
        """Who nominates; memories note it."""
        return rules.VERSION if self._verbatim else self._extractor.prompt.version

    async def read(self, scope: Scope, body: LearnBody, window: Window) -> Read:
        """What the window comes to.

        Raises:
            ModelRefused, BudgetSpent, ModelError: of the model; the rules need none.
            StoreUnavailable, StateUnavailable: try again later.
        """
        window, order = heeded(msgspec.structs.replace(window, turns=[turn for turn in window.turns if is_read(turn)]))
        found = await self._nominated(scope, body, window, is_new=order is not None)
        return found if order is None else msgspec.structs.replace(found, kept=[order, *found.kept])

    async def _nominated(self, scope: Scope, body: LearnBody, window: Window, *, is_new: bool) -> Read:
        """What a model or the rules make of it; ``is_new``: nothing is known of the user (any more)."""
        if not self._verbatim and hold_nothing(window.turns, window.new_ids):
            metrics().extractions_skipped.labels(reason="idle").inc()
            return Read([], [])
        if not is_new:
            pending = await self._pending(scope, window)
            related = [one for one in await self._related(scope, window) if one.id not in pending]
            window = msgspec.structs.replace(window, known=[*pending.values(), *related])
        if self._verbatim:
            return self._admission.of_rules(await asyncio.to_thread(rules.extract, _plain(window)))
        credential = self.credential(scope, body)
        if credential is None:
            raise ModelRefused(
                "no key (or model) is known for extraction: the tenant made no request since the start. Its next one "
                "brings it; or set models.extract.api_key or upstream.api_key (and models.extract.model)"
            )
        return await self._extractor.extract(scope.tenant, credential, window)

    def require_model(self, scope: Scope, body: LearnBody) -> None:
        """Return when the tenant's model may be asked now, as far as is known.

        Raises:
            ModelAwaited: it is left alone for a while, because it did not answer.
        """
        if (credential := self.credential(scope, body)) is not None:
            self._outages.require(credential)

    def credential(self, scope: Scope, body: LearnBody) -> Credential | None:
        """How the tenant's model is called; None while that is not known, and where no model is asked."""
        return None if self._verbatim else self._access.credential(scope.tenant, self._role, body.model)

    async def _pending(self, scope: Scope, window: Window) -> dict[str, Memory]:
        """The facts, by id, that a new message of the window ended by rules, as they were: whoever reads the message
        sees what it is about.
        """
        changed = changed_by([turn for turn in window.turns if turn.id in window.new_ids])
        stored = await self._store.get(scope, list(changed)) if changed else {}
        before = {name: as_before(memory, changed[name]) for name, memory in stored.items() if name in changed}
        return {name: memory for name, memory in before.items() if memory.active}

    async def _related(self, scope: Scope, window: Window) -> list[Memory]:
        """What is known of the things that the window's new messages speak of, the nearest first, then the latest."""
        said = [turn.content for turn in window.turns if turn.id in window.new_ids]
        text = "\n".join(said)[-_QUERY:]
        vector = (await self._vectors.statement_vectors([text], scope.tenant))[0]
        where = MemoryFilter(kinds=_FACTS, active=True, now=self._clock.now())
        words = self._lexical.encode_query(text)
        query = HybridQuery(dense=vector, bm25=words, limit=_KNOWN, where=where, background=True)
        found = sorted(await self._store.search(scope, query), key=_nearness, reverse=True)
        # A summary tells what was said: it ends with that, and nothing in it is to be corrected.
        stated = [candidate.memory for candidate in found if candidate.memory.predicate != PREDICATE][:_KNOWN]
        if not self._verbatim and len(stated) == _KNOWN:
            return stated
        latest = await self._latest(scope, where, stated)
        return stated + (latest if self._verbatim else latest[: _KNOWN - len(stated)])

    async def _latest(self, scope: Scope, where: MemoryFilter, found: Sequence[Memory]) -> list[Memory]:
        """What was learned last: a change ("I sold it", "I switched to Figma") need not name what it ends."""
        owner = Scope(tenant=scope.tenant, user=scope.user, project=scope.project, agent=scope.agent)
        page = await self._store.page(owner, where, limit=_LATEST)
        known = {memory.id for memory in found}
        return [one for one in page.memories if one.id not in known and one.predicate != PREDICATE]


def _plain(window: Window) -> Window:
    """The window as the rules see it: what an extractor would be shown, without injected blocks."""
    turns = [msgspec.structs.replace(turn, content=strip_blocks(turn.content)) for turn in window.turns]
    return msgspec.structs.replace(window, turns=turns)


def _nearness(candidate: Candidate) -> tuple[float, float]:
    return (candidate.bm25 or 0.0, candidate.cosine or 0.0)
