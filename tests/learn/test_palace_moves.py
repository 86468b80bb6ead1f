"""A conversation whose subject gets its wing only by what is learned from it."""

from pathlib import Path

from memproxy.core.scope import Scope
from tests.learn.rig import ANN, Rig, rig

ATLAS = {"content": "Atlas is a search engine", "subject": "project Atlas", "predicate": "is_a", "object": "engine"}
SAID = ("Atlas is our new search engine", "Atlas needs a parser", "Atlas ships in May")


async def places(r: Rig, scope: Scope = ANN) -> list[tuple[str | None, str | None]]:
    turns = [turn for turn in await r.turns(scope) if turn.session_id == scope.session]
    return sorted((turn.wing, turn.pointer) for turn in turns)


async def test_its_drawers_move_there_and_later_ones_follow(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        for said in SAID[:2]:
            await r.say(said)
        assert {wing for wing, _ in await places(r)} == {"user"}
        await r.teach(SAID[2], ATLAS)
        moved = await places(r)
        assert {wing for wing, _ in moved} == {"atlas"}
        (fact,) = await r.facts()
        assert len({pointer for _, pointer in moved}) == 3
        assert {str(pointer).partition("/D-")[0] for _, pointer in moved} == {fact.pointer}
        await r.say("It should be fast, too")
        assert [wing for wing, _ in await places(r)] == ["atlas"] * 4
        await r.teach("Atlas again", ATLAS)
        assert set(moved) < set(await places(r)), "they stay where they are"


async def test_a_conversation_about_the_user_stays_in_the_users_wing(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        for said in ("I live in Berlin", "I like tea", "I need a new bike"):
            await r.say(said)
        await r.teach(SAID[0], ATLAS)
        assert {wing for wing, _ in await places(r)} == {"user"}


async def test_another_conversation_does_not_move(tmp_path: Path) -> None:
    other = Scope(tenant=ANN.tenant, user=ANN.user, session="s2")
    async with rig(tmp_path, every_turns=1000) as r:
        await r.say(SAID[0], scope=other)
        await r.teach(SAID[1], ATLAS)
        assert ({wing for wing, _ in await places(r)}, {wing for wing, _ in await places(r, other)}) == (
            {"atlas"},
            {"user"},
        )
