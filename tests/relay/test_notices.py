"""How the engine is told of new turns: behind the answers, and once for several that say the same."""

from pathlib import Path

from memproxy.core.breaker import FAILURES_TO_OPEN
from memproxy.core.protocol import Captured, RecallRequest, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.relay.engine_client import EngineClient
from tests.relay.rig import ScriptedEngine, unix_server
from tests.support.opening import opening
from tests.support.waiting import LONGEST_S, eventually


def told(user: str, key: str, tenant: str = "acme") -> Captured:
    access = UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="m", api_key=key)
    return Captured(scope=Scope(tenant=tenant, user=user), access=access)


async def test_turns_that_come_together_are_told_of_once_and_the_last_key_last_and_a_lent_one_at_once(
    tmp_path: Path,
) -> None:
    engine = ScriptedEngine()
    async with unix_server(engine.app(), tmp_path / "engine.sock"):
        async with opening(EngineClient(tmp_path / "engine.sock", deadline_s=LONGEST_S)) as client:
            for key in (told("ann", "sk-1"), told("ben", "sk-2"), told("ann", "sk-3", "other"), told("cleo", "sk-1")):
                client.notices.notify(key)
        assert engine.captured == [told("ben", "sk-2"), told("ann", "sk-3", "other"), told("cleo", "sk-1")]
        engine.captured.clear()
        async with opening(EngineClient(tmp_path / "engine.sock", deadline_s=LONGEST_S)) as client:
            client.notices.notify(told("ann", "sk-1"))
            client.notices.share_access(told("ann", "sk-2"))
        assert engine.captured == [told("ann", "sk-2"), told("ann", "sk-1")]


async def test_the_first_call_to_an_engine_that_is_back_is_a_recall_and_no_notice(tmp_path: Path) -> None:
    engine, client = ScriptedEngine(), EngineClient(tmp_path / "engine.sock", deadline_s=LONGEST_S)
    asked = RecallRequest(request_id="r", scope=Scope(tenant="acme", user="ann"), queries=["my bike"], nonce="0" * 12)
    await client.open()
    for _ in range(FAILURES_TO_OPEN):
        assert (await client.recall(asked)).reason == "engine"
    async with unix_server(engine.app(), tmp_path / "engine.sock"):
        await eventually(lambda: not client._breaker.open, what="it may be tried again")
        client.notices.notify(told("ann", "sk-1"))
        assert (await client.recall(asked)).result == "empty"
        await client.close()
    assert engine.captured == [told("ann", "sk-1")]
