"""Recognising a continued conversation by the user's messages."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.changes import Change, ChangeNotices, What
from memproxy.core.scope import Scope
from memproxy.core.turn import text_digest
from memproxy.relay.session_lookup import Conversation, PrefixKeys, Sessions, prefix_keys
from memproxy.stores.sqlite_state import SqliteState
from tests.support.opening import opening

OWNER = Scope(tenant="t", user="ada")
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


@pytest.fixture
async def state(tmp_path: Path) -> AsyncIterator[SqliteState]:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal")) as store:
        yield store


async def find(
    sessions: Sessions, *texts: str, owner: Scope = OWNER, answer: str | None = None, tool: bool = False
) -> Conversation:
    digests, now = [text_digest(text) for text in texts], NOW + timedelta(minutes=len(texts))
    said = [*digests, text_digest(answer or "")]
    return await sessions.find(owner, digests, answer=answer, tool_followup=tool, now=now, all_digests=said)


async def told(sessions: Sessions, *texts: str, said: str | None = "fine", answer: str | None = None) -> Conversation:
    """A conversation that was found, and what was said in answer."""
    conversation = await find(sessions, *texts, answer=answer)
    await sessions.remember(OWNER, conversation, said)
    return conversation


def keys_of(texts: list[str]) -> PrefixKeys:
    return prefix_keys([text_digest(text) for text in texts])


async def test_a_first_message_always_begins_a_session(state: SqliteState) -> None:
    sessions = Sessions(state)
    first = await told(sessions, "hello", said="hi")
    assert (await find(sessions, "hello")).session != first.session


async def test_the_next_message_continues_the_session_also_in_another_process(state: SqliteState) -> None:
    first = await told(Sessions(state), "my trip")
    assert (await find(Sessions(state), "my trip", "my hotel")).session == first.session


async def test_a_tool_loops_follow_up_keeps_session_and_time(state: SqliteState) -> None:
    sessions = Sessions(state)
    first = await told(sessions, "what is the weather", said=None)
    again = await find(sessions, "what is the weather", tool=True)
    assert (again.session, again.said_at) == (first.session, first.said_at)


async def test_an_answer_made_anew_keeps_session_and_time(state: SqliteState) -> None:
    sessions = Sessions(state)
    await told(sessions, "one", said="1")
    second = await told(sessions, "one", "two", said="2")
    again = await find(sessions, "one", "two")
    assert (again.session, again.said_at) == (second.session, second.said_at)


async def test_a_trimmed_history_is_recognised_by_its_last_two_messages(state: SqliteState) -> None:
    sessions = Sessions(state)
    texts = ["one", "two", "three"]
    for length in (1, 2, 3):
        conversation = await told(sessions, *texts[:length], said=str(length))
    assert (await find(sessions, "two", "three", "four")).session == conversation.session


async def test_messages_that_were_not_seen_do_not_end_a_conversation(state: SqliteState) -> None:
    sessions = Sessions(state)
    first = await told(sessions, "one", said="1")
    assert (await find(sessions, "one", "unseen", "unseen too", "two", answer="1")).session == first.session
    assert (await find(Sessions(state), "one", "unseen", "two", answer="1")).session == first.session
    assert (await find(sessions, "one", "unseen", "two", answer="of another conversation")).begins


async def test_conversations_that_began_alike_are_told_apart_by_the_answer(state: SqliteState) -> None:
    sessions = Sessions(state)
    first, second = await find(sessions, "hi"), await find(sessions, "hi")
    await sessions.remember(OWNER, first, "Hello, Ada!")
    await sessions.remember(OWNER, second, "Good morning!")
    assert (await find(sessions, "hi", "next", answer="Hello, Ada!")).session == first.session
    assert (await find(sessions, "hi", "next", answer="Good morning!")).session == second.session
    assert (await find(sessions, "hi", "next", answer="something else")).session == second.session


async def test_a_conversation_in_the_same_words_as_an_earlier_one_stays_its_own(state: SqliteState) -> None:
    sessions, found = Sessions(state), []
    for answer in ("hello", "good day", "good day"):
        first = await told(sessions, "hi", said=answer)
        second = await told(sessions, "hi", "my rent is 900", answer=answer, said="noted")
        assert second.session == first.session
        found.append(second)
    again = await find(sessions, "hi", "my rent is 900", answer="hello")
    assert (again.session, again.said_at) == (found[0].session, found[0].said_at), "an answer made anew"


async def test_another_users_conversation_is_never_continued(state: SqliteState) -> None:
    sessions = Sessions(state)
    first = await told(sessions, "my trip", said="nice")
    for other in (Scope(tenant="t", user="bob"), Scope(tenant="u", user="ada")):
        assert (await find(sessions, "my trip", "my hotel", owner=other)).session != first.session


@given(st.lists(st.text(max_size=20), min_size=2, max_size=6))
def test_the_key_before_the_last_message_is_the_whole_key_without_it(texts: list[str]) -> None:
    assert keys_of(texts).shorter == keys_of(texts[:-1]).whole


@given(st.lists(st.text(max_size=20), min_size=1, max_size=6))
def test_white_space_does_not_change_a_key(texts: list[str]) -> None:
    assert keys_of([f"  {text}\n" for text in texts]) == keys_of(texts)


async def test_a_relay_forgets_the_sessions_of_whom_another_process_has_changed(state: SqliteState) -> None:
    changes = ChangeNotices()
    sessions = Sessions(state, changes=changes)
    first = await told(sessions, "my trip", said="nice")
    await state.forget(OWNER, session=first.session)  # by another process
    changes.tell(Change("acme", "somebody else", What.CHANGED))
    assert (await find(sessions, "my trip", "my hotel")).session == first.session
    changes.tell(Change.of(OWNER))
    assert (await find(sessions, "my trip", "my hotel")).session != first.session
