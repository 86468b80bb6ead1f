"""The index lane: turns and the API's writes."""

from pathlib import Path
from typing import Any

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.protocol import Deletion, PlanBody, TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.models.lexical import Bm25Encoder
from memproxy.ports import HybridQuery, SlotChange
from tests.learn.rig import ANN, NOON, PATIENCE_S, Rig, WordEmbedder, fact, opened_rig, rig
from tests.support.waiting import eventually

r = opened_rig(enabled=False)


def rent(name: str, amount: str, scope: Scope = ANN, **fields: Any) -> Memory:
    return fact(name, scope, **{"subject": "user", "predicate": "rent", "object": amount} | fields)


async def by_words(r: Rig, text: str, scope: Scope = ANN) -> dict[str, float]:
    found = await r.store.search(scope, HybridQuery(bm25=Bm25Encoder().encode_query(text)))
    return {candidate.memory.content: candidate.bm25 or 0 for candidate in found}


async def embedded(r: Rig, scope: Scope = ANN) -> set[str]:
    """Contents of the memories that have a vector."""
    probe = (await WordEmbedder().embed_question("anything")).vector
    found = await r.store.search(scope, HybridQuery(dense=probe, limit=100))
    return {candidate.memory.content for candidate in found}


async def test_turns_are_found_by_words_and_by_vector_when_the_row_is_applied(r: Rig) -> None:
    await r.say("We walked Biscuit along the river")
    assert set(await by_words(r, "Biscuit")) == {"We walked Biscuit along the river"}
    assert await embedded(r) == {"We walked Biscuit along the river"}


async def test_the_same_turns_twice_change_nothing(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=2) as r:
        message = Message(role="user", content="hello Biscuit", id="m1")
        await r.say(message)
        before = await r.turns()
        await r.say(message)
        await r.say(message)
        assert await r.turns() == before
        (progress,) = await r.state.due_sessions(every=1, idle_before=NOON, limit=5)
        assert progress.unlearned == 1


async def test_a_turn_is_found_by_the_words_of_its_neighbours_also_of_one_that_comes_late(r: Rig) -> None:
    at = {"first": 0, "last": 20, "middle": 10}
    for content, seconds in at.items():
        await r.say(f"the {content} remark", at=NOON.replace(second=seconds))
    remarks = {"the first remark", "the middle remark", "the last remark"}
    assert set(await by_words(r, "middle")) == remarks
    assert await embedded(r) == remarks


async def test_turns_keep_their_own_times(r: Rig) -> None:
    old = NOON.replace(year=2020)
    await r.say(Message(role="user", content="long ago", timestamp=old))
    (turn,) = await r.turns()
    assert turn.created_at == old


async def test_turns_wait_for_the_embedder_and_are_embedded_by_themselves(tmp_path: Path) -> None:
    embedder = WordEmbedder("loading")
    async with rig(tmp_path, embedder=embedder, enabled=False) as r:
        await r.say("We walked Biscuit", "along the river")
        assert await embedded(r) == set()
        assert len(await by_words(r, "Biscuit")) == 2
        embedder.state = "ready"
        r.worker.wake()
        await eventually(lambda: all_embedded(r, 2))
        assert len(await by_words(r, "Biscuit")) == 2


async def test_missing_vectors_are_filled_in_after_a_restart(tmp_path: Path) -> None:
    async with rig(tmp_path, embedder=WordEmbedder("loading"), enabled=False, own_store=True) as r:
        await r.say("We walked Biscuit")
        await r.plan(upserts=[fact("f1", content="User has a dog named Biscuit")])
    async with rig(tmp_path, enabled=False, own_store=True) as r:
        await eventually(lambda: all_embedded(r, 2))


async def all_embedded(r: Rig, count: int) -> bool:
    return len(await embedded(r)) == count


async def test_a_memory_written_to_a_taken_slot_supersedes_its_holder(r: Rig) -> None:
    await r.say("My rent is 900 euro", "and it rains")
    await r.plan(upserts=[rent("a", "900", content="User's rent is 900")])
    later = NOON.replace(hour=13)
    named: dict[str, Any] = {"subject": "User", "predicate": "has rent", "content": "User's rent is 950"}
    await r.plan(upserts=[rent("b", "950", created_at=later, **named)])
    found = await r.store.get(ANN, ["a", "b"])
    assert (found["a"].active, found["a"].superseded_by, found["a"].valid_to) == (False, "b", later)
    assert (found["b"].active, found["b"].supersedes) == (True, "a")
    marks = {turn.content: turn.superseded_by for turn in await r.turns()}
    assert marks == {"My rent is 900 euro": "b", "and it rains": None}
    assert found["b"].slot is not None
    assert await r.state.slots(ANN, [found["b"].slot]) == {found["b"].slot: "b"}


async def test_the_same_value_written_by_the_api_is_a_memory_of_its_own(r: Rig) -> None:
    for name in ("a", "b"):
        await r.plan(upserts=[rent(name, "900")])
    assert [one.id for one in await r.facts(active=True)] == ["b"]


async def test_a_memory_that_is_ended_or_deleted_frees_its_slot(r: Rig) -> None:
    await r.plan(upserts=[rent("z", "900")])
    await r.plan(changes={"z": {"active": False}})
    assert await r.state.slots(ANN, ["user|rent|"]) == {}
    await r.plan(upserts=[rent("a", "900")])
    assert await r.state.slots(ANN, ["user|rent|"]) == {"user|rent|": "a"}
    await r.plan(deletes=["z", "a"])
    assert await r.facts() == []
    assert await r.state.slots(ANN, ["user|rent|"]) == {}
    await r.plan(upserts=[rent("b", "950")])
    (only,) = await r.facts()
    assert (only.active, only.supersedes) == (True, None)


async def test_an_edited_content_is_found_by_its_new_words(r: Rig) -> None:
    await r.plan(upserts=[fact("a", content="User has a dog named Biscuit")])
    await r.plan(changes={"a": {"content": "User has a parrot named Polly"}})
    assert set(await by_words(r, "Polly")) == {"User has a parrot named Polly"}
    assert set(await by_words(r, "Biscuit")) == set()


async def test_an_edit_that_moves_a_memory_into_a_taken_slot_supersedes_its_holder(r: Rig) -> None:
    await r.plan(upserts=[rent("a", "900")])
    await r.plan(upserts=[rent("b", "950", predicate="salary")])
    await r.plan(changes={"b": {"predicate": "rent"}})
    assert [one.id for one in await r.facts(active=True)] == ["b"]
    assert await r.state.slots(ANN, ["user|rent|", "user|salary|"]) == {"user|rent|": "b"}


async def test_a_delete_by_scope_covers_what_was_written_before_it(r: Rig) -> None:
    await r.say("We walked Biscuit")
    await r.plan(upserts=[fact("a", session_id="s1"), fact("b", session_id="s2")])
    await r.plan(delete_where=Deletion(session_ids=["s1"]))
    assert await r.turns() == []
    assert [one.id for one in await r.facts()] == ["b"]


async def test_a_plan_overtaken_between_saving_and_applying_is_written_as_superseded(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False, started=False) as r:
        slot = "user|rent|"
        number = await r.submit(PlanBody())
        await r.state.claim("index", limit=1, now=NOON)
        plan = PlanBody(upserts=[rent("a", "900", slot=slot)])
        taken = [SlotChange(slot=slot, expected=None, new="a")]
        assert await r.state.save_plan(number, msgspec.json.encode(plan), taken)
        assert await r.state.change_slots(ANN, [SlotChange(slot=slot, expected="a", new="b")])
        await r.worker.start()
        assert await r.worker.applied(number, PATIENCE_S)
        (written,) = await r.facts()
        assert (written.active, written.superseded_by) == (False, "b")


async def test_owners_are_served_side_by_side_and_each_in_order(r: Rig) -> None:
    scopes = [Scope(tenant="acme", user=f"user{number}", session="s") for number in range(6)]
    numbers = []
    for step in range(4):
        for scope in scopes:
            memory = rent(f"{scope.user}-{step}", str(step), scope)
            numbers.append(await r.submit(PlanBody(upserts=[memory]), scope))
    for number in numbers:
        assert await r.worker.applied(number, PATIENCE_S)
    for scope in scopes:
        assert [one.id for one in await r.facts(scope, active=True)] == [f"{scope.user}-3"]
        assert len(await r.facts(scope)) == 4


async def test_a_row_that_is_not_there_is_not_applied(r: Rig) -> None:
    assert not await r.worker.applied(4711, 0.05)


async def test_messages_with_the_speakers_names_keep_them(r: Rig) -> None:
    said = [Message(role="user", content="hi there", name="Caroline")]
    body = TurnsBody(messages=said, said_at=NOON, metadata={"topic": "x"})
    assert await r.worker.applied(await r.submit(body), PATIENCE_S)
    (turn,) = await r.turns()
    assert turn.metadata == {"topic": "x", "role": "user", "name": "Caroline", "seq": 0}
