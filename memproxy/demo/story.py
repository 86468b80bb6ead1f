"""The demonstration's story: told, learned, killed, asked, corrected, asked again. One method a step."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any

from openai import AsyncOpenAI

from memproxy.demo.model_server import ScriptedModel
from memproxy.demo.process import DemoFailed, ProxyProcess
from memproxy.demo.session import MemoryApi, Reply, Session, chat_client, memory_api
from memproxy.demo.show import Check, Screen

TOLD = (
    "I am planning a trip: my budget for the Hawaii vacation is $10,000.",
    "I also have a dog named Biscuit.",
    (
        "For the team: to deploy payment-service: run make test, build the image with make image, "
        "apply the Helm chart, then watch the error rate for ten minutes."
    ),
)
CHANGED = "Good news: my budget for the Hawaii vacation is now $15,000."
BUDGET_QUESTION = "What is my budget for the Hawaii vacation?"
QUESTIONS = (
    (BUDGET_QUESTION, "$10,000"),
    ("What's my dog's name?", "Biscuit"),
    ("How do I deploy payment-service?", "Helm chart"),
)
_LEARNED = ("$10,000", "Biscuit", "payment-service")
_POLL_S = 0.2
_LEARNING_DEADLINE_S = 60.0
_OUTDATED = re.compile(r"superseded|replaced|until|no longer|outdated|\$15,000", re.IGNORECASE)

Facts = list[dict[str, Any]]


class Story:
    """Runs the steps in order and collects what was promised and whether it held."""

    def __init__(self, screen: Screen, proxy: ProxyProcess, model: ScriptedModel) -> None:
        self._screen, self._proxy, self._model = screen, proxy, model
        self.checks: list[Check] = []

    async def tell(self) -> None:
        """Session one: the user mentions three things."""
        self._screen.title("Session one: the user tells three things")
        async with chat_client(self._proxy) as client, memory_api(self._proxy) as memory:
            await self._say_all(client, TOLD)
            facts = await self._learned(memory, _knows_all, "learning behind the answers")
            self._screen.stored(facts, "What was stored (GET /v1/memory, verbatim turns left out)")

    async def restart(self) -> None:
        """The whole proxy is killed, as by a crash, and started again on the same home."""
        self._screen.title("kill -9, and a new process")
        before = self._proxy.pid
        await self._proxy.kill()
        with self._screen.waiting("starting again"):
            await self._proxy.start()
        self._screen.line(f"Process {before} was killed; process {self._proxy.pid} serves the same home.")
        self._check("a new process serves after the kill", before != self._proxy.pid, f"{before}")

    async def ask(self) -> None:
        """Session two, a new conversation: the answers must come from what session one told."""
        self._screen.title("Session two: a new conversation asks")
        async with chat_client(self._proxy) as client, memory_api(self._proxy) as memory:
            session = Session(client, self._model)
            for question, fact in QUESTIONS:
                reply = await self._ask(session, question, memory)
                self._check(f"session two: {question!r} is answered with {fact!r}", fact in reply.text, reply.text)
                recall = reply.headers.get("x-memproxy-recall", "no header")
                self._check("its recall header says injected", recall.startswith("injected"), recall)

    async def change(self) -> None:
        """Another session corrects the budget."""
        self._screen.title("A third conversation: the budget changes")
        async with chat_client(self._proxy) as client, memory_api(self._proxy) as memory:
            await self._say_all(client, (CHANGED,))
            await self._learned(memory, _knows_new_budget, "learning the change")

    async def ask_again(self) -> None:
        """Session three asks again: only the new budget counts."""
        self._screen.title("Session three: asked again")
        async with chat_client(self._proxy) as client, memory_api(self._proxy) as memory:
            reply = await self._ask(Session(client, self._model), BUDGET_QUESTION, memory)
            stale = [line for line in reply.injected.splitlines() if "$10,000" in line and not _OUTDATED.search(line)]
            self._check("session three is answered with $15,000", "$15,000" in reply.text, reply.text)
            self._check("it is not answered with $10,000", "$10,000" not in reply.text, reply.text)
            self._check("nothing injected shows $10,000 as current", not stale, "\n".join(stale))
            await self._budgets(memory)

    async def _budgets(self, memory: MemoryApi) -> None:
        active, past = _budgets(await memory.facts(active=True)), _budgets(await memory.facts(active=False))
        self._screen.stored([*past, *active], "The budget and its history")
        current = [fact["content"] for fact in active]
        self._check("one active budget, the new one", len(active) == 1 and "$15,000" in current[0], str(current))
        replaced = [fact["content"] for fact in past if fact["superseded_by"]]
        self._check(
            "one superseded budget, the old one", len(replaced) == 1 and "$10,000" in replaced[0], str(replaced)
        )

    async def _say_all(self, client: AsyncOpenAI, texts: Sequence[str]) -> None:
        session = Session(client, self._model)
        for text in texts:
            self._screen.said(await session.say(text))

    async def _ask(self, session: Session, question: str, memory: MemoryApi) -> Reply:
        """Ask, and show what was injected. Why is asked of the memory API before: afterwards it knows the answer."""
        why = await memory.recall(question)
        reply = await session.say(question)
        self._screen.said(reply)
        self._screen.injected(reply.injected, why)
        return reply

    async def _learned(self, memory: MemoryApi, wanted: Callable[[Facts], bool], doing: str) -> Facts:
        """Ask the memory API until what was said is learned."""
        facts: Facts = []
        with self._screen.waiting(doing):
            try:
                async with asyncio.timeout(_LEARNING_DEADLINE_S):
                    while not wanted(facts := await memory.facts(active=True)):  # noqa: ASYNC110 another process's state
                        await asyncio.sleep(_POLL_S)
            except TimeoutError as error:
                seen = [fact["content"] for fact in facts]
                message = f"not learned within {_LEARNING_DEADLINE_S:.0f} s; active facts are {seen}"
                raise DemoFailed(f"{doing}: {message}.\n{self._proxy.log_end()}") from error
        return facts

    def _check(self, promise: str, held: bool, seen: str) -> None:
        self.checks.append(Check(promise, held, seen))


def _knows_all(facts: Facts) -> bool:
    return all(any(part in fact["content"] for fact in facts) for part in _LEARNED)


def _knows_new_budget(facts: Facts) -> bool:
    contents = [fact["content"] for fact in _budgets(facts)]
    return any("$15,000" in content for content in contents) and not any("$10,000" in content for content in contents)


def _budgets(facts: Facts) -> Facts:
    return [fact for fact in facts if "budget" in fact["content"].lower()]
