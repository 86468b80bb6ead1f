"""Where memories stand in the palace, and when they move."""

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.scope import Scope
from memproxy.learn.extract import of_places
from tests.learn.rig import ANN, LATER, NOON, PATIENCE_S, Answer, Rig, fact, message_lines, opened_rig
from tests.learn.test_changes import triple

SAID = {"coach": "I can only run 5 kilometres because of my knee", "chef": "I hate cilantro", None: "I live in Lisbon"}
LEARNED = {
    "coach": triple("User can only run 5 kilometres.", "runs", "5 km"),
    "chef": triple("User hates cilantro.", "dislikes", "cilantro"),
    None: triple("User lives in Lisbon.", "lives_in", "Lisbon"),
}

r = opened_rig(every_turns=1000, idle_s=1e6)


def read(prompt: str) -> Answer:
    """What is new in a prompt, or that a summary was asked for."""
    lines = message_lines(prompt)
    told = [line["text"] for line in lines if line.get("new")]
    kept = [LEARNED[agent] | {"evidence": text} for agent, text in SAID.items() if text in told]
    return {"candidates": kept, "summary": " ".join(line["text"] for line in lines)}


async def tell(r: Rig, *agents: str | None) -> None:
    for agent in agents:
        await r.say(SAID[agent], scope=ANN.at(None, agent))
        r.clock.advance(60)


async def test_a_fact_is_seen_by_the_agent_that_was_told_it_whoever_was_spoken_to_last(r: Rig) -> None:
    r.server.default = read
    await tell(r, "coach", "chef", None)
    assert await r.worker.end_session(ANN, PATIENCE_S)
    learned = {one.content: one.agent_id for one in await r.facts() if one.kind is Kind.SEMANTIC}
    assert learned == {LEARNED[agent]["content"]: agent for agent in SAID}
    (summary,) = [one for one in await r.facts() if one.kind is Kind.EPISODIC]
    assert (summary.agent_id, summary.content) == (None, SAID[None]), "it tells what all of them may read"
    assert all(not (SAID["coach"] in prompt and SAID["chef"] in prompt) for prompt in r.server.prompts)


async def test_what_was_told_to_another_agent_before_is_learned_too(r: Rig) -> None:
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


ATLAS = triple("Atlas is a search engine", "is_a", "engine", "project Atlas")
MOVING = ("Atlas is our new search engine", "Atlas needs a parser", "Atlas ships in May")


async def places(r: Rig, scope: Scope = ANN) -> list[tuple[str | None, str | None]]:
    turns = [turn for turn in await r.turns(scope) if turn.session_id == scope.session]
    return sorted((turn.wing, turn.pointer) for turn in turns)


async def test_its_drawers_move_there_and_later_ones_follow(r: Rig) -> None:
    for said in MOVING[:2]:
        await r.say(said)
    assert {wing for wing, _ in await places(r)} == {"user"}
    await r.teach(MOVING[2], ATLAS)
    moved = await places(r)
    assert {wing for wing, _ in moved} == {"atlas"}
    (fact,) = await r.facts()
    assert len({pointer for _, pointer in moved}) == 3
    assert {str(pointer).partition("/D-")[0] for _, pointer in moved} == {fact.pointer}
    await r.say("It should be fast, too")
    assert [wing for wing, _ in await places(r)] == ["atlas"] * 4
    await r.teach("Atlas again", ATLAS)
    assert set(moved) < set(await places(r)), "they stay where they are"


async def test_a_conversation_about_the_user_stays_in_the_users_wing(r: Rig) -> None:
    for said in ("I live in Berlin", "I like tea", "I need a new bike"):
        await r.say(said)
    await r.teach(MOVING[0], ATLAS)
    assert {wing for wing, _ in await places(r)} == {"user"}


async def test_another_conversation_does_not_move(r: Rig) -> None:
    await r.say(MOVING[0], scope=LATER)
    await r.teach(MOVING[1], ATLAS)
    assert [{wing for wing, _ in await places(r, scope)} for scope in (ANN, LATER)] == [{"atlas"}, {"user"}]


def project(name: str | None) -> Scope:
    return Scope(tenant="acme", user="ann", session=f"s-{name}", project=name)


async def test_what_is_learned_in_a_project_goes_by_the_names_that_were_told_there(r: Rig) -> None:
    short = triple("TS is short for TypeScript", "short_for", "TypeScript", subject="TS")
    await r.teach(short["content"], short, scope=project("atlas"))
    seen = {}
    for name in ("apollo", None, "atlas"):
        old = triple("TS is 30 years old", "age", "30", "TS")
        await r.teach(old["content"], old, scope=project(name))
        ages = [fact for fact in await r.facts(project(name)) if (fact.predicate, fact.project_id) == ("age", name)]
        seen[name] = {(fact.subject, fact.wing) for fact in ages}
    assert seen == {"apollo": {("TS", "ts")}, None: {("TS", "ts")}, "atlas": {("Typescript", "typescript")}}
