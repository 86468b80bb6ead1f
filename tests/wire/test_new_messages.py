from memproxy.wire.chat import ChatRequest
from tests.wire.making import BLOCK, conversation

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "1", "content": "42 degrees"}


def said(request: ChatRequest) -> list[tuple[str, str]]:
    return [(message.role, message.content) for message in request.new_messages]


def test_only_what_came_after_the_last_answer_is_new() -> None:
    request = conversation(("system", "s"), ("user", "one"), ("assistant", "1"), ("system", "now"), ("user", "two"))
    assert said(request) == [("user", "two")]
    assert not request.is_tool_followup


def test_a_tool_loop_belongs_to_its_users_message() -> None:
    request = conversation(("user", "one"), ("assistant", "1"), ("user", "how warm?"), CALL, RESULT, CALL, RESULT)
    assert said(request) == [("user", "how warm?"), ("tool", "42 degrees"), ("tool", "42 degrees")]
    assert request.is_tool_followup
    assert request.last_user_index == 2


def test_what_the_assistant_said_beside_its_tool_call_is_kept() -> None:
    request = conversation(("user", "how warm?"), {**CALL, "content": "Let me look."}, RESULT)
    assert said(request) == [("user", "how warm?"), ("assistant", "Let me look."), ("tool", "42 degrees")]


def test_the_older_function_call_is_a_tool_call_too() -> None:
    call = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "{}"}}
    request = conversation(("user", "how warm?"), call, {"role": "function", "name": "f", "content": "42"})
    assert said(request) == [("user", "how warm?"), ("function", "42")]
    assert request.is_tool_followup


def test_an_answers_beginning_at_the_end_is_no_answer_yet() -> None:
    request = conversation(("user", "one"), ("assistant", "1"), ("user", "two"), ("assistant", "It is"))
    assert said(request) == [("user", "two")]


def test_messages_without_text_are_not_new() -> None:
    image = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}]}
    assert said(conversation(image, ("user", "  "), ("user", "what is it?"))) == [("user", "what is it?")]


def test_an_injected_block_that_came_back_is_not_new() -> None:
    assert said(conversation(("user", f"{BLOCK}\nhello"))) == [("user", "hello")]
    assert said(conversation(("user", BLOCK))) == []
