"""A scripted OpenAI-compatible model server. It is a script, NOT a model.

It speaks the wire format of `/v1/chat/completions` (plain and streamed) and `/v1/models`, and it records what it
received (`GET /demo/requests`), so that a demonstration can show what the proxy put into a prompt. Its answers come
only from what the prompt contains (`answers`), its extractions from simple rules (`facts`). The model's name and
``system_fingerprint`` say so to every client.
"""

import json
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from memproxy.demo.answers import answer, text_of
from memproxy.demo.facts import extract
from memproxy.learn.extract import EXTRACT_MARK

MODEL = "scripted-demo-model"
FINGERPRINT = "a-script-not-a-model"
_KEPT_REQUESTS = 500
_WORDS_PER_CHUNK = 3
_CHARACTERS_PER_TOKEN = 4

JsonObject = dict[str, Any]


class BadRequest(Exception):
    """The request is not one that the chat endpoint takes; ``status`` and ``code`` as OpenAI answers it."""

    def __init__(self, message: str, *, status: int = 400, code: str | None = None) -> None:
        super().__init__(message)
        self.message, self.status, self.code = message, status, code


class ScriptedModel:
    """The server's handlers and its record of what they received (the newest 500 requests)."""

    def __init__(self) -> None:
        self.requests: deque[JsonObject] = deque(maxlen=_KEPT_REQUESTS)

    def app(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_post("/v1/chat/completions", self.chat)
        app.router.add_get("/v1/models", self.models)
        app.router.add_get("/demo/requests", self.recorded)
        app.router.add_route("*", "/{rest:.*}", self.unknown)
        return app

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """One completion; streamed when the request asks for it."""
        try:
            body = _read(await request.read())
        except BadRequest as bad:
            return _error(bad.status, bad.message, bad.code)
        extraction = _is_extraction(body["messages"])
        self.requests.append({"extraction": extraction, "body": body})
        text = _reply(body, extraction=extraction)
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

    async def unknown(self, request: web.Request) -> web.Response:
        """Anything else, answered as OpenAI does."""
        return _error(404, f"Unknown request URL: {request.method} {request.path}.", "unknown_url")


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


def _read(raw: bytes) -> JsonObject:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise BadRequest(f"We could not parse the JSON body of your request: {error}") from error
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages or not all(isinstance(item, dict) for item in messages):
        raise BadRequest("'messages' must be a list of at least one message.", code="missing_required_parameter")
    if body.get("model") != MODEL:
        message = f"The model {body.get('model')!r} does not exist; this server has only {MODEL!r}."
        raise BadRequest(message, status=404, code="model_not_found")
    return dict(body)


def _is_extraction(messages: list[JsonObject]) -> bool:
    return any(text_of(message).lstrip().startswith(EXTRACT_MARK) for message in messages)


def _reply(body: JsonObject, *, extraction: bool) -> str:
    if not extraction:
        return answer(body["messages"])
    prompt = "\n".join(text_of(message) for message in body["messages"] if message.get("role") == "user")
    return json.dumps({"candidates": extract(prompt)}, ensure_ascii=False)


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


def _deltas(text: str) -> Iterator[JsonObject]:
    yield {"role": "assistant", "content": "", "refusal": None}
    words = text.split(" ")
    for start in range(0, len(words), _WORDS_PER_CHUNK):
        lead = " " if start else ""
        yield {"content": lead + " ".join(words[start : start + _WORDS_PER_CHUNK])}


def _chunks(body: JsonObject, text: str) -> Iterator[JsonObject]:
    head = _head(body, "chat.completion.chunk")
    wants_usage = bool((body.get("stream_options") or {}).get("include_usage"))
    rest = {"usage": None} if wants_usage else {}
    for delta in _deltas(text):
        yield {**head, "choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}], **rest}
    yield {**head, "choices": [{"index": 0, "delta": {}, "logprobs": None, "finish_reason": "stop"}], **rest}
    if wants_usage:
        yield {**head, "choices": [], "usage": _usage(body, text)}


def _events(chunks: Iterable[JsonObject]) -> Iterator[bytes]:
    for chunk in chunks:
        yield b"data: " + json.dumps(chunk, ensure_ascii=False, separators=(",", ":")).encode() + b"\n\n"
    yield b"data: [DONE]\n\n"


async def _send_stream(request: web.Request, body: JsonObject, text: str) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream; charset=utf-8"})
    await response.prepare(request)
    for event in _events(_chunks(body, text)):
        await response.write(event)
    await response.write_eof()
    return response


def _error(status: int, message: str, code: str | None) -> web.Response:
    body = {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}
    return web.json_response(body, status=status)
