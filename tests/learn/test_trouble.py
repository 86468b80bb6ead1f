"""Keys that are missing, models that fail, stores that are away, processes that are killed."""

import asyncio
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from memproxy.core.protocol import PlanBody, TurnsBody, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.errors import ConfigError, MemproxyError, StateUnavailable
from memproxy.learn.access import ModelAccess
from memproxy.learn.acknowledge import state_trouble
from memproxy.learn.extract import EXTRACT_MARK, load_prompt
from memproxy.learn.model_outages import COUNTED, OUTAGE, delay_s
from memproxy.logs import LogLimit
from memproxy.metrics import metrics
from memproxy.ports import Credential, JournalEntry, JournalKind
from memproxy.settings import ModelSettings, Settings, UpstreamSettings
from tests.learn.rig import ANN, BEN, PATIENCE_S, Answer, ModelServer, Rig, budget, fact, rig
from tests.learn.test_durability import RefusingStore
from tests.support.waiting import eventually

SAID = "My budget for Hawaii is $10,000"
LEARNED: Answer = {"candidates": [budget("$10,000")]}


async def learned(r: Rig, scope: Scope = ANN) -> None:
    """Wait until one fact is there."""
    await r.meanwhile(lambda: r.has(facts=1, scope=scope), what="it is learned", step_s=30)


@pytest.mark.parametrize("status", [429, 500, 503, 400, 404])
async def test_what_fails_is_tried_again_and_learned_in_the_end(tmp_path: Path, status: int) -> None:
    async with rig(tmp_path, every_turns=1) as r:
        r.server.answers = [status, LEARNED]
        await r.say(SAID)
        await learned(r)
        assert len(r.server.prompts) == 2


async def test_what_stays_unreadable_is_parked_and_the_next_is_learned(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1, max_attempts=2) as r:
        r.server.answers = ["no", "no", LEARNED]
        await r.say("The beans in my garden are up")

        await r.meanwhile(lambda: r.state.parked(None, limit=5), what="it is parked", step_s=30)
        await r.say(SAID)
        await learned(r)
        (row,) = await r.state.parked(ANN, limit=5)
        assert "no JSON" in row.error


async def test_a_refused_key_waits_for_another_and_spends_no_tries(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1, max_attempts=1) as r:
        r.server.answers = [401, 403, LEARNED]
        await r.say(SAID)
        for number, key in enumerate(("sk-2", "sk-3"), start=1):
            await eventually(lambda wanted=number: len(r.server.prompts) == wanted)  # type: ignore[misc]
            r.give_key(key=key)
        await learned(r)
        assert r.server.keys == ["Bearer sk-test", "Bearer sk-2", "Bearer sk-3"]
        assert await r.state.parked(None, limit=5) == []


async def test_a_tenant_without_a_key_does_not_hold_up_others_and_is_counted(tmp_path: Path) -> None:
    nobody = [Scope(tenant=f"keyless{number}", user="u", session="s") for number in range(5)]
    async with rig(tmp_path, every_turns=1) as r:
        assert _waiting_for_keys() == 0
        for scope in nobody:
            await r.say(SAID, scope=scope)
        r.server.default = LEARNED
        await r.say(SAID, scope=BEN)
        await learned(r, scope=BEN)
        await eventually(lambda: _waiting_for_keys() == len(nobody))
        r.give_key(nobody[0])
        await learned(r, scope=nobody[0])
        await eventually(lambda: _waiting_for_keys() == len(nobody) - 1)


def _waiting_for_keys() -> float:
    return float(metrics().learn_key_waits._value.get())


async def test_waiting_rows_survive_a_restart(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1, own_store=True) as r:
        r.server.answers = [401]
        await r.say(SAID)
        await eventually(lambda: len(r.server.prompts) == 1)
    async with rig(tmp_path, every_turns=1, own_store=True) as r:
        r.server.default = LEARNED
        await learned(r)


async def test_a_store_outage_parks_nothing_and_heals_by_itself(tmp_path: Path) -> None:
    store = RefusingStore(tmp_path, away=True)
    async with rig(tmp_path, store=store, enabled=False, max_attempts=1) as r:
        number = await r.submit(TurnsBody(messages=[Message(role="user", content=SAID)], said_at=r.clock.now()))
        assert not await r.worker.applied(number, 0.3)
        store.away = False
        await r.carried_out(number)
        assert len(await r.turns()) == 1
        assert await r.state.parked(None, limit=5) == []


async def test_a_row_that_is_parked_tells_who_waits_for_it(tmp_path: Path) -> None:
    async with rig(tmp_path, enabled=False, max_attempts=1) as r:
        foreign = fact("a", BEN)
        number = await r.submit(PlanBody(upserts=[foreign]), ANN)
        with pytest.raises(MemproxyError):
            await r.worker.applied(number, PATIENCE_S)
        assert await r.facts(BEN) == []


async def test_a_saved_plan_is_applied_after_a_crash_and_asks_no_model(tmp_path: Path) -> None:
    async with rig(tmp_path, started=False, own_store=True) as r:
        body = b'{"unlearned":1,"reason":"turns"}'
        number = await r.state.append(JournalEntry(kind=JournalKind.LEARN, scope=ANN, body=body))
        await r.state.claim("learn", limit=1, now=r.clock.now())
        plan = PlanBody(upserts=[fact("a", content="User has a dog named Biscuit")])
        assert await r.state.save_plan(number, msgspec.json.encode(plan), [])
    for _ in range(2):
        async with rig(tmp_path, every_turns=100, own_store=True) as r:
            await learned(r)
            assert r.server.prompts == []


CHILD = """
import asyncio, sys
from pathlib import Path
from tests.learn.rig import Rig, ModelServer, WordEmbedder, NOON, ANN
from memproxy.core.turn import Message
from memproxy.core.protocol import TurnsBody

async def main(folder, base_url):
    server = ModelServer()
    server.base_url = base_url
    r = Rig(Path(folder), server, WordEmbedder(), every_turns=1, own_store=True)
    await r.open()
    r.give_key()
    await r.worker.start()
    message = Message(role="user", content="My budget for Hawaii is $10,000")
    number = await r.submit(TurnsBody(messages=[message], said_at=NOON))
    await asyncio.sleep(3600)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_killed_while_the_model_thinks_the_fact_is_there_once_after_the_restart(tmp_path: Path) -> None:
    async with ModelServer().serving() as server:
        server.default = LEARNED
        server.gate.clear()
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", CHILD, str(tmp_path), server.base_url)
        await eventually(lambda: bool(server.prompts), 60)
        child.send_signal(signal.SIGKILL)
        await child.wait()
        server.gate.set()
    async with rig(tmp_path, every_turns=1, own_store=True) as r:
        r.server.default = LEARNED
        await learned(r)
        (turn,) = await r.turns()
        (stored,) = await r.facts()
        assert stored.turn_ids == [turn.id]
        assert len(r.server.prompts) == 1


async def test_close_releases_what_runs_beyond_the_grace(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=1) as r:
        r.server.gate.clear()
        await r.say(SAID)
        await eventually(lambda: bool(r.server.prompts))
        await r.worker.close(0.05)
        sizes = await r.state.queue_sizes()
        assert sizes["learn"] == {"waiting": 1, "running": 0, "parked": 0}
        r.server.gate.set()


async def test_learning_that_is_waited_for_ends_at_its_time(tmp_path: Path) -> None:
    async with rig(tmp_path, every_turns=100) as r:
        r.server.gate.clear()
        await r.say(SAID)
        assert not await r.worker.learned(ANN, 0.2)
        r.server.gate.set()
        assert await r.worker.learned(ANN, PATIENCE_S)


def known(found: Credential | None) -> tuple[str, str, str | None]:
    assert found is not None
    return found.base_url, found.model, found.api_key


def test_the_requests_own_key_goes_to_its_own_host_only() -> None:
    access = ModelAccess(Settings(upstream=UpstreamSettings(base_url="http://up/v1")))
    role = ModelSettings()
    assert access.credential("t", role) is None
    seen = UpstreamAccess(base_url="http://up/v1", model="big", api_key="sk-own")
    assert access.remember("t", seen)
    assert not access.remember("t", seen)
    assert known(access.credential("t", role)) == ("http://up/v1", "big", "sk-own")
    local = ModelSettings(base_url="http://local:11434/v1", model="small")
    assert known(access.credential("t", local)) == ("http://local:11434/v1", "small", None)
    assert access.credential("someone-else", role) is None


def test_a_request_without_a_model_brings_its_key_and_keeps_the_model_known() -> None:
    access = ModelAccess(Settings(upstream=UpstreamSettings(base_url="http://up/v1")))
    ingested = UpstreamAccess(base_url="http://up/v1", model="", api_key="sk-1")
    assert access.remember("t", ingested)
    assert access.credential("t", ModelSettings()) is None
    assert known(access.credential("t", ModelSettings(model="small"))) == ("http://up/v1", "small", "sk-1")
    assert access.remember("t", UpstreamAccess(base_url="http://up/v1", model="big", api_key="sk-1"))
    assert not access.remember("t", ingested)
    assert access.model_of("t") == "big"


def test_a_configured_key_needs_no_request() -> None:
    access = ModelAccess(Settings(upstream=UpstreamSettings(base_url="http://up/v1", api_key="sk-house")))
    found = access.credential("t", ModelSettings(), "noted-model")
    assert known(found) == ("http://up/v1", "noted-model", "sk-house")


def test_a_prompt_of_ones_own_takes_the_place_of_the_built_in_one(tmp_path: Path) -> None:
    for folder in (None, tmp_path):
        assert load_prompt(folder).text.startswith(EXTRACT_MARK)
        assert load_prompt(folder).version == "extract/7"
    (tmp_path / "extract.md").write_text("version: 7-ours\nFind facts.")
    ours = load_prompt(tmp_path)
    assert (ours.version, ours.text) == ("extract/7-ours", "Find facts.")
    (tmp_path / "extract.md").write_text("Find facts.")
    with pytest.raises(ConfigError, match="version"):
        load_prompt(tmp_path)


def test_waiting_times_grow_and_are_bounded() -> None:
    assert 2 <= delay_s(COUNTED, 1) < delay_s(COUNTED, 3) <= delay_s(COUNTED, 50) <= 601
    assert 0.25 <= delay_s(OUTAGE, 1) < delay_s(OUTAGE, 5) <= delay_s(OUTAGE, 1000) <= 10.25


def test_a_state_that_is_away_is_told_once_and_not_at_every_try(caplog: pytest.LogCaptureFixture) -> None:
    told = LogLimit()
    full, away = StateUnavailable("the disk is full"), StateUnavailable("it does not answer")
    for _ in range(50):
        state_trouble(told, "learn", full)
    state_trouble(told, "learn", away)
    assert [record.args[1] for record in caplog.records if isinstance(record.args, tuple)] == [full, away]
