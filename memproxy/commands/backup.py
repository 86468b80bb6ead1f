"""``memproxy backup``: everything of an installation into a folder, while it is served. `restore` brings it back.

A backup is a folder (`core.backup`): the embedded store, the state, the installation's secret. The master key of
``privacy.encrypt`` is not in it; neither is the configuration.

The engine copies store and state without the store's holes, so that writes wait as short as can be. The command packs
that copy file by file and reads back what it wrote. A file that the previous backup has unchanged becomes a hard link
and takes no room; it is read like the others, so that a damaged one is never counted on.
"""

import asyncio
import contextlib
import fcntl
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

import memproxy
from memproxy.commands.backup_files import Damaged, digest_of, drop_cached, pack, read_manifest, synced, unpacked
from memproxy.commands.installation import installation, without_learning
from memproxy.commands.options import Config, Json, Show, Whole, progress, quiet_settings, show, told_of_all
from memproxy.core.backup import MANIFEST, PACKED, SECRET, VERSION, BackedUp, Manifest
from memproxy.core.protocol import BACKUP_PATH, BackupAsked, BackupTold
from memproxy.engine.sparse import data_size
from memproxy.errors import ConfigError, MemproxyError
from memproxy.settings import Settings
from memproxy.settings.home import home_dir

app = typer.Typer()

RAW = "raw"
"""Folder of the copy that is not packed yet; it is gone when a backup is complete."""

_DATED = re.compile(r"\d{8}T\d{6}Z(-\d+)?")
_DRAFT = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}")


@app.command("backup")
def backup_command(
    folder: Annotated[Path, typer.Argument(help="Folder to make; with --keep, that of the dated ones.", metavar="DIR")],
    config: Config = None,
    tenant: Whole = None,
    *,
    keep: Annotated[
        int | None,
        typer.Option(
            "--keep",
            min=1,
            help="Make a dated folder below DIR, and keep the newest N of these. What is as it was is kept once.",
            metavar="N",
        ),
    ] = None,
    json: Json = False,
) -> None:
    """Copy store, state and secret into a new folder, also while serving: packed, and read back when written.

    What is not in it: the configuration, and the master key of privacy.encrypt.
    """
    settings = quiet_settings(config)
    told_of_all(tenant, "backup")
    with progress("backing up") as told:
        made = asyncio.run(backup(settings, folder, told, keep=keep))
    manifest, removed = made.manifest, [str(path) for path in made.removed]
    count, size, where = len(manifest.files), manifest.size, folder if keep is None else made.folder
    shared = f", {manifest.shared} of them shared with the backup before" if manifest.shared else ""
    line = f"{count} files, {size:,} bytes in {where}{shared}. `memproxy restore {where}` brings them back."
    result = {"folder": str(where), "files": count, "bytes": size, "shared": manifest.shared, "removed": removed}
    show(result, [line, *(f"Removed, as --keep {keep} says: {path}" for path in removed)], as_json=json)


class Made(msgspec.Struct, frozen=True, kw_only=True):
    """A complete backup, and the older ones that were removed for it."""

    folder: Path
    manifest: Manifest
    removed: list[Path] = []


async def backup(settings: Settings, folder: Path, show: Show, *, keep: int | None = None) -> Made:
    """Copy everything into ``folder``, which is made; with a server running, it does so, and serves meanwhile.

    With ``keep``, into a new folder below ``folder``, named by the time; of these the newest ``keep`` stay.

    Raises:
        ConfigError: the folder is in use for something else, or the store is a server's.
        MemproxyError: it could not be done; the message says why. No folder of that name is left then.
    """
    check_embedded(settings)
    folder = await asyncio.to_thread(folder.absolute)
    previous, made = None, folder
    if keep is not None:
        previous = await asyncio.to_thread(_prepared, folder)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        names = [stamp, *(f"{stamp}-{number}" for number in range(2, 100))]
        made = next(folder / name for name in names if not (folder / name).exists())
    with _draft(made) as draft:
        async with installation(without_learning(settings)) as here:
            # the first third of the work; then every file is packed and checked
            asked = BackupAsked(folder=str(draft / RAW))
            await here.finish(BACKUP_PATH, asked, BackupTold, lambda done, total: show(done, 3 * total))
        manifest = await asyncio.to_thread(_finished, draft, made, previous, show)
    removed = await asyncio.to_thread(_rotated, folder, made, keep) if keep is not None else []
    return Made(folder=made, manifest=manifest, removed=removed)


def check_embedded(settings: Settings) -> None:
    """Refuse an installation whose memories are not in files of its own. Raises `ConfigError`."""
    if settings.store.backend != "edge" or settings.state.backend != "sqlite":
        raise ConfigError(
            "Only the embedded store and state (store.backend: edge, state.backend: sqlite) are backed up and restored "
            "here. Use pg_dump for PostgreSQL, the snapshots of Qdrant itself, and `memproxy export` for each user."
        )


def dated(folder: Path) -> list[Path]:
    """The backups below a folder that ``--keep`` made there, oldest first."""
    found = [one for one in folder.iterdir() if _DATED.fullmatch(one.name) and (one / MANIFEST).is_file()]
    return sorted(one for one in found if not one.is_symlink())


def _prepared(folder: Path) -> Path | None:
    """Make the folder of dated backups if it is not there, remove the drafts that killed runs left in it, and say which
    backup is the newest.
    """
    if (folder / MANIFEST).exists():
        raise ConfigError(f"{folder} is one backup. With --keep, name the folder that is to hold several.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for one in folder.iterdir():
            draft = _DRAFT.fullmatch(one.name)
            if draft and _DATED.fullmatch(draft["name"]) and one.is_dir() and not one.is_symlink():
                _remove_abandoned(one)
        return max(dated(folder), default=None)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used ({error.strerror}).") from error


def _remove_abandoned(draft: Path) -> None:
    held = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(draft)
    except BlockingIOError:
        pass  # another run is at work
    finally:
        os.close(held)


@contextlib.contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """The folder that takes the name of ``folder`` when it is complete. It is locked as long as this process works on
    it, so that another run knows whether it was abandoned.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        several = " Or give --keep N: a dated one is made below it." if folder.is_dir() else ""
        raise ConfigError(f"{folder} is there already. Name a folder that is not, or an empty one.{several}")
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        draft.mkdir(mode=0o700, parents=True)
        (draft / RAW).mkdir(mode=0o700)
        held = os.open(draft, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise ConfigError(f"{draft} cannot be made ({error.strerror}).") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        os.close(held)


def _finished(draft: Path, folder: Path, previous: Path | None, show: Show) -> Manifest:
    """Pack what was copied, and the secret; check it, add the manifest, make all durable, and give it its name."""
    raw = draft / RAW
    secret = home_dir() / SECRET
    if not os.environ.get("MEMPROXY_SECRET") and secret.exists():
        shutil.copyfile(secret, raw / SECRET)
    manifest = _packed(raw, draft, previous, show)
    shutil.rmtree(raw)
    (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    (draft / MANIFEST).chmod(0o600)
    for path in (draft / MANIFEST, *(one for one in draft.rglob("*") if one.is_dir()), draft):
        synced(path)
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    draft.rename(folder)
    synced(folder.parent)
    return manifest


def _packed(raw: Path, draft: Path, previous: Path | None, show: Show) -> Manifest:
    """Pack the files of a copy one after another, and remove them from it; what the previous backup has is shared.

    Raises:
        MemproxyError: what was written is not what is read.
    """
    known: dict[str, BackedUp] = {}
    if previous is not None:
        with contextlib.suppress(ConfigError):  # a damaged one is nothing to build on
            known = read_manifest(previous).files
    paths = sorted(path for path in raw.rglob("*") if path.is_file())
    done = total = sum(map(data_size, paths))
    files, shared = {}, 0
    for path in paths:
        name, size = str(path.relative_to(raw)), data_size(path)
        (draft / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if previous is not None and _is_linked(path, draft, name, known.get(name), previous):
            files[name] = known[name]
            shared += 1
        else:
            files[name] = pack(path, draft / (name + PACKED))
            drop_cached(draft / (name + PACKED))
            try:
                _check(draft, name, files[name])
            except Damaged as error:
                raise MemproxyError(
                    f"{name}{PACKED} was written and is read otherwise ({error}): no backup was made. Check the disk, "
                    "or name a folder on another one."
                ) from error
        path.unlink()
        done += 2 * size
        show(done, 3 * total)
    return Manifest(
        version=VERSION, made_at=datetime.now(UTC), memproxy=memproxy.__version__, files=files, shared=shared
    )


def _is_linked(path: Path, draft: Path, name: str, known: BackedUp | None, previous: Path) -> bool:
    """Link the same file of the previous backup, where it has it, and it is whole; else False."""
    if known is None or known.size != path.stat().st_size or not known.is_same(digest_of(path)):
        return False
    packed = draft / (name + PACKED)
    try:
        os.link(previous / (name + PACKED), packed, follow_symlinks=False)
        _check(draft, name, known)
    except OSError:
        return False  # the file system has no hard links, or the file is gone
    except Damaged:
        packed.unlink()
        return False
    return True


def _check(draft: Path, name: str, expected: BackedUp) -> None:
    for _ in unpacked(draft, name, expected):
        pass


def _rotated(folder: Path, made: Path, keep: int) -> list[Path]:
    """Remove all dated backups but the newest; the one just made stays, whatever the clock says."""
    others = [one for one in dated(folder) if one != made]
    old = others[: max(0, len(others) - (keep - 1))]
    for one in old:
        (one / MANIFEST).unlink()  # half of a backup is none
        shutil.rmtree(one)
    return old
