"""``memproxy backup``: everything of an installation into a folder, while it is served. `restore` brings it back.

A backup is a folder (`core.backup_manifest`): the embedded store, the state, the installation's secret; not the master
key of ``privacy.encrypt``, nor the configuration. A Qdrant server makes a snapshot, which the folder names; what is in
PostgreSQL is for pg_dump.

The engine copies store and state without the store's holes, so that writes wait shortly. The command packs that copy
file by file and reads back what it wrote. A file that the previous backup has unchanged becomes a hard link; it is read
like the others, so that a damaged one is never counted on.
"""

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, BinaryIO

import httpx
import msgspec
import typer
import zstandard

import memproxy
from memproxy.commands.installation import installation, without_learning
from memproxy.commands.options import Config, Json, Show, Whole, progress, quiet_settings, show, tell_of_all_tenants
from memproxy.core.backup_manifest import MANIFEST, PACKED, SECRET, STATE, STORE, VERSION, BackedUp, Manifest, Snapshot
from memproxy.core.protocol import BACKUP_PATH, BackupAsked, BackupTold
from memproxy.engine import sparse
from memproxy.engine.sparse import data_size
from memproxy.errors import ConfigError, MemproxyError
from memproxy.settings import Settings
from memproxy.settings.home import home_dir

app = typer.Typer()

RAW = "raw"
"""Folder of the copy that is not packed yet; it is gone when a backup is complete."""

_DROP_S = 60.0
"""Longest time that a server may take to remove a snapshot."""

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

    What is not in it: the configuration, and the master key of privacy.encrypt. A Qdrant server makes
    a snapshot of its memories, which the folder names. What is in PostgreSQL is for pg_dump.
    """
    settings = quiet_settings(config)
    tell_of_all_tenants(tenant, "backup")
    with progress("backing up") as shows:
        done = asyncio.run(backup(settings, folder, shows, keep=keep))
    manifest, where = done.manifest, folder if keep is None else done.folder
    result = {
        "folder": str(where),
        "files": len(manifest.files),
        "bytes": manifest.size,
        "shared": manifest.shared,
        "removed": [str(path) for path in done.removed],
    }
    if manifest.snapshot is not None:
        result["snapshot"] = msgspec.to_builtins(manifest.snapshot)
    show(result, _report(settings, done, where, keep), as_json=json)


class BackupDone(msgspec.Struct, frozen=True, kw_only=True):
    """A complete backup, and the older ones that were removed for it."""

    folder: Path
    manifest: Manifest
    removed: list[Path] = []
    kept_snapshots: list[str] = []
    """Addresses of their snapshots that could not be removed."""


def _report(settings: Settings, done: BackupDone, where: Path, keep: int | None) -> Iterator[str]:
    manifest = done.manifest
    shared = f", {manifest.shared} of them shared with the backup before" if manifest.shared else ""
    count = f"{len(manifest.files)} files, {manifest.size:,} bytes"
    yield f"{count} in {where}{shared}. `memproxy restore {where}` brings them back."
    if (snapshot := manifest.snapshot) is not None:
        yield (
            f"The memories are in snapshot {snapshot.name} ({snapshot.size:,} bytes) of collection "
            f"{snapshot.collection}, which Qdrant keeps. Copy it elsewhere: {snapshot_address(settings, snapshot)}"
        )
    yield from (f"Removed, as --keep {keep} says: {path}" for path in done.removed)
    if settings.state.backend == "postgres":
        yield f"The state is not in it: {DUMP}"
    yield from (
        f"A snapshot that is not needed any more is still on the server: {name}" for name in done.kept_snapshots
    )


async def backup(settings: Settings, folder: Path, show: Show, *, keep: int | None = None) -> BackupDone:
    """Copy everything into ``folder``, which is made; with a server running, it does so, and serves meanwhile.

    With ``keep``, into a new folder below ``folder``, named by the time; of these the newest ``keep`` stay.

    Raises:
        ConfigError: the folder is in use for something else, or the store is a server's.
        MemproxyError: it could not be done; the message says why. No folder of that name is left then.
    """
    check_backends(settings)
    folder = await asyncio.to_thread(folder.absolute)
    previous, target = None, folder
    if keep is not None:
        previous = await asyncio.to_thread(_prepare, folder)
        stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
        names = [stamp, *(f"{stamp}-{number}" for number in range(2, 100))]
        target = next(folder / name for name in names if not (folder / name).exists())
    with _draft(target) as draft:
        async with installation(without_learning(settings)) as running:
            # the first third of the work; then every file is packed and checked
            request = BackupAsked(folder=str(draft / RAW), state=settings.state.backend == "sqlite")
            answer = await running.finish(BACKUP_PATH, request, BackupTold, lambda done, total: show(done, 3 * total))
        try:
            manifest = await asyncio.to_thread(_finish, draft, target, previous, show, answer.snapshot)
        except BaseException:
            await _drop_snapshots(settings, [answer.snapshot] if answer.snapshot else [])
            raise
    old, snapshots = await asyncio.to_thread(_remove_old, folder, target, keep) if keep is not None else ([], [])
    kept_snapshots = await _drop_snapshots(settings, snapshots)
    return BackupDone(folder=target, manifest=manifest, removed=old, kept_snapshots=kept_snapshots)


DUMP = (
    "pg_dump --format=custom --file=memproxy.dump DATABASE, and back with pg_restore --clean --if-exists while nobody "
    "serves."
)
"""How PostgreSQL is backed up."""


def check_backends(settings: Settings) -> None:
    """Refuse an installation whose memories are in PostgreSQL, or in files while its state is there. Raises
    `ConfigError`.
    """
    if settings.store.backend == "postgres":
        raise ConfigError(f"The memories are in PostgreSQL, which is backed up by its own tool: {DUMP}")
    if settings.store.backend == "edge" and settings.state.backend == "postgres":
        raise ConfigError(
            "The state is in PostgreSQL and the memories are in files, and both must be of one moment: stop memproxy, "
            f"copy store.path, and back the state up: {DUMP}"
        )


def snapshot_address(settings: Settings, snapshot: Snapshot) -> str:
    """Where the server gives a snapshot."""
    return f"{(settings.store.url or '').rstrip('/')}/collections/{snapshot.collection}/snapshots/{snapshot.name}"


async def _drop_snapshots(settings: Settings, snapshots: list[Snapshot]) -> list[str]:
    """Have the server remove these; the addresses of those that it has not removed."""
    key = settings.store.api_key
    headers = {"api-key": key.get_secret_value()} if key else {}
    remaining = []
    async with httpx.AsyncClient(headers=headers, timeout=_DROP_S) as client:
        for address in (snapshot_address(settings, snapshot) for snapshot in snapshots):
            try:
                answer = await client.delete(address)
                is_gone = not answer.is_error or answer.status_code == HTTPStatus.NOT_FOUND
            except httpx.HTTPError:
                is_gone = False
            if not is_gone:
                remaining.append(address)
    return remaining


def dated(folder: Path) -> list[Path]:
    """The backups below a folder that ``--keep`` made there, oldest first."""
    folders = [path for path in folder.iterdir() if _DATED.fullmatch(path.name) and (path / MANIFEST).is_file()]
    return sorted(path for path in folders if not path.is_symlink())


def _prepare(folder: Path) -> Path | None:
    """Make the folder of dated backups if it is not there, remove the drafts that killed runs left in it, and say which
    backup is the newest.
    """
    if (folder / MANIFEST).exists():
        raise ConfigError(f"{folder} is one backup. With --keep, name the folder that is to hold several.")
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        remove_abandoned(folder, lambda name: (draft := _DRAFT.fullmatch(name)) and _DATED.fullmatch(draft["name"]))
        return max(dated(folder), default=None)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used ({error.strerror}).") from error


def remove_abandoned(parent: Path, is_ours: Callable[[str], object]) -> None:
    """Remove the folders of `working_folder` below ``parent`` that killed runs left: whole copies of what was said.
    ``is_ours`` tells them by their names.

    Raises:
        OSError: one cannot be looked into.
    """
    for path in parent.iterdir():
        if not is_ours(path.name) or path.is_symlink() or not path.is_dir():
            continue
        with descriptor(path, os.O_RDONLY | os.O_DIRECTORY) as held, contextlib.suppress(BlockingIOError):
            # raised where another run is at work
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path)


@contextlib.contextmanager
def working_folder(folder: Path) -> Iterator[None]:
    """Make this folder, which is gone afterwards unless it got another name. It is locked as long as this process works
    on it, so that another run knows whether it was abandoned (`remove_abandoned`).

    Raises:
        ConfigError: it cannot be made.
    """
    with contextlib.ExitStack() as cleaning:
        cleaning.callback(shutil.rmtree, folder, ignore_errors=True)  # a signal may come as soon as it is there
        try:
            folder.mkdir(mode=0o700, parents=True)
            held = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            cleaning.pop_all()
            raise ConfigError(f"{folder} cannot be made ({error.strerror}). Name a folder elsewhere.") from error
        try:
            fcntl.flock(held, fcntl.LOCK_EX)
            yield
        finally:
            shutil.rmtree(folder, ignore_errors=True)
            os.close(held)


@contextlib.contextmanager
def _draft(folder: Path) -> Iterator[Path]:
    """The folder that takes the name of ``folder`` when it is complete. What killed runs left of one goes."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        several = " Or give --keep N: a dated one is made below it." if folder.is_dir() else ""
        raise ConfigError(f"{folder} is there already. Name a folder that is not, or an empty one.{several}")
    with contextlib.suppress(OSError):  # told below, where it is in the way
        remove_abandoned(folder.parent, lambda name: (draft := _DRAFT.fullmatch(name)) and draft["name"] == folder.name)
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    with working_folder(draft):
        (draft / RAW).mkdir(mode=0o700)
        yield draft


def _finish(draft: Path, folder: Path, previous: Path | None, show: Show, snapshot: Snapshot | None) -> Manifest:
    """Pack what was copied, and the secret; check it, add the manifest, make all durable, and give it its name."""
    raw = draft / RAW
    secret = home_dir() / SECRET
    if not os.environ.get("MEMPROXY_SECRET") and secret.exists():
        shutil.copyfile(secret, raw / SECRET)
    manifest = msgspec.structs.replace(_pack(raw, draft, previous, show), snapshot=snapshot)
    shutil.rmtree(raw)
    (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    (draft / MANIFEST).chmod(0o600)
    for path in (draft / MANIFEST, *(child for child in draft.rglob("*") if child.is_dir()), draft):
        synced(path)
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    draft.rename(folder)
    synced(folder.parent)
    return manifest


def _pack(raw: Path, draft: Path, previous: Path | None, show: Show) -> Manifest:
    """Pack the files of a copy one after another, and remove them from it; what the previous backup has is shared."""
    earlier: dict[str, BackedUp] = {}
    if previous is not None:
        with contextlib.suppress(ConfigError):  # a damaged one is nothing to build on
            earlier = read_manifest(previous).files
    paths = sorted(path for path in raw.rglob("*") if path.is_file())
    done = total = sum(map(data_size, paths))
    files, shared = {}, 0
    for path in paths:
        name, size = str(path.relative_to(raw)), data_size(path)
        (draft / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if previous is not None and _is_linked(path, draft, name, earlier.get(name), previous):
            files[name] = earlier[name]
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


def _is_linked(path: Path, draft: Path, name: str, earlier: BackedUp | None, previous: Path) -> bool:
    """Link the same file of the previous backup, where it has it, and it is whole; else False."""
    if earlier is None or earlier.size != path.stat().st_size or not earlier.is_same(digest_of(path)):
        return False
    packed = draft / (name + PACKED)
    try:
        os.link(previous / (name + PACKED), packed, follow_symlinks=False)
        _check(draft, name, earlier)
    except OSError:
        return False  # the file system has no hard links, or the file is gone
    except Damaged:
        packed.unlink()
        return False
    return True


def _check(draft: Path, name: str, expected: BackedUp) -> None:
    for _ in unpacked(draft, name, expected):
        pass


def _remove_old(folder: Path, newest: Path, keep: int) -> tuple[list[Path], list[Snapshot]]:
    """Remove all dated backups but the newest, and the one just made, whatever the clock says; which, and the
    snapshots that they named.
    """
    older = [backup_folder for backup_folder in dated(folder) if backup_folder != newest]
    old, snapshots = older[: max(0, len(older) - (keep - 1))], []
    for backup_folder in old:
        with contextlib.suppress(ConfigError):  # whatever is wrong with it, it goes
            snapshots.append(read_manifest(backup_folder).snapshot)
        (backup_folder / MANIFEST).unlink()  # half of a backup is none
        shutil.rmtree(backup_folder)
    return old, [snapshot for snapshot in snapshots if snapshot is not None]


MOST_MANIFEST_BYTES = 64 * 1024 * 1024
"""A manifest has some 150 bytes for each file, and a store some hundred files."""

LEVEL = 3
"""Of zstd: its own default. A hole of a gigabyte becomes 30 KB."""

_MOST_WINDOW = 128 * 1024 * 1024
"""Memory that a packed file may ask for; ours ask for 2 MiB."""


class Damaged(Exception):
    """A file of a backup is not what the manifest says. The message says in which way."""


def pack(raw: Path, packed: Path) -> BackedUp:
    """Write a file packed, durably; what is in it."""
    length = raw.stat().st_size
    with os.fdopen(os.open(packed, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        with zstandard.ZstdCompressor(LEVEL).stream_writer(file, size=length, closefd=False) as packing:
            content = digest_of(raw, packing.write)
        file.flush()
        os.fsync(file.fileno())
        return msgspec.structs.replace(content, packed=os.fstat(file.fileno()).st_size)


def digest_of(raw: Path, take: Callable[[bytes], object] | None = None) -> BackedUp:
    """What is in a file that is not packed; ``take`` is given its pieces."""
    digest, size = hashlib.sha256(), 0
    with descriptor(raw) as file:
        for piece in sparse.contents(file):
            digest.update(piece)
            size += len(piece)
            if take is not None:
                take(piece)
    return BackedUp(size=size, sha256=digest.hexdigest())


@contextlib.contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """A regular file of the backup, for reading: neither it nor a folder on the way to it is a link.

    Raises:
        OSError: there is none.
    """
    with contextlib.ExitStack() as held:
        *folders, last = name.split("/")
        at = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        held.callback(os.close, at)
        for part in folders:
            at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            held.callback(os.close, at)
        # a named pipe would be waited for
        file = os.fdopen(os.open(last, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at), "rb")
        held.enter_context(file)
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", name)
        yield file


def read_manifest(folder: Path) -> Manifest:
    """The manifest of the backup in this folder.

    Raises:
        ConfigError: it is no backup, or none that this version can read; the message says which.
    """
    try:
        with opened(folder, MANIFEST) as file:
            manifest = msgspec.json.decode(file.read(MOST_MANIFEST_BYTES), type=Manifest)
    except FileNotFoundError as error:
        raise ConfigError(
            f"{folder} has no {MANIFEST}: it is no backup, or one that was not finished. Name a folder that `memproxy "
            "backup` made."
        ) from error
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{folder / MANIFEST} cannot be read: {error}. Name the folder that `memproxy backup` made."
        ) from error
    if manifest.version != VERSION:
        raise ConfigError(
            f"{folder} was made by memproxy {manifest.memproxy}, whose backups have another form: use that one."
        )
    for name in manifest.files:
        if not _is_ours(name):
            raise ConfigError(f"{folder / MANIFEST} names a file that no backup has: {name[:200]!r}.")
    if manifest.snapshot is not None:
        return manifest
    if STATE not in manifest.files or not any(name.startswith(f"{STORE}/") for name in manifest.files):
        raise ConfigError(f"{folder} holds no {STATE} or no {STORE}: nothing was restored. Use another backup.")
    return manifest


def _is_ours(name: str) -> bool:
    """Whether a backup has a file of this name: state, secret, or something below the store, in plain parts."""
    first, *below = name.split("/")
    plain = "\0" not in name and all(part not in {"", ".", ".."} for part in below)
    return plain and (bool(below) if first == STORE else name in {STATE, SECRET})


def unpacked(folder: Path, name: str, expected: BackedUp) -> Iterator[bytes]:
    """A file of a backup, piece by piece, as it was before it was packed. It is complete, and what the manifest says,
    when the last piece was given.

    Raises:
        Damaged: it is not; of a file that is longer than it should be the rest is not read.
    """
    digest, size = hashlib.sha256(), 0
    try:
        with opened(folder, name + PACKED) as file:
            if os.fstat(file.fileno()).st_size != expected.packed:
                raise Damaged("it has another length than the manifest says")
            unpacking = zstandard.ZstdDecompressor(max_window_size=_MOST_WINDOW).stream_reader(file, closefd=False)
            while size <= expected.size and (piece := unpacking.read(sparse.PIECE)):
                digest.update(piece)
                size += len(piece)
                if size <= expected.size:
                    yield piece
    except FileNotFoundError as error:
        raise Damaged("it is missing") from error
    except zstandard.ZstdError as error:
        raise Damaged(f"it cannot be unpacked: {error}") from error
    except OSError as error:
        raise Damaged(f"it cannot be read: {error.strerror or error}") from error
    if not expected.is_same(BackedUp(size=size, sha256=digest.hexdigest())):
        raise Damaged("it holds other bytes than the manifest says")


def drop_cached(path: Path) -> None:
    """Have the next reading of a file come from the disk, where the system takes the hint."""
    if hasattr(os, "posix_fadvise"):
        with descriptor(path) as file:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)


def synced(path: Path) -> None:
    """Bring a file or folder to the disk."""
    with descriptor(path) as held:
        os.fsync(held)


@contextlib.contextmanager
def descriptor(path: Path, flags: int = os.O_RDONLY) -> Iterator[int]:
    """The number of an open file or folder; what is made so is for its owner alone."""
    held = os.open(path, flags, 0o600)
    try:
        yield held
    finally:
        os.close(held)
