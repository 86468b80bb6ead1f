"""Copies of files that are mostly holes. An embedded store's files are mapped into memory and made as large as they may
become: with a hundred memories they are 239 MiB long and hold 1 MiB.
"""

import errno
import os
from collections.abc import Iterator
from pathlib import Path

PIECE = 1024 * 1024
"""Bytes that are read at once."""

BLOCK = 4096
"""Bytes of nothing but zeros from which a hole is made: a file system's page."""

_ZEROS = bytes(PIECE)


def pieces(file: int) -> Iterator[tuple[int, bytes]]:
    """The bytes of an open file that are not in holes, piece by piece, each with its place. Holes are not read: on a
    tmpfs reading one takes the memory that it stands for.
    """
    for start, end in _extents(file):
        at = start
        while at < end and (piece := os.pread(file, min(PIECE, end - at), at)):
            yield at, piece
            at += len(piece)


def contents(file: int) -> Iterator[bytes]:
    """All bytes of an open file in their order; those of holes are zeros, and not read."""
    done = 0
    for at, piece in pieces(file):
        yield from zeros(at - done)
        yield piece
        done = at + len(piece)
    yield from zeros(os.fstat(file).st_size - done)


def zeros(count: int) -> Iterator[bytes]:
    """Zeros, this many bytes."""
    while count > 0:
        yield _ZEROS[:count]
        count -= PIECE


def write(file: int, at: int, piece: bytes) -> int:
    """Write a piece of an open file that has nothing at its place yet, but for its blocks of zeros, which become holes;
    how many bytes were written. At the end the file must be given its length.
    """
    written = 0
    for start, end in data_runs(piece):
        with memoryview(piece)[start:end] as run:
            offset = 0
            while offset < len(run):
                offset += os.pwrite(file, run[offset:], at + start + offset)
        written += end - start
    return written


def data_runs(piece: bytes) -> Iterator[tuple[int, int]]:
    """The ranges of a piece (of `PIECE` bytes at most) that are not blocks of zeros."""
    if piece == _ZEROS[: len(piece)]:
        return
    start: int | None = None
    for at in range(0, len(piece), BLOCK):
        block = piece[at : at + BLOCK]
        empty = block == _ZEROS[: len(block)]
        if empty and start is not None:
            yield start, at
            start = None
        elif not empty and start is None:
            start = at
    if start is not None:
        yield start, len(piece)


def copy(source: Path, target: Path) -> None:
    """Copy a file into a new one without its holes."""
    with source.open("rb", buffering=0) as from_file:
        # a file system may take for a hole what was mapped and is not on the disk yet (OpenZFS did)
        os.fsync(from_file.fileno())
        with os.fdopen(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb", buffering=0) as to_file:
            for at, piece in pieces(from_file.fileno()):
                write(to_file.fileno(), at, piece)
            to_file.truncate(os.fstat(from_file.fileno()).st_size)


def data_size(path: Path) -> int:
    """Bytes of a file that take room on the disk, as far as the file system tells."""
    status = path.stat()
    return min(status.st_size, status.st_blocks * 512)


def _extents(file: int) -> Iterator[tuple[int, int]]:
    """The ranges that hold data; the whole file, where the file system knows no holes."""
    size, at = os.fstat(file).st_size, 0
    while at < size:
        try:
            start = os.lseek(file, at, os.SEEK_DATA)
            end = os.lseek(file, start, os.SEEK_HOLE)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nothing but a hole up to the end
                return
            start, end = at, size
        yield start, end
        at = end
