"""The audit log: who erased or administered what, when and how far; never content."""

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from memproxy.core.audit import AuditEntry
from memproxy.core.protocol import Identity
from memproxy.stores import state_callers
from tests.support.engine import Api, WallClock, make_engine, serve_engine
from tests.support.proxy import memproxy

pytestmark = pytest.mark.asyncio(loop_scope="module")


def admin(api: Api) -> Identity:
    return Identity(tenant=api.tenant, default_user="root", by="key:a1", permissions=frozenset({"admin"}))


async def entries(api: Api) -> list[dict[str, Any]]:
    answer = await api.call("GET", "/v1/memory/audit", identity=admin(api))
    assert answer.status_code == 200, answer.text
    data: list[dict[str, Any]] = answer.json()["data"]
    return data


async def test_every_erasure_is_told_without_content(api: Api) -> None:
    writer = Identity(tenant=api.tenant, default_user="ann", bound_user=True, by="key:b2")
    one, _ = [await api.store(f"secret {n}", identity=writer, session_id="s1") for n in range(2)]
    await api.store("secret too", identity=writer, project_id="apollo")
    await api.call("DELETE", f"/v1/memory/{one['id']}", identity=writer)
    await api.call("DELETE", "/v1/memory", identity=writer, params={"project_id": "apollo"})
    await api.call("DELETE", "/v1/memory/sessions/s1", identity=writer)
    await api.call("DELETE", "/v1/memory/users/ann", identity=writer)
    told = await entries(api)
    assert [(one["by"], one["action"]) for one in told] == [
        ("key:b2", "user.erase"),
        ("key:b2", "session.undo"),
        ("key:b2", "memory.forget_scope"),
        ("key:b2", "memory.forget"),
    ]
    digests = {one["scope"]["user_id"] for one in told}
    assert len(digests) == 1, "one user's entries are told to be one's"
    assert digests.pop().startswith("erased:"), "who was erased is named no more"
    assert told[2]["scope"]["project_id"] == "apollo"
    assert told[2]["counts"] == {"deleted": 1}
    assert "secret" not in str(told)


async def test_admin_may_erase_and_count_but_read_nobodys_text(api: Api) -> None:
    await api.store("ann's secret", user_id="ann")
    root = admin(api)
    for method, path, body in (
        ("GET", "/v1/memory?user_id=ann", None),
        ("POST", "/v1/memory/search", {"query": "secret", "user_id": "ann"}),
        ("POST", "/v1/memory", {"content": "planted", "user_id": "ann"}),
    ):
        assert (await api.call(method, path, identity=root, json=body)).status_code == 403
    stats = await api.call("GET", "/v1/memory/stats", identity=root, params={"user_id": "ann"})
    assert (stats.status_code, stats.json()["memories"]["total"]) == (200, 1)
    gone = await api.call("DELETE", "/v1/memory/users/ann", identity=root)
    assert gone.json() == {"deleted": 1}
    assert (await entries(api))[0]["by"] == "key:a1"


async def test_only_admin_reads_the_log_and_only_its_own_tenants(api: Api) -> None:
    await api.store("x", user_id="ann")
    await api.call("DELETE", "/v1/memory/users/ann")
    assert (await api.call("GET", "/v1/memory/audit")).status_code == 403
    elsewhere = Identity(tenant=f"{api.tenant}-2", default_user="root", permissions=frozenset({"admin"}))
    assert (await api.call("GET", "/v1/memory/audit", identity=elsewhere)).json()["data"] == []


async def test_the_log_comes_in_pages(api: Api) -> None:
    for n in range(5):
        await api.call("DELETE", f"/v1/memory/users/u{n}")
    seen: list[str] = []
    cursor: dict[str, str] = {}
    while True:
        answer = await api.call("GET", "/v1/memory/audit", identity=admin(api), params={"limit": 2, **cursor})
        seen += [one["scope"]["user_id"] for one in answer.json()["data"]]
        if answer.json()["next_cursor"] is None:
            break
        cursor = {"cursor": answer.json()["next_cursor"]}
    assert [name[:7] for name in seen] == ["erased:"] * 5
    assert len(set(seen)) == 5
    foreign = await api.call("GET", "/v1/memory/audit", identity=admin(api), params={"cursor": "e30"})
    assert foreign.status_code == 400


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
