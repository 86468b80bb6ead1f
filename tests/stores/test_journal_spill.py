"""Entries that the journal could not take: beside the state's file until somebody opens it."""

import os
import struct
import subprocess
import sys
import zlib
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pytest

from memproxy.core.scope import Scope
from memproxy.ports import JournalEntry
from memproxy.stores.journal_spill import HEADER
from memproxy.stores.sealing import MasterKeys, new_master_key
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_sealed import SealedState
from tests.stores.making import ANN, BEN, entry
from tests.stores.states import opened_state
from tests.support.opening import opening

VERSION_1 = b"memproxy aside 1\n"
"""How a file of version 1 begins."""


def files(state: Path) -> list[Path]:
    return list(state.parent.glob("state.db-aside-*"))


async def bodies(state: Path) -> list[bytes]:
    """What a fresh start finds in the journal, in its order."""
    async with opened_state(state) as opened:
        rows = await opened.claim("index", limit=10, now=datetime.now(UTC), run=10)
    return [row.entry.body for row in rows]


async def test_what_a_killed_process_set_aside_is_in_the_journal_after_the_next_start(tmp_path: Path) -> None:
    program = """
import asyncio, os, sys
from pathlib import Path
from memproxy.stores.sqlite_state import SqliteState
from tests.stores.making import entry

async def main():
    state = SqliteState(Path(sys.argv[1]), sync="full", spares=True)
    places = [await state.set_aside(entry(body=b"{}" + bytes([number]))) for number in b"abc"]
    await state.drop_aside(places[1])
    os._exit(9)

asyncio.run(main())
"""
    state = tmp_path / "state.db"
    assert subprocess.run([sys.executable, "-c", program, str(state)], timeout=60, check=False).returncode == 9
    assert len(files(state)) == 1
    assert await bodies(state) == [b"{}a", b"{}c"]
    assert not files(state)


async def test_what_the_journal_has_leaves_no_text_behind(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal", spares=True)) as state:
        first, second = await state.set_aside(entry(body=b'"one"')), await state.set_aside(entry(body=b'"two"'))
        assert first is not None
        assert second is not None
        (file,) = files(tmp_path / "state.db")
        held = file.read_bytes()
        await state.drop_aside(first)
        assert [bytes(held).count(b'"scope"'), file.read_bytes().count(b'"scope"')] == [2, 1]
        await state.drop_aside(second)
        assert file.read_bytes().strip(b"\0") == VERSION_1
    assert not files(tmp_path / "state.db")


async def test_what_a_living_process_holds_is_left_to_it(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal", spares=True)) as state:
        await state.set_aside(entry(body=b"{}"))
        assert await bodies(tmp_path / "state.db") == []
    assert await bodies(tmp_path / "state.db") == [b"{}"]


async def test_a_file_that_is_deleted_is_made_anew(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal", spares=True)) as state:
        files(tmp_path / "state.db")[0].unlink()
        await state.set_aside(entry(body=b"{}"))
    assert await bodies(tmp_path / "state.db") == [b"{}"]


async def test_a_torn_end_and_a_form_of_a_later_version_keep_no_state_from_opening(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    killed = SqliteState(state, sync="normal")
    await killed.set_aside(entry(body=b"{}"))
    await killed.close()
    (file,) = files(state)
    whole = file.read_bytes().rstrip(b"\0")
    file.write_bytes(whole + whole[len(VERSION_1) : -3])
    later = state.with_name("state.db-aside-later")
    later.write_bytes(b"memproxy aside 2\n" + bytes(100))
    assert await bodies(state) == [b"{}"]
    assert files(state) == [later]


async def test_who_captures_goes_on_with_the_file_that_took_the_place_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / "state.db"
    async with opening(SqliteState(file, sync="normal", spares=True)) as state:
        await state.append(entry(body=b'"before"'))
        file.unlink()
        file.touch()
        await state.append(entry(body=b'"behind"'))
    assert await bodies(file) == [b'"behind"']


async def test_what_was_half_overwritten_when_the_machine_stopped_hides_nothing_behind_it(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    killed = SqliteState(state, sync="full")
    for body in (b'"one"', b'"two"'):
        await killed.set_aside(entry(body=body))
    await killed.close()
    (file,) = files(state)
    whole = file.read_bytes()
    begin = whole.index(b"{")
    file.write_bytes(whole[:begin] + bytes(20) + whole[begin + 20 :])
    assert await bodies(state) == [b'"two"']


async def test_what_cannot_be_appended_yet_keeps_no_state_from_opening_and_comes_once(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    async with opened_state(state) as killed:
        large = b'"%b"' % (b"x" * 900_000)
        for body in (b'"one"', large):
            await killed.set_aside(entry(body=body))
    program = """
import asyncio, resource, signal, sys
from pathlib import Path
from memproxy.stores.sqlite_state import SqliteState

async def main():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
    for _ in range(2):
        state = SqliteState(Path(sys.argv[1]), sync="normal")
        await state.open()
        await state.close()

asyncio.run(main())
"""
    subprocess.run([sys.executable, "-c", program, str(state)], timeout=60, check=True)
    assert len(files(state)) == 1
    async with opened_state(state) as again:
        assert (await again.queue_sizes())["index"]["waiting"] == 2


async def test_what_a_deleted_file_held_takes_nothing_along_that_is_set_aside_later(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal", spares=True)) as state:
        first = await state.set_aside(entry(body=b'"one"'))
        assert first is not None
        files(tmp_path / "state.db")[0].unlink()
        await state.set_aside(entry(body=b'"two"'))
        await state.drop_aside(first)
    assert await bodies(tmp_path / "state.db") == [b'"two"']


async def test_an_entry_that_nobody_understands_keeps_its_file_and_the_others_come_once(tmp_path: Path) -> None:
    state = tmp_path / "state.db"
    killed = SqliteState(state, sync="normal")
    for body in (b'"one"', b'"two"'):
        await killed.set_aside(entry(body=body))
    await killed.close()
    (file,) = files(state)
    data = file.read_bytes()
    begin = data.index(b"{")
    (size,) = struct.unpack(">I", data[len(VERSION_1) : len(VERSION_1) + 4])
    unknown = b"?" * size
    file.write_bytes(data[: begin - 5] + struct.pack(">I?", zlib.crc32(unknown), True) + unknown + data[begin + size :])
    assert await bodies(state) == [b'"two"']
    assert files(state) == [file]
    async with opened_state(state) as again:
        assert sum((await again.queue_sizes())["index"].values()) == 1


SAID = b'"Zebulonia"'


def captured(body: bytes = SAID, scope: Scope = ANN) -> JournalEntry:
    """Turns that were said before now."""
    return msgspec.structs.replace(entry(scope, body=body), captured_at=datetime.now(UTC))


def encrypted(state: Path, masters: str) -> SealedState:
    return SealedState(state, sync="normal", masters=MasterKeys.read(masters), spares=True)


@pytest.mark.parametrize("readable", [True, False])
async def test_what_an_encrypted_state_sets_aside_is_sealed_and_comes_as_it_was(
    tmp_path: Path, *, readable: bool
) -> None:
    """By the user's key where there is one that can be read, else by the installation's."""
    file, masters = tmp_path / "state.db", new_master_key()
    async with opening(encrypted(file, masters)) as state:
        if readable:
            await state.append(entry(body=b'"before"'))
        else:
            file.rename(tmp_path / "away")
        assert await state.set_aside(captured()) is not None
        assert not any(b"Zebulonia" in path.read_bytes() for path in tmp_path.iterdir())
    if not readable:
        (tmp_path / "away").rename(file)
    async with opening(encrypted(file, f"{new_master_key()},{masters}")) as again:
        rows = await again.claim("index", limit=10, now=datetime.now(UTC), run=10)
        assert SAID in [row.entry.body for row in rows]
    assert not files(file)


async def test_an_entry_that_is_sealed_and_waits_beside_the_state_is_read_in_the_clear(tmp_path: Path) -> None:
    async with opening(encrypted(tmp_path / "state.db", new_master_key())) as state:
        number = await state.set_aside(captured())
        assert number is not None
        read = await state.read_aside(number)
        assert read is not None
        assert read.body == SAID


@pytest.mark.parametrize("kind", ["plain", "encrypted", "encrypted, with a key"])
@pytest.mark.parametrize("session", [None, "s1"])
async def test_an_erasure_wins_over_what_was_set_aside_before_it(
    tmp_path: Path, kind: str, session: str | None
) -> None:
    file, masters = tmp_path / "state.db", new_master_key()

    def made() -> SqliteState:
        return SqliteState(file, sync="normal") if kind == "plain" else encrypted(file, masters)

    killed, other = made(), made()
    await killed.open()
    await other.open()
    if kind == "encrypted, with a key":
        await other.append(entry(body=b"{}"))
    await killed.set_aside(captured())
    await killed.set_aside(captured(b'"of Ben"', BEN))
    await killed.close()
    await other.forget(ANN, session=session)
    await other.close()
    async with opening(made()) as again:
        rows = await again.claim("index", limit=10, now=datetime.now(UTC), run=10)
        assert [row.entry.body for row in rows] == [b'"of Ben"']
    assert not files(file)


async def test_what_is_said_after_an_erasure_is_kept(tmp_path: Path) -> None:
    async with opened_state(tmp_path / "state.db") as state:
        early = captured()
        await state.forget(ANN, session=None)
        assert await state.append(early) == 0
        assert await state.append(captured()) > 0
        await state.forget(ANN, session="another")
        assert await state.append(captured()) > 0


@pytest.mark.parametrize("kind", ["folder", "pipe", "link", "locked"])
async def test_what_stands_in_the_place_of_a_file_set_aside_keeps_no_state_from_opening(
    tmp_path: Path, kind: str
) -> None:
    file, odd = tmp_path / "state.db", tmp_path / "state.db-aside-odd"
    if kind == "folder":
        odd.mkdir()
    elif kind == "pipe":
        os.mkfifo(odd)
    elif kind == "link":
        (tmp_path / "elsewhere").write_bytes(HEADER)
        odd.symlink_to(tmp_path / "elsewhere")
    else:
        odd.write_bytes(HEADER)
        odd.chmod(0)
    async with opened_state(file) as state:
        assert await state.append(captured()) > 0
    assert kind == "locked" or odd.lstat()  # who may read everything takes up an empty one
    assert kind != "link" or (tmp_path / "elsewhere").exists()
