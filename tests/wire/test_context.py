"""Another context than the client's: messages put before its own, messages left out, every other byte its own."""

import json
from collections.abc import Callable

import pytest

from memproxy.wire import chat, responses
from memproxy.wire.request_body import Context, Position, RequestBody

SAID = [("user", 'I said "hi"'), ("assistant", "Hello \U0001f600")]
REPLAYED = [{"role": "user", "content": 'I said "hi"'}, {"role": "assistant", "content": "Hello \U0001f600"}]


def body(field: str, value: object) -> bytes:
    return b'{ "model" : "m","x":1.0,"' + field.encode() + b'" : ' + json.dumps(value).encode() + b', "n":1e-6}'


FORMATS = [("messages", chat.read_request), ("input", responses.read_request)]
Read = Callable[[bytes], RequestBody]


@pytest.mark.parametrize(("field", "read"), FORMATS)
def test_what_was_said_before_stands_between_instructions_and_the_last_message(field: str, read: Read) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "And now?"}]
    sent = body(field, messages)
    got = read(sent).rebuild({}, context=Context(replayed=SAID))
    assert json.loads(got)[field] == [messages[0], *REPLAYED, messages[1]]
    added = got.index(b'{"role":"user","content":"I said')
    assert got[:added] == sent[:added], "what stands before it is the client's own bytes"
    assert got.endswith(sent[added:]), "and so is what stands behind it"


@pytest.mark.parametrize("position", ["before_last_user", "after_system", "system"])
@pytest.mark.parametrize(("field", "read"), FORMATS)
def test_the_block_stands_behind_what_was_said_and_the_notes_behind_the_block(
    field: str, read: Read, position: Position
) -> None:
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "And now?"}]
    request = read(body(field, messages)[:-1] + b', "store": false}')
    got = json.loads(request.rebuild({1: "BLOCK"}, position, Context(replayed=SAID, notes="NOTES")))
    text = json.dumps(got)
    assert text.index("BLOCK") < text.index("NOTES")
    kept = [one for one in got[field] if one in REPLAYED]
    assert kept == REPLAYED
    if position == "before_last_user" and field == "messages":
        assert [one["content"] for one in got[field]][-3:] == ["BLOCK", "NOTES", "And now?"]


def test_a_text_as_input_becomes_a_list_with_what_was_said_before() -> None:
    got = json.loads(responses.read_request(body("input", "And now?")).rebuild({}, context=Context(replayed=SAID)))
    assert got["input"] == [*REPLAYED, {"role": "user", "content": "And now?"}]
    with_block = json.loads(
        responses.read_request(body("input", "And now?")).rebuild({0: "BLOCK"}, context=Context(replayed=SAID))
    )
    assert with_block["instructions"] == "BLOCK"
    assert with_block["input"] == got["input"]


@pytest.mark.parametrize(("field", "read"), FORMATS)
def test_what_is_left_out_is_gone_with_its_block_and_the_rest_are_the_clients_bytes(field: str, read: Read) -> None:
    messages = [
        {"role": "system", "content": "one"},
        {"role": "user", "content": "two"},
        {"role": "assistant", "content": "three"},
        {"role": "developer", "content": "four"},
        {"role": "user", "content": "five"},
        {"role": "assistant", "content": "six"},
        {"content": "seven", "role": "user", "odd": 1.50},
    ]
    sent = body(field, messages)
    request = read(sent)
    got = request.rebuild({1: "gone", 4: "old block", 6: "new block"}, context=Context(left_out=[1, 2], state="STATE"))
    after = [one["content"] for one in json.loads(got)[field]]
    assert after == ["one", "STATE", "four", "old block", "five", "six", "new block", "seven"]
    kept = request.messages[6]
    assert got.endswith(sent[kept.start :])


@pytest.mark.parametrize("position", ["before_last_user", "after_system", "system"])
@pytest.mark.parametrize(("field", "read"), FORMATS)
def test_the_state_is_there_wherever_blocks_go(field: str, read: Read, position: Position) -> None:
    messages = [{"role": "user", "content": "two"}, {"role": "assistant", "content": "three"}]
    messages += [{"role": "user", "content": "five"}]
    got = read(body(field, messages)).rebuild({}, position, Context(left_out=[0, 1], state="STATE"))
    assert json.loads(got)[field][-1] == messages[-1]
    assert b"STATE" in got
    assert b'"two"' not in got


def test_what_is_present_is_what_is_left() -> None:
    messages = [{"role": "user", "content": "I live in Graz."}, {"role": "assistant", "content": "Nice."}]
    messages += [{"role": "user", "content": "Where do I live?"}]
    request = chat.read_request(body("messages", messages))
    assert set(request.present_without({0, 1})) < set(request.present)
    assert request.digests[0] not in request.present_without({0, 1})
    assert request.digests[2] in request.present_without({0, 1})
