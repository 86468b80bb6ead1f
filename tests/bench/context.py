"""What compressed context costs and keeps: ``python -m tests.bench.context --data locomo.json [--json OUT]``.

Each conversation of a LoCoMo file is one long chat with a client that sends the whole history: one speaker is the user,
the other the assistant, and the real server compresses. A deterministic script makes the states (the most central
sentences, within the words that the request allows): what is measured is what compression loses and keeps, not how well
a model summarises. At the end every question is asked as the next message, and what reached the upstream is compared
with the whole history and with the last messages of it that cost as much.
"""

import asyncio
import itertools
import json
import math
import re
import statistics
import tempfile
from collections import Counter
from pathlib import Path
from typing import Annotated, Any

import httpx
import typer

from memproxy.core.block import quote
from memproxy.core.text import key_terms, sentences
from memproxy.evals import locomo
from memproxy.evals.dataset import Dataset, Question
from memproxy.learn.compress import COMPRESS_MARK
from tests.support.answers import Answer, Answerer, Received, completion, text_of
from tests.support.proxy import running_proxy
from tests.support.upstream import ScriptedUpstream, scripted_upstream

SETTLE_S = 0.6
"""The pause behind every fifth message: people read, and a state is made meanwhile."""

_WORDS = re.compile(r"at most (\d+) words")
_TELLS = 25
"""Characters of a sentence that tells which turn it is of."""

Message = dict[str, Any]


def state_of(prompt: str) -> dict[str, Any]:
    """The most central sentences of a request for a state, those of the state so far included."""
    lines = prompt.split("\n")
    former = json.loads(lines[1])
    said = [one for line in lines if line.startswith('{"role"') for one in sentences(json.loads(line)["text"])]
    known = [*former["decisions"], *former["constraints"], *former["open_points"]]
    found = _WORDS.search(prompt)
    room = int(found[1]) if found else 200
    frequency = Counter(term for one in said for term in key_terms(one, 50))

    def central(one: str) -> float:
        terms = key_terms(one, 50)
        return sum(frequency[term] for term in terms) / math.sqrt(len(terms) or 1)

    chosen: list[str] = []
    every = list(dict.fromkeys([*known, *said]))
    for one in sorted(every, key=central, reverse=True):
        if (room := room - len(one.split())) < 0:
            break
        chosen.append(one)
    kept = [one for one in every if one in set(chosen)]
    third = math.ceil(len(kept) / 3)
    parts = {"decisions": kept[:third], "constraints": kept[third : 2 * third], "open_points": kept[2 * third :]}
    return {"topic": "A long conversation of two friends.", **parts}


def answering(messages: list[Message]) -> Answerer:
    """States for the engine; for the chat what the data's assistant says next."""
    replies = {one["content"]: other["content"] for one, other in itertools.pairwise(messages)}

    def answered(received: Received) -> Answer:
        if text_of(received.messages[0]).startswith(COMPRESS_MARK):
            return completion(json.dumps(state_of(text_of(received.messages[1]))))
        return completion(replies.get(text_of(received.messages[-1]), "I see."))

    return answered


def chats(data: Dataset, most: int) -> dict[str, list[Message]]:
    """The conversations as messages of user and assistant in turn, by their users; each with the turns in it. Questions
    call both by their names, so each message begins with the speaker's.
    """
    found: dict[str, list[Message]] = {}
    first: dict[str, str | None] = {}
    for session in data.sessions:
        said = found.setdefault(session.user, [])
        for message in session.messages:
            role = "user" if message.name == first.setdefault(session.user, message.name) else "assistant"
            if said and said[-1]["role"] == role:
                said[-1]["content"] += f"\n{message.content}"
                said[-1]["turns"][message.id] = message.content
            else:
                text = f"{message.name}: {message.content}"
                said.append({"role": role, "content": text, "turns": {message.id: message.content}})
    return dict(list(found.items())[:most])


def sent_as(messages: list[Message]) -> list[Message]:
    return [{"role": one["role"], "content": one["content"]} for one in messages]


def tokens(messages: list[Message]) -> int:
    return sum(len(json.dumps(one)) for one in messages) // 4


def kept(messages: list[Message], sent: str, question: Question) -> tuple[int, int]:
    """How many of the turns that the question needs stand in what was sent, with a sentence at least (blocks shorten
    long ones), and how many it needs.
    """
    needed = [text for one in messages for name, text in one["turns"].items() if name in question.gold_turns]
    telling = [[one for one in sentences(text) if len(one) >= _TELLS] or [text] for text in needed]
    return sum(any(quote(one) in sent for one in some) for some in telling), len(needed)


def common(before: bytes, after: bytes) -> float:
    """The share of a request's messages that the next one begins with."""
    before, after = before[before.index(b'"messages"') :], after[after.index(b'"messages"') :]
    same = next((at for at, (one, other) in enumerate(zip(before, after, strict=False)) if one != other), len(before))
    return same / len(before)


async def measure(messages: list[Message], questions: list[Question], changes: dict[str, Any]) -> dict[str, Any]:
    """One conversation, message by message, and then its questions."""
    async with scripted_upstream() as upstream:
        upstream.default = answering(messages)
        with tempfile.TemporaryDirectory() as home:
            async with running_proxy(upstream.base_url, Path(home), changes) as proxy, proxy.client() as client:
                users = [at for at, one in enumerate(messages) if one["role"] == "user"]
                for number, at in enumerate(users):
                    await post(client, messages[: at + 1])
                    if number % 5 == 4:
                        await asyncio.sleep(SETTLE_S)
                walked = asked(upstream)
                shares = [common(one.body, other.body) for one, other in itertools.pairwise(walked)]
                sizes = [tokens(sent_as(messages[: at + 1])) for at in users]
                figures: dict[str, Any] = {
                    "whole": statistics.mean(sizes),
                    "sent": statistics.mean(tokens(one.messages) for one in walked),
                    "largest_whole": max(sizes),
                    "largest_sent": max(tokens(one.messages) for one in walked),
                    "prefix": statistics.mean(shares),
                    "prefix_over_half": sum(share > 0.5 for share in shares) / len(shares),
                    "states": len(upstream.received) - len(walked),
                }
                return figures | await evidence(client, upstream, messages, questions)


async def evidence(
    client: httpx.AsyncClient, upstream: ScriptedUpstream, messages: list[Message], questions: list[Question]
) -> dict[str, Any]:
    """What of the questions' evidence reached the upstream, compressed and cut to the same size."""
    there, cut, needed, sizes = 0, 0, 0, []
    recalls = Counter[str]()
    for question in questions:
        ask = [*messages, {"role": "user", "content": question.text}]
        recalls[await post(client, ask, **{"x-memproxy-memory": "read"})] += 1
        got = asked(upstream)[-1].messages
        size = tokens(got)
        tail = ask
        while tokens(sent_as(tail)) > size and len(tail) > 1:
            tail = tail[max(1, len(tail) // 200) :]
        of, every = kept(messages, "\n".join(quote(text_of(one)) for one in got), question)
        there, needed = there + of, needed + every
        cut += kept(messages, "\n".join(quote(one["content"]) for one in tail), question)[0]
        sizes.append(size)
    return {
        "kept": there,
        "kept_cut": cut,
        "evidence": needed,
        "sent_asked": statistics.mean(sizes),
        "recalls": recalls,
    }


def asked(upstream: ScriptedUpstream) -> list[Received]:
    return [one for one in upstream.received if not text_of(one.messages[0]).startswith(COMPRESS_MARK)]


async def post(client: httpx.AsyncClient, messages: list[Message], **headers: str) -> str:
    """Send it; what recall came to."""
    body = {"model": "m", "messages": sent_as(messages)}
    named = {"x-memproxy-user": "reader", "x-memproxy-session": "one", **headers}
    answer = await client.post("/v1/chat/completions", json=body, headers=named)
    answer.raise_for_status()
    return answer.headers["x-memproxy-recall"]


def main(
    data: Annotated[Path, typer.Option(help="A LoCoMo file.")],
    conversations: Annotated[int, typer.Option(help="So many of its conversations.")] = 100,
    questions: Annotated[int, typer.Option(help="So many questions of each, spread evenly.")] = 60,
    above_tokens: Annotated[int, typer.Option(help="compress.above_tokens")] = 3_000,
    model_path: Annotated[Path | None, typer.Option(help="A local embedding model; without it, by words.")] = None,
    out: Annotated[Path | None, typer.Option("--json", help="The figures as JSON.")] = None,
) -> None:
    """Measure compressed context on long conversations."""
    loaded = locomo.load_dataset(data, pooled=False)
    changes: dict[str, Any] = {
        "compress": {"above_tokens": above_tokens},
        "learn": {"every_turns": 10**6, "idle_s": 1e6},
    }
    if model_path is not None:
        changes["embedding"] = {"provider": "fastembed", "model_path": str(model_path)}
    plain = {**changes, "compress": {}}
    found = []
    for user, messages in chats(loaded, conversations).items():
        every = [one for one in loaded.questions if one.user == user and one.scored]
        some = every[:: max(1, len(every) // questions)][:questions]
        figures = {"user": user, "messages": len(messages), **asyncio.run(measure(messages, some, changes))}
        figures["prefix_plain"] = asyncio.run(measure(messages, some[:1], plain))["prefix"]
        found.append(figures)
        print(json.dumps(figures), flush=True)
    total = {name: sum(one[name] for one in found) for name in ("kept", "kept_cut", "evidence", "states")}
    for name in ("whole", "sent", "sent_asked", "prefix", "prefix_over_half", "prefix_plain"):
        total[name] = statistics.mean(one[name] for one in found)
    print(json.dumps({"total": total}))
    if out is not None:
        out.write_text(json.dumps({"conversations": found, "total": total}, indent=1), encoding="utf-8")


if __name__ == "__main__":
    typer.run(main)
