"""Backups: made while serving, packed, shared between dated ones, looked through before anything is restored."""

import asyncio
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zstandard

from memproxy.commands import upkeep
from memproxy.commands.backup import BackupDone, backup, dated
from memproxy.commands.installation import holding
from memproxy.commands.options import Finding, Show
from memproxy.commands.restore import require, restoring
from memproxy.core.backup_manifest import MANIFEST, PACKED, STATE, BackedUp, Manifest
from memproxy.engine import sparse
from memproxy.errors import ConfigError
from memproxy.serve.instance import AlreadyServed
from memproxy.settings import Settings
from memproxy.settings.home import secret
from tests.house.conftest import at_home
from tests.house.test_cli_transfers import filled, quiet, run, texts
from tests.house.test_cli_upkeep import served, settings, told
from tests.support.folders import Folders
from tests.support.proxy import environment
from tests.support.waiting import LONGEST_S, eventually

MIB = 1024 * 1024
TOLD = {"I moved to Porto", "Biscuit is a beagle"}


def restore(settings: Settings, folder: Path, show: Show, *, force: bool) -> list[Path]:
    """As the command does."""
    with restoring(settings, folder, force=force) as restoration:
        require(restoration.look(show))
        return restoration.run(show)


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
    shutil.copytree(
        once / "home", home, dirs_exist_ok=True, copy_function=lambda one, other: sparse.copy(Path(one), Path(other))
    )
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


def stored(saved: Path, wanted: Callable[[str], bool] = lambda name: name.startswith("store/")) -> str:
    """The path in the backup of one of its files."""
    manifest = listed_in(saved)
    return next(name + PACKED for name in manifest.files if wanted(name))


def put(saved: Path, name: str, content: bytes) -> None:
    """Replace a file of a backup, and its entry in the manifest: what somebody made, and not by accident."""
    packed = zstandard.ZstdCompressor().compress(content)
    replace(saved / (name + PACKED), packed)
    entry = BackedUp(size=len(content), sha256=hashlib.sha256(content).hexdigest(), packed=len(packed))
    manifest = listed_in(saved)
    changed = msgspec.structs.replace(manifest, files={**manifest.files, name: entry})
    replace(saved / MANIFEST, msgspec.json.encode(changed))


def content_of(saved: Path, name: str) -> bytes:
    return zstandard.ZstdDecompressor().stream_reader((saved / (name + PACKED)).read_bytes()).read()


async def kept(folder: Path, keep: int) -> BackupDone:
    return await backup(settings(), folder, quiet, keep=keep)


def looked(folder: Path, *, force: bool = True, free: int = 1 << 40) -> dict[str, Finding]:
    with restoring(settings(), folder, force=force, free=lambda _: free) as restoration:
        return {one.part: one for one in restoration.look(quiet)}


async def test_a_backup_made_while_serving_brings_back_what_was_there_then(home: Path, tmp_path: Path) -> None:
    secret({}, home)
    async with served(home):
        await filled()
        manifest = (await backup(settings(), tmp_path / "saved", quiet)).manifest
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
    victim = saved / stored(saved, lambda name: name.count("/") > 1)
    if kind == "folder that is a link":
        victim = victim.parent
    victim.rename(tmp_path / "elsewhere")
    if kind == "pipe":
        os.mkfifo(victim)
    else:
        victim.symlink_to(tmp_path / "elsewhere")
    before = sorted(known.iterdir())
    with pytest.raises(ConfigError, match=r"cannot be read|is missing|no regular file"):
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


async def test_nothing_is_restored_over_without_force(known: Path, saved: Path) -> None:
    with pytest.raises(ConfigError, match="--force"):
        restore(settings(), saved, quiet, force=False)
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


def test_the_commands_say_what_they_did(home: Path, tmp_path: Path) -> None:
    saved = str(tmp_path / "saved")
    made = run("backup", saved)
    assert made.exit_code == 0, made.output
    assert "restore" in made.output
    result = run("restore", saved, "--force")
    assert result.exit_code == 0, result.output
    assert "Restored" in result.output


async def test_a_backup_takes_the_room_of_what_was_said_and_not_of_the_stores_holes(
    known: Path, tmp_path: Path
) -> None:
    long = sum(path.stat().st_size for path in (known / "store").rglob("*") if path.is_file())
    manifest = (await backup(settings(), tmp_path / "saved", quiet)).manifest
    assert long > 100 * MIB
    assert manifest.size < MIB
    assert sum(one.size for one in manifest.files.values()) > 100 * MIB
    files = [path for path in (tmp_path / "saved").rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) < MIB
    assert all(path.suffix == PACKED or path.name == MANIFEST for path in files)
    assert not [path for path in files if path.stat().st_mode & 0o077]
    restore(settings(), tmp_path / "saved", quiet, force=True)
    assert sum(map(sparse.data_size, filter(Path.is_file, (known / "store").rglob("*")))) < 8 * MIB
    assert await texts() == TOLD


async def test_every_file_can_be_read_by_the_usual_tool_and_is_what_the_manifest_says(saved: Path) -> None:
    manifest = listed_in(saved)
    assert manifest.version == 2
    for name, entry in manifest.files.items():
        content = content_of(saved, name)
        assert (len(content), hashlib.sha256(content).hexdigest()) == (entry.size, entry.sha256)
        assert (saved / (name + PACKED)).stat().st_size == entry.packed


@pytest.mark.parametrize("damage", ["flipped", "cut", "longer", "gone", "emptied", "another's"])
async def test_a_damaged_file_is_named_before_anything_is_touched(known: Path, saved: Path, damage: str) -> None:
    victim, whole = saved / stored(saved), (saved / stored(saved)).read_bytes()
    flipped = whole[:-3] + bytes([whole[-3] ^ 4]) + whole[-2:]
    others = (saved / f"{STATE}{PACKED}").read_bytes()
    damaged = {"flipped": flipped, "cut": whole[:-1], "longer": whole + b"x", "emptied": b"", "another's": others}
    victim.unlink()
    if damage != "gone":
        victim.write_bytes(damaged[damage])

    def written() -> dict[Path, int]:
        return {path: path.lstat().st_mtime_ns for path in known.rglob("*") if not path.name.endswith("lock")}

    before = written()
    with pytest.raises(ConfigError, match="damaged") as refused:
        restore(settings(), saved, quiet, force=True)
    assert str(victim) in refused.value.message
    assert written() == before


async def test_all_that_is_in_the_way_is_said_at_once_and_no_more_room_is_asked_for_than_the_data_needs(
    known: Path, saved: Path
) -> None:
    assert looked(saved, free=16 * MIB)["disk"].works
    assert not looked(saved, free=MIB)["disk"].works
    replace(saved / stored(saved), b"x")
    found = looked(saved, force=False, free=1000)
    assert {part for part, one in found.items() if not one.works} == {"files", "place", "disk"}
    assert "--force" in found["place"].text
    assert "1,000 are free" in found["disk"].text


async def test_what_a_newer_memproxy_wrote_is_refused_before_it_is_put_in_place(known: Path, saved: Path) -> None:
    whole = content_of(saved, STATE)
    put(saved, STATE, whole[:60] + (9999).to_bytes(4, "big") + whole[64:])
    assert "state has version 9999" in looked(saved)["version"].text
    put(saved, STATE, whole)
    assert looked(saved)["version"].works
    put(saved, "store/memproxy-store.json", b'{"version": 77}')
    assert "store has version 77" in looked(saved)["version"].text
    put(saved, "store/memproxy-store.json", b'{"version": 1}')
    manifest = msgspec.structs.replace(listed_in(saved), memproxy="999.0.1")
    replace(saved / MANIFEST, msgspec.json.encode(manifest))
    assert "install memproxy 999.0.1" in looked(saved)["version"].text


async def test_dated_backups_are_kept_up_to_a_number_share_what_did_not_change_and_the_newest_is_restored(
    known: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "daily"
    first = await kept(folder, 2)
    assert first.folder.parent == folder
    assert first.manifest.shared == 0
    await told(("ann", "s3", "I play the cello"))
    second = await kept(folder, 2)
    assert 0 < second.manifest.shared < len(second.manifest.files)
    (folder / "notes.txt").write_text("not ours", "utf-8")
    (folder / "20200101T000000Z").mkdir()  # no backup: nothing says so
    third = await kept(folder, 2)
    assert third.removed == [first.folder]
    assert dated(folder) == [second.folder, third.folder]
    assert (folder / "notes.txt").exists()
    assert (folder / "20200101T000000Z").is_dir()
    assert sorted(path.name for path in folder.iterdir() if path.name.startswith(".")) == []
    await told(("ann", "s4", "said after all backups"))
    with restoring(settings(), folder, force=True) as restoration:
        assert restoration.folder == third.folder
        assert "the newest of 2 there" in restoration.look(quiet)[0].text
        restoration.run(quiet)
    assert await texts() == {*TOLD, "I play the cello"}
    restore(settings(), second.folder, quiet, force=True)
    assert await texts() == {*TOLD, "I play the cello"}


async def test_a_file_of_the_backup_before_that_is_damaged_is_written_anew(known: Path, tmp_path: Path) -> None:
    first = await kept(tmp_path / "daily", 3)
    victim = first.folder / stored(first.folder)
    content = victim.read_bytes()
    victim.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    second = await kept(tmp_path / "daily", 3)
    assert second.manifest.shared > 0
    restore(settings(), second.folder, quiet, force=True)
    assert await texts() == TOLD


async def test_backups_with_other_names_are_told_apart_by_their_own_time(known: Path, tmp_path: Path) -> None:
    for name in ("tuesday", "monday"):
        await backup(settings(), tmp_path / "all" / name, quiet)
    with restoring(settings(), tmp_path / "all", force=True) as restoration:
        assert restoration.folder.name == "monday"


async def test_a_backup_that_cannot_be_read_is_not_built_on_nor_passed_over_for_an_older_one(
    known: Path, tmp_path: Path
) -> None:
    first = (await kept(tmp_path / "daily", 3)).folder / MANIFEST
    whole = first.read_bytes()
    replace(first, b"{")
    newest = await kept(tmp_path / "daily", 3)
    assert newest.manifest.shared == 0
    replace(first, whole)
    replace(newest.folder / MANIFEST, b"{")
    with pytest.raises(ConfigError, match=newest.folder.name):
        restore(settings(), tmp_path / "daily", quiet, force=True)


async def test_what_a_killed_run_left_is_removed_and_a_running_ones_is_not(known: Path, tmp_path: Path) -> None:
    folder, of_that_name = tmp_path / "daily", tmp_path / ".saved.0123abcd"
    names = ("20260101T000000Z.0123abcd", "20260101T000000Z.0123abce", "mine.0123abcd")
    dead, alive, foreign = (folder / f".{name}" for name in names)
    for one in (dead, alive, foreign, of_that_name, tmp_path / ".other.0123abcd"):
        (one / "raw").mkdir(parents=True)
    held = os.open(alive, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    await kept(folder, 1)
    os.close(held)
    assert [dead.exists(), alive.exists(), foreign.exists(), of_that_name.exists()] == [False, True, True, True]
    await backup(settings(), tmp_path / "saved", quiet)
    assert [of_that_name.exists(), (tmp_path / ".other.0123abcd").exists()] == [False, True]


async def test_a_backup_that_is_told_to_end_leaves_no_copy_behind(known: Path, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    command = [sys.executable, "-m", "memproxy", "backup", str(folder / "one")]
    with subprocess.Popen(command, env=environment(known), stdout=subprocess.DEVNULL) as process:
        await eventually(lambda: folder.is_dir() and any(folder.iterdir()), what="it has begun")
        process.terminate()
        assert await asyncio.to_thread(process.wait, LONGEST_S) == 128 + signal.SIGTERM
    assert list(folder.iterdir()) == []


async def test_dated_backups_do_not_go_into_a_folder_that_is_one_backup(known: Path, saved: Path) -> None:
    with pytest.raises(ConfigError, match="is one backup"):
        await kept(saved, 2)


def test_a_restoration_can_be_looked_at_without_being_done(known: Path, saved: Path) -> None:
    before = sorted(known.rglob("*"))
    refused = run("restore", str(saved), "--check")
    assert refused.exit_code == 1
    assert "FAIL place" in refused.output
    fine = run("restore", str(saved), "--check", "--force")
    assert fine.exit_code == 0, fine.output
    assert "nothing was changed" in fine.output
    assert sorted(known.rglob("*")) == before


def test_a_backup_can_be_checked_where_its_server_runs(known: Path, saved: Path) -> None:
    with holding(settings()):
        checked = run("restore", str(saved), "--check", "--force")
        assert checked.exit_code == 1
        assert ["FAIL server" in checked.output, "ok   files" in checked.output] == [True, True]
        refused = run("restore", str(saved), "--force")
        assert refused.exit_code == 1
        assert "ok   files" not in refused.output, "nothing is looked at for what cannot be"


async def test_progress_goes_on_to_the_end(known: Path, tmp_path: Path) -> None:
    steps: list[tuple[int, int]] = []
    await backup(settings(), tmp_path / "saved", lambda done, total: steps.append((done, total)))
    parts = [done / total for done, total in steps if total]
    assert parts == sorted(parts)
    assert parts[-1] == 1
