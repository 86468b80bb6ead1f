"""An orderly end of the relay: what belongs to the answers that it gave is kept, and the engine was told of it."""

import asyncio
from pathlib import Path

from memproxy.stores.sqlite_state import SqliteState
from tests.relay.memories import PATIENT, Memories, numbered
from tests.relay.rig import running_relay
from tests.support.upstream import ScriptedUpstream


async def test_what_belongs_to_the_last_answers_is_kept_and_told_when_the_relay_has_ended(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    questions = [f"What is my budget for trip {number}?" for number in range(6)]
    reading = {"x-memproxy-memory": "read"}
    state = SqliteState(tmp_path / "state.db", sync="normal")
    async with running_relay(upstream.base_url, state, tmp_path, recall=PATIENT) as relay:
        relay.engine.recall = Memories(numbered(2))
        answers = await asyncio.gather(*(relay.chat(question, headers=reading) for question in questions))
        captured = await relay.chat("What is my budget?")
        await relay.app.stop()
        told = list(relay.engine.captured)
    assert [one.scope.session for one in told] == [captured.headers["x-memproxy-session"]]
    state = SqliteState(tmp_path / "state.db", sync="normal")
    async with running_relay(upstream.base_url, state, tmp_path, recall=PATIENT) as relay:
        again = [await relay.chat(question, "And the next?", headers=reading) for question in questions]
    assert [one.headers["x-memproxy-session"] for one in again] == [
        one.headers["x-memproxy-session"] for one in answers
    ], "each conversation goes on as itself"
    assert [one.headers["x-memproxy-memories"] for one in again] == ["2"] * len(questions), "and with its block"
