"""Copies without holes: the same bytes in less room."""

import os
from pathlib import Path

import pytest

from memproxy.engine import sparse

MIB = 1024 * 1024
BLOCK = sparse.BLOCK


def laid_out(path: Path, length: int, places: list[tuple[int, bytes]]) -> bytes:
    with path.open("wb") as file:
        for at, content in places:
            file.seek(at)
            file.write(content)
        file.truncate(length)
    return path.read_bytes()


LAYOUTS = [
    (0, []),
    (1, [(0, b"x")]),
    (3 * MIB + 17, []),
    (3 * MIB + 17, [(3 * MIB + 16, b"x")]),
    (4 * MIB, [(0, b"x" * 10), (MIB - 5, b"y" * 10), (3 * MIB, os.urandom(9000))]),
    (2 * MIB, [(0, os.urandom(2 * MIB))]),
    (5 * MIB, [(0, bytes(5 * MIB))]),
    (10 * BLOCK + 1, [(BLOCK, b"x"), (3 * BLOCK - 1, b"y"), (10 * BLOCK, b"\0")]),
]


@pytest.mark.parametrize(("length", "places"), LAYOUTS)
def test_a_copy_has_the_same_bytes_and_no_block_of_zeros(
    tmp_path: Path, length: int, places: list[tuple[int, bytes]]
) -> None:
    content = laid_out(tmp_path / "file", length, places)
    sparse.copy(tmp_path / "file", tmp_path / "copy")
    assert (tmp_path / "copy").read_bytes() == content
    needed = sum(any(content[at : at + BLOCK]) for at in range(0, length, BLOCK))
    assert sparse.data_size(tmp_path / "copy") <= needed * BLOCK


@pytest.mark.parametrize(("length", "places"), LAYOUTS)
def test_contents_are_all_bytes_in_their_order(tmp_path: Path, length: int, places: list[tuple[int, bytes]]) -> None:
    content = laid_out(tmp_path / "file", length, places)
    with (tmp_path / "file").open("rb") as file:
        assert b"".join(sparse.contents(file.fileno())) == content
        held = [(at, piece) for at, piece in sparse.pieces(file.fileno())]
    assert all(content[at : at + len(piece)] == piece for at, piece in held)


def test_a_copy_is_never_written_over_something(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x")
    (tmp_path / "there").write_bytes(b"precious")
    with pytest.raises(FileExistsError):
        sparse.copy(tmp_path / "file", tmp_path / "there")
    assert (tmp_path / "there").read_bytes() == b"precious"
