"""One conversation that several agents, or projects, take part in: what is learned stays where it was said."""

import json
from pathlib import Path

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.learn.extract import of_places
from tests.learn.rig import ANN, NOON, PATIENCE_S, Answer, Rig, fact, rig

SAID = {
    "coach": "I can only run 5 kilometres because of my knee",
    "chef": "I hate cilantro",
    None: "I live in Lisbon",
}
LEARNED = {
    "coach": {"content": "User can only run 5 kilometres.", "subject": "user", "predicate": "runs", "object": "5 km"},
    "chef": {"content": "User hates cilantro.", "subject": "user", "predicate": "dislikes", "object": "cilantro"},
    None: {"content": "User lives in Lisbon.", "subject": "user", "predicate": "lives_in", "object": "Lisbon"},
}


def read(prompt: str) -> Answer:
    """What is new in a prompt, or that a summary was asked for."""
    lines = [json.loads(line) for line in prompt.splitlines() if line.startswith('{"role"')]
    told = [line["text"] for line in lines if line.get("new")]
    kept = [LEARNED[agent] | {"evidence": text} for agent, text in SAID.items() if text in told]
    return {"candidates": kept, "summary": " ".join(line["text"] for line in lines)}


async def tell(r: Rig, *agents: str | None) -> None:
    for agent in agents:
        await r.say(SAID[agent], scope=ANN.at(None, agent))
        r.clock.advance(60)


async def test_a_fact_is_seen_by_the_agent_that_was_told_it_whoever_was_spoken_to_last(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, idle_s=1e6) as r:
        r.server.default = read
        await tell(r, "coach", "chef", None)
        assert await r.worker.end_session(ANN, PATIENCE_S)
        learned = {one.content: one.agent_id for one in await r.facts() if one.kind is Kind.SEMANTIC}
        assert learned == {LEARNED[agent]["content"]: agent for agent in SAID}
        (summary,) = [one for one in await r.facts() if one.kind is Kind.EPISODIC]
        assert (summary.agent_id, summary.content) == (None, SAID[None]), "it tells what all of them may read"
        assert all(not (SAID["coach"] in prompt and SAID["chef"] in prompt) for prompt in r.server.prompts)


async def test_what_was_told_to_another_agent_before_is_learned_too(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, idle_s=1e6) as r:
        r.server.default = read
        await tell(r, "coach", "chef")
        assert await r.worker.learned(ANN, PATIENCE_S)
        assert {one.agent_id for one in await r.facts()} == {"coach", "chef"}


def test_windows_of_several_places_cover_every_new_turn_once_and_mix_none() -> None:
    def said(number: int, agent: str | None) -> Memory:
        return msgspec.structs.replace(fact(str(number)), kind=Kind.TURN, agent_id=agent, created_at=NOON)

    turns = [said(number, (None, "coach", "chef")[number % 3]) for number in range(20)]
    windows = of_places(turns, first=5, most=6)
    new = [name for window in windows for name in window.new_ids]
    assert sorted(new, key=int) == [str(number) for number in range(5, 20)]
    for window in windows:
        assert {turn.agent_id for turn in window.turns} <= {None, window.newest.agent_id}
        assert {turn.agent_id for turn in window.turns if turn.id in window.new_ids} == {window.newest.agent_id}
