"""A summary rests on the messages that it tells, and is not injected beside the facts that say the same."""

from pathlib import Path

from memproxy.core.memory import Kind
from memproxy.core.turn import Message, make_turns
from memproxy.learn.summary import extract
from tests.learn.rig import ANN, NOON, PATIENCE_S, rig

TOLD = ("I live in Lisbon with my husband", "We adopted a greyhound called Pixel", "My greyhound Pixel loves Lisbon")


async def test_a_summary_of_extracts_rests_on_the_turns_that_it_quotes(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, mode="verbatim") as r:
        for said in (*TOLD, "Thanks!", "What is the time?"):
            await r.say(said)
            r.clock.advance(5)
        assert await r.worker.end_session(ANN, PATIENCE_S)
        (summary,) = [fact for fact in await r.facts() if fact.kind is Kind.EPISODIC]
        quoted = {turn.content for turn in await r.turns() if turn.id in summary.turn_ids}
        assert quoted == {said for said in TOLD if said in summary.content}
        assert quoted


def test_a_summary_of_extracts_does_not_repeat_what_is_taken_back() -> None:
    told = [
        "My sister Clara is pregnant.",
        "Forget that my sister is pregnant.",
        "Please forget the dentist thing with the crown.",
        "No, it's 15,000 for the kitchen now.",
    ]
    turns = make_turns(ANN, [Message(role="user", content=said) for said in told], now=NOON)
    assert extract(turns).endswith("the user said: My sister Clara is pregnant.")
    assert extract(turns[1:]) == ""
