"""A message is deleted by its id: what was learned from it alone goes with it, and nothing tells it any more."""

from typing import Any

import pytest

from tests.support.engine import Api

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def say(api: Api, user: str, session: str, *said: str, answer: str = "Noted.", named: bool = False) -> None:
    messages = [
        {"role": role, "content": text} for one in said for role, text in (("user", one), ("assistant", answer))
    ]
    if named:  # by a client that numbers the messages of each conversation
        messages = [{**one, "id": str(number)} for number, one in enumerate(messages)]
    await api.say(session, *messages, user_id=user)
    ended = await api.post(f"sessions/{session}/end?wait=true", user_id=user)
    assert ended["learning"] == "done"


async def found(api: Api, user: str, word: str, **query: Any) -> list[dict[str, Any]]:
    return [memory for memory in await api.page(user_id=user, **query) if word in memory["content"]]


async def forget(api: Api, user: str, memory: dict[str, Any], **query: Any) -> int:
    return await api.delete(memory["id"], user_id=user, **query)


async def test_what_was_learned_from_a_deleted_message_alone_goes_with_it(learning: Api) -> None:
    await say(learning, "ann", "s1", "My locker code is 5521.", "I work at Siemens.")
    (turn,) = await found(learning, "ann", "5521", kind="turn")
    along = [one for one in await found(learning, "ann", "5521") if one["kind"] != "turn"]
    assert len(along) == 2, "the fact and the summary"
    assert await forget(learning, "ann", turn) == 3
    assert await found(learning, "ann", "5521") == []
    assert [one["kind"] for one in await found(learning, "ann", "Siemens")].count("semantic") == 1
    told = await learning.data("activity", user_id="ann")
    deleted = {one["memory_id"] for one in told if one["result"] == "deleted"}
    assert deleted == {turn["id"], *(one["id"] for one in along)}
    await learning.post("sessions/s1/mine?wait=true", user_id="ann")
    assert await found(learning, "ann", "5521") == []


async def test_a_fact_that_another_message_tells_too_stays_and_rests_on_that(learning: Api) -> None:
    await say(learning, "bea", "s1", "I live in Utrecht.")
    await say(learning, "bea", "s2", "As I said, I live in Utrecht.")
    first, second = sorted(await found(learning, "bea", "Utrecht", kind="turn"), key=lambda turn: turn["session_id"])
    assert await forget(learning, "bea", first) == 2, "the message and its conversation's summary"
    (fact,) = [one for one in await found(learning, "bea", "Utrecht") if one["predicate"] == "lives_in"]
    assert (fact["active"], fact["turn_ids"], fact["session_id"]) == (True, [second["id"]], "s2")
    await forget(learning, "bea", second)
    assert await found(learning, "bea", "Utrecht") == []


async def test_a_fact_rests_on_no_namesake_of_its_message_in_another_conversation(learning: Api) -> None:
    await say(learning, "bob", "s0", "I work at Siemens.", "I have a cat.", named=True)
    await say(learning, "bob", "s1", "My locker code is 5521.", "Remember, my locker code is 5521.", named=True)
    for turn in await found(learning, "bob", "5521", kind="turn"):
        await forget(learning, "bob", turn, session_id="s1")
    assert await found(learning, "bob", "5521") == []


async def test_a_deleted_change_leaves_the_history_as_it_is(learning: Api) -> None:
    await say(learning, "cleo", "s1", "I live in Paris.")
    await say(learning, "cleo", "s2", "I live in Berlin now.")
    (turn,) = await found(learning, "cleo", "Berlin", kind="turn")
    await forget(learning, "cleo", turn)
    assert await found(learning, "cleo", "Berlin") == []
    (paris,) = [one for one in await found(learning, "cleo", "Paris") if one["predicate"] == "lives_in"]
    assert (paris["active"], paris["superseded_by"]) == (False, None), "forgetting one is no undoing"


async def test_what_the_person_wrote_in_its_place_stays(learning: Api) -> None:
    await say(learning, "dora", "s1", "My favourite colour is teal.")
    (fact,) = [one for one in await found(learning, "dora", "teal") if one["kind"] == "semantic"]
    content = fact["content"].replace("teal", "crimson")
    edited = await learning.ok("PATCH", f"{fact['id']}?user_id=dora", json={"content": content})
    said = [edited["object"], *(one["object"] for one in edited["relations"])]
    assert set(said) == {"crimson"}, "nothing says teal beside it"
    (turn,) = await found(learning, "dora", "teal", kind="turn")
    await forget(learning, "dora", turn)
    assert await found(learning, "dora", "teal") == []
    (left,) = await found(learning, "dora", "crimson", active=True)
    assert (left["turn_ids"], "evidence" in left["metadata"]) == ([], False)


async def test_an_assistants_repetition_of_it_is_not_given_any_more(learning: Api) -> None:
    await say(learning, "eve", "s1", "My dog is called Bello.")
    await say(learning, "eve", "s2", "Suggest a toy for my dog.", answer="A rope would be great for your dog Bello.")
    (turn,) = [one for one in await found(learning, "eve", "Bello", kind="turn") if one["metadata"]["role"] == "user"]
    await forget(learning, "eve", turn)
    assert await found(learning, "eve", "Bello", active=True) == []


async def test_names_that_only_a_deleted_conversation_told_are_read_nowhere_in_the_palace(learning: Api) -> None:
    told: dict[str, Any] = {
        "subject": "user",
        "predicate": "dog_name",
        "object": "Fifi",
        "session_id": "s1",
        "user_id": "gus",
    }
    await learning.store("User's dog is called Fifi.", **told)
    await say(learning, "gus", "s2", "What food suits my dog?", answer="Dry food suits your dog.")
    (turn,) = await found(learning, "gus", "What food", kind="turn")
    assert turn["wing"] == "fifi"
    await learning.delete("sessions/s1", user_id="gus")
    (left,) = await found(learning, "gus", "What food", kind="turn")
    assert (left["wing"], left["pointer"]) == ("dog", turn["pointer"])
    for what in ("palace", "export"):
        assert "fifi" not in (await learning.ask("GET", f"{what}?user_id=gus")).text.casefold()
