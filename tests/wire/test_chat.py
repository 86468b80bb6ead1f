import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.turn import text_digest
from memproxy.errors import RequestError
from memproxy.wire.chat import read_request
from memproxy.wire.own_fields import may_hold_ours
from memproxy.wire.request_body import Position
from memproxy.wire.splice import Unreadable
from tests.wire.making import BLOCK, conversation, rebuilt, request_of
from tests.wire.strategies import chat_bodies, exactly

POSITIONS: list[Position] = ["auto", "before_last_user", "after_system", "system", "within_user"]
INSTRUCTIONS = ("system", "developer")


def without_ours(document: Any) -> list[Any]:
    return [pair for pair in document if pair[0] not in {"memory_context", "memory_config"}]


@given(chat_bodies(ours=False))
def test_a_request_that_nothing_is_done_to_is_the_very_same_object(body: bytes) -> None:
    assert read_request(body).rebuild() is body


@given(chat_bodies(ours=True))
def test_our_fields_are_stripped_and_nothing_else(body: bytes) -> None:
    request = read_request(body)
    after = request.rebuild()
    assert request.has_ours
    assert exactly(after) == without_ours(exactly(body))
    assert not read_request(after).has_ours


@given(chat_bodies(ours=False), st.sampled_from(POSITIONS), st.text(min_size=1, max_size=20))
def test_an_injected_request_differs_by_one_inserted_span(body: bytes, position: Position, block: str) -> None:
    request = read_request(body)
    after = rebuilt(request, block, position)
    if not request.messages:
        assert after is body
        return
    added = len(after) - len(body)
    same = next((index for index in range(len(body)) if after[index] != body[index]), len(body))
    starts = range(max(0, same - added), same + 1)
    assert any(after[:start] + after[start + added :] == body for start in starts)
    assert json.dumps(block, ensure_ascii=False)[1:-1] in json.dumps(json.loads(after), ensure_ascii=False)


@given(chat_bodies(), st.sampled_from(["auto", "before_last_user"]))
def test_the_block_stands_right_before_the_last_user_message(body: bytes, position: Position) -> None:
    before = json.loads(body)["messages"]
    users = [index for index, message in enumerate(before) if message["role"] == "user"]
    after = rebuilt(read_request(body), BLOCK, position)
    if users:
        expected = [*before[: users[-1]], {"role": "system", "content": BLOCK}, *before[users[-1] :]]
        assert json.loads(after)["messages"] == expected


@given(chat_bodies())
def test_the_block_stands_after_the_leading_instructions(body: bytes) -> None:
    before = json.loads(body)["messages"]
    lead = next((index for index, message in enumerate(before) if message["role"] not in INSTRUCTIONS), len(before))
    after = json.loads(rebuilt(read_request(body), BLOCK, "after_system"))["messages"]
    assert after == ([*before[:lead], {"role": "system", "content": BLOCK}, *before[lead:]] if before else [])


@given(chat_bodies())
def test_the_block_is_merged_into_a_system_message_at_the_beginning(body: bytes) -> None:
    before = json.loads(body)["messages"]
    after = json.loads(rebuilt(read_request(body), BLOCK, "system"))["messages"]
    first = before[0] if before else {}
    content = first.get("content")
    if not before:
        expected = []
    elif first["role"] in INSTRUCTIONS and isinstance(content, str):
        expected = [{**first, "content": f"{content}\n\n{BLOCK}" if content else BLOCK}, *before[1:]]
    elif first["role"] in INSTRUCTIONS and isinstance(content, list):
        expected = [{**first, "content": [*content, {"type": "text", "text": BLOCK}]}, *before[1:]]
    else:
        expected = [{"role": "system", "content": BLOCK}, *before]
    assert after == expected


@given(chat_bodies())
def test_the_block_is_the_first_paragraph_of_the_users_last_message(body: bytes) -> None:
    request = read_request(body)
    if request.last_user_index is None:
        return
    expected = json.loads(body)["messages"]
    content = expected[request.last_user_index].get("content")
    if isinstance(content, str):
        expected[request.last_user_index]["content"] = f"{BLOCK}\n\n{content}" if content else BLOCK
    elif isinstance(content, list):
        expected[request.last_user_index]["content"] = [{"type": "text", "text": BLOCK}, *content]
    else:
        expected.insert(request.last_user_index, {"role": "system", "content": BLOCK})
    assert json.loads(rebuilt(request, BLOCK, "within_user"))["messages"] == expected


@given(chat_bodies())
def test_messages_are_read_as_a_full_decoder_reads_them(body: bytes) -> None:
    expected = json.loads(body)["messages"]
    request = read_request(body)
    assert [message.role for message in request.messages] == [message["role"] for message in expected]
    assert [message.text for message in request.messages] == [
        plain_text(message.get("content")) for message in expected
    ]
    assert [message.has_tool_calls for message in request.messages] == [bool(m.get("tool_calls")) for m in expected]
    for message, whole in zip(request.messages, expected, strict=True):
        assert json.loads(body[message.start : message.end]) == whole
    assert request.digests == [text_digest(message.text) for message in request.messages]


def plain_text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


@given(
    st.binary(max_size=200)
    | chat_bodies().flatmap(
        lambda body: st.builds(
            lambda at, extra: body[:at] + extra + body[at:], st.integers(0, len(body)), st.binary(max_size=3)
        )
    )
)
def test_no_body_makes_reading_crash(body: bytes) -> None:
    try:
        request = read_request(body)
    except (Unreadable, RequestError):
        return
    assert request.has_ours or request.rebuild() is body
    json.loads(rebuilt(request, BLOCK))


def test_the_fields_that_matter_are_read() -> None:
    request = request_of(
        model="gpt-4o",
        stream=True,
        n=2,
        user="u1",
        safety_identifier="s1",
        metadata={"user_id": "m1", "other": 1},
        memory_context={"user_id": "a", "session_id": "b", "project_id": "c", "agent_id": "d", "unknown": 1},
        memory_config={
            "enabled": True,
            "auto_store": False,
            "memory_types": ["semantic"],
            "retrieval_limit": 5,
            "similarity_threshold": 0.7,
            "max_tokens": 100,
        },
        tools=[{"type": "function", "function": {"name": "look"}}, {"type": "custom", "custom": {"name": "draw"}}],
        functions=[{"name": "older"}],
        messages=[{"role": "user", "content": "hi", "name": "Ann"}],
    )
    assert (request.model, request.stream) == ("gpt-4o", True)
    assert (request.user, request.safety_identifier, request.metadata_user_id) == ("u1", "s1", "m1")
    context, config = request.context, request.config
    assert (context.user_id, context.session_id, context.project_id, context.agent_id) == ("a", "b", "c", "d")
    assert (config.enabled, config.auto_store, config.memory_types) == (True, False, ["semantic"])
    assert (config.retrieval_limit, config.similarity_threshold, config.max_tokens) == (5, 0.7, 100)
    assert [name for name, _ in request.offered_tools] == ["look", "draw", "older"]
    assert request.has_tools
    assert request.messages[0].name == "Ann"


def test_what_is_not_there_reads_as_nothing() -> None:
    request = read_request(b"{}")
    assert (request.model, request.stream, request.messages) == (None, False, [])
    assert (request.user, request.safety_identifier, request.metadata_user_id) == (None, None, None)
    assert (request.has_ours, request.has_tools, request.tool_choice_forced) == (False, False, False)
    assert (request.user_texts, request.last_user_index, request.is_tool_followup) == ([], None, False)
    assert (request.digests, request.new_messages, request.offered_tools) == ([], [], [])
    assert rebuilt(request, BLOCK) == b"{}"


@pytest.mark.parametrize("messages", [b"null", b'"text"', b"{}", b"[]", b"7"])
def test_a_request_without_messages_goes_on_untouched(messages: bytes) -> None:
    body = b'{"messages":' + messages + b"}"
    assert rebuilt(read_request(body), BLOCK) is body


@pytest.mark.parametrize(
    "members",
    [
        {"user": "", "metadata": "x", "n": "3", "stream": "yes", "model": 1, "tools": {}, "safety_identifier": None},
        {"user": None, "metadata": {"user_id": ""}, "n": -1, "stream": None, "model": None, "tools": [1, None, {}]},
        {
            "messages": [
                1,
                None,
                "text",
                [],
                {},
                {"role": 5, "content": 7},
                {"role": "user", "content": [1, "a", {"type": 5}]},
            ]
        },
    ],
)
def test_odd_shapes_are_the_upstreams_to_judge(members: dict[str, Any]) -> None:
    request = request_of(**members)
    assert (request.model, request.stream, request.user, request.metadata_user_id) == (None, False, None, None)
    assert request.rebuild() is request.body
    assert request.offered_tools == []


def test_numbers_beyond_any_machine_type_are_the_upstreams_to_judge() -> None:
    huge = b"1" + b"0" * 5000
    body = b'{"n":1e999,"seed":' + huge + b',"messages":[{"role":"user","content":"hi","x":' + huge + b"}]}"
    request = read_request(body)
    assert request.user_texts == ["hi"]
    assert request.rebuild() is body


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"memory_context": "u"}, "memory_context"),
        ({"memory_context": {"user_id": 5}}, "memory_context.user_id"),
        ({"memory_context": {"session_id": []}}, "memory_context.session_id"),
        ({"memory_config": []}, "memory_config"),
        ({"memory_config": {"enabled": "yes"}}, "memory_config.enabled"),
        ({"memory_config": {"auto_store": 1}}, "memory_config.auto_store"),
        ({"memory_config": {"memory_types": "semantic"}}, "memory_config.memory_types"),
        ({"memory_config": {"memory_types": ["facts"]}}, "memory_config.memory_types"),
        ({"memory_config": {"retrieval_limit": 0}}, "memory_config.retrieval_limit"),
        ({"memory_config": {"retrieval_limit": 201}}, "memory_config.retrieval_limit"),
        ({"memory_config": {"retrieval_limit": True}}, "memory_config.retrieval_limit"),
        ({"memory_config": {"retrieval_limit": 1.5}}, "memory_config.retrieval_limit"),
        ({"memory_config": {"similarity_threshold": 1.1}}, "memory_config.similarity_threshold"),
        ({"memory_config": {"similarity_threshold": "0.5"}}, "memory_config.similarity_threshold"),
        ({"memory_config": {"max_tokens": -1}}, "memory_config.max_tokens"),
    ],
)
def test_a_wrong_field_of_ours_is_named(members: dict[str, Any], param: str) -> None:
    with pytest.raises(RequestError) as refused:
        request_of(messages=[], **members)
    assert refused.value.param == param
    assert param in refused.value.message
    assert refused.value.status == 400


def test_empty_fields_of_ours_say_nothing_but_are_stripped() -> None:
    request = request_of(model="m", memory_context=None, memory_config={"enabled": None}, messages=[])
    assert request.has_ours
    assert request.context.user_id is None
    assert request.config.enabled is None
    assert request_of(memory_context={"session_id": ""}).context.session_id is None
    assert request_of(memory_context={"user_id": ""}).context.user_id == "", "a name was meant"
    assert json.loads(request.rebuild()) == {"model": "m", "messages": []}


def test_a_name_that_the_config_does_not_know_is_named_beside_those_it_knows() -> None:
    unknown = {f"x{number}": None for number in range(9)}
    config = request_of(memory_config={"retrieval_limt": 5, "max_tokens": 7, **unknown}).config
    assert config.max_tokens == 7
    with pytest.raises(RequestError) as refused:
        config.check_names()
    assert refused.value.param == "memory_config.retrieval_limt"
    assert "`retrieval_limt`, `x0`, `x1`, `x2`, `x3` and 5 more" in refused.value.message
    assert "takes enabled, auto_store, memory_types, retrieval_limit, similarity_thr" in refused.value.message
    request_of(memory_config={"enabled": True, "max_tokens": None}).config.check_names()


def test_a_whole_float_is_a_whole_number() -> None:
    assert read_request(b'{"memory_config":{"retrieval_limit":5.0}}').config.retrieval_limit == 5


@pytest.mark.parametrize(
    "body",
    [
        b'{"messages":[],"messages":[]}',
        b'{"messages":[{"role":"user","content":"a","content":"b"}]}',
        b'{"messages":[{"role":"user","role":"system","content":"a"}]}',
        b'{"messages":[{"role":"user","content":"a","conten\\u0074":"b"}]}',
        b'{"messages":[{"role":"user","role":"system"},{"r\\u006fle":"user"}]}',
        b'{"messages":[{"role":"user","content":"' + b"x" * 9000 + b'","content":"b"}]}',
        b'{"memory_context":{"user_id":"a","user_id":"b"}}',
        b'{"memory_config":{"enabled":true,"enabled":false}}',
        b'{"metadata":{"user_id":"a","user_id":"b"}}',
        b'{"messages":[{"role":"user"}],"memory_context":{},"memory_context":{}}',
    ],
)
def test_duplicate_keys_on_our_path_are_unreadable(body: bytes) -> None:
    with pytest.raises(Unreadable) as refused:
        read_request(body)
    assert refused.value.reason == "duplicate_keys"


SAID = st.tuples(st.sampled_from(["user", "assistant", "sämling"]), st.text(alphabet='ab"\\/\n\té😀', max_size=12))
WRITTEN = st.sampled_from(
    [
        {"separators": (",", ":"), "ensure_ascii": False},
        {"separators": (",", ":"), "ensure_ascii": True},
        {"separators": (", ", ": "), "ensure_ascii": False},
    ]
)


@given(st.lists(SAID, min_size=1, max_size=4), WRITTEN, st.data())
def test_messages_are_located_however_they_are_written_and_none_may_say_something_twice(
    said: list[tuple[str, str]], written: dict[str, Any], data: st.DataObject
) -> None:
    messages = [{"role": role, "content": content} for role, content in said]
    texts = [json.dumps(message, **written) for message in messages]
    comma = written["separators"][0]
    body = f'{{"messages":[{comma.join(texts)}]}}'.encode()
    request = read_request(body)
    assert [json.loads(body[one.start : one.end]) for one in request.messages] == messages
    place = data.draw(st.integers(0, len(texts) - 1))
    first = data.draw(st.sampled_from(['"role":"user"', '"content":"other"', '"content":""', '"content":null']))
    texts[place] = "{" + first + comma + texts[place][1:]
    with pytest.raises(Unreadable):
        read_request(f'{{"messages":[{comma.join(texts)}]}}'.encode())


MORE = st.sampled_from(
    [
        '"content":null,"tool_calls":[{"function":{"name":"f","arguments":"{\\"content\\":1}"}}]',
        '"tool_call_id":"1","content":"é\\n"',
        '"content":[{"type":"text","text":"a"},{"content":{"role":1}}]',
        '"\\u006eame":"x","content":"a"',
        '"é":1,"content":"a"',
        '"name":"x"',
    ]
)


@given(st.lists(MORE, min_size=1, max_size=4), st.sampled_from([",", ", "]), st.data())
def test_messages_with_more_than_a_text_are_located_and_none_may_say_something_twice(
    more: list[str], comma: str, data: st.DataObject
) -> None:
    texts = [f'{{"role":"user",{members}}}' for members in more]
    body = f'{{"messages":[{comma.join(texts)}]}}'.encode()
    assert [body[one.start : one.end].decode() for one in read_request(body).messages] == texts
    place = data.draw(st.integers(0, len(texts) - 1))
    texts[place] = texts[place][:-1] + data.draw(st.sampled_from([',"role":""}', ',"r\\u006fle":"user"}']))
    with pytest.raises(Unreadable):
        read_request(f'{{"messages":[{comma.join(texts)}]}}'.encode())


def test_what_a_tool_is_called_with_is_kept_unread() -> None:
    call = b'[{"id":"1","function":{"name":"f","arguments":"{\\"content\\":1}"}}]'
    request = read_request(b'{"messages":[{"role":"assistant","content":null,"tool_calls":' + call + b"}]}")
    assert bytes(request.messages[0].tool_calls) == call
    assert (request.messages[0].text, request.messages[0].has_tool_calls) == ("", True)


def test_keys_that_only_look_double_are_read() -> None:
    parts = [{"type": "text", "text": 'a "content" \\u0041 "role": "x"', "content": {"role": 1, "content": 2}}]
    request = conversation({"role": "user", "content": parts, "extra": {"role": 1}}, ("assistant", '"content" "role"'))
    assert [message.role for message in request.messages] == ["user", "assistant"]


@pytest.mark.parametrize("key", ["tools", "metadata", "anything"])
def test_deep_nesting_is_unreadable_and_no_crash(key: str) -> None:
    for depth in (*range(100, 1200, 10), 100_000):
        body = b'{"messages":[{"role":"user","content":"a"}],"%s":' % key.encode() + b"[" * depth + b"]" * depth + b"}"
        try:
            request = read_request(body)
        except Unreadable:
            continue
        assert request.rebuild() is body
        assert request.offered_tools == []


def test_half_surrogates_are_read_with_a_replacement_and_sent_on_as_they_came() -> None:
    own = rb',"memory_context":{"user_id":"\ud83d\ude00"}'
    body = rb'{"messages":[{"role":"user","content":"cut \ud83d off"}],"x":"\ude00"' + own + b"}"
    request = read_request(body)
    assert request.user_texts == ["cut \ufffd off"]
    assert request.context.user_id == "😀"
    assert request.rebuild() == rb'{"messages":[{"role":"user","content":"cut \ud83d off"}],"x":"\ude00"}'
    assert rb'{"role":"user","content":"cut \ud83d off"}' in rebuilt(request, BLOCK)


def test_a_half_surrogate_in_a_block_is_replaced() -> None:
    after = rebuilt(conversation(("user", "hi")), "cut \ud83d")
    assert json.loads(after)["messages"][0]["content"] == "cut ?"


def test_unreadable_things_are_unreadable() -> None:
    cut, wide = b'{"a":"\\ud800', '{"a":1}'.encode("utf-16")
    for body in (b"", b"hello", b"\xef\xbb\xbf{}", wide, b'{"a":"\xff"}', b"[1]", cut):
        with pytest.raises(Unreadable):
            read_request(body)


@pytest.mark.parametrize(
    ("choice", "forced"),
    [
        ("auto", False),
        ("none", False),
        ("required", True),
        ("any", True),
        ({"type": "function", "function": {"name": "x"}}, True),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": []}}, False),
        ({"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": []}}, True),
        (None, False),
    ],
)
def test_a_forced_tool_choice_is_seen(choice: Any, forced: bool) -> None:
    assert request_of(tool_choice=choice).tool_choice_forced is forced


def test_a_system_message_that_cannot_be_changed_gets_the_block_before_it() -> None:
    request = read_request(b'{"messages":[{"role":"system","content":"s","name":"a","name":"b"}]}')
    after = json.loads(rebuilt(request, BLOCK, "system"))["messages"]
    assert after == [{"role": "system", "content": BLOCK}, {"role": "system", "content": "s", "name": "b"}]


@pytest.mark.parametrize(
    ("tools", "filled"), [("[]", False), ("[ \n ]", False), ("null", False), ('[{"type":"x"}]', True)]
)
def test_tools_are_there_when_there_are_some(tools: str, filled: bool) -> None:
    assert read_request(f'{{"tools":{tools}}}'.encode()).has_tools is filled


def test_a_big_body_is_read() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64," + "A" * 7_000_000}}
    request = conversation(("user", [{"type": "text", "text": "what is it?"}, image]))
    assert request.user_texts == ["what is it?"]
    assert len(rebuilt(request, BLOCK)) > 7_000_000


@given(chat_bodies(ours=True))
def test_a_body_with_our_fields_is_known_by_its_bytes(body: bytes) -> None:
    assert may_hold_ours(body)


@pytest.mark.parametrize(
    "name",
    ["memory_context", r"\u006demory_context", r"memory\u005fconfig", r"memor\u0079_config", r"memory_c\u006fnfig"],
)
def test_our_fields_are_known_however_they_are_written(name: str) -> None:
    body = f'{{"{name}":{{}},"messages":[]}}'.encode()
    assert may_hold_ours(body)
    assert read_request(body).has_ours


def test_a_body_without_our_fields_needs_no_reading() -> None:
    assert not may_hold_ours(b'{"messages":[{"role":"user","content":"caf\\u00e9, remember me"}]}')
