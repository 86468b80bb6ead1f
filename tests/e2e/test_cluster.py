"""Two installations on one PostgreSQL, one with two engines: what one does holds at the other. It promises to within a
second, which ``python -m tests.bench.erasure`` measures.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from memproxy.core.proxykey import id_of
from tests.e2e.talk import Exchange, extract_by_rules, say, word
from tests.support.clock import clock_off
from tests.support.cluster import Cluster, running_cluster
from tests.support.folders import Folders
from tests.support.postgres import postgres_server
from tests.support.proxy import Proxy, memproxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

pytestmark = [pytest.mark.services, pytest.mark.asyncio(loop_scope="session")]

QUESTION = "What is my locker code?"
TOLD_S = 10.0
"""More than a busy machine takes to tell the other one, less than what would find it out without being told."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def cluster(shared_upstream: ScriptedUpstream, folders: Folders) -> AsyncIterator[Cluster]:
    """Two replicas; the clock of B is five minutes ahead, where that can be had."""
    with postgres_server() as server, folders.new("homes") as folder:
        ahead = clock_off(folder, 300)
        own: list[dict[str, Any]] = [{"engine": {"workers": 2}}, {}]
        async with running_cluster(
            server, shared_upstream.base_url, folder, {}, own, environments=[{}, ahead]
        ) as running:
            yield running


class Person:
    """Somebody who talks to whichever replica, through the application's key."""

    def __init__(self, cluster: Cluster, model: ScriptedUpstream) -> None:
        self.a, self.b = cluster.replicas
        self.name = word()
        self._key = cluster.key
        self._model = model

    async def says(self, at: Proxy, *texts: str, session: str | None = None) -> Exchange:
        """A request; what is asked upstream is in ``seen``."""
        headers = {"x-memproxy-user": self.name, **({"x-memproxy-session": session} if session else {})}
        answer = await say(at, *texts, headers=headers, key=self._key)
        assert answer.status == 200
        self.seen = self._model.received[-1].body.decode()
        return answer

    async def call(self, at: Proxy, method: str, path: str, **arguments: Any) -> Any:
        """A call of the memory API."""
        async with at.client(self._key, **{"x-memproxy-user": self.name}) as client:
            answer = await client.request(method, path, **arguments)
        assert answer.status_code in {200, 201}, answer.text
        return answer.json()

    async def is_shown(self, at: Proxy, text: str) -> bool:
        """Whether a new conversation there is given it."""
        await self.says(at, QUESTION)
        return text in self.seen

    async def memories(self, at: Proxy) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await self.call(at, "GET", "/v1/memory"))["data"]
        return found


@pytest.fixture
def person(cluster: Cluster, model: ScriptedUpstream) -> Person:
    """Nobody has said anything yet."""
    return Person(cluster, model)


async def soon(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """It is so as soon as it was told, and stays so."""
    await eventually(holds, TOLD_S, what=what)
    for _ in range(3):
        assert await holds(), what


async def test_what_is_told_at_one_is_recalled_at_the_other(person: Person) -> None:
    secret, other = word(), word()
    await person.says(person.a, f"My locker code is {secret}.")
    await eventually(lambda: person.is_shown(person.b, secret), what="B recalls it")
    await person.says(person.b, f"My locker code at the gym is {other}.")
    await eventually(lambda: person.is_shown(person.a, other), what="A recalls it")


async def test_a_forgotten_memory_is_shown_nowhere_and_its_line_is_repeated_nowhere(person: Person) -> None:
    secret, session = word(), word()
    await person.says(person.a, f"My locker code is {secret}.")
    await eventually(lambda: person.is_shown(person.b, secret), what="B recalls it")
    await person.says(person.b, QUESTION, session=session)
    assert secret in person.seen
    await person.says(person.b, QUESTION, "I see.", "And in words?", session=session)
    assert secret in person.seen, "the session repeats its block"
    for memory in await person.memories(person.a):
        if secret in memory["content"]:
            await person.call(person.a, "DELETE", f"/v1/memory/{memory['id']}")

    async def gone() -> bool:
        await person.says(person.b, QUESTION, "I see.", "And in words?", session=session)
        repeated = secret in person.seen
        return not repeated and not await person.is_shown(person.b, secret)

    await soon(gone, "B shows it no more")


async def test_an_erased_user_and_an_undone_conversation_are_gone_at_the_other(person: Person) -> None:
    first, second, session = word(), word(), word()
    await person.says(person.a, f"My locker code is {first}.", session=session)
    await person.says(person.b, f"My bicycle is called {second}.")
    await eventually(lambda: person.is_shown(person.b, first), what="B recalls it")
    await person.call(person.a, "DELETE", f"/v1/memory/sessions/{session}")
    await soon(lambda: _not(person.is_shown(person.b, first)), "the undone conversation is gone at B")
    assert any(second in memory["content"] for memory in await person.memories(person.b)), "the other one is not"
    await person.call(person.b, "DELETE", f"/v1/memory/users/{person.name}")
    await soon(lambda: _is_empty(person, person.a), "the user is gone at A")
    await soon(lambda: _is_empty(person, person.b), "and at B")


async def _not(holds: Awaitable[bool]) -> bool:
    return not await holds


async def _is_empty(person: Person, at: Proxy) -> bool:
    return not await person.memories(at)


async def test_memory_that_is_switched_off_at_one_is_off_at_the_other(person: Person) -> None:
    secret = word()
    await person.says(person.b, f"My locker code is {secret}.")
    await eventually(lambda: person.is_shown(person.b, secret), what="B recalls it")
    await person.call(person.a, "PUT", "/v1/memory/settings", json={"mode": "off"})

    async def is_off() -> bool:
        return (await person.says(person.b, QUESTION)).recall.startswith("off") and secret not in person.seen

    await soon(is_off, "B recalls nothing")
    await person.call(person.a, "PUT", "/v1/memory/settings", json={"mode": "on"})
    await soon(lambda: person.is_shown(person.b, secret), "B recalls again")


async def test_a_key_that_is_revoked_at_one_is_refused_at_the_other(cluster: Cluster) -> None:
    a, b = cluster.replicas
    key = await asyncio.to_thread(cluster.new_key, a, "--tenant", "acme", "--user", "ann")

    async def status() -> int:
        return (await say(b, QUESTION, key=key)).status

    await eventually(lambda: _is(status(), 200), what="B knows the key")
    revoked = await asyncio.to_thread(
        memproxy, a.home, "keys", "revoke", str(id_of(key)), "--config", str(a.config_file), extra=a.extra_environment
    )
    assert not revoked.returncode, revoked.stderr
    await soon(lambda: _is(status(), 401), "B refuses the key")


async def _is(status: Awaitable[int], wanted: int) -> bool:
    return await status == wanted


async def test_one_statement_a_slot_holds_whoever_learns_it(person: Person, model: ScriptedUpstream) -> None:
    model.extractor = extract_by_rules
    for place, amount in enumerate(("$10,000", "$15,000", "$20,000")):
        at = (person.a, person.b)[place % 2]
        await person.says(at, f"My budget for the Hawaii vacation is {amount}.")
        await person.says(at, "I also have a dog named Biscuit.")

        async def learned(amount: str = amount) -> bool:
            facts = [one for one in await person.memories(person.b) if one["kind"] != "turn" and one["active"]]
            budgets = [fact["content"] for fact in facts if "budget" in fact["content"]]
            return len(budgets) == 1 and amount in budgets[0]  # the new one is written just before the old one ends

        await eventually(learned, what=f"{amount} is learned")
    facts = [one for one in await person.memories(person.a) if one["kind"] != "turn" and "budget" in one["content"]]
    assert [fact["content"] for fact in facts if fact["active"]] == [facts[0]["content"]]
    assert len(facts) == 3


async def test_the_engine_that_dies_is_named_and_the_other_one_answers(cluster: Cluster, person: Person) -> None:
    a = cluster.replicas[0]
    secret = word()
    await person.says(a, f"My locker code is {secret}.")
    await eventually(lambda: person.is_shown(a, secret), what="A recalls it")
    engines = a.family("_engine")
    assert len(engines) == 2
    for engine in engines:
        engine.kill()
        answers = [await person.says(a, QUESTION) for _ in range(3)]
        assert "injected" in [answer.recall for answer in answers], [answer.recall for answer in answers]
        await a.served()
    assert "the engine ended (signal SIGKILL); starting it again" in a.log
    assert "the engine 2 ended (signal SIGKILL); starting it again" in a.log


async def test_an_api_write_returns_when_it_is_done_whichever_replica_does_it(person: Person) -> None:
    began = time.monotonic()
    for number in range(6):
        at, other = (person.a, person.b)[:: 1 if number % 2 else -1]
        made = await person.call(at, "POST", "/v1/memory", json={"content": f"My number {number} is {word()}."})
        assert any(one["id"] == made["id"] for one in await person.memories(other))
        changed = await person.call(other, "PATCH", f"/v1/memory/{made['id']}", json={"tags": ["x"]})
        assert changed["tags"] == ["x"]
    assert time.monotonic() - began < 30, "no write waits for its time to be over"


async def test_a_reindex_is_refused_while_other_engines_would_write_to_what_it_replaces(cluster: Cluster) -> None:
    b = cluster.replicas[1]
    done = await asyncio.to_thread(
        memproxy, b.home, "reindex", "--config", str(b.config_file), extra=b.extra_environment
    )
    assert done.returncode == 1
    assert "2 other engines use this store" in done.stderr
