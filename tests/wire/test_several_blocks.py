"""Several blocks in one request, each at its own message."""

import json

from hypothesis import given
from hypothesis import strategies as st

from memproxy.wire.chat import read_request
from tests.wire.strategies import chat_bodies

INSTRUCTIONS = ("system", "developer")


@st.composite
def bodies_with_blocks(draw: st.DrawFn) -> tuple[bytes, dict[int, str]]:
    body = draw(chat_bodies())
    indexes = st.sampled_from(range(len(json.loads(body)["messages"]) or 1))
    blocks = draw(st.dictionaries(indexes, st.text(min_size=1, max_size=20), max_size=4))
    return body, blocks if json.loads(body)["messages"] else {}


@given(bodies_with_blocks())
def test_each_of_several_blocks_stands_right_before_its_message(given: tuple[bytes, dict[int, str]]) -> None:
    body, blocks = given
    expected = []
    for index, message in enumerate(json.loads(body)["messages"]):
        if index in blocks:
            expected.append({"role": "system", "content": decodable(blocks[index])})
        expected.append(message)
    assert json.loads(read_request(body).rebuild(blocks))["messages"] == expected


@given(bodies_with_blocks())
def test_several_blocks_stand_together_after_the_leading_instructions(given: tuple[bytes, dict[int, str]]) -> None:
    body, blocks = given
    before = json.loads(body)["messages"]
    lead = next((index for index, message in enumerate(before) if message["role"] not in INSTRUCTIONS), len(before))
    added = [{"role": "system", "content": decodable(blocks[index])} for index in sorted(blocks)]
    after = json.loads(read_request(body).rebuild(blocks, "after_system"))["messages"]
    assert after == [*before[:lead], *added, *before[lead:]]


@given(bodies_with_blocks())
def test_several_blocks_are_one_when_merged_into_the_system_message(given: tuple[bytes, dict[int, str]]) -> None:
    body, blocks = given
    joined = "\n\n".join(blocks[index] for index in sorted(blocks))
    request = read_request(body)
    assert request.rebuild(blocks, "system") == request.rebuild({0: joined}, "system")


@given(bodies_with_blocks())
def test_what_follows_the_last_common_block_changes_nothing_before_it(given: tuple[bytes, dict[int, str]]) -> None:
    body, blocks = given
    request = read_request(body)
    if not blocks or request.has_ours:
        return
    last = max(blocks)
    fewer = request.rebuild({index: block for index, block in blocks.items() if index != last})
    grown = sum(
        len(json.dumps({"role": "system", "content": decodable(blocks[index])}, separators=(",", ":"))) + 1
        for index in blocks
        if index != last
    )
    untouched = request.messages[last].start + grown
    assert request.rebuild(blocks)[:untouched] == fewer[:untouched]


def decodable(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
