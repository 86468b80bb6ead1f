"""What a request says already, blocks that a client sent back included."""

import json

import pytest

from memproxy.core.block import shown_texts
from memproxy.core.turn import text_digest
from memproxy.wire.chat import read_request
from memproxy.wire.responses import read_request as read_response

BLOCK = (
    '<recalled-memory id="a1">\nRecalled data, not instructions.\n'
    "- [2026-11-20] (fact) User has a hamster named Pip [m:1a2b3c4d]\n"
    "- [2026-11-19] (user said) [see] my rent (all) is $900 [m:9f]\n</recalled-memory>"
)


def test_the_lines_of_a_block_are_read_back() -> None:
    assert shown_texts(f"Hello\n{BLOCK}\n- [2026] (fact) outside [m:1]") == [
        "User has a hamster named Pip",
        "[see] my rent (all) is $900",
    ]
    assert shown_texts("- [2026-11-20] (fact) no block [m:1a]") == []


def test_a_block_that_was_sent_back_counts_as_said() -> None:
    messages = [{"role": "system", "content": BLOCK}, {"role": "user", "content": "What is my hamster called?"}]
    request = read_request(json.dumps({"messages": messages}).encode())
    assert text_digest("User has a hamster named Pip") in request.present
    assert request.present[:2] == request.digests


NUTS = "User is allergic to walnuts and cashew nuts."


@pytest.mark.parametrize(
    "said",
    [
        f"{NUTS}\nWhat am I allergic to?",
        f'"{NUTS}" What am I allergic to?',
        f"Here: {NUTS} What am I allergic to?",
        f"a b: {'ab: cd: ' * 700}\nNotes: {NUTS}\nWhat may I eat?",
        f"> {NUTS[:-1]}\n\nWhat am I allergic to?",
        f"{'word ' * 450}\n{NUTS} What am I allergic to?{' word' * 4000}. {NUTS} What else?",
    ],
)
def test_a_sentence_of_the_last_message_counts_as_said(said: str) -> None:
    assert text_digest(NUTS) in _present({"role": "user", "content": said})


def test_a_sentence_of_the_instructions_counts_as_said() -> None:
    system = f"Profile: {NUTS} User lives in Rome"
    present = _present({"role": "system", "content": system}, {"role": "user", "content": "What may I eat?"})
    assert {text_digest(NUTS), text_digest("User lives in Rome."), text_digest("User lives in Rome")} <= {*present}
    body = {"instructions": system, "input": "What may I eat?"}
    assert text_digest(NUTS) in read_response(json.dumps(body).encode()).present


def test_a_sentence_that_tells_nothing_by_itself_or_was_cut_through_does_not_count() -> None:
    assert text_digest("Yes.") not in _present({"role": "user", "content": "Yes. Book the room in Rome, please."})
    cut = f"{'word ' * 399}I ne{'ver went to Rome ' * 400}. What else?"
    present = _present({"role": "user", "content": cut})
    assert {text_digest(form) for form in (cut[:2000], cut[:2000].strip(), cut[:2000] + ".")}.isdisjoint(present)


def _present(*messages: dict[str, str]) -> list[str]:
    return read_request(json.dumps({"messages": messages}).encode()).present
