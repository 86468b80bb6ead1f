"""`memproxy demo`: the story told by a real proxy, the real `openai` client and a scripted model."""

import asyncio
import os
import signal
import tempfile
from pathlib import Path
from typing import Any

import httpx
import openai
from rich.console import Console
from rich.markup import escape

from memproxy.demo.model_server import MODEL, ScriptedModel, serving
from memproxy.demo.process import DemoFailed, ProxyProcess
from memproxy.demo.session import API_KEY
from memproxy.demo.show import Screen
from memproxy.demo.story import Story

_INTRODUCTION = f"""\
The model behind the proxy is a script ({MODEL}), not a language model:
it answers only from what its prompt contains and extracts facts by simple rules.
The proxy, its store, its memory and the openai client are real."""


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


def _recall_by(config: dict[str, Any]) -> str:
    if "embedding" in config:
        return "Recall is by words alone; MEMPROXY__EMBEDDING__MODEL_PATH names a local embedding model's folder."
    return "Recall is by words and by the embedding model that the environment names."


async def _run(console: Console, *, serve: bool) -> int:
    _cancel_on_terminate()
    screen = Screen(console)
    screen.title("memproxy demo")
    screen.line(_INTRODUCTION)
    model = ScriptedModel()
    with tempfile.TemporaryDirectory(prefix="memproxy-demo-", ignore_cleanup_errors=True) as home:
        async with serving(model) as upstream:
            config = demo_config(upstream)
            screen.line(_recall_by(config))
            proxy = ProxyProcess(Path(home), config)
            try:
                failed = await _tell(screen, proxy, model)
                if serve and not failed:
                    await _stay(screen, proxy, upstream)
            finally:
                await proxy.stop()
    return 1 if failed else 0


def _cancel_on_terminate() -> None:
    """SIGTERM ends like Ctrl-C: by cancelling the main task, so that its clean-up runs."""
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _tell(screen: Screen, proxy: ProxyProcess, model: ScriptedModel) -> bool:
    """The story from its beginning to the list of promises; True when one of them did not hold."""
    with screen.waiting("starting memproxy serve"):
        await proxy.start()
    screen.line(f"memproxy serves {proxy.base_url} (process {proxy.pid}).")
    story = Story(screen, proxy, model)
    for step in (story.tell, story.restart, story.ask, story.change, story.ask_again):
        await step()
    screen.title("What was promised")
    screen.checks(story.checks)
    failed = [check for check in story.checks if not check.held]
    screen.line(f"{len(failed)} of {len(story.checks)} promises failed." if failed else "Every promise held.")
    return bool(failed)


async def _stay(screen: Screen, proxy: ProxyProcess, upstream: str) -> None:
    """Say how to talk to what runs, then wait for Ctrl-C."""
    screen.title("It keeps running; Ctrl-C ends it")
    seen = upstream.removesuffix("/v1")
    text = _INSTRUCTIONS.format(base=proxy.base_url, root=proxy.root_url, key=API_KEY, model=MODEL, seen=seen)
    screen.line(text)
    await asyncio.Event().wait()


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
the proxy: {root}/readyz {root}/metrics
"""
