"""Answers of ``/v1/responses`` as an upstream gives them, whole and streamed."""

import json
from typing import Any

Item = dict[str, Any]


def message(text: str) -> Item:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": f"msg_{len(text)}", "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def function_call(name: str, arguments: str, call_id: str) -> Item:
    fields = {"call_id": call_id, "name": name, "arguments": arguments}
    return {"id": f"fc_{call_id}", "type": "function_call", "status": "completed", **fields}


def thought(id: str) -> Item:  # noqa: A002 - as the API has it
    """What the model thought, which nobody can read."""
    return {"id": id, "type": "reasoning", "summary": []}


def response(*items: Item, **fields: Any) -> dict[str, Any]:
    usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
    head = {"id": "resp_1", "object": "response", "created_at": 1, "model": "test-model", "status": "completed"}
    return {**head, "output": list(items), "usage": usage, "error": None, "store": False, **fields}


def stream_of(*items: Item, **fields: Any) -> list[bytes]:
    """The events of a streamed response with these items."""
    whole = response(*items, **fields)
    begun = {**whole, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, Any]] = [
        {"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")
    ]
    for place, item in enumerate(items):
        at = {"output_index": place, "item_id": item["id"]}
        empty = {**item, **{name: [] for name in ("content",) if name in item}, "status": "in_progress"}
        empty |= {"arguments": ""} if "arguments" in item else {}
        events.append({"type": "response.output_item.added", "output_index": place, "item": empty})
        for part in item.get("content", ()):
            begins = {**part, "text": ""}
            events.append({"type": "response.content_part.added", **at, "content_index": 0, "part": begins})
            pieces = [part["text"][:4], part["text"][4:]]
            events += [{"type": "response.output_text.delta", **at, "content_index": 0, "delta": one} for one in pieces]
            events.append({"type": "response.output_text.done", **at, "content_index": 0, "text": part["text"]})
            events.append({"type": "response.content_part.done", **at, "content_index": 0, "part": part})
        if "arguments" in item:
            events.append({"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]})
            events.append({"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]})
        events.append({"type": "response.output_item.done", "output_index": place, "item": item})
    events.append({"type": f"response.{whole['status']}", "response": whole})
    return [
        b"event: "
        + event["type"].encode()
        + b"\ndata: "
        + json.dumps({**event, "sequence_number": number}).encode()
        + b"\n\n"
        for number, event in enumerate(events)
    ]


def events_in(body: bytes) -> list[dict[str, Any]]:
    """The events of a stream, read as JSON; each says its type twice."""
    events = []
    for raw in body.split(b"\n\n"):
        lines = dict(line.split(b": ", 1) for line in raw.splitlines() if b": " in line)
        if b"data" in lines and lines[b"data"] != b"[DONE]":
            events.append(json.loads(lines[b"data"]))
            assert events[-1]["type"].encode() == lines[b"event"]
    return events


def text_in(events: list[dict[str, Any]]) -> str:
    """What a stream said."""
    return "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
