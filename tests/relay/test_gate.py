"""The gate on whole requests: their last user message, their tools and what they force."""

import json
from typing import Any

import pytest

from memproxy.core.gate import Verdict
from memproxy.relay.decide import Gate
from memproxy.settings import GateSettings
from memproxy.wire.chat import ChatRequest, read_request

WEATHER = {"type": "function", "function": {"name": "get_stock_price", "description": "The price of a stock", "x": 1}}
SKIPPED = Verdict(searched=False, reason="tool")


def request_of(text: str, **fields: Any) -> ChatRequest:
    return read_request(json.dumps({"messages": [{"role": "user", "content": text}], **fields}).encode())


@pytest.fixture
def gate() -> Gate:
    return Gate(GateSettings())


def test_a_personal_question_beside_tools_is_searched(gate: Gate) -> None:
    assert gate.judge(request_of("What is my budget?", tools=[WEATHER])).searched


def test_a_question_for_an_offered_tool_is_not_searched(gate: Gate) -> None:
    assert gate.judge(request_of("Stock price of Apple please", tools=[WEATHER])) == SKIPPED
    assert gate.judge(request_of("Stock price of Apple please", functions=[WEATHER["function"]])) == SKIPPED
    assert gate.judge(request_of("Stock price of Apple please")).searched


def test_a_vague_question_that_follows_another_is_searched_for(gate: Gate) -> None:
    asked = "what is inflation"
    said = [("user", "what is my new address"), ("assistant", "It is 4 Mill Lane."), ("user", asked)]
    whole = json.dumps({"messages": [{"role": role, "content": text} for role, text in said]}).encode()
    assert gate.judge(read_request(whole)).searched
    assert gate.judge(request_of(asked)) == Verdict(searched=False, reason="fact")


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "get_stock_price"}}])
def test_a_forced_tool_call_is_not_searched_for(gate: Gate, choice: Any) -> None:
    assert gate.judge(request_of("Apple, yesterday", tools=[WEATHER], tool_choice=choice)) == SKIPPED


@pytest.mark.parametrize("choice", ["auto", "none", None])
def test_a_choice_that_forces_nothing_changes_nothing(gate: Gate, choice: Any) -> None:
    assert gate.judge(request_of("Apple, yesterday", tools=[WEATHER], tool_choice=choice)).searched


@pytest.mark.parametrize(
    "tools", [[None, 1, {}, {"function": {"name": 5}}, {"function": {"name": "a", "description": 1}}]]
)
def test_tools_of_unknown_shape_are_no_trouble(gate: Gate, tools: list[Any]) -> None:
    chat = request_of("What is my budget?", tools=tools)
    assert gate.judge(chat).searched
    assert chat.offered_tools == [("a", "")]


def test_a_gate_that_is_off_searches_everything() -> None:
    gate = Gate(GateSettings(enabled=False))
    assert gate.judge(request_of("hi")) == Verdict(searched=True, reason="gate_off")


@pytest.mark.parametrize(
    ("said", "first"),
    [
        (["What is my budget?"], True),
        (["Hello!", "What is my budget?"], True),
        (["Hi", "How are you?", "Thanks", "What is my budget?"], True),
        (["Hi"] * 5, False),
        (["What is my dog called?", "What is my budget?"], False),
    ],
)
def test_a_session_begins_with_its_first_question(gate: Gate, said: list[str], first: bool) -> None:
    messages = [{"role": "user", "content": text} for text in said]
    chat = read_request(json.dumps({"messages": messages}).encode())
    assert gate.is_first_search(chat) is first
    assert Gate(GateSettings(enabled=False)).is_first_search(chat) is (len(said) == 1)
