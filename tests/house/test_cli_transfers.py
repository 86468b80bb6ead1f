"""Commands that take memories along and keep them safe: through the running server, else on the store itself."""

import asyncio
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner

from memproxy import transfers, upkeep
from memproxy.backups import backup, restore
from memproxy.cli import app
from memproxy.core.backup import MANIFEST, BackedUp, Manifest
from memproxy.errors import ConfigError
from memproxy.home import secret
from memproxy.installation import holding, installation
from memproxy.settings import EmbeddingSettings, Settings, StoreSettings
from memproxy.supervisor import AlreadyServed
from memproxy.upkeep import Show
from tests.house.test_cli_upkeep import served, settings, told
from tests.support.folders import Folders


def at_home(folder: Path, patch: pytest.MonkeyPatch) -> Path:
    folder.mkdir()
    patch.setenv("MEMPROXY_HOME", str(folder))
    patch.setenv("MEMPROXY__EMBEDDING__PROVIDER", "none")
    patch.delenv("MEMPROXY_SECRET", raising=False)
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An installation of the test's own."""
    return at_home(tmp_path / "home", monkeypatch)


@pytest.fixture(scope="module")
def once(folders: Folders) -> Iterator[Path]:
    """A folder with a ``home`` that was `filled`, and its backup in ``saved``, which take longer than most tests."""
    with folders.new("transfers") as folder, pytest.MonkeyPatch.context() as patch:
        at_home(folder / "home", patch)
        asyncio.run(filled())
        asyncio.run(backup(settings(), folder / "saved", quiet))
        yield folder


@pytest.fixture
def known(once: Path, home: Path) -> Path:
    """An installation of the test's own, which was `filled`."""
    shutil.copytree(once / "home", home, dirs_exist_ok=True)
    return home


@pytest.fixture
def saved(once: Path, tmp_path: Path) -> Path:
    """A backup of such an installation, of whose files none is to be written to: they are those of `once`."""
    shutil.copytree(once / "saved", tmp_path / "saved", copy_function=link)
    return tmp_path / "saved"


def link(file: str, copy: str) -> None:
    try:
        os.link(file, copy)
    except OSError:  # on another disk
        shutil.copy2(file, copy)


def listed_in(saved: Path) -> Manifest:
    return msgspec.json.decode((saved / MANIFEST).read_bytes(), type=Manifest)


def replace(file: Path, content: bytes) -> None:
    file.unlink()
    file.write_bytes(content)


def quiet(done: int, total: int) -> None:
    """Shows nothing."""


async def texts(user: str = "ann") -> set[str]:
    async with installation(settings(enabled=False)) as here:
        page = await here.call("GET", "/v1/memory", user=user)
    return {memory["content"] for memory in page["data"]}


async def taken_over(path: Path, show: Show = quiet, user: str | None = None) -> transfers.Taken:
    return await transfers.import_file(
        settings(), path, show, file_format="memproxy", tenant=None, user=user, dry_run=False
    )


async def filled() -> None:
    await told(("ann", "s1", "I moved to Porto"), ("ann", "s2", "Biscuit is a beagle"), ("bob", "s1", "I like tea"))


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, list(arguments))


async def test_what_export_prints_import_takes_over_in_another_home(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await filled()
    with (tmp_path / "ann.jsonl").open("wb") as out:
        assert await transfers.export(settings(), out, quiet, tenant=None, user="ann", vectors=False) == 2
    monkeypatch.setenv("MEMPROXY_HOME", str(tmp_path / "other"))
    taken = await taken_over(tmp_path / "ann.jsonl")
    assert (taken.imported, taken.rejected) == (2, 0)
    assert await texts() == {"I moved to Porto", "Biscuit is a beagle"}
    assert await texts("bob") == set()


async def test_export_and_import_work_through_a_running_server(home: Path, tmp_path: Path) -> None:
    async with served(home):
        await filled()
        with (tmp_path / "ann.jsonl").open("wb") as out:
            done = await transfers.export(settings(), out, quiet, tenant=None, user="ann", vectors=True)
        taken = await taken_over(tmp_path / "ann.jsonl", user="eve")
        assert taken.imported == done
        assert await texts("eve") >= {"I moved to Porto", "Biscuit is a beagle"}


async def test_a_large_export_comes_and_goes_in_pieces(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memories = [
        {
            "memory": {
                "id": f"m{n}",
                "content": f"fact number {n} " * 4_000,
                "created_at": 1_700_000_000 + n,
                "user_id": "ann",
            }
        }
        for n in range(300)
    ]
    path, copy = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    path.write_text("".join(json.dumps(one) + "\n" for one in memories), "utf-8")
    told_of: list[tuple[int, int]] = []

    def show(done: int, total: int) -> None:
        told_of.append((done, total))

    assert (await taken_over(path, show)).imported == 300
    assert len(told_of) == 2
    assert told_of[-1][0] == told_of[-1][1] == path.stat().st_size
    with copy.open("wb") as out:
        assert await transfers.export(settings(), out, quiet, tenant=None, user="ann", vectors=False) == 300
    assert (await taken_over(copy)).unchanged == 300


def test_import_tells_wrong_lines_and_ends_with_1(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    good = {"memory": {"id": "m1", "content": "User likes tea", "created_at": 5, "user_id": "ann"}}
    path.write_text(json.dumps(good) + "\n" + json.dumps({"memory": {"id": ""}}) + "\n", "utf-8")
    result = run("import", str(path))
    assert result.exit_code == 1
    assert "line 2: " in result.output
    assert "1 memories imported" in result.output
    assert run("import", str(path), "--dry-run").exit_code == 1


def test_import_reads_other_products_files(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "mem0.json"
    path.write_text(json.dumps({"results": [{"id": "a", "memory": "Likes tea", "user_id": "ann"}]}), "utf-8")
    assert "1 memories imported" in run("import", str(path), "--format", "mem0").output
    exported = run("export", "--user", "ann")
    assert exported.exit_code == 0
    assert "Likes tea" in exported.stdout


@pytest.mark.parametrize("arguments", [["--format", "zep"], ["--format", "chatgpt"], []])
def test_a_file_of_another_format_is_refused_with_a_remedy(home: Path, tmp_path: Path, arguments: list[str]) -> None:
    path = tmp_path / "x.json"
    path.write_text('{"results": []}', "utf-8")
    with pytest.raises(ConfigError, match=r"format"):
        CliRunner().invoke(app, ["import", str(path), *arguments], catch_exceptions=False)


async def test_a_backup_made_while_serving_brings_back_what_was_there_then(home: Path, tmp_path: Path) -> None:
    secret({}, home)
    async with served(home):
        await filled()
        manifest = await backup(settings(), tmp_path / "saved", quiet)
        await told(("ann", "s3", "said after the backup"))
        key = (home / "secret").read_bytes()
    assert "secret" in manifest.files
    (home / "secret").unlink()
    aside = restore(settings(), tmp_path / "saved", quiet, force=True)
    assert "said after the backup" not in await texts()
    assert await texts() >= {"I moved to Porto", "Biscuit is a beagle"}
    assert await texts("bob") >= {"I like tea"}
    assert (home / "secret").read_bytes() == key
    assert [path.name.split(".before-restore-")[0] for path in aside] == ["store", "state.db"]
    assert (tmp_path / "saved").stat().st_mode & 0o077 == 0


async def test_a_restored_store_goes_on_learning_where_it_was(home: Path, tmp_path: Path) -> None:
    await told(("ann", "s1", "My dog is called Biscuit."))
    await backup(settings(), tmp_path / "saved", quiet)
    restore(settings(), tmp_path / "saved", quiet, force=True)
    assert (await upkeep.mine(settings(), quiet)).steps == 0
    assert await texts() >= {"My dog is called Biscuit."}
    assert len(await texts()) > 1
    await told(("ann", "s1", "I live in Porto"))
    assert "I live in Porto" in await texts()


def test_a_server_keeps_its_store_from_being_restored_over(home: Path, saved: Path, tmp_path: Path) -> None:
    with holding(settings()), pytest.raises(AlreadyServed):
        restore(settings(), saved, quiet, force=True)
    with holding(settings()), pytest.raises(AlreadyServed):
        restore(settings(), tmp_path / "no backup at all", quiet, force=True)  # told before anything is looked at


async def test_only_what_the_manifest_lists_is_restored(known: Path, saved: Path) -> None:
    (saved / "store" / "planted").write_text("not listed", "utf-8")
    (saved / "store" / "planted-link").symlink_to(known / "secret")
    restore(settings(), saved, quiet, force=True)
    store = known / "store"
    restored = {str(Path("store") / path.relative_to(store)) for path in store.rglob("*") if not path.is_dir()}
    assert restored == {name for name in listed_in(saved).files if name.startswith("store/")}
    assert await texts() == {"I moved to Porto", "Biscuit is a beagle"}


@pytest.mark.parametrize("kind", ["link", "folder that is a link", "pipe"])
async def test_a_listed_file_that_is_a_link_or_no_file_is_not_restored(
    known: Path, saved: Path, tmp_path: Path, kind: str
) -> None:
    """Also where what it leads to is what the manifest says."""
    victim = saved / next(name for name in listed_in(saved).files if name.count("/") > 1)
    if kind == "folder that is a link":
        victim = victim.parent
    victim.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(victim)
    else:
        victim.symlink_to(tmp_path / "elsewhere")
    before = sorted(known.iterdir())
    with pytest.raises(ConfigError, match="cannot be restored"):
        restore(settings(), saved, quiet, force=True)
    assert sorted(known.iterdir()) == before
    assert await texts() == {"I moved to Porto", "Biscuit is a beagle"}


@pytest.mark.parametrize(
    "name",
    ["/etc/x", "../x", "store/../../x", "store//x", "store/./x", "store", "store/", "state.db/x", "manifest.json"],
)
def test_a_manifest_with_a_name_that_no_backup_has_is_refused(home: Path, saved: Path, name: str) -> None:
    manifest = listed_in(saved)
    planted = BackedUp(size=1, sha256=hashlib.sha256(b"x").hexdigest())
    files = {**manifest.files, name: planted}
    replace(saved / MANIFEST, msgspec.json.encode(msgspec.structs.replace(manifest, files=files)))
    with pytest.raises(ConfigError, match="names a file that no backup has"):
        restore(settings(), saved, quiet, force=True)


async def test_what_stands_where_the_copy_is_made_is_not_written_through(
    known: Path, saved: Path, tmp_path: Path
) -> None:
    (tmp_path / "precious").write_text("precious", "utf-8")
    (known / ".state.db.restoring").symlink_to(tmp_path / "precious")
    restore(settings(), saved, quiet, force=True)
    assert (tmp_path / "precious").read_text("utf-8") == "precious"
    assert not (known / "state.db").is_symlink()
    assert await texts() == {"I moved to Porto", "Biscuit is a beagle"}


async def test_nothing_is_restored_over_without_force_or_from_a_damaged_backup(known: Path, saved: Path) -> None:
    with pytest.raises(ConfigError, match="--force"):
        restore(settings(), saved, quiet, force=False)
    victim = saved / next(name for name in listed_in(saved).files if name.startswith("store/"))
    replace(victim, victim.read_bytes() + b"x")
    with pytest.raises(ConfigError, match="damaged"):
        restore(settings(), saved, quiet, force=True)
    assert await texts() == {"I moved to Porto", "Biscuit is a beagle"}


@pytest.mark.parametrize(
    "manifest",
    [
        None,
        "{",
        '{"version": 1}',
        '{"version": 99, "made_at": "2026-01-01T00:00:00Z", "memproxy": "9", "files": {}}',
        '{"version": 1, "made_at": "2026-01-01T00:00:00Z", "memproxy": "1", "files": {}}',
        '{"version": 1, "made_at": "2026-01-01T00:00:00Z", "memproxy": "1", "files": {"../x": {"size":1,"sha256":""}}}',
    ],
)
def test_a_folder_that_is_no_whole_backup_is_refused(home: Path, tmp_path: Path, manifest: str | None) -> None:
    if manifest is not None:
        (tmp_path / MANIFEST).write_text(manifest, "utf-8")
    with pytest.raises(ConfigError):
        restore(settings(), tmp_path, quiet, force=True)


async def test_a_backup_never_goes_into_a_folder_that_is_in_use(home: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "file").touch()
    with pytest.raises(ConfigError, match="is there already"):
        await backup(settings(), tmp_path / "used", quiet)
    (tmp_path / "empty").mkdir()
    await backup(settings(), tmp_path / "empty", quiet)
    assert (tmp_path / "empty" / MANIFEST).exists()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "home", "used"]


async def test_a_servers_store_is_left_to_its_own_snapshots(home: Path, tmp_path: Path) -> None:
    remote = Settings(
        embedding=EmbeddingSettings(provider="none"), store=StoreSettings(backend="qdrant", url="http://127.0.0.1:1")
    )
    with pytest.raises(ConfigError, match="snapshots"):
        await backup(remote, tmp_path / "saved", quiet)


def test_the_commands_say_what_they_did(home: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved")
    made = run("backup", saved)
    assert made.exit_code == 0, made.output
    assert "restore" in made.output
    result = run("restore", saved, "--force")
    assert result.exit_code == 0, result.output
    assert "Restored" in result.output


async def test_a_header_that_cannot_be_read_is_told_once_under_its_line(home: Path, tmp_path: Path) -> None:
    rows: list[dict[str, Any]] = [{"format": "memproxy", "version": 99}]
    rows += [{"memory": {"id": f"m{n}", "content": f"fact {n}", "created_at": 1_700_000_000}} for n in range(3)]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(one, separators=(",", ":")) + "\n" for one in rows), "utf-8")
    taken = await taken_over(tmp_path / "in.jsonl", user="ann")
    ((number, message),) = taken.errors
    assert number == 1
    assert "version 99" in message
    counts = {"imported": 2, "replaced": 0, "unchanged": 0, "turns": 0, "rejected": 1}
    taken.add({**counts, "errors": [{"line": 1, "message": message}], "notes": []}, [1, 5, 6], queued=False)
    assert (taken.imported, taken.rejected, len(taken.errors)) == (5, 1, 1), "it goes with every piece of a file"
