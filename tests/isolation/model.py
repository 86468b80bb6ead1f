"""The upstream of a fuzz: it answers chat and responses, streamed or whole, and reads everything that reaches it."""

import json
import uuid
from typing import Any

from tests.e2e.talk import extract_by_rules
from tests.isolation.watching import Watch
from tests.support.answers import Answer, Received, chat_events, completion, error, json_answer, stream, text_of
from tests.support.upstream import ScriptedUpstream


def listen(upstream: ScriptedUpstream, watch: Watch) -> None:
    """Make the upstream answer, and tell ``watch`` of every request."""

    def answered(received: Received) -> Answer:
        _look(watch, received)
        upstream.received.clear()  # what was read is not kept: a long run has many
        return _answer(received)

    def extracted(received: Received) -> dict[str, Any]:
        _look(watch, received)
        watch.counts["extractions"] += 1
        upstream.extractions.clear()
        return extract_by_rules(received)

    upstream.default, upstream.extractor = answered, extracted


def _look(watch: Watch, received: Received) -> None:
    headers = "\n".join(f"{name}: {value}" for name, value in received.headers)
    text = f"{received.target}\n{headers}\n{_text(received)}"
    own = received.header("x-memproxy-internal") is not None
    if received.header("x-raw-mark") in watch.forged:
        watch.leaks.append(f"a forged target reached the upstream as {received.target}")
    if watch.world.mode != "passthrough" and _reads_what_is_kept(received):
        watch.leaks.append(f"{received.method} {received.target} reached what the upstream keeps for its key")
    if "x-memproxy" in headers.lower() and not own:
        watch.leaks.append(f"the upstream got headers of ours: {headers}")
    watch.sent_upstream("learning's own call" if own else "a request upstream", text)


def _reads_what_is_kept(received: Received) -> bool:
    return received.method != "POST" and not received.target.startswith(("/v1/models", "/v1/responses/"))


def _text(received: Received) -> str:
    """The body, read as JSON where it is: its escapes hide nothing then."""
    try:
        return json.dumps(json.loads(received.body), ensure_ascii=False)
    except ValueError:
        return received.body.decode("utf-8", "replace")


def _answer(received: Received) -> Answer:
    if received.method != "POST":
        return error(404, "no such path")
    if received.target.startswith("/v1/responses"):
        return json_answer(_response())
    said = [text_of(message) for message in received.messages if message.get("role") == "user"]
    text = f"Noted: {said[-1][:200]}" if said else "Nothing was said."
    if received.json.get("stream"):
        first, *rest = text.split(" ")
        return stream(chat_events(first, *(f" {word}" for word in rest)))
    return completion(text)


def _response() -> dict[str, Any]:
    part = {"type": "output_text", "text": "Noted.", "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
    head = {"id": f"resp_{uuid.uuid4().hex}", "object": "response", "created_at": 1, "status": "completed"}
    return {**head, "model": "test-model", "error": None, "output": [message], "usage": None}
