"""Backups of an installation whose memories or state are on servers: what is named, and how it comes back."""

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from memproxy.commands.installation import installation
from memproxy.commands.options import quiet_settings
from memproxy.models.embedding import NoEmbedder
from memproxy.stores.qdrant import QdrantStore
from memproxy.wiring.engine_parts import make_store
from tests.house.conftest import at_home
from tests.house.test_cli_transfers import run
from tests.support.qdrant import QdrantServer, qdrant_server

pytestmark = pytest.mark.services

KEY = "a-key-of-the-server"


@pytest.fixture
def server() -> Iterator[QdrantServer]:
    with qdrant_server(QDRANT__SERVICE__API_KEY=KEY) as started:
        yield started


@pytest.fixture
def config(server: QdrantServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of an installation of the test's own."""
    at_home(tmp_path / "home", monkeypatch)
    monkeypatch.setenv("QDRANT_API_KEY", KEY)
    return written(tmp_path, f"{{backend: qdrant, url: '{server.url}', grpc_port: 0, api_key: '${{QDRANT_API_KEY}}'}}")


def written(folder: Path, store: str, state: str = "{}") -> Path:
    file = folder / "memproxy.yaml"
    file.write_text(
        f"embedding: {{provider: none}}\nlearn: {{enabled: false}}\nstore: {store}\nstate: {state}\n", encoding="utf-8"
    )
    return file


def tell(config: Path, *texts: str) -> None:
    async def told() -> None:
        async with installation(quiet_settings(config)) as here:
            for text in texts:
                await here.call("POST", "/v1/memory", user="ann", json={"content": text})

    asyncio.run(told())


def known(config: Path) -> set[str]:
    async def asked() -> set[str]:
        async with installation(quiet_settings(config)) as here:
            page = await here.call("GET", "/v1/memory", user="ann")
        return {memory["content"] for memory in page["data"]}

    return asyncio.run(asked())


def snapshots(server: QdrantServer, collection: str) -> set[str]:
    answer = httpx.get(f"{server.url}/collections/{collection}/snapshots", headers={"api-key": KEY})
    return {one["name"] for one in answer.json()["result"]}


def backed_up(config: Path, *arguments: str) -> dict[str, Any]:
    """Make a backup, and answer what it says of the snapshot."""
    made = run("backup", *arguments, "--config", str(config), "--json")
    assert made.exit_code == 0, made.output
    found: dict[str, Any] = json.loads(made.stdout)["snapshot"]
    return found


@pytest.mark.parametrize("reindexed", [False, True])
def test_the_printed_steps_bring_back_memories_of_a_qdrant_server(
    server: QdrantServer, config: Path, tmp_path: Path, *, reindexed: bool
) -> None:
    tell(config, "I moved to Porto", "Biscuit is a beagle")
    if reindexed:
        done = run("reindex", "--config", str(config))
        assert done.exit_code == 0, done.output
    snapshot = backed_up(config, str(tmp_path / "saved"))
    assert snapshot["collection"] == ("memproxy__a" if reindexed else "memproxy")
    assert snapshots(server, snapshot["collection"]) == {snapshot["name"]}
    place = f"{server.url}/collections/{snapshot['collection']}/snapshots/{snapshot['name']}"
    kept = httpx.get(place, headers={"api-key": KEY})
    assert len(kept.content) == snapshot["size"]
    tell(config, "said after the backup")
    restored = run("restore", str(tmp_path / "saved"), "--config", str(config), "--force")
    assert restored.exit_code == 0, restored.output
    assert KEY not in restored.output
    steps = [line for line in restored.output.splitlines() if line.startswith("curl ")]
    assert len(steps) == (2 if reindexed else 1)
    for step in steps:
        subprocess.run(["/bin/sh", "-c", step], check=True, capture_output=True, timeout=60)
    assert known(config) == {"I moved to Porto", "Biscuit is a beagle"}


def test_dated_backups_that_go_take_their_snapshots_along(server: QdrantServer, config: Path, tmp_path: Path) -> None:
    tell(config, "I moved to Porto")
    first, second, third = (backed_up(config, str(tmp_path / "saved"), "--keep", "2")["name"] for _ in range(3))
    assert snapshots(server, "memproxy") == {second, third}
    assert first not in {second, third}


def test_a_snapshot_of_a_backup_that_failed_does_not_stay(server: QdrantServer, config: Path, tmp_path: Path) -> None:
    async def failed() -> None:
        store = make_store(quiet_settings(config), tmp_path / "home", NoEmbedder(384))
        assert isinstance(store, QdrantStore)
        await store.open(None)
        try:
            async with store.snapshot():
                assert len(snapshots(server, "memproxy")) == 1
                raise ValueError
        finally:
            await store.close()

    with pytest.raises(ValueError):  # noqa: PT011 - the one that was raised
        asyncio.run(failed())
    assert snapshots(server, "memproxy") == set()


def test_what_is_in_postgresql_is_for_pg_dump(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    at_home(tmp_path / "home", monkeypatch)
    server = "{backend: postgres, url: 'postgresql://memproxy@127.0.0.1:1/memproxy'}"
    for command in ("backup", "restore"):
        for store, state in ((server, "{}"), ("{}", server)):
            config = written(tmp_path, store, state)
            refused = run(command, str(tmp_path / "saved"), "--config", str(config))
            assert refused.exit_code == 1, refused.output
            assert "pg_dump --format=custom" in str(refused.exception)
    assert not (tmp_path / "saved").exists()


def test_a_backup_is_not_restored_into_an_installation_that_keeps_its_memories_elsewhere(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(config, "I moved to Porto")
    backed_up(config, str(tmp_path / "saved"))
    at_home(tmp_path / "other", monkeypatch)
    refused = run("restore", str(tmp_path / "saved"), "--config", str(written(tmp_path, "{}")))
    assert refused.exit_code == 1, refused.output
    assert "store.backend: qdrant, and here it is edge" in str(refused.exception)
    assert not (tmp_path / "other" / "state.db").exists()
