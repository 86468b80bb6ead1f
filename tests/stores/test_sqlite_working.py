"""Working memory in an encrypted state: read as any other, and no word of it in the files."""

import base64
from datetime import timedelta
from pathlib import Path

from memproxy.core.working import WorkingEntry
from memproxy.stores.sealed_state import SealedState
from memproxy.stores.sealing import MasterKeys
from tests.stores.making import ANN, BEN, NOON


async def test_encrypted_entries_are_read_and_listed_and_leave_no_word_in_the_files(tmp_path: Path) -> None:
    masters = MasterKeys.read(base64.b64encode(b"k" * 32).decode())
    entry = WorkingEntry(
        key="session/zebulonia/theremin",
        created_at=NOON,
        updated_at=NOON,
        expires_at=NOON + timedelta(seconds=60),
        size=13,
        tags=["ouagadougou"],
        agent="timbuktu",
        data=b'"valparaiso"',
        words="valparaiso",
    )
    for _ in range(2):
        state = SealedState(tmp_path / "state.db", sync="normal", masters=masters)
        await state.open()
        assert await state.put_working(ANN, entry, most=1) in {True, False}
        assert await state.working(ANN, entry.key, NOON) == WorkingEntry(
            **{name: getattr(entry, name) for name in entry.__struct_fields__} | {"words": ""}
        )
        (listed,) = await state.working_entries(ANN, "session/zebulonia/", NOON, words=True)
        assert (listed.words, listed.data, listed.tags) == ("valparaiso", b"", ["ouagadougou"])
        assert await state.working_entries(ANN, "session/z", NOON + timedelta(seconds=60)) == []
        assert await state.working(BEN, entry.key, NOON) is None
        await state.close()
    files = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert not [
        word for word in (b"zebulonia", b"theremin", b"ouagadougou", b"timbuktu", b"valparaiso") if word in files
    ]


async def test_a_sweep_removes_what_has_expired(tmp_path: Path) -> None:
    state = SealedState(
        tmp_path / "state.db", sync="normal", masters=MasterKeys.read(base64.b64encode(b"k" * 32).decode())
    )
    await state.open()
    for number in range(30):
        entry = WorkingEntry(
            key=f"run/{number}/x", created_at=NOON, updated_at=NOON, expires_at=NOON + timedelta(seconds=number), size=1
        )
        await state.put_working(ANN, entry, most=9)
    assert await state.sweep_working(NOON + timedelta(seconds=9)) == 10
    assert len(await state.working_entries(ANN, "", NOON)) == 20
    await state.close()
