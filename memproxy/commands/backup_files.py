"""The files of a backup: packed when it is made, and read back, whoever made it."""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec
import zstandard

from memproxy.core.backup import MANIFEST, PACKED, SECRET, STATE, STORE, VERSION, BackedUp, Manifest
from memproxy.engine import sparse
from memproxy.errors import ConfigError

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
    file = os.open(raw, os.O_RDONLY)
    try:
        for piece in sparse.contents(file):
            digest.update(piece)
            size += len(piece)
            if take is not None:
                take(piece)
    finally:
        os.close(file)
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
        raise ConfigError(f"{folder} has no {MANIFEST}: it is no backup, or one that was not finished.") from error
    except (OSError, msgspec.DecodeError) as error:
        raise ConfigError(f"{folder / MANIFEST} cannot be read: {error}.") from error
    if manifest.version != VERSION:
        raise ConfigError(
            f"{folder} was made by memproxy {manifest.memproxy}, whose backups have another form: use that one."
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
        file = os.open(path, os.O_RDONLY)
        try:
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)


def synced(path: Path) -> None:
    """Bring a file or folder to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
