"""How the engine is told of new turns: behind the answers, and once for several that say the same."""

from pathlib import Path

from memproxy.core.protocol import Captured, UpstreamAccess
from memproxy.core.scope import Scope
from memproxy.relay.engine import EngineClient
from tests.relay.rig import ScriptedEngine, unix_server


def told(user: str, key: str, tenant: str = "acme") -> Captured:
    access = UpstreamAccess(base_url="http://127.0.0.1:9/v1", model="m", api_key=key)
    return Captured(scope=Scope(tenant=tenant, user=user), access=access)


async def test_turns_that_come_together_are_told_of_once_and_the_last_key_last(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with unix_server(engine.app(), tmp_path / "engine.sock"):
        client = EngineClient(tmp_path / "engine.sock", deadline_s=1)
        await client.open()
        for captured in (told("ann", "sk-1"), told("ben", "sk-2"), told("ann", "sk-3", "other"), told("cleo", "sk-1")):
            client.notices.captured(captured)
        await client.close()
    assert engine.captured == [told("ben", "sk-2"), told("ann", "sk-3", "other"), told("cleo", "sk-1")]


async def test_a_key_that_a_call_lends_is_told_of_at_once(tmp_path: Path) -> None:
    engine = ScriptedEngine()
    async with unix_server(engine.app(), tmp_path / "engine.sock"):
        client = EngineClient(tmp_path / "engine.sock", deadline_s=1)
        await client.open()
        client.notices.captured(told("ann", "sk-1"))
        client.notices.lend(told("ann", "sk-2"))
        await client.close()
    assert engine.captured == [told("ann", "sk-2"), told("ann", "sk-1")]
