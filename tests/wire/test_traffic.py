"""Every recorded exchange of real providers: requests go on byte for byte, answers are read as by another reader."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from memproxy.wire.chat import ChatAnswer, read_request
from memproxy.wire.hold import TailHolder
from memproxy.wire.request_body import Position
from tests.support.shared import EVAL, needs_data
from tests.wire.making import rebuilt

TRAFFIC = EVAL / "traffic"
SPACE = b" \t\r\n"
BLOCK = '<recalled-memory id="0">\n- 2024: likes "é" 😀\n</recalled-memory>'
pytestmark = needs_data("traffic", "index.json")


def index() -> list[dict[str, Any]]:
    path = TRAFFIC / "index.json"
    entries: list[dict[str, Any]] = json.loads(path.read_text()) if path.exists() else []
    return entries


def files(*endings: str) -> list[Path]:
    return sorted(TRAFFIC / entry["file"] for entry in index() if entry["file"].endswith(endings))


REQUESTS = sorted(TRAFFIC / entry["request"] for entry in index() if entry.get("request"))
STREAMS = files(".sse", ".chunks.txt")
BODIES = files(".json")


def stream_of(path: Path) -> bytes:
    """A recorded stream; recordings of bare chunks, one a line, get their framing here."""
    recorded = path.read_bytes()
    if path.suffix == ".sse":
        return recorded
    return b"".join(b"data: %b\n\n" % chunk for chunk in recorded.splitlines()) + b"data: [DONE]\n\n"


def named(path: Path) -> str:
    return path.name


def written_ways(body: bytes) -> list[bytes]:
    """As recorded, and as other clients would write it."""
    document = json.loads(body)
    compact = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return [body, compact, json.dumps(document, indent="\t").replace("\n", "\r\n").encode()]


@pytest.mark.parametrize("path", REQUESTS, ids=named)
def test_a_request_goes_on_byte_for_byte(path: Path) -> None:
    for body in written_ways(path.read_bytes()):
        request = read_request(body)
        assert request.rebuild() is body
        assert [message.role for message in request.messages] == [m["role"] for m in json.loads(body)["messages"]]
        assert request.stream == (json.loads(body).get("stream") is True)
        assert request.new_messages


@pytest.mark.parametrize("position", ["before_last_user", "after_system", "system"])
@pytest.mark.parametrize("path", REQUESTS, ids=named)
def test_an_injected_request_differs_only_by_the_block(path: Path, position: Position) -> None:
    for body in written_ways(path.read_bytes()):
        request = read_request(body)
        after = rebuilt(request, BLOCK, position)
        written = json.dumps(BLOCK)[1:-1].encode()
        assert after.count(written) == 1
        added = len(after) - len(body)
        same = next(place for place in range(len(body)) if after[place] != body[place])
        assert any(after[:start] + after[start + added :] == body for start in range(same + 1))
        assert json.dumps(BLOCK)[1:-1] in json.dumps(json.loads(after)["messages"])


@pytest.mark.parametrize("path", REQUESTS, ids=named)
def test_our_fields_are_taken_out_again(path: Path) -> None:
    for body in written_ways(path.read_bytes()):
        own = b'"memory_config":{"enabled":true},"memory_context" : {"user_id":"u"}'
        start, end = body.index(b"{") + 1, body.rindex(b"}")
        for sent in (body[:start] + own + b"," + body[start:], body[:end] + b"," + own + body[end:]):
            assert read_request(sent).rebuild().translate(None, SPACE) == body.translate(None, SPACE)


def expected_of(stream: bytes) -> tuple[str, str | None, bool]:
    """The text, finish reason and end mark, by another way than ours: whole text, line by line, plain decoder."""
    text, finish, done = "", None, False
    for line in stream.decode().replace("\r\n", "\n").split("\n"):
        data = line.removeprefix("data:").strip() if line.startswith("data:") else ""
        done = done or data == "[DONE]"
        if not data.startswith("{"):
            continue
        for choice in json.loads(data).get("choices") or []:
            if choice.get("index", 0) == 0:
                content = choice.get("delta", {}).get("content") or ""
                parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
                text += "".join(part["text"] for part in parts if part["type"] == "text")
                finish = choice.get("finish_reason") or finish
    return text, finish, done


def read_in_pieces(stream: bytes, cuts: list[int]) -> ChatAnswer:
    answer, holder, sent = ChatAnswer(streamed=True), TailHolder(), b""
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        answer.feed(stream[start:end])
        sent += holder.feed(stream[start:end])
    answer.finish()
    assert b"data: [DONE]" not in sent
    assert sent + holder.release() == stream
    return answer


def seen(answer: ChatAnswer) -> tuple[str, str | None, bool]:
    return answer.text, answer.finish_reason, answer.done


@pytest.mark.parametrize("path", STREAMS, ids=named)
def test_a_stream_is_read_the_same_however_it_is_cut_and_ended(path: Path) -> None:
    chance = random.Random(path.name)
    recorded = stream_of(path)
    for stream in (recorded, recorded.replace(b"\r\n", b"\n").replace(b"\n", b"\r\n")):
        expected = expected_of(stream)
        assert seen(read_in_pieces(stream, [])) == expected
        for _ in range(20):
            cuts = sorted(chance.randrange(len(stream)) for _ in range(min(1000, len(stream) // 2)))
            assert seen(read_in_pieces(stream, cuts)) == expected


@pytest.mark.parametrize("path", BODIES, ids=named)
def test_a_whole_answer_is_read(path: Path) -> None:
    body = path.read_bytes()
    answer = ChatAnswer(streamed=False)
    for start in range(0, len(body), 100):
        answer.feed(body[start : start + 100])
    answer.finish()
    document = json.loads(body)
    choice: dict[str, Any] = next(iter(document.get("choices") or []), {})
    content = choice.get("message", {}).get("content")
    if isinstance(content, list):
        content = "\n".join(part["text"] for part in content if part.get("type") == "text")
    assert answer.text == (content or "")
    assert answer.finish_reason == (choice.get("finish_reason") or None)
    assert answer.error == bool(document.get("error"))
    assert answer.complete == (bool(choice) and not document.get("error"))


def test_what_the_index_says_is_found() -> None:
    """The recordings' own descriptions: errors, end marks."""
    for entry in index():
        if entry["kind"] != "sse" or "features" not in entry:
            continue
        answer = read_in_pieces((TRAFFIC / entry["file"]).read_bytes(), [])
        assert answer.done == ("DONE" in entry["features"]), entry["file"]
        assert answer.error == ("error" in entry["features"]), entry["file"]
