"""What the command line does against loss: ``backup`` while serving, and ``restore`` from it.

A backup is a folder (`core.backup`): the embedded store, the state, the installation's secret. The master key of
``privacy.encrypt`` is in none of it; neither is the configuration.
"""

import asyncio
import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

import memproxy
from memproxy.core.backup import MANIFEST, SECRET, STATE, STORE, VERSION, BackedUp, Manifest
from memproxy.core.protocol import BACKUP_PATH, BackupAsked, BackupTold
from memproxy.errors import ConfigError, MemproxyError
from memproxy.home import home_dir, state_path, store_path
from memproxy.installation import Installation, holding, installation
from memproxy.settings import Settings
from memproxy.upkeep import POLL_S, Show

MOST_MANIFEST_BYTES = 64 * 1024 * 1024
"""A manifest has some 130 bytes for each file, and a store some hundred files."""

_CHUNK = 1024 * 1024
_SQLITE_BESIDE = ("-wal", "-shm")


async def backup(settings: Settings, folder: Path, show: Show) -> Manifest:
    """Copy everything into ``folder``, which is made; with a server running, it does so, and serves meanwhile.

    Raises:
        ConfigError: the folder is in use for something else, or the store is a server's.
        MemproxyError: it could not be done; the message says why. No folder of that name is left then.
    """
    _check_embedded(settings)
    folder, draft = await asyncio.to_thread(_begun, folder)
    try:
        async with installation(_quiet(settings)) as here:
            await _copied(here, draft, show)
        return await asyncio.to_thread(_finished, draft, folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def _check_embedded(settings: Settings) -> None:
    if settings.store.backend != "edge" or settings.state.backend != "sqlite":
        raise ConfigError(
            "Only the embedded store and state (store.backend: edge, state.backend: sqlite) are backed up and restored "
            "here. Use the snapshots of Qdrant itself, and `memproxy export` for each user."
        )


def _begun(folder: Path) -> tuple[Path, Path]:
    """The folder's whole path, and the folder that takes its name when it is complete."""
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ConfigError(f"{folder} is there already. Name a folder that is not, or an empty one.")
    draft = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}")
    try:
        draft.mkdir(mode=0o700, parents=True)
    except OSError as error:
        raise ConfigError(f"{draft} cannot be made ({error.strerror}).") from error
    return folder, draft


def _quiet(settings: Settings) -> Settings:
    return settings.model_copy(update={"learn": settings.learn.model_copy(update={"enabled": False})})


async def _copied(here: Installation, draft: Path, show: Show) -> None:
    told = await _told(here, "POST", content=msgspec.json.encode(BackupAsked(folder=str(draft))))
    run = told.run
    while told.state == "copying":
        await asyncio.sleep(POLL_S)
        told = await _told(here, "GET")
        if told.run != run:
            raise MemproxyError("The server was started anew meanwhile. Run it again.")
        if told.total:
            show(told.done, told.total)
    if told.error is not None:
        raise MemproxyError(told.error)


async def _told(here: Installation, method: str, **arguments: Any) -> BackupTold:
    return msgspec.convert(await here.call(method, BACKUP_PATH, **arguments), BackupTold)


def _finished(draft: Path, folder: Path) -> Manifest:
    """Add the secret and the manifest, make all of it durable, and give it its name."""
    known = home_dir() / SECRET
    if not os.environ.get("MEMPROXY_SECRET") and known.exists():
        shutil.copyfile(known, draft / SECRET)
        (draft / SECRET).chmod(0o600)
    files = {str(path.relative_to(draft)): _summed(path) for path in sorted(draft.rglob("*")) if path.is_file()}
    manifest = Manifest(made_at=datetime.now(UTC), memproxy=memproxy.__version__, files=files)
    (draft / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
    for path in draft.rglob("*"):
        _synced(path)
    with contextlib.suppress(FileNotFoundError):
        folder.rmdir()
    draft.rename(folder)
    _synced(folder.parent)
    return manifest


def _summed(path: Path) -> BackedUp:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK):
            digest.update(chunk)
            size += len(chunk)
    return BackedUp(size=size, sha256=digest.hexdigest())


def _synced(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def restore(settings: Settings, folder: Path, show: Show, *, force: bool) -> list[Path]:
    """Put a backup in the place of the configured store and state; where those that were there are now.

    What the manifest lists is copied beside its place, and nothing else; nothing that was there is touched before every
    file is found as the manifest says. No link is followed, whoever made the backup.

    Raises:
        AlreadyServed: a server is running on the store or state.
        ConfigError: the folder is no whole backup; or something is there already, and ``force`` is not given.
    """
    _check_embedded(settings)
    home = home_dir()
    with holding(settings):
        manifest = _manifest(folder)
        targets = {STORE: store_path(settings.store, home), STATE: state_path(settings.state, home)}
        if SECRET in manifest.files:
            targets[SECRET] = home / SECRET
        in_use = [path for name, path in targets.items() if _is_used(path, manifest.files.get(name))]
        if in_use and not force:
            raise ConfigError(
                f"{', '.join(map(str, in_use))} would be replaced. Say --force: what is there is kept beside it."
            )
        try:
            _drafted(folder, manifest, targets, show)
            aside = [moved for path in targets.values() for moved in _moved_aside(path)]
            for path in targets.values():
                _draft(path).rename(path)
                _synced(path.parent)
        finally:
            for path in targets.values():
                _removed(_draft(path))
    return aside


def _manifest(folder: Path) -> Manifest:
    try:
        with _opened(folder, MANIFEST) as file:
            manifest = msgspec.json.decode(file.read(MOST_MANIFEST_BYTES), type=Manifest)
    except FileNotFoundError as error:
        raise ConfigError(f"{folder} has no {MANIFEST}: it is no backup, or one that was not finished.") from error
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{folder / MANIFEST} cannot be read: {error}.") from error
    if manifest.version > VERSION:
        raise ConfigError(
            f"{folder} was made by memproxy {manifest.memproxy}; restore it with that version or a newer one."
        )
    for name in manifest.files:
        if not _is_ours(name):
            raise ConfigError(f"{folder / MANIFEST} names a file that no backup has: {name[:200]!r}.")
    if STATE not in manifest.files or not any(name.startswith(f"{STORE}/") for name in manifest.files):
        raise ConfigError(f"{folder} holds no {STATE} or no {STORE}: nothing was restored. Use another backup.")
    return manifest


def _is_ours(name: str) -> bool:
    """Whether a backup has a file of this name: state, secret, or something below the store, in plain parts."""
    first, *below = name.split("/")
    plain = "\0" not in name and all(part not in {"", ".", ".."} for part in below)
    return plain and (bool(below) if first == STORE else name in {STATE, SECRET})


@contextlib.contextmanager
def _opened(folder: Path, name: str) -> Iterator[BinaryIO]:
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


def _is_used(path: Path, backed_up: BackedUp | None) -> bool:
    """Whether something is there that is not what the backup has."""
    if path.is_dir():
        return any(one.name != "lock" for one in path.iterdir())
    if path.name == SECRET:
        return path.exists() and _summed(path) != backed_up
    return path.exists()


def _draft(path: Path) -> Path:
    return path.with_name(f".{path.name}.restoring")


def _removed(draft: Path) -> None:
    """Remove it, whatever it is; what a link leads to stays."""
    if draft.is_dir() and not draft.is_symlink():
        shutil.rmtree(draft)
    else:
        draft.unlink(missing_ok=True)


def _drafted(folder: Path, manifest: Manifest, targets: Mapping[str, Path], show: Show) -> None:
    """Copy all that is listed beside its place, durably.

    Raises:
        ConfigError: a file is not as the manifest says.
    """
    for path in targets.values():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _removed(_draft(path))
    _draft(targets[STORE]).mkdir(mode=0o700)
    total, done = sum(one.size for one in manifest.files.values()), 0
    for name, expected in manifest.files.items():
        first, _, below = name.partition("/")
        draft = _draft(targets[first]) / below
        draft.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with _opened(folder, name) as source:
                found = _copied_file(source, draft, expected.size)
        except OSError as error:
            raise ConfigError(f"{folder / name} cannot be restored ({error}): nothing was.") from error
        if found != expected:
            raise ConfigError(f"{folder / name} is missing or damaged: nothing was restored. Use another backup.")
        done += expected.size
        show(done, total)
    for path in _draft(targets[STORE]).rglob("*"):
        if path.is_dir():
            _synced(path)
    _synced(_draft(targets[STORE]))


def _copied_file(source: BinaryIO, draft: Path, most: int) -> BackedUp:
    """Copy it, durably; what was copied. One that is longer than it should be is not copied to its end."""
    digest, size = hashlib.sha256(), 0
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as copy:
        while size <= most and (chunk := source.read(_CHUNK)):
            digest.update(chunk)
            size += len(chunk)
            copy.write(chunk)
        copy.flush()
        os.fsync(copy.fileno())
    return BackedUp(size=size, sha256=digest.hexdigest())


def _moved_aside(path: Path) -> list[Path]:
    """Give what is there another name; an own write-ahead log of a state goes with it."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    moved = []
    for one in (path, *(path.with_name(path.name + end) for end in _SQLITE_BESIDE)):
        if one.exists():
            kept = one.with_name(f"{path.name}.before-restore-{stamp}{one.name.removeprefix(path.name)}")
            one.rename(kept)
            moved.append(kept)
    return moved
