"""`memproxy demo`: told, learned, killed, asked, corrected, asked again; the proxy and the `openai` client are real."""

import asyncio
import os
import re
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import yaml
from openai.types.chat import ChatCompletionMessageParam
from rich.console import Console
from rich.markup import escape
from rich.panel import Panel
from rich.table import Table

from memproxy.demo.model_server import MODEL, ScriptedModel, serving, text_of
from memproxy.errors import MemproxyError

_POLL_S = 0.1
_START_DEADLINE_S = 60
_STOP_GRACE_S = 10


class DemoFailed(MemproxyError):
    """The demonstration cannot go on; the message says what happened and where to look."""


class ProxyProcess:
    """One proxy: its home, its configuration file and its running process, if there is one.

    It runs in a process group of its own, so that a kill reaches the supervisor and everything it started at once.
    """

    def __init__(self, home: Path, config: Mapping[str, Any]) -> None:
        self._home = home
        port = free_port()
        self._config = {**config, "server": {"host": "127.0.0.1", "port": port}}
        self._process: asyncio.subprocess.Process | None = None
        self._log_file = home / "serve.log"
        self.root_url = f"http://127.0.0.1:{port}"
        self.base_url = f"{self.root_url}/v1"

    @property
    def pid(self) -> int | None:
        """The supervisor's process id while it runs."""
        return self._process.pid if self._process else None

    async def start(self) -> None:
        """Start and wait until requests are served and memory answers, too.

        Raises:
            DemoFailed: it ended by itself or was not ready in time; the message holds the end of its log.
        """
        config_file = self._home / "config.yaml"
        config_file.write_text(yaml.safe_dump(self._config), encoding="utf-8")
        with self._log_file.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "memproxy", "serve", "--config", str(config_file)),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=child_environment(self._home),
                start_new_session=True,
            )
        try:
            async with asyncio.timeout(_START_DEADLINE_S), local_client(self.root_url) as client:
                while not (await _answers(client, "/readyz") and await _answers(client, "/v1/memory?limit=1")):
                    if self._running() is None:
                        raise DemoFailed(f"`memproxy serve` ended before it was ready.\n{self.log_end()}")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError as error:
            raise DemoFailed(f"`memproxy serve` was not ready in {_START_DEADLINE_S} s.\n{self.log_end()}") from error

    def log_end(self) -> str:
        """The last lines of its log, for a message that says what went wrong."""
        text = self._log_file.read_text(encoding="utf-8", errors="replace") if self._log_file.exists() else ""
        return "Its log ends with:\n" + "\n".join(text.splitlines()[-20:])

    async def kill(self) -> None:
        """SIGKILL to the supervisor and all its children, and wait until it is gone."""
        if (process := self._running()) is not None:
            os.killpg(process.pid, signal.SIGKILL)
            await process.wait()

    async def stop(self) -> None:
        """Ask the supervisor to stop, wait a while, then kill what is left of it."""
        if (process := self._running()) is None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(_STOP_GRACE_S):
                await process.wait()
        except TimeoutError:
            await self.kill()

    def _running(self) -> asyncio.subprocess.Process | None:
        return self._process if self._process is not None and self._process.returncode is None else None


async def _answers(client: httpx.AsyncClient, path: str) -> bool:
    try:
        return (await client.get(path)).status_code == 200
    except httpx.TransportError:
        return False


def local_client(root_url: str, headers: Mapping[str, str] | None = None) -> httpx.AsyncClient:
    """A client for the proxy itself; a proxy named in the environment is not for this machine's own addresses."""
    return httpx.AsyncClient(base_url=root_url, headers=dict(headers or {}), timeout=30.0, trust_env=False)


def child_environment(home: Path) -> dict[str, str]:
    """Our environment without settings that would lead the child to another home, store or upstream.

    Settings of the embedding model stay: a local model may be named there.
    """
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("MEMPROXY") or name.startswith("MEMPROXY__EMBEDDING__")
    }
    local = "127.0.0.1,localhost"
    return {**environment, "MEMPROXY_HOME": str(home), "NO_PROXY": local, "no_proxy": local}


def free_port() -> int:
    """A TCP port that was free on the loopback address just now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


API_KEY = "demo-key"
TOLD = (
    "I am planning a trip: my budget for the Hawaii vacation is $10,000.",
    "I also have a dog named Biscuit.",
    "To deploy payment-service: run make test, make image, apply the Helm chart, watch the error rate for ten minutes.",
)
CHANGED = "Good news: my budget for the Hawaii vacation is now $15,000."
BUDGET_QUESTION = "What is my budget for the Hawaii vacation?"
QUESTIONS = (
    (BUDGET_QUESTION, "$10,000"),
    ("What's my dog's name?", "Biscuit"),
    ("How do I deploy payment-service?", "Helm chart"),
)
_LEARNED = ("$10,000", "Biscuit", "payment-service")
_LEARNING_DEADLINE_S = 60.0
_OUTDATED = re.compile(r"superseded|replaced|until|no longer|outdated|\$15,000", re.IGNORECASE)
_BLOCK_OPENING = "<recalled-memory"

_INTRODUCTION = f"""\
The model behind the proxy is a script ({MODEL}), not a language model:
it answers only from what its prompt contains and extracts facts by simple rules.
The proxy, its store, its memory and the openai client are real."""

_INSTRUCTIONS = """\
base_url: {base}

with curl:
  curl -s {base}/chat/completions -H 'authorization: Bearer {key}' -H 'content-type: application/json' \\
    -d '{{"model":"{model}","messages":[{{"role":"user","content":"What is my budget for the Hawaii vacation?"}}]}}'
  curl -s {base}/memory -H 'authorization: Bearer {key}'

with the openai client:
  from openai import OpenAI
  client = OpenAI(base_url="{base}", api_key="{key}")
  question = [{{"role": "user", "content": "What's my dog's name?"}}]
  print(client.chat.completions.create(model="{model}", messages=question).choices[0].message.content)

what the scripted model received: {seen}/demo/requests
the memory page: {root}/memory (sign in, at the top right, with the key {key})
the proxy: {root}/readyz {root}/metrics
"""

Memories = list[dict[str, Any]]


def run_demo(*, serve: bool) -> int:
    """Run the demonstration; 0 when every promise held, 1 when not. With ``serve`` it stays up until Ctrl-C."""
    console = Console()
    try:
        return asyncio.run(_run(console, serve=serve))
    except (KeyboardInterrupt, asyncio.CancelledError):
        console.print("Stopped; everything it started is gone.")
        return 0 if serve else 130
    except (DemoFailed, openai.OpenAIError, httpx.HTTPError) as error:
        console.print(f"[red]The demonstration failed:[/red] {escape(str(error) or repr(error))}", soft_wrap=True)
        return 1


async def _run(console: Console, *, serve: bool) -> int:
    task = asyncio.current_task()
    assert task is not None, "a coroutine runs in a task"  # noqa: S101
    # SIGTERM ends like Ctrl-C: by cancelling the main task, so that its clean-up runs
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    model = ScriptedModel()
    with tempfile.TemporaryDirectory(prefix="memproxy-demo-", ignore_cleanup_errors=True) as home:
        async with serving(model) as upstream:
            proxy = ProxyProcess(Path(home), demo_config(upstream))
            async with local_client(proxy.root_url, {"authorization": f"Bearer {API_KEY}"}) as api:
                story = Story(console, proxy, model, api)
                try:
                    held = await story.tell_all()
                    if serve and held:
                        story.title("It keeps running; Ctrl-C ends it")
                        words = {"base": proxy.base_url, "root": proxy.root_url, "key": API_KEY, "model": MODEL}
                        story.line(_INSTRUCTIONS.format(**words, seen=upstream.removesuffix("/v1")))
                        await asyncio.Event().wait()
                finally:
                    await proxy.stop()
    return 0 if held else 1


def demo_config(upstream: str) -> dict[str, Any]:
    """The demonstration's configuration: learn soon, no network, recall by words unless a local model is named."""
    config: dict[str, Any] = {
        "upstream": {"base_url": upstream},
        "learn": {"every_turns": 4, "idle_s": 1.0},
        "recall": {"deadline_ms": 1000},
    }
    if not any(name.startswith("MEMPROXY__EMBEDDING__") for name in os.environ):
        config["embedding"] = {"provider": "none"}
    return config


class Story:
    """Runs the steps in order, shows them, and collects what was promised and whether it held.

    ``api`` calls the memory API with the key of the conversations: the same tenant, so the same memories.
    """

    def __init__(self, console: Console, proxy: ProxyProcess, model: ScriptedModel, api: httpx.AsyncClient) -> None:
        self._console, self._proxy, self._model, self._api = console, proxy, model, api
        self._promises: list[tuple[str, bool, str]] = []

    async def tell_all(self) -> bool:
        """The story from its beginning to the list of promises; whether every one held."""
        self.title("memproxy demo")
        self.line(_INTRODUCTION)
        by = "words alone" if not os.environ.get("MEMPROXY__EMBEDDING__MODEL_PATH") else "words and a local model"
        self.line(f"Recall is by {by}; MEMPROXY__EMBEDDING__MODEL_PATH names a local embedding model's folder.")
        with self._waiting("starting memproxy serve"):
            await self._proxy.start()
        self.line(f"memproxy serves {self._proxy.base_url} (process {self._proxy.pid}).")

        self.title("Session one: the user tells three things")
        await self._say(*TOLD)
        facts = await self._learned(_knows_all, "learning behind the answers")
        self._show_memories(facts, "What was stored (GET /v1/memory, verbatim turns left out)")

        await self._restart()

        self.title("Session two: a new conversation asks")
        answers = await self._say(*(question for question, _ in QUESTIONS))
        for (question, fact), (text, headers, _) in zip(QUESTIONS, answers, strict=True):
            self._promise(f"session two: {question!r} is answered with {fact!r}", fact in text, text)
            recall = headers.get("x-memproxy-recall", "no header")
            self._promise("its recall header says injected", recall.startswith("injected"), recall)

        self.title("A third conversation: the budget changes")
        await self._say(CHANGED)
        await self._learned(_knows_new_budget, "learning the change")

        await self._ask_again()

        self.title("What was promised")
        rows = [("ok" if held else "FAILED", promise, "" if held else shown) for promise, held, shown in self._promises]
        self._console.print(_table(("", "promise", "seen"), rows))
        failed = sum(not held for _, held, _ in self._promises)
        self.line(f"{failed} of {len(self._promises)} promises failed." if failed else "Every promise held.")
        return not failed

    async def _restart(self) -> None:
        """The whole proxy is killed, as by a crash, and started again on the same home."""
        self.title("kill -9, and a new process")
        old_pid = self._proxy.pid
        await self._proxy.kill()
        with self._waiting("starting again"):
            await self._proxy.start()
        self.line(f"Process {old_pid} was killed; process {self._proxy.pid} serves the same home.")
        self._promise("a new process serves after the kill", old_pid != self._proxy.pid, f"{old_pid}")

    async def _ask_again(self) -> None:
        """A last conversation asks for the budget: only the new one counts."""
        self.title("Session three: asked again")
        ((text, _, injected),) = await self._say(BUDGET_QUESTION)
        stale = [line for line in injected.splitlines() if "$10,000" in line and not _OUTDATED.search(line)]
        self._promise("session three is answered with $15,000", "$15,000" in text, text)
        self._promise("it is not answered with $10,000", "$10,000" not in text, text)
        self._promise("nothing injected shows $10,000 as current", not stale, "\n".join(stale))
        active, past = _budgets(await self._facts(active=True)), _budgets(await self._facts(active=False))
        self._show_memories([*past, *active], "The budget and its history")
        current = [fact["content"] for fact in active]
        self._promise("one active budget, the new one", len(active) == 1 and "$15,000" in current[0], str(current))
        replaced = [fact["content"] for fact in past if fact["superseded_by"]]
        is_old = len(replaced) == 1 and "$10,000" in replaced[0]
        self._promise("one superseded budget, the old one", is_old, str(replaced))

    async def _say(self, *texts: str) -> list[tuple[str, Mapping[str, str], str]]:
        """One conversation, streamed, with the client as any application has it but for its ``base_url``; its whole
        history is sent each time. For each text the answer, its headers, and what was injected.
        """
        messages: list[ChatCompletionMessageParam] = []
        replies: list[tuple[str, Mapping[str, str], str]] = []
        http = openai.DefaultAsyncHttpxClient(trust_env=False)
        async with openai.AsyncOpenAI(
            base_url=self._proxy.base_url, api_key=API_KEY, max_retries=0, timeout=30, http_client=http
        ) as client:
            for text in texts:
                messages.append({"role": "user", "content": text})
                # asked before: afterwards memory knows the answer
                why = await self._call("POST", "/v1/memory/recall", json={"query": text, "explain": True})
                started = time.perf_counter()
                raw = await client.chat.completions.with_raw_response.create(
                    model=MODEL, messages=messages, stream=True
                )
                parts = [chunk.choices[0].delta.content or "" async for chunk in raw.parse() if chunk.choices]
                elapsed_ms = (time.perf_counter() - started) * 1000
                messages.append({"role": "assistant", "content": "".join(parts)})
                injected = self._injected()
                self._show_exchange(text, "".join(parts), raw.headers, elapsed_ms)
                if injected:
                    self._show_injected(injected, why)
                replies.append(("".join(parts), raw.headers, injected))
        return replies

    def _injected(self) -> str:
        """What the newest conversation that the model received had been given by the proxy; empty if nothing."""
        newest = next(request for request in reversed(self._model.requests) if not request["extraction"])
        texts = [text_of(message) for message in newest["body"]["messages"]]
        blocks = [text[text.index(_BLOCK_OPENING) :] for text in texts if _BLOCK_OPENING in text]
        return blocks[-1].strip() if blocks else ""

    async def _call(self, method: str, path: str, **request: Any) -> dict[str, Any]:
        response = await self._api.request(method, path, **request)
        if response.status_code != 200:
            raise DemoFailed(f"{method} {response.request.url} answered {response.status_code}: {response.text}")
        return dict(response.json())

    async def _facts(self, *, active: bool) -> Memories:
        """The stored memories without the verbatim turns, oldest first."""
        listed = await self._call("GET", "/v1/memory", params={"limit": 200, "active": str(active).lower()})
        facts = [memory for memory in listed["data"] if memory["kind"] != "turn"]
        return sorted(facts, key=lambda memory: str(memory["created_at"]))

    async def _learned(self, is_done: Callable[[Memories], bool], doing: str) -> Memories:
        """Ask the memory API until what was said is learned."""
        facts: Memories = []
        try:
            with self._waiting(doing):
                async with asyncio.timeout(_LEARNING_DEADLINE_S):
                    while not is_done(facts := await self._facts(active=True)):  # noqa: ASYNC110 another process's state
                        await asyncio.sleep(0.2)
        except TimeoutError as error:
            contents = [fact["content"] for fact in facts]
            message = f"not learned within {_LEARNING_DEADLINE_S:.0f} s; active facts are {contents}"
            raise DemoFailed(f"{doing}: {message}.\n{self._proxy.log_end()}") from error
        return facts

    def _promise(self, promise: str, held: bool, result: str) -> None:
        self._promises.append((promise, held, result))

    def title(self, text: str) -> None:
        self._console.print()
        self._console.rule(f"[bold]{escape(text)}[/bold]", align="left")

    def line(self, text: str) -> None:
        """Plain text, never broken into other lines than its own (addresses and commands are copied from it)."""
        self._console.print(escape(text), soft_wrap=True, highlight=False)

    @contextmanager
    def _waiting(self, text: str) -> Iterator[None]:
        """Progress while something else works: it moves on a terminal and is one line elsewhere."""
        if self._console.is_terminal:
            with self._console.status(escape(text)):
                yield
        else:
            self.line(f"{text} ...")
            yield

    def _show_exchange(self, question: str, answered: str, headers: Mapping[str, str], elapsed_ms: float) -> None:
        recall = f"{headers.get('x-memproxy-recall', 'no header')}, memories: {headers.get('x-memproxy-memories')}"
        stages = headers.get("server-timing", "").replace(";dur=", " ")
        grid = Table.grid(padding=(0, 1))
        grid.add_column(style="bold", no_wrap=True)
        grid.add_column(overflow="fold")
        grid.add_row("user", escape(question))
        grid.add_row("scripted model", escape(answered))
        grid.add_row("recall", escape(recall))
        grid.add_row("timings (ms)", escape(f"{stages}, whole request {elapsed_ms:.1f}"))
        self._console.print(Panel(grid, expand=False))

    def _show_injected(self, block: str, why: dict[str, Any]) -> None:
        """What the model was given, and where each line of it came from."""
        self._console.print(Panel(escape(block), title="injected into the prompt", title_align="left", expand=False))
        decision = why.get("decision", {})
        self.line(f"why: searched={decision.get('searched')} ({decision.get('reason')}); the lines and their scores:")
        lines = [(f"{line['score']:.2f}", line["memory_id"][:8], line["snippet"]) for line in why.get("citations", [])]
        self._console.print(_table(("score", "memory", "text"), lines))

    def _show_memories(self, facts: Memories, title: str) -> None:
        rows = [
            (fact["kind"], fact["content"], _validity(fact), "active" if fact["active"] else "superseded")
            for fact in facts
        ]
        self._console.print(_table(("kind", "content", "held", "state"), rows, title))


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Table:
    table = Table(*head, title=escape(title) or None, title_justify="left")
    for row in rows:
        table.add_row(*map(escape, row))
    return table


def _validity(fact: dict[str, Any]) -> str:
    begin, end = fact.get("valid_from") or fact["created_at"], fact.get("valid_to")
    return f"from {str(begin)[:19]}" + (f" to {str(end)[:19]}" if end else "")


def _knows_all(facts: Memories) -> bool:
    return all(any(part in fact["content"] for fact in facts) for part in _LEARNED)


def _knows_new_budget(facts: Memories) -> bool:
    contents = [fact["content"] for fact in _budgets(facts)]
    return any("$15,000" in content for content in contents) and not any("$10,000" in content for content in contents)


def _budgets(facts: Memories) -> Memories:
    return [fact for fact in facts if "budget" in fact["content"].lower()]
