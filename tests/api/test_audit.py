"""The audit log: who erased or administered what, when and how far; never content."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from memproxy.core.audit import AuditEntry
from memproxy.core.protocol import Identity
from memproxy.stores import state_callers
from tests.support.engine import Api, WallClock, make_engine, serve_engine
from tests.support.proxy import memproxy

pytestmark = pytest.mark.asyncio(loop_scope="module")


def root(api: Api) -> Api:
    """Who administers the tenant."""
    return api.by(Identity(tenant=api.tenant, default_user="root", by="key:a1", permissions=frozenset({"admin"})))


async def test_every_erasure_is_told_without_content(api: Api) -> None:
    writer = api.by(Identity(tenant=api.tenant, default_user="ann", bound_user=True, by="key:b2"))
    one, _ = [await writer.store(f"secret {n}", session_id="s1") for n in range(2)]
    await writer.store("secret too", project_id="apollo")
    for path in (one["id"], "?project_id=apollo", "sessions/s1", "users/ann"):
        await writer.delete(path)
    told = await root(api).data("audit")
    actions = ("user.erase", "session.undo", "memory.forget_scope", "memory.forget")
    assert [(one["by"], one["action"]) for one in told] == [("key:b2", action) for action in actions]
    (digest,) = {one["scope"]["user_id"] for one in told}
    assert digest.startswith("erased:"), "who was erased is named no more"
    assert told[2]["scope"]["project_id"] == "apollo"
    assert told[2]["counts"] == {"deleted": 1}
    assert "secret" not in str(told)


async def test_admin_may_erase_and_count_but_read_nobodys_text(api: Api) -> None:
    await api.store("ann's secret", user_id="ann")
    for method, path, body in (
        ("GET", "?user_id=ann", None),
        ("POST", "search", {"query": "secret", "user_id": "ann"}),
        ("POST", "", {"content": "planted", "user_id": "ann"}),
    ):
        assert await root(api).status(method, path, json=body) == 403
    assert (await root(api).get("stats", user_id="ann"))["memories"]["total"] == 1
    assert await root(api).delete("users/ann") == 1
    assert (await root(api).data("audit"))[0]["by"] == "key:a1"


async def test_only_admin_reads_the_log_and_only_its_own_tenants(api: Api) -> None:
    await api.store("x", user_id="ann")
    await api.delete("users/ann")
    assert await api.status("GET", "audit") == 403
    elsewhere = Identity(tenant=f"{api.tenant}-2", default_user="root", permissions=frozenset({"admin"}))
    assert await api.data("audit", identity=elsewhere) == []


async def test_the_log_comes_in_pages(api: Api) -> None:
    for n in range(5):
        await api.delete(f"users/u{n}")
    seen = [one["scope"]["user_id"] for one in await root(api).walk("audit", limit=2)]
    assert [name[:7] for name in seen] == ["erased:"] * 5
    assert len(set(seen)) == 5
    assert await root(api).status("GET", "audit?cursor=e30") == 400


async def test_the_log_is_bounded(tmp_path: Path) -> None:
    async with serve_engine(make_engine(tmp_path)) as api:
        state = api.engine.backends().state
        entry = AuditEntry(at=WallClock().now(), tenant="acme", by="test", action="first")
        await state.note_audit([entry])
        with sqlite3.connect(tmp_path / "state.db") as db:  # as if so many had been written meanwhile
            db.execute("UPDATE sqlite_sequence SET seq = ? WHERE name = 'audit'", (state_callers.MOST_AUDITED,))
        db.close()
        await asyncio.gather(*(state.note_audit([entry]) for _ in range(3)))
        kept = await state.audit("acme", before=None, limit=10)
        assert len(kept) == 3


async def test_the_command_line_tells_of_keys_and_of_erasures(tmp_path: Path) -> None:
    made = memproxy(tmp_path, "keys", "new", "--tenant", "acme", "--user", "ann")
    key_id = made.stdout.split("_")[1]
    assert memproxy(tmp_path, "keys", "revoke", key_id).returncode == 0
    shown = memproxy(tmp_path, "audit", "--tenant", "acme").stdout.splitlines()
    assert [line.split("  ")[2:] for line in shown] == [
        ["command line", "key.revoke", f"key_id={key_id}"],
        ["command line", "key.new", f"key_id={key_id}"],
    ]
    assert made.stdout.strip() not in "".join(shown)
    assert memproxy(tmp_path, "audit", "--tenant", "other").stdout == ""
