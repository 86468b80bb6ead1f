"""Fuzz the splicer: ``python -m tests.fuzz splice --seconds 60``."""

import json
from typing import Any

from memproxy.errors import RequestError
from memproxy.wire import chat, responses
from memproxy.wire.own_fields import OURS
from memproxy.wire.request_body import Position, RequestBody
from memproxy.wire.splice import Unreadable
from tests.fuzz.choices import Choices
from tests.fuzz.reading import NoJson, Pairs, document, whole
from tests.wire.making import rebuilt

BLOCK = '<recalled-memory id="0">\n- "\u00e9" \U0001f600\n</recalled-memory>'
QUOTED = json.dumps(BLOCK).encode()
MESSAGE = b'{"role":"system","content":' + QUOTED + b"}"
POSITIONS: tuple[Position, ...] = ("before_last_user", "after_system", "system")
SAID = ("system", Pairs([("role", "system"), ("content", BLOCK)]))

SEEDS = (
    b"\0" + bytes(range(100)),
    b"\0" + bytes(range(200, 0, -1)),
    b'{"model":"m","messages":[{"role":"user","content":"Hi"}]}',
    (
        b' { "messages" : [ {"role":"system","content":"a\\u00e9\\ud83d"} , {"content":[{"type":"text","text":"x"}],'
        b'"role":"user"} ] , "temperature":1.0,"memory_context" : {"user_id":"u"} } '
    ),
    b'{"memory_config":{"max_tokens":5},"messages":[{"role":"user","content":null,"tool_calls":[]},1,"x",[]],"n":1e999}',
    b'{"input":"Hi","model":"m","instructions":null}',
    (
        b'{"input":[{"role":"user","content":[{"type":"input_text","text":"Hi"}]},{"type":"function_call_output",'
        b'"call_id":"c","output":"4"}],"instructions":"","store":false,"previous_response_id":"r"}'
    ),
    b'{"messages":[{"role":"user","content":"a","content":"b"}],"x":{"a":1,"a":2}}',
)
WORDS = (
    b'"messages"', b'"input"', b'"role"', b'"content"', b'"user"', b'"system"', b'"developer"', b'"text"', b'"type"',
    b'"memory_context"', b'"memory_config"', b'"instructions"', b'"store"', b'"conversation"', b"null", b"true", b"1.0",
    b"1e-6", b"\\u0061", b"\\ud83d", b"\\ude00", b'\\"', b"\xc3\xa9", b"\xef\xbb\xbf", b"[", b"]", b"{", b"}", b",",
    b":", b'"metadata"', b'"user_id"', b'"tools"', b'"assistant"', b'"tool_calls"', b'"input_text"', b"NaN", b"-0",
)  # fmt: skip


def check(data: bytes) -> None:
    """The bytes as a body, or as choices that write one (after a zero byte, which no JSON begins with).

    Raises:
        AssertionError: something is spliced, read or refused wrongly.
    """
    check_body(Choices(data[1:]).request().encode() if data.startswith(b"\0") else data)


def check_body(data: bytes) -> None:
    """Whatever is spliced is the client's document and our block, and every byte of the client's is there.

    Raises:
        AssertionError: something is spliced, read or refused wrongly.
    """
    for module in (chat, responses):
        try:
            request: RequestBody = module.read_request(data)
        except Unreadable as refused:
            _check_refused(data, refused.reason)
            continue
        except RequestError:
            assert any(name.encode() in data or b"\\u" in data for name in OURS)
            continue
        _check_read(request, data)


def _check_refused(data: bytes, reason: str) -> None:
    """What any JSON reader takes as an object without duplicates must not be refused."""
    try:
        read = document(data)
    except (ValueError, RecursionError, NoJson):
        return
    assert reason == "too_deep" or not isinstance(read, Pairs) or _has_duplicates(read), (reason, data)


def _has_duplicates(value: Any) -> bool:
    if isinstance(value, Pairs):
        names = [whole(name) for name in value.names]
        return len(set(names)) < len(names) or any(_has_duplicates(inner) for _, inner in value)
    return isinstance(value, list) and any(map(_has_duplicates, value))


def _check_read(request: RequestBody, data: bytes) -> None:
    read = document(data)
    assert isinstance(read, Pairs)
    names = [whole(name) for name in read.names]
    assert len(set(names)) == len(names)
    _check_messages(request, read)
    plain = request.rebuild()
    wanted = Pairs(pair for pair in read if pair[0] not in OURS)
    assert document(plain) == wanted
    assert request.has_ours or plain is data
    for position in POSITIONS:
        _check_spliced(rebuilt(request, BLOCK, position), plain, wanted, request)


def _check_messages(request: RequestBody, read: Pairs) -> None:
    said = read.get("messages" if isinstance(request, chat.ChatRequest) else "input")
    if not isinstance(said, list) or isinstance(said, Pairs):
        return
    assert len(request.messages) == len(said)
    for message, one in zip(request.messages, said, strict=True):
        assert document(request.body[message.start : message.end]) == one
        if isinstance(one, Pairs) and isinstance(request, chat.ChatRequest):
            assert one.names.count("content") < 2
            content, role = one.get("content"), one.get("role")
            assert not isinstance(content, str) or message.text == whole(content)
            assert not isinstance(role, str) or message.role == whole(role)


def _check_spliced(spliced: bytes, plain: bytes, wanted: Pairs, request: RequestBody) -> None:
    if not request.messages:
        assert spliced == plain
        return
    after = document(spliced)
    assert spliced != plain
    assert any(document(undone) == wanted for undone in _undone(spliced, plain)), (plain, spliced)
    assert isinstance(after, Pairs)


def _undone(spliced: bytes, plain: bytes) -> list[bytes]:
    """The client's bytes, found by taking the block out again; empty when any other byte differs."""
    inner = QUOTED[1:-1]
    puts = (
        MESSAGE + b",", b"," + MESSAGE, MESSAGE, b'"instructions":' + QUOTED + b",", rb"\n\n" + inner, inner,
        b',{"type":"text","text":' + QUOTED + b"}", b'{"type":"text","text":' + QUOTED + b"}",
    )  # fmt: skip
    found = [spliced.replace(put, b"", 1) for put in puts]
    found += [spliced.replace(QUOTED, b"null", 1)]
    before, put, after = spliced.partition(b"[" + MESSAGE + b',{"role":"user","content":')
    if put and plain.startswith(before):
        text = len(plain) - len(before)
        found += [before + after.replace(b"}]", b"", 1)] if len(after) == text + 2 else []
        found += [before + after[:end] + after[end + 2 :] for end in range(len(after)) if after[end : end + 2] == b"}]"]
    return [undone for undone in found if undone == plain]
