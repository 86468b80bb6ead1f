"""No echo: a fact that is told once and only asked for afterwards stays one fact, however its block comes back."""

import asyncio
import json
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from prometheus_client import REGISTRY

from memproxy.engine.app import build_app
from memproxy.serve.server import Server
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState
from tests.relay.rig import Rig, running_relay
from tests.support.answers import Answer, Received, completion, text_of
from tests.support.engine import make_engine
from tests.support.upstream import ScriptedUpstream, scripted_upstream
from tests.support.waiting import eventually

SESSIONS = int(os.environ.get("MEMPROXY_TEST_ECHO_SESSIONS", "4"))
"""Sessions that only ask; the whole test has 50."""

TOLD = "My dog is called Biscuit and my budget for the Hawaii vacation is $10,000."
QUESTIONS = (
    "What is my dog called?",
    "How much is my budget for the Hawaii vacation?",
    "Do you remember the name of my dog?",
    "What did I say about my budget for the vacation in Hawaii?",
    "And my dog, what was he called?",
)
KNOWN = re.compile(r"biscuit|10,000", re.IGNORECASE)
PATIENCE_S = 60.0

USER = {"X-Memproxy-User": "ada"}
LEARN = {"every_turns": 2, "idle_s": 3600.0}


def greedy(received: Received) -> dict[str, Any]:
    """An extractor that proposes whatever it sees in its request: messages, known memories, blocks; as a model words it
    and as it stands.
    """
    prompt = "\n".join(text_of(message) for message in received.messages if message.get("role") == "user")
    lines = [json.loads(line) for line in prompt.splitlines() if line.startswith("{")]
    texts = [str(line.get("text") or line.get("content")) for line in lines]
    return {"candidates": [one for text in texts if KNOWN.search(text) for one in proposed(text)]}


def proposed(text: str) -> list[dict[str, Any]]:
    named = []
    if "Biscuit" in text:
        named.append({"content": "The user's dog is called Biscuit", "predicate": "has_dog", "object": "Biscuit"})
    if "10,000" in text:
        budget = {"predicate": "budget_for_hawaii_vacation", "object": "$10,000"}
        named.append({"content": "The user's budget for the Hawaii vacation is $10,000", **budget})
    as_it_stands = {"content": f"The user mentioned: {text}"}
    return [{"subject": "user", "evidence": text[:200], **one} for one in named] + [{"evidence": text, **as_it_stands}]


def from_the_block(received: Received) -> Answer:
    """A model that answers from what was injected: it repeats every line of the blocks in its request."""
    lines = [line for message in received.messages for line in text_of(message).splitlines()]
    recalled = [line.split(") ", 1)[-1] for line in lines if line.startswith("- [") and KNOWN.search(line)]
    return completion(f"As you told me: {' '.join(recalled)}" if recalled else "Thank you, noted.")


class Told:
    """A relay and an engine, one process, with the facts learned."""

    def __init__(self, relay: Rig, upstream: ScriptedUpstream, state: SqliteState) -> None:
        self.relay = relay
        self.upstream = upstream
        self._state = state

    async def say(self, session: str, messages: Sequence[dict[str, Any]]) -> None:
        """One request of a session, answered and learned from."""
        asked = self._read()
        headers = {**USER, "X-Memproxy-Session": session, "authorization": "Bearer sk-test"}
        body = {"model": "test-model", "messages": messages}
        answer = await self.relay.client.post("/v1/chat/completions", json=body, headers=headers)
        assert answer.status_code == 200, answer.text
        await eventually(lambda: self._read() > asked, PATIENCE_S, what="what was said is read")
        await eventually(self._learned, PATIENCE_S, what="all is learned")

    def _read(self) -> float:
        """Conversations that learning has read: by a model, or without one as they only ask."""
        skipped = REGISTRY.get_sample_value("memproxy_extractions_skipped_total", {"reason": "idle"}) or 0.0
        return len(self.upstream.extractions) + skipped

    async def _learned(self) -> bool:
        sizes = await self._state.queue_sizes()
        return not any(sizes[lane][state] for lane in sizes for state in ("waiting", "running"))

    async def facts(self) -> list[str]:
        """What is stored beside the turns and could be injected."""
        params = {"active": "true", "limit": "200"}
        answer = await self.relay.client.get("/v1/memory", params=params, headers={**USER, **KEY})
        assert answer.status_code == 200, answer.text
        found = [one for one in answer.json()["data"] if one["kind"] != "turn" and not one["quarantined"]]
        return sorted(one["content"] for one in found)


KEY = {"authorization": "Bearer sk-test"}


@asynccontextmanager
async def told(folder: Path) -> AsyncIterator[Told]:
    """The fact is told, in a session of its own."""
    sections: dict[str, dict[str, Any]] = {
        "learn": LEARN,
        "recall": {"deadline_ms": 60_000},
        "embedding": {"provider": "none"},
    }
    state = SqliteState(folder / "state.db", sync="normal")
    async with scripted_upstream() as upstream:
        settings = Settings.model_validate({"upstream": {"base_url": upstream.base_url}, **sections})
        upstream.extractor, upstream.default = greedy, from_the_block
        async with (
            engine_at(folder, settings),
            running_relay(upstream.base_url, state, folder, engine_runs=False, **sections) as relay,
        ):
            made = Told(relay, upstream, state)
            await made.say("telling", [{"role": "user", "content": TOLD}])
            yield made


@asynccontextmanager
async def engine_at(folder: Path, settings: Settings) -> AsyncIterator[None]:
    """The real engine where the relay looks for it."""
    engine = make_engine(folder, settings=settings)
    path = folder / "engine.sock"
    server = Server(uvicorn.Config(build_app(engine), uds=str(path), log_config=None, timeout_graceful_shutdown=2))
    serving = asyncio.get_running_loop().create_task(server.serve())
    try:
        await engine.wait_open()
        await eventually(path.exists, PATIENCE_S, what="the engine's socket")
        yield
    finally:
        server.leave()
        await serving


def question(number: int) -> dict[str, str]:
    return {"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}


async def test_sessions_that_only_ask_teach_nothing(tmp_path: Path) -> None:
    async with told(tmp_path) as memory:
        known = await memory.facts()
        assert len([one for one in known if KNOWN.search(one)]) >= 2
        injected = []
        for number in range(SESSIONS):
            await memory.say(f"asking-{number}", [question(number)])
            injected.append(b"recalled-memory" in memory.upstream.received[-1].body)
        assert sum(injected) >= SESSIONS * 0.7, "most questions are answered from a block"
        assert await memory.facts() == known


async def test_a_client_that_keeps_the_block_in_its_history_teaches_nothing(tmp_path: Path) -> None:
    async with told(tmp_path) as memory:
        known = await memory.facts()
        await memory.say("asking", [question(0)])
        kept = memory.upstream.received[-1].messages
        block = next(text_of(message) for message in kept if "recalled-memory" in text_of(message))
        answer = {"role": "assistant", "content": "It is in the list."}
        await memory.say("asking", [*kept, answer, question(1)])
        await memory.say("pasting", [{"role": "user", "content": f"{block}\n\n{QUESTIONS[2]}"}])
        await memory.say(
            "quoting", [{"role": "user", "content": QUESTIONS[0]}, {**answer, "content": block}, question(4)]
        )
        assert await memory.facts() == known
