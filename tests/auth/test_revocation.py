"""A key that is revoked by another process ends with the next request."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from memproxy.auth import Headers, make_authenticator
from memproxy.commands import keys
from memproxy.errors import Unauthenticated
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState


async def test_a_key_revoked_elsewhere_ends_at_once(tmp_path: Path) -> None:
    serving, other = (SqliteState(tmp_path / "state.db", sync="normal") for _ in range(2))
    await serving.open()
    await other.open()
    try:
        key, record = keys.made(tenant="acme")
        await other.add_proxy_key(record)
        settings = Settings.model_validate({"auth": {"mode": "keys"}})
        known = make_authenticator(settings.auth, settings.server, b"s", serving.proxy_key, serving.news)
        asking = Headers([(b"authorization", f"Bearer {key}".encode())])
        assert (await known.identify(asking)).tenant == "acme"
        assert await other.revoke_proxy_key(record.id, datetime.now(UTC))
        with pytest.raises(Unauthenticated, match="revoked"):
            await known.identify(asking)
    finally:
        await other.close()
        await serving.close()
