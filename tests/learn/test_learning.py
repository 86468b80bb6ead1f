"""From what was said to what is known: the whole lane, on real parts."""

import logging
from pathlib import Path

import pytest

from memproxy.core.turn import Message
from tests.learn.rig import ANN, BEN, LATER, Rig, budget, rig
from tests.support.waiting import eventually

SAID = "My budget for Hawaii is $10,000"


async def test_a_changed_budget_leaves_one_active_and_marks_the_old_turns(r: Rig) -> None:
    answer = Message(role="assistant", content="Noted, your Hawaii budget is $10,000.")
    await r.teach([SAID, answer], budget("$10,000", SAID))
    await r.teach("Actually my Hawaii budget is $15,000 now", budget("$15,000", "my Hawaii budget is $15,000 now"))

    (active,) = await r.facts(active=True)
    (old,) = await r.facts(active=False)
    assert active.object == "$15,000"
    assert active.supersedes == old.id
    assert old.superseded_by == active.id
    assert old.valid_to == active.valid_from
    marks = {turn.content: turn.superseded_by for turn in await r.turns()}
    assert marks == {
        SAID: active.id,
        "Noted, your Hawaii budget is $10,000.": active.id,
        "Actually my Hawaii budget is $15,000 now": None,
    }


async def test_users_with_identical_statements_do_not_touch_each_other(r: Rig) -> None:
    for scope in (ANN, BEN):
        await r.teach(SAID, budget("$10,000"), scope=scope)
    await r.teach("My Hawaii budget is $15,000 now", budget("$15,000"), scope=BEN)
    assert [fact.object for fact in await r.facts(ANN)] == ["$10,000"]
    assert [fact.object for fact in await r.facts(BEN, active=True)] == ["$15,000"]
    assert [turn.superseded_by for turn in await r.turns(ANN)] == [None]


async def test_a_repeated_statement_is_reinforced_not_stored_again(r: Rig) -> None:
    await r.teach(SAID, budget("$10,000"))
    await r.teach("As I said, ten grand for Hawaii: a budget of 10000 dollars", budget("10000 dollars"))
    (known,) = await r.facts()
    assert known.confidence > 0.9
    assert len(known.turn_ids) == 2


async def test_a_withheld_statement_is_not_known_and_is_given_again_when_it_is_said_again(r: Rig) -> None:
    await r.teach(SAID, budget("$10,000"))
    (first,) = await r.facts()
    await r.plan(changes={first.id: {"quarantined": True}})
    await r.teach(SAID, budget("$10,000"))
    assert "(none)" in r.server.prompts[-1]
    assert [(fact.id, fact.quarantined) for fact in await r.facts()] == [(first.id, False)]


async def test_a_statement_said_earlier_lands_in_the_history(r: Rig) -> None:
    await r.teach("My Hawaii budget is $15,000", budget("$15,000"))
    old = r.clock.now().replace(year=2022)
    await r.teach("My Hawaii budget is $10,000", budget("$10,000"), scope=LATER, at=old)
    (active,) = await r.facts(active=True)
    (past,) = await r.facts(active=False)
    assert (active.object, past.object) == ("$15,000", "$10,000")
    assert past.superseded_by == active.id
    assert past.valid_from == old
    assert past.valid_to == active.valid_from
    assert active.supersedes == past.id


async def test_facts_without_names_for_their_slot_are_told_apart_by_their_values(r: Rig) -> None:
    await r.teach(SAID, {"content": "User's budget for the Hawaii vacation is $10,000"})
    await r.teach("The budget for Hawaii went to $15,000", "User's budget for the Hawaii vacation is now $15,000")
    await r.teach("The budget for Norway is $3,000", "User's budget for the Norway vacation is $3,000")
    assert {fact.content for fact in await r.facts(active=True)} == {
        "User's budget for the Hawaii vacation is now $15,000",
        "User's budget for the Norway vacation is $3,000",
    }


async def test_what_only_the_assistant_said_changes_no_fact_of_the_user(r: Rig) -> None:
    await r.teach(SAID, budget("$10,000"))
    claim = Message(role="assistant", content="Your budget for Hawaii is $12,000, I believe.")
    await r.teach(["What was it again?", claim], budget("$12,000", "Your budget for Hawaii is $12,000"))
    assert [fact.object for fact in await r.facts()] == ["$10,000"]


async def test_the_trust_of_a_fact_is_that_of_who_said_it(r: Rig) -> None:
    steps = {"kind": "procedural", "content": "To deploy payment-service: run tests, tag, push"}
    answer = Message(role="assistant", content="For payment-service: run tests, tag, push.")
    await r.teach(
        ["I look after payment-service. How do we deploy?", answer], steps | {"evidence": "run tests, tag, push"}
    )
    (fact,) = await r.facts()
    assert fact.trust == "assistant"


async def test_the_number_of_stored_memories_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="memproxy")
    async with rig(tmp_path) as r:
        await r.teach(SAID, budget("$10,000"))
    assert any("stored 1 memories" in record.getMessage() for record in caplog.records)
    assert not any("10,000" in record.getMessage() for record in caplog.records)


async def test_enough_new_turns_start_learning(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=2) as r:
        r.server.default = {"candidates": [budget("$10,000")]}
        await r.say(SAID)
        assert not r.server.prompts
        await r.say("And it is raining")
        await eventually(lambda: r.has(facts=1))
        assert len(r.server.prompts) == 1


async def test_a_silent_session_starts_learning(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=10, idle_s=60) as r:
        r.server.default = {"candidates": [budget("$10,000")]}
        await r.say(SAID)
        r.clock.advance(61)
        r.worker.wake()
        await eventually(lambda: r.has(facts=1))


async def test_learning_switched_off_still_indexes(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False, every_turns=1) as r:
        await r.learn(SAID)
        assert len(await r.turns()) == 1
        assert not r.server.prompts


async def test_many_new_turns_are_read_in_windows_that_cover_all(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, window_turns=6) as r:
        await r.learn(*(f"Remark number {number} about something" for number in range(20)))
        seen = "\n".join(r.server.prompts)
        assert all(f"Remark number {number} about" in seen for number in range(20))
        assert all(prompt.count('"role"') <= 6 for prompt in r.server.prompts)


async def test_earlier_turns_that_come_late_are_learned_from_too(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000, window_turns=4) as r:
        await r.learn(*(f"Remark number {number} about something" for number in range(12)))
        r.server.prompts.clear()
        r.server.default = {"candidates": [budget("$10,000")]}
        await r.learn(SAID, at=r.clock.now().replace(year=2020))
        assert len(await r.facts()) == 1


async def test_injected_blocks_are_not_shown_to_the_extractor(r: Rig) -> None:
    block = '<recalled-memory id="0123456789ab">\nbudget is $10,000\n</recalled-memory>\nhello, I live in Bonn'
    await r.teach(block)
    assert "10,000" not in r.server.prompts[0]
    assert "hello, I live in Bonn" in r.server.prompts[0]


async def test_what_a_message_changes_is_shown_beside_it_however_long_the_answer_is(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1000) as r:
        things = "kayak tent stove lamp rope drill ladder kettle violin camera sledge anvil globe hammock mirror gong"
        said = f"I drive a Skoda, and own: {things}"
        known = ["User drives a Skoda.", *(f"User owns a {thing}." for thing in things.split())]
        await r.teach(said, *({"content": one, "evidence": said} for one in known))
        r.server.prompts.clear()
        answer = Message(role="assistant", content=f"Still there: {things}. " * 30)
        await r.learn("Good news, I sold the Skoda", answer)
        assert "User drives a Skoda." in r.server.prompts[-1].partition("Conversation (data)")[0]
