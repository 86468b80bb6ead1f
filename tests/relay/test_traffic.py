"""Every recorded exchange of real providers through the relay: bytes up, bytes down, and what is captured."""

import json
import random
from collections.abc import AsyncIterator, Iterator
from functools import partial
from typing import Any

import pytest

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import giving
from tests.relay.rig import Rig, Running, journalled, nothing
from tests.support.answers import Answer
from tests.support.shared import needs_data
from tests.support.upstream import ScriptedUpstream
from tests.wire.test_traffic import TRAFFIC, expected_of, index, stream_of

pytestmark = needs_data("traffic", "index.json")
BLOCK = '<recalled-memory id="0">\n- [2026-11-20] (fact) likes "é" 😀 [m:m1]\n</recalled-memory>'
PLAIN = b'{"model":"m","messages":[{"role":"user","content":"What is my budget?"}]}'
KEPT = ("content-type", "retry-after", "x-request-id")


@pytest.fixture
async def relay(running: Running) -> AsyncIterator[Rig]:
    gate = {"enabled": False}
    async with running(gate=gate) as rig:
        rig.engine.recall = giving(BLOCK)
        yield rig


def exchanges(*, crlf: bool) -> Iterator[tuple[str, bytes, Answer]]:
    """Name, request and answer of each recording; streams in a thousand pieces at most, cut anywhere."""
    chance = random.Random(7)
    for entry in index():
        path = TRAFFIC / entry["file"]
        streamed = path.suffix in (".sse", ".txt")
        raw = stream_of(path) if streamed else path.read_bytes()
        if crlf and streamed:
            raw = raw.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")
        cuts = sorted({chance.randrange(1, len(raw)) for _ in range(min(1000, len(raw) // 3))}) if streamed else []
        parts = [raw[start:end] for start, end in zip([0, *cuts], [*cuts, len(raw)], strict=True)]
        kept = [(name, value) for name, value in (entry.get("headers") or {}).items() if name in KEPT]
        kept = kept or [("content-type", "text/event-stream" if streamed else "application/json")]
        request = (TRAFFIC / entry["request"]).read_bytes() if entry.get("request") else PLAIN
        framing: Any = "chunked" if streamed else "length"
        yield entry["file"], request, Answer(parts, entry["status"], kept, framing)


def text_of(answer: Answer) -> str:
    """What the answer says, by another reader than ours."""
    raw = b"".join(part for part in answer.parts if isinstance(part, bytes))
    if answer.framing == "chunked":
        failed = b"\nevent: error" in raw.replace(b"\r", b"")
        return "" if failed else expected_of(raw)[0]  # what broke off is not learned
    choice: dict[str, Any] = next(iter(json.loads(raw).get("choices") or []), {})
    content = choice.get("message", {}).get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part.get("type") == "text")
    return content or ""


async def answers_in_journal(state: SqliteState) -> dict[str, str]:
    """What was captured of the assistant's words, by request id."""
    last = {row.entry.request_id or "": body.messages[-1] for row, body in await journalled(state)}
    return {name: one.content if one.role == "assistant" else "" for name, one in last.items()}


@pytest.mark.parametrize("mode", ["off", "on", "injected", "injected, CRLF"])
async def test_recorded_exchanges_pass_byte_for_byte_and_are_captured_as_said(
    relay: Rig, upstream: ScriptedUpstream, state: SqliteState, mode: str
) -> None:
    if mode == "on":
        relay.engine.recall = nothing
    said: dict[str, tuple[str, str]] = {}
    for number, (name, body, answer) in enumerate(exchanges(crlf="CRLF" in mode)):
        upstream.default = partial(
            lambda answer, _received: answer, answer
        )  # what was refused with memory in it is sent again without
        off = {"x_memproxy_memory": "off"} if mode == "off" else {}
        got = await relay.post(body, x_memproxy_user=f"u{number}", **off)
        raw = b"".join(part for part in answer.parts if isinstance(part, bytes))
        assert (got.status_code, got.content) == (answer.status, raw), name
        assert_sent(upstream.last.body, body, injected="injected" in mode, name=name)
        if answer.status == 200:
            said[got.headers["x-memproxy-request-id"]] = (name, text_of(answer))
    captured = await answers_in_journal(state)
    if mode == "off":
        assert captured == {}
        return
    for request_id, (name, text) in said.items():
        assert captured.get(request_id, "").strip() == text.strip(), name


def assert_sent(sent: bytes, body: bytes, *, injected: bool, name: str) -> None:
    """The client's own bytes, or those with one message put in between."""
    if not injected or sent == body:
        assert sent == body, name
        return
    added = len(sent) - len(body)
    same = next(place for place in range(len(body)) if sent[place] != body[place])
    start = next(start for start in range(same + 1) if sent[:start] + sent[start + added :] == body)
    assert json.dumps(BLOCK)[1:-1].encode() in sent[start : start + added], name
