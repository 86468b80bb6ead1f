"""A summary rests on the messages that it tells, and is not injected beside the facts that say the same."""

from pathlib import Path

from memproxy.core.memory import Kind
from tests.learn.rig import ANN, PATIENCE_S, rig

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
