"""A scripted OpenAI-compatible model server. It is a script, NOT a model.

It speaks the wire format of `/v1/chat/completions` (plain and streamed) and `/v1/models`, and it records what it
received (`GET /demo/requests`), so that a demonstration can show what the proxy put into a prompt. It says what its
prompt holds, and finds facts by a handful of rules. The model's name and ``system_fingerprint`` say to every client
that it is none.
"""

import json
import re
import time
import uuid
from collections import deque
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

from aiohttp import web

from memproxy.core.bounded_regex import SENTENCE, BoundedPattern
from memproxy.learn.extract import EXTRACT_MARK

UNKNOWN = "I don't know that."
NOTED = "Thank you, I have read that."
GREETING = "Hello. I am a script, not a model: I answer only from what my prompt contains."

_WORD = re.compile(r"\$?[a-z0-9]+(?:[-.,][a-z0-9]+)*")
_LINE_HEAD = re.compile(r"^(?:[-*•]\s*|\[[^\]]*\]\s*|\([^)]*\)\s*)+")
_SHORT_ID = re.compile(r"(?:\s?\[m:[0-9a-f]{1,8}\]){1,9}$")
"""The short id at the end of a recalled line; it names the memory and is no part of what it says."""
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_QUESTION = re.compile(r"^(?:what|who|where|when|which|how|why|do|does|is|are|can|could|tell me|remind me)\b", re.I)
_OUTDATED = re.compile(r"superseded|replaced by|no longer", re.I)
_COMMON_TEXT = """
a about again all am an and any are as at be can could did do does for from had has have hello hey hi how i if in into
is it its me my now of ok on or our please so tell thanks that the their there they this to user us was we were what
when where which who whose why will with would you your
"""
_COMMON_WORDS = frozenset(_COMMON_TEXT.split())
_LEAST_SHARE = 0.5
"""Share of the question's words that a line must hold to count as its answer; a guess that suits the demonstration."""


def text_of(message: Mapping[str, Any]) -> str:
    """The text of a chat message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "\n".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def answer(messages: Sequence[Mapping[str, Any]]) -> str:
    """The script's answer to the last user message of ``messages``: the line that shares most words with it, of equal
    ones the last, which was said later.
    """
    last = max((place for place, message in enumerate(messages) if message.get("role") == "user"), default=None)
    question = text_of(messages[last]) if last is not None else ""
    if not (words := _content_words(question)):
        return GREETING
    if not _is_question(question):
        return NOTED
    best, best_share = None, _LEAST_SHARE
    for line in _lines([message for place, message in enumerate(messages) if place != last]):
        held = _content_words(line)
        share = sum(any(_alike(word, other) for other in held) for word in words) / len(words)
        if share >= best_share and not _OUTDATED.search(line):
            best, best_share = line, share
    return f"From what I know: {best}" if best else UNKNOWN


def _lines(messages: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """What the prompt states, oldest first: system and tool text by line, what the user said by sentence."""
    for message in messages:
        if message.get("role") == "assistant":
            continue
        text = text_of(message)
        for line in _sentences(text) if message.get("role") == "user" else text.splitlines():
            statement = _SHORT_ID.sub("", _LINE_HEAD.sub("", line.strip()))
            if statement and not statement.startswith("<") and not _is_question(statement):
                yield statement


def _sentences(text: str) -> list[str]:
    pieces = [sentence.strip() for line in text.splitlines() for sentence in _SENTENCE_END.split(line)]
    return [sentence for sentence in pieces if sentence]


def _is_question(text: str) -> bool:
    return any(sentence.endswith("?") or _QUESTION.match(sentence) for sentence in _sentences(text))


def _content_words(text: str) -> set[str]:
    """The words that carry meaning, in lower case, without a possessive ending."""
    return set(_WORD.findall(text.lower().replace("'s", "").replace("’s", ""))) - _COMMON_WORDS


def _alike(word: str, other: str) -> bool:
    """Equal, or one the other's beginning (name and named, deploy and deployment)."""
    short, long = sorted((word, other), key=len)
    return short == long or (len(short) >= 4 and long.startswith(short))


class Rule(NamedTuple):
    """A statement that is a fact; ``{…}`` in its texts are the pattern's groups."""

    pattern: BoundedPattern
    predicate: str
    content: str
    subject: str = "user"
    kind: str = "semantic"


def _sentence(pattern: str) -> BoundedPattern:
    return BoundedPattern(pattern, re.I, most=SENTENCE)


_PURPOSE = r"(?:the |my |our )?(?P<purpose>[\w' -]+?)"
_AMOUNT = r"(?P<value>\$\s?\d+(?:,\d{3})*(?:\s?[kKmM]\b)?)"
_BUDGET = ("budget for the {purpose}", "The user's budget for the {purpose} is {value}")
RULES = (
    Rule(_sentence(rf"\bbudget of {_AMOUNT} for {_PURPOSE}(?=[.,;!]|$| and )"), *_BUDGET),
    Rule(_sentence(rf"\bbudget for {_PURPOSE} is(?: now)? {_AMOUNT}"), *_BUDGET),
    Rule(_sentence(rf"\b(?:my|our|the) (?P<purpose>[\w' -]+?) budget is(?: now)? {_AMOUNT}"), *_BUDGET),
    Rule(
        _sentence(
            r"\b(?P<animal>dog|cat|parrot|horse|rabbit)(?: is|'s name is)? (?:named |called )?(?P<value>(?-i:[A-Z])\w+)"
        ),
        "has {animal}",
        "The user has a {animal} named {value}",
    ),
    Rule(
        _sentence(r"\bI (?:live in|moved to) (?P<value>(?-i:[A-Z])[\w' -]*)"), "lives in", "The user lives in {value}"
    ),
    Rule(
        BoundedPattern(r"\bto deploy (?P<subject>[\w`.-]+): (?P<value>.+)", re.I | re.S, most=20 * SENTENCE),
        "deploy steps",
        "To deploy {subject}: {value}",
        "{subject}",
        "procedural",
    ),
)
"""Of the rules for one predicate the first that fits a sentence counts."""


def extract(prompt: str) -> list[dict[str, Any]]:
    """The facts that the rules find in the user's messages in an extraction prompt, oldest first."""
    return [fact for message in quoted_messages(prompt) for fact in _facts(message["text"])]


def quoted_messages(prompt: str) -> list[dict[str, Any]]:
    """The user's new messages in an extraction prompt: lines of JSON with ``role``, ``new`` and ``text``."""
    quoted = []
    for line in prompt.splitlines():
        if line.startswith("{"):
            message = json.loads(line)
            if message.get("role") == "user" and message.get("new"):
                quoted.append(message)
    return quoted


def _facts(text: str) -> Iterator[dict[str, Any]]:
    for sentence in _sentences(text):
        predicates: set[str] = set()
        for rule in RULES if not _is_question(sentence) else ():
            if (match := rule.pattern.search(sentence)) is None:
                continue
            named = {name: value.strip(" .!`") for name, value in match.groupdict().items()}
            predicate = rule.predicate.format(**named)
            if predicate not in predicates:
                predicates.add(predicate)
                yield {
                    "kind": rule.kind,
                    "content": rule.content.format(**named),
                    "subject": rule.subject.format(**named),
                    "predicate": predicate,
                    "object": named["value"],
                    "confidence": 0.9,
                    "importance": 0.6,
                    "evidence": sentence[:200],
                }


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
        model = {"id": MODEL, "object": "model", "created": 0, "owned_by": "memproxy-demo"}
        return web.json_response({"object": "list", "data": [model]})

    async def recorded(self, _request: web.Request) -> web.Response:
        """What was received, oldest first; ``extraction`` tells learning's requests from conversations."""
        return web.json_response({"requests": list(self.requests)})


@asynccontextmanager
async def serving(model: ScriptedModel) -> AsyncIterator[str]:
    """Serve ``model`` in this event loop, on a free port; yields its base URL (ending in ``/v1``)."""
    runner = web.AppRunner(model.app(), shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        yield f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
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
