"""A worker over a real SQLite state and a real Edge store, with a clock of its own and a scripted model server."""

import asyncio
import hashlib
import json
import math
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import PlanBody, TurnsBody, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.core.text import key_terms
from memproxy.core.turn import Message
from memproxy.errors import EmbedderUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.extract import EXTRACT_MARK
from memproxy.learn.summary import SUMMARY_MARK
from memproxy.learn.worker import Worker
from memproxy.models.chat_client import OpenAIChatModel
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import Embedder, JournalEntry, JournalKind, MemoryFilter, Passage, Question
from memproxy.settings import DreamSettings, LearnSettings, Settings, UpstreamSettings
from memproxy.stores.edge import EdgeStore
from memproxy.stores.sqlite_state import SqliteState
from tests.support.emptied import EmptiedStore
from tests.support.waiting import LONGEST_S, eventually

DIMENSION = 64
NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
ANN = Scope(tenant="acme", user="ann", session="s1")
BEN = Scope(tenant="acme", user="ben", session="s1")
LATER = Scope(tenant="acme", user="ann", session="s2")
KEY = "sk-test"
PATIENCE_S = LONGEST_S

DREAMS = ("You tidy", "You look for what", "You write down", "You draw conclusions")
"""How the prompts of dreams begin."""

Answer = str | int | dict[str, Any] | list[Any]


class TestClock:
    """Time that stands still until it is moved."""

    __test__ = False

    def __init__(self) -> None:
        self.time = NOON

    def now(self) -> datetime:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class WordEmbedder:
    """An embedder without a model: a text's vector counts its key terms in hashed places."""

    name = "test:words"
    dimension = DIMENSION

    def __init__(self, state: str = "ready") -> None:
        self.state = state

    async def start(self) -> None: ...

    async def close(self) -> None: ...

    async def embed_question(self, text: str) -> Question:
        if self.state != "ready":
            raise EmbedderUnavailable("not loaded yet")
        vector = [1e-3] * DIMENSION
        for term in key_terms(text, 100):
            vector[hashlib.blake2b(term.encode(), digest_size=1).digest()[0] % DIMENSION] += 1.0
        length = math.sqrt(sum(value * value for value in vector))
        return Question(vector=[value / length for value in vector])

    async def embed_passages(self, texts: Sequence[str]) -> list[Passage]:
        return [Passage(parts=[(await self.embed_question(text)).vector]) for text in texts]


class ModelServer:
    """A scripted OpenAI-compatible server: answers extractions from a list, then with ``default``.

    An answer is text, an object or list (sent as JSON text), or a status code.
    """

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.default: Callable[[str], Answer] | Answer = {"candidates": []}
        self.dreams: Callable[[str, str], Answer] = lambda _system, _user: {}
        """What a dream's questions are answered with, by their prompt and lines."""
        self.dreamt: list[str] = []
        self.prompts: list[str] = []
        self.keys: list[str | None] = []
        self.base_url = ""
        self.cut_at: int | None = None
        """Characters after which an answer is cut, as by a token limit."""
        self.thinks = 0
        """Tokens that it thinks before it answers; within a lower limit there is no answer."""
        self.limits: list[int] = []
        self.gate = asyncio.Event()
        """Answers wait while it is not set."""
        self.gate.set()

    async def _complete(self, request: web.Request) -> web.Response:
        body = await request.json()
        system, user = (message["content"] for message in body["messages"])
        assert system.startswith((EXTRACT_MARK, SUMMARY_MARK, *DREAMS))
        if system.startswith(DREAMS):
            self.dreamt.append(user)
            told = self.dreams(system, user)
            said = told if isinstance(told, str) else json.dumps(told)
            return _completion(body["model"], said, "stop")
        self.prompts.append(user)
        self.keys.append(request.headers.get("authorization"))
        self.limits.append(limit := body.get("max_tokens") or body["max_completion_tokens"])
        await self.gate.wait()
        if limit < self.thinks:
            return _completion(body["model"], "", "length")
        answer = self.answers.pop(0) if self.answers else self.default
        if callable(answer):
            answer = answer(user)
        if isinstance(answer, int):
            return web.json_response({"error": {"message": "scripted"}}, status=answer)
        text = answer if isinstance(answer, str) else json.dumps(quoting(answer, user))
        cut = self.cut_at is not None and len(text) > self.cut_at
        text, reason = (text[: self.cut_at], "length") if cut else (text, "stop")
        return _completion(body["model"], text, reason)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator["ModelServer"]:
        app = web.Application()
        app.router.add_post("/v1/chat/completions", self._complete)
        runner = web.AppRunner(app, shutdown_timeout=0.5)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
        try:
            yield self
        finally:
            await runner.cleanup()


def _completion(model: str, text: str, reason: str) -> web.Response:
    choice = {"index": 0, "finish_reason": reason, "message": {"role": "assistant", "content": text}}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return web.json_response(
        {"id": "1", "object": "chat.completion", "created": 1, "model": model} | {"choices": [choice], "usage": usage}
    )


def message_lines(prompt: str) -> list[dict[str, Any]]:
    """The messages that a prompt shows."""
    return [json.loads(line) for line in prompt.splitlines() if line.startswith('{"role"')]


def quoting(answer: dict[str, Any] | list[Any], prompt: str) -> dict[str, Any] | list[Any]:
    """The answer, each candidate that names no evidence with a quote: the new message that shares most words with it.

    A candidate that is to go without has ``"evidence": None``.
    """
    if isinstance(answer, list):
        return [_with_quote(one, prompt) for one in answer]
    items = answer.get("candidates")
    return {**answer, "candidates": [_with_quote(one, prompt) for one in items]} if isinstance(items, list) else answer


def _with_quote(candidate: Any, prompt: str) -> Any:
    fields = {"content": candidate} if isinstance(candidate, str) else candidate
    if not isinstance(fields, dict) or "evidence" in fields or "content" not in fields:
        return candidate
    said = [line["text"] for line in message_lines(prompt) if line["new"]]
    wanted = set(key_terms(str(fields["content"]), 100))
    best = max(said, key=lambda text: len(wanted & set(key_terms(text, 1000))), default=None)
    return {**fields, "evidence": best}


class Rig:
    """The worker and all it stands on. With a store of its own below ``folder`` it can be closed and opened again."""

    def __init__(
        self,
        folder: Path,
        server: ModelServer,
        embedder: Embedder,
        *,
        store: EdgeStore | None = None,
        own_store: bool = False,
        upstream_key: str | None = None,
        dream: DreamSettings | None = None,
        state: type[SqliteState] = SqliteState,
        **learn: Any,
    ) -> None:
        self.server = server
        self.settings = Settings(
            upstream=UpstreamSettings(base_url=server.base_url, api_key=upstream_key),
            learn=LearnSettings(**{"every_turns": 2, **learn}),
            dream=dream or DreamSettings(),
        )
        self.clock = TestClock()
        self.embedder = embedder
        self.state = state(folder / "state.db", sync="normal")
        options: dict[str, Any] = {"dimension": DIMENSION, "embedder_name": embedder.name, "lull_s": 0}
        self.store = store or (EdgeStore(folder / "store", **options) if own_store else EmptiedStore(**options))
        self.model = OpenAIChatModel(self.settings.models.extract)
        self.access = ModelAccess(self.settings)
        self.worker = Worker(
            settings=self.settings,
            state=self.state,
            store=self.store,
            embedder=embedder,
            lexical=Bm25Encoder(),
            model=self.model,
            access=self.access,
            clock=self.clock,
        )

    def give_key(self, scope: Scope = ANN, key: str = KEY) -> None:
        """A request of the tenant went by."""
        access = UpstreamAccess(base_url=self.server.base_url, model="scripted", api_key=key)
        if self.access.remember(scope.tenant, access):
            self.worker.new_key(scope.tenant)

    async def open(self) -> None:
        await self.state.open()
        await self.store.open(None)

    async def close(self) -> None:
        await self.worker.close(5.0)
        await self.model.close()
        await self.store.close()
        await self.state.close()

    async def say(self, *said: str | Message, scope: Scope = ANN, at: datetime | None = None) -> None:
        """Capture an exchange (texts are the user's) and wait until it is indexed."""
        messages = [Message(role="user", content=one) if isinstance(one, str) else one for one in said]
        number = await self.submit(TurnsBody(messages=messages, said_at=at or self.clock.now()), scope)
        assert await self.worker.applied(number, PATIENCE_S)

    async def submit(self, body: TurnsBody | PlanBody, scope: Scope = ANN) -> int:
        kind = JournalKind.TURNS if isinstance(body, TurnsBody) else JournalKind.PLAN
        return await self.worker.submit(JournalEntry(kind=kind, scope=scope, body=msgspec.json.encode(body)))

    async def plan(self, scope: Scope = ANN, **body: Any) -> None:
        """Write through the journal as the API does, and wait."""
        assert await self.worker.applied(await self.submit(PlanBody(**body), scope), PATIENCE_S)

    async def meanwhile(self, done: Callable[[], Any], *, what: str, step_s: float = 60) -> None:
        """Wait until ``done``, while time passes: what failed a moment ago is due again, whenever it was put off."""

        def asked() -> Any:
            self.clock.advance(step_s)
            self.worker.wake()
            return done()

        await eventually(asked, PATIENCE_S, what=what)

    async def carried_out(self, *numbers: int) -> None:
        """Wait for rows, as often as they are to be tried again."""
        for number in numbers:
            await self.meanwhile(partial(self.worker.applied, number, 0), what=f"row {number}")

    async def learn(self, *said: str | Message, scope: Scope = ANN, at: datetime | None = None) -> None:
        """Say it, and wait until it is learned."""
        await self.say(*said, scope=scope, at=at)
        assert await self.worker.learned(scope, PATIENCE_S)
        self.clock.advance(60)

    async def teach(
        self, said: str | Sequence[str | Message], *candidates: Any, scope: Scope = ANN, at: datetime | None = None
    ) -> None:
        """Say something that the extractor answers with these candidates, and wait until it is learned."""
        self.server.answers.append({"candidates": list(candidates)})
        await self.learn(*([said] if isinstance(said, str) else said), scope=scope, at=at)

    async def mined(self, *candidates: Any, scope: Scope = ANN) -> None:
        """Read the conversation again, which the extractor answers with these candidates."""
        self.server.default = {"candidates": list(candidates)}
        assert await self.worker.mine(scope, PATIENCE_S)

    async def latest(self) -> tuple[str, str | None]:
        """What came last of learning from Ann, and why."""
        noted = (await self.state.outcomes(ANN, session=None, limit=1))[0].outcome
        return noted.result, noted.reason

    async def facts(self, scope: Scope = ANN, *, active: bool | None = None) -> list[Memory]:
        kinds = (Kind.SEMANTIC, Kind.PROCEDURAL, Kind.EPISODIC)
        owner = Scope(tenant=scope.tenant, user=scope.user)
        return (await self.store.page(owner, MemoryFilter(kinds=kinds, active=active), limit=200)).memories

    async def has(self, *, facts: int = 0, turns: int = 0, scope: Scope = ANN) -> bool:
        """Whether there are just so many facts, or turns."""
        return len(await self.facts(scope)) == facts if facts else len(await self.turns(scope)) == turns

    async def turns(self, scope: Scope = ANN) -> list[Memory]:
        owner = Scope(tenant=scope.tenant, user=scope.user)
        return (await self.store.page(owner, MemoryFilter(kinds=(Kind.TURN,)), limit=200)).memories


@asynccontextmanager
async def rig(
    folder: Path, *, embedder: Embedder | None = None, started: bool = True, asked: bool = True, **learn: Any
) -> AsyncIterator[Rig]:
    """An open rig whose worker runs; the tenant's key is known, if it ``asked`` anything since the start."""
    async with ModelServer().serving() as server:
        made = Rig(folder, server, embedder or WordEmbedder(), **learn)
        await made.open()
        if asked:
            made.give_key()
        if started:
            await made.worker.start()
        try:
            yield made
        finally:
            await made.close()


def opened_rig(**learn: Any) -> Any:
    """A fixture: an open rig whose worker runs, with these settings."""

    @pytest.fixture
    async def r(tmp_path: Path) -> AsyncIterator[Rig]:
        async with rig(tmp_path, **learn) as made:
            yield made

    return r


def budget(amount: str, evidence: str | None = None, **fields: Any) -> dict[str, Any]:
    """A candidate about the Hawaii budget."""
    content = f"User's budget for the Hawaii vacation is {amount}"
    triple = {"subject": "user", "predicate": "budget_for_hawaii_vacation", "object": amount}
    quoted = {"evidence": evidence} if evidence else {}
    return {"kind": "semantic", "content": content, "confidence": 0.9} | triple | quoted | fields


def fact(name: str, scope: Scope = ANN, **fields: Any) -> Memory:
    """A memory as the API makes it."""
    defaults: dict[str, Any] = {"kind": Kind.SEMANTIC, "content": f"content of {name}"}
    times = {"created_at": NOON, "updated_at": NOON}
    return Memory(id=name, tenant=scope.tenant, user_id=scope.user, **(times | defaults | fields))
