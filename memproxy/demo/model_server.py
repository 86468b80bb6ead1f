"""A scripted OpenAI-compatible model server. It is a script, NOT a model.

It speaks the wire format of `/v1/chat/completions` (plain and streamed) and `/v1/models`, and it records what it
received (`GET /demo/requests`), so that a demonstration can show what the proxy put into a prompt. What it says is in
`script`. The model's name and ``system_fingerprint`` say to every client that it is none.
"""

import json
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from memproxy.demo.script import answer, extract, text_of
from memproxy.learn.extract import EXTRACT_MARK

MODEL = "scripted-demo-model"
FINGERPRINT = "a-script-not-a-model"
_WORDS_PER_CHUNK = 3
_CHARACTERS_PER_TOKEN = 4

JsonObject = dict[str, Any]


class ScriptedModel:
    """The server's handlers and its record of what they received (the newest 500 requests)."""

    def __init__(self) -> None:
        self.requests: deque[JsonObject] = deque(maxlen=500)

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/demo/requests", self.recorded)
        return app

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """One completion; streamed when the request asks for it."""
        try:
            body = json.loads(await request.read())
            messages = [dict(message) for message in body["messages"]]
        except (ValueError, TypeError, KeyError):
            return _error(400, "The body must be JSON with a list of messages.", None)
        if body.get("model") != MODEL or not messages:
            return _error(
                404, f"The model {body.get('model')!r} does not exist; there is only {MODEL!r}.", "model_not_found"
            )
        extraction = any(text_of(message).lstrip().startswith(EXTRACT_MARK) for message in messages)
        self.requests.append({"extraction": extraction, "body": body})
        if extraction:
            prompt = "\n".join(text_of(message) for message in messages if message.get("role") == "user")
            text = json.dumps({"candidates": extract(prompt)}, ensure_ascii=False)
        else:
            text = answer(messages)
        if body.get("stream"):
            return await _send_stream(request, body, text)
        return web.json_response(_completion(body, text))

    async def models(self, _request: web.Request) -> web.Response:
        """The one model there is."""
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "memproxy-demo"}
        return web.json_response({"object": "list", "data": [model]})

    async def recorded(self, _request: web.Request) -> web.Response:
        """What was received, oldest first; ``extraction`` tells learning's requests from conversations."""
        return web.json_response({"requests": list(self.requests)})


@asynccontextmanager
async def serving(model: ScriptedModel, host: str = "127.0.0.1", port: int = 0) -> AsyncIterator[str]:
    """Serve ``model`` in this event loop; yields its base URL (ending in ``/v1``). Port 0 takes a free one."""
    runner = web.AppRunner(model.app(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        bound = runner.addresses[0][1]
        yield f"http://{host}:{bound}/v1"
    finally:
        await runner.cleanup()


def _head(body: JsonObject, kind: str) -> JsonObject:
    return {
        "id": f"chatcmpl-script-{uuid.uuid4().hex[:12]}",
        "object": kind,
        "created": int(time.time()),
        "model": body["model"],
        "system_fingerprint": FINGERPRINT,
    }


def _usage(body: JsonObject, text: str) -> JsonObject:
    prompt = sum(len(text_of(message)) for message in body["messages"]) // _CHARACTERS_PER_TOKEN
    completion = len(text) // _CHARACTERS_PER_TOKEN
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _completion(body: JsonObject, text: str) -> JsonObject:
    message = {"role": "assistant", "content": text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    return {**_head(body, "chat.completion"), "choices": [choice], "usage": _usage(body, text)}


def _chunks(body: JsonObject, text: str) -> Iterator[JsonObject]:
    head = _head(body, "chat.completion.chunk")
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    rest = {"usage": None} if wants_usage else {}
    words = text.split(" ")
    pieces = [" ".join(words[start : start + _WORDS_PER_CHUNK]) for start in range(0, len(words), _WORDS_PER_CHUNK)]
    deltas = [{"content": f"{' ' if place else ''}{piece}"} for place, piece in enumerate(pieces)]
    for delta in ({"role": "assistant", "content": "", "refusal": None}, *deltas, {}):
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": None if delta else "stop"}
        yield {**head, "choices": [choice], **rest}
    if wants_usage:
        yield {**head, "choices": [], "usage": _usage(body, text)}


async def _send_stream(request: web.Request, body: JsonObject, text: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for chunk in _chunks(body, text):
        await response.write(f"data: {json.dumps(chunk)}\n\n".encode())
    await response.write(b"data: [DONE]\n\n")
    await response.write_eof()
    return response


def _error(status: int, message: str, code: str | None) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return web.json_response(body, status=status)
