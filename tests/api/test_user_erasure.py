"""After a user is erased, nothing of it is left in any file."""

from pathlib import Path

import pytest

from memproxy.core.scope import Scope
from tests.support.engine import make_engine, serve_engine

pytestmark = pytest.mark.asyncio

SECRETS = ("xylophonist", "quokkaville", "zzuser", "zzsession")


async def test_no_byte_of_an_erased_user_is_in_a_file_of_the_state_or_the_store(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        messages = [{"role": "user", "content": "I am a xylophonist from Quokkaville"}]
        body = {"user_id": "zzuser", "session_id": "zzsession", "messages": messages}
        assert (await api.call("POST", "/v1/memory/turns", json=body)).status_code == 201
        await api.store("Quokkaville is nice", user_id="zzuser", subject="Quokkaville", session_id="zzsession")
        await api.store("kept", user_id="other")
        gone = await api.call("DELETE", "/v1/memory/users/zzuser")
        assert gone.json() == {"deleted": 2}
        state, scope = api.engine.backends().state, Scope(tenant=api.tenant, user="zzuser")
        assert await state.outcomes(scope, session=None, limit=10) == []
        assert await state.palace_names(scope) == {}
        assert left_in(tmp_path / "state.db") == set()
    # that this user was erased is in the audit log, by id
    assert left_in(*tmp_path.rglob("*")) <= {"zzuser"}


def left_in(*files: Path) -> set[str]:
    read = b"".join(path.read_bytes().lower() for path in files if path.is_file())
    return {secret for secret in SECRETS if secret.encode() in read}
