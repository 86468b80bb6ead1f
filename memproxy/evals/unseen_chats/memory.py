"""The product over one throw-away store: chats are ingested (and learned from), probes pass the gate and recall."""

import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal

import msgspec

from memproxy.core import gate
from memproxy.core.memory import Kind
from memproxy.core.protocol import RecallAnswer, RecallRequest, TurnsBody, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.core.turn import text_digest
from memproxy.errors import StoreUnavailable
from memproxy.evals.dataset import Session
from memproxy.evals.extraction.running import SessionClock
from memproxy.evals.local import EvaluationStore, QuestionClock, temporary_folder
from memproxy.evals.unseen_chats.data import Chats, Probe, ended_at
from memproxy.learn.access import ModelAccess
from memproxy.learn.worker import Worker
from memproxy.models.chat import OpenAIChatModel
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import ChatModel, Embedder, JournalEntry, JournalKind, MemoryFilter
from memproxy.recall.pipeline import Recall
from memproxy.recall.recipes import named
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState

Learn = Literal["off", "verbatim", "model"]

TENANT = "evaluation"
EXPLAINED = 60

_DEADLINE_MS = 60_000
_PATIENCE_S = 300.0
_GRACE_S = 5.0
_PAGE = 200
_NEVER = 10**6
"""Messages, and seconds, after which learning begins by itself: it begins at a session's end."""

_TOLD = tuple(kind for kind in Kind if kind not in (Kind.TURN, Kind.EPISODIC))


class Line(msgspec.Struct, frozen=True, kw_only=True):
    """What was found: ``turns`` are itself, or the turns that a fact was learned from (none for an episode)."""

    memory: str
    turns: frozenset[str]
    score: float
    rejected: str | None


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe got: ``lines`` injected, and all that was ``found``, best first. ``skipped`` says why the gate let
    nothing be searched, ``degraded`` why recall gave up.
    """

    lines: tuple[Line, ...] = ()
    found: tuple[Line, ...] = ()
    tokens: int = 0
    skipped: str | None = None
    degraded: str | None = None


class Clocks:
    """The time of the session that comes in, and the time that a probe is asked at."""

    def __init__(self) -> None:
        self.worker = SessionClock()
        self.recall = QuestionClock()


class ChatMemory:
    """Takes the chats of a person, then answers their probes."""

    def __init__(
        self, settings: Settings, worker: Worker, store: EvaluationStore, recalls: Mapping[str, Recall], clocks: Clocks
    ) -> None:
        self._settings = settings
        self._worker = worker
        self._store = store
        self._recalls = recalls
        self._clocks = clocks
        self._facts: dict[str, frozenset[str]] = {}

    async def take(self, chats: Chats) -> None:
        """Ingest the sessions in order, at their own times; learn from each at its end, if that is switched on."""
        numbers = []
        for session in chats.sessions:
            self._clocks.worker.begin(ended_at(session))
            numbers.append(await self._submit(session))
            if self._settings.learn.enabled:
                await self._applied(numbers.pop())
                await self._learn(Scope(tenant=TENANT, user=session.user, session=session.name))
        for number in numbers:
            await self._applied(number)
        await self._look_up(Scope(tenant=TENANT, user=chats.user))

    async def ask(self, probe: Probe, recipe: str) -> Given:
        """The probe as a request of a new session: the gate's verdict, then recall."""
        verdict = self._verdict(probe.ask, probe.before)
        if not verdict.reaches_memory:
            return Given(skipped=verdict.reason)
        self._clocks.recall.instant = probe.asked_at
        request = RecallRequest(
            request_id="evaluation",
            scope=Scope(tenant=TENANT, user=probe.user, session=probe.id),
            queries=[*probe.before, probe.ask],
            nonce="0" * 12,
            present=[text_digest(text) for text in (*probe.before, probe.ask)],
            verdict=verdict.reason,
            only_if_told=verdict.asks_memory,
            first_turn=not probe.before,
            explain=True,
        )
        return self._given(await self._recalls[recipe].recall(request, explained=EXPLAINED))

    def _verdict(self, text: str, earlier: Sequence[str]) -> gate.Verdict:
        if not self._settings.gate.enabled:
            return gate.Verdict(searched=True, reason="gate_off")
        return gate.judge(text, frozenset[str](self._settings.gate.skip), follows=bool(earlier))

    def _given(self, answer: RecallAnswer) -> Given:
        found = tuple(
            Line(
                memory=one["memory_id"],
                turns=self._sources(one["memory_id"], one["kind"]),
                score=one["score"],
                rejected=one["rejected"],
            )
            for one in answer.candidates
        )
        return Given(
            lines=tuple(line for line in found if line.rejected is None),
            found=found,
            tokens=answer.tokens,
            skipped=answer.reason if answer.result == "skipped" else None,
            degraded=answer.reason if answer.result == "degraded" else None,
        )

    def _sources(self, memory: str, kind: str) -> frozenset[str]:
        return frozenset({memory}) if kind == Kind.TURN.value else self._facts.get(memory, frozenset())

    async def _submit(self, session: Session) -> int:
        scope = Scope(tenant=TENANT, user=session.user, session=session.name)
        body = msgspec.json.encode(TurnsBody(messages=session.messages, said_at=session.date))
        return await self._worker.submit(JournalEntry(kind=JournalKind.TURNS, scope=scope, body=body))

    async def _applied(self, number: int) -> None:
        if not await self._worker.applied(number, _PATIENCE_S):
            raise StoreUnavailable(f"A session was not indexed within {_PATIENCE_S:.0f} s; see the log.")

    async def _learn(self, scope: Scope) -> None:
        if not await self._worker.learned(scope, _PATIENCE_S):
            raise StoreUnavailable(f"A session was not learned from within {_PATIENCE_S:.0f} s; see the log.")

    async def _look_up(self, owner: Scope) -> None:
        """Which turns this person's facts came from."""
        cursor = None
        while True:
            page = await self._store.page(owner, MemoryFilter(kinds=_TOLD), limit=_PAGE, cursor=cursor)
            self._facts |= {memory.id: frozenset(memory.turn_ids) for memory in page.memories}
            if (cursor := page.next_cursor) is None:
                return

    @property
    def facts(self) -> int:
        """How many facts were learned of all that were taken, those that ended with them."""
        return len(self._facts)


def settings_for(settings: Settings, learn: Learn) -> Settings:
    """These settings, with learning as asked at a session's end, and no deadline that a busy machine would miss."""
    mode = "model" if learn == "model" else "verbatim"
    learning = {"enabled": learn != "off", "mode": mode, "every_turns": _NEVER, "idle_s": float(_NEVER)}
    return settings.model_copy(
        update={
            "learn": settings.learn.model_copy(update=learning),
            "recall": settings.recall.model_copy(update={"deadline_ms": _DEADLINE_MS}),
        }
    )


@asynccontextmanager
async def chat_memory(
    settings: Settings, embedder: Embedder, recipes: Sequence[str], learn: Learn, *, model: ChatModel | None = None
) -> AsyncIterator[ChatMemory]:
    """A memory in a temporary folder, gone afterwards. The embedder is started already and stays open. ``model``
    extracts where ``learn`` is model; None: that of the settings.

    Raises:
        ConfigError: there is no recipe of such a name.
    """
    settings, lexical = settings_for(settings, learn), Bm25Encoder()
    with tempfile.TemporaryDirectory(prefix="memproxy-eval-", dir=temporary_folder()) as folder:
        store = EvaluationStore(Path(folder, "store"), embedder)
        parts: dict[str, Any] = {"settings": settings, "store": store, "embedder": embedder, "lexical": lexical}
        state = SqliteState(Path(folder, "state.db"), sync="normal")
        model = model or OpenAIChatModel(settings.models.extract)
        access = ModelAccess(settings)
        access.remember(TENANT, UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="scripted", api_key="scripted"))
        clocks = Clocks()
        recalls = {recipe: Recall(**parts, clock=clocks.recall, recipe=named(recipe)) for recipe in recipes}
        worker = Worker(state=state, model=model, access=access, clock=clocks.worker, **parts)
        memory = ChatMemory(settings, worker, store, recalls, clocks)
        await state.open()
        await store.open(None)
        await worker.start()
        try:
            for recall in recalls.values():
                await recall.prepare()
            yield memory
        finally:
            await worker.close(_GRACE_S)
            await model.close()
            await store.close()
            await state.close()
