"""The encrypted state does what the plain one does, and its file shows no text; older files become encrypted."""

import base64
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.palace import Names
from memproxy.core.receipt import Outcome, Recalled, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.errors import ConfigError, StateUnavailable
from memproxy.ports import BlockLine, JournalEntry, JournalKind, KnownSession, SlotChange, StateStore
from memproxy.stores.payload import HIDDEN, opened_payload, sealed_changes, sealed_payload
from memproxy.stores.sealing import DataKey, MasterKeys, Unreadable, new_data_key, new_master_key
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_sealed import SealedState
from tests.retention.residue import residue
from tests.support.opening import opening

NOON = datetime.now(UTC).replace(microsecond=0)
ANN = Scope(tenant="acme", user="ann", session="s")
BEN = Scope(tenant="acme", user="ben", session="s")
TEXT = "Zebulonia plays the theremin in Ouagadougou"
WORDS = (TEXT, "zebulonia-wing", "theremin-closet", "user|budget of Ouagadougou", "digest-of-Zebulonia")


def sealed(path: Path, masters: str) -> SealedState:
    return SealedState(path, sync="normal", masters=MasterKeys.read(masters))


async def fill(state: StateStore, scope: Scope) -> int:
    """Something of everything that the state keeps."""
    number = await state.append(JournalEntry(kind=JournalKind.PLAN, scope=scope, body=TEXT.encode(), request_id="r"))
    assert await state.save_plan(number, TEXT.encode(), [SlotChange(slot=WORDS[3], expected=None, new="m1")])
    await state.remember_session(scope, [WORDS[4]], KnownSession(session="s", said_at=NOON, answer=WORDS[4]))
    erasures = (await state.find_blocks(scope, [])).erasures
    await state.save_block(scope, WORDS[4], [BlockLine(text=TEXT, memory_id="m1")], erasures=erasures, at=NOON)
    recalled = Recalled(result="injected", query=TEXT)
    now = datetime.now(UTC)
    await state.note_receipts([ReceiptPart(request_id="r", scope=scope, at=now, recalled=recalled)])
    rejected = Outcome(result="rejected", content=TEXT, turn_id="t1", request_ids=["r"])
    await state.note_outcomes(number, [rejected], NOON)
    await state.allot_numbers(scope, [Names(wing=WORDS[1], room="s", closet=WORDS[2], same=(("dog", "biscuit"),))])
    return number


async def check(state: StateStore, scope: Scope) -> None:
    """Everything that `fill` wrote is read back as it was."""
    assert await state.slots(scope, [WORDS[3], "free"]) == {WORDS[3]: "m1"}
    known = (await state.find_session(scope, [WORDS[4]]))[WORDS[4]][0]
    assert (known.session, known.answer) == ("s", WORDS[4])
    assert (await state.find_blocks(scope, [WORDS[4]])).blocks[WORDS[4]][0].text == TEXT
    receipt = await state.receipt(scope, "r")
    assert receipt is not None
    assert receipt.recalled is not None
    assert (receipt.recalled.query, receipt.outcomes[0].content) == (TEXT, TEXT)
    assert (await state.outcomes(scope, session=None, limit=5))[0].outcome.content == TEXT
    assert WORDS[1] in await state.palace_names(scope)
    (wing,) = await state.palace(scope, "", after=0, limit=5, name=WORDS[1])
    pointer = f"W-{wing.number:03d}"
    (room,) = await state.palace(scope, pointer, after=0, limit=5, name="s")
    (closet,) = await state.palace(scope, f"{pointer}/R-{room.number:02d}", after=0, limit=5)
    assert (wing.name, room.name, closet.name) == (WORDS[1], "s", WORDS[2])
    assert await state.stand(scope, [(WORDS[1], "s", f"{pointer}/R-{room.number:02d}")]) == [True]


async def test_what_is_written_is_read_back_and_the_file_has_no_text(tmp_path: Path) -> None:
    async with opening(sealed(tmp_path / "state.db", new_master_key())) as state:
        for scope in (ANN, BEN):
            await fill(state, scope)
            await check(state, scope)
        rows = await state.claim("index", limit=5, now=NOON + timedelta(days=1))
        assert [(row.entry.body, row.plan) for row in rows] == [(TEXT.encode(), TEXT.encode())] * 2
        assert residue(WORDS, tmp_path) == []
        assert await state.change_slots(ANN, [SlotChange(slot=WORDS[3], expected="other", new="m2")]) is False
        places = await state.palace_rows(ANN)
        assert {row.name for row in places} >= {WORDS[1], WORDS[2], "s"}
        assert await state.adopt_palace(Scope(tenant="acme", user="cleo"), places)
        assert WORDS[1] in await state.palace_names(Scope(tenant="acme", user="cleo"))
        await state.rename_wings(BEN, {WORDS[1]: "other"}, [])
        assert {WORDS[1], "other"} & (await state.palace_names(BEN)).keys() == {"other"}
        await state.erase_wings(BEN, ["other"])
        assert WORDS[1] not in await state.palace_names(BEN)
        await state.forget_queries(ANN, {"s"}, {"t1"})
        receipt = await state.receipt(ANN, "r")
        assert receipt is not None
        assert receipt.recalled is not None
        assert (receipt.recalled.query, receipt.outcomes[0].content) == ("", None)


async def test_marks_of_deleted_statements_are_dropped_by_how_they_begin(tmp_path: Path) -> None:
    async with opening(sealed(tmp_path / "state.db", new_master_key())) as state:
        mark = f"forgotten|{'a' * 24}|{'b' * 24}|"
        names = [f"{mark}{'c' * 24}", f"forgotten|{'a' * 24}|{'d' * 24}|{'c' * 24}", "gone|memory"]
        await state.change_slots(ANN, [SlotChange(slot=name, expected=None, new="x") for name in names])
        await state.drop_slots(ANN, mark)
        assert sorted(await state.slots(ANN, names)) == sorted(names[1:])
        await state.drop_slots(ANN, "gone|")
        assert list(await state.slots(ANN, names)) == names[1:2]


async def test_a_destroyed_key_leaves_nothing_to_read(tmp_path: Path) -> None:
    async with opening(sealed(tmp_path / "state.db", new_master_key())) as state:
        assert isinstance(state, SealedState)
        told: list[int] = []
        state.on_destroyed(lambda: told.append(1))
        await fill(state, ANN)
        before = await state.data_key(ANN.owner, make=False)
        await state.destroy_key(ANN)
        assert told == [1]
        assert await state.data_key(ANN.owner, make=False) is None
        assert await state.claim("index", limit=5, now=NOON) == []
        assert await state.slots(ANN, [WORDS[3]]) == {}
        after = await state.data_key(ANN.owner, make=True)
        assert before is not None
        assert after is not None
        with pytest.raises(Unreadable):
            after.open(before.seal(b"text", "x"), "x")
        assert (await state.find_blocks(ANN, [WORDS[4]])).blocks == {}
        assert await state.palace_names(ANN) == {}
        await fill(state, ANN)
        await check(state, ANN)


async def test_what_came_after_an_erasure_stays_readable(tmp_path: Path) -> None:
    async with opening(sealed(tmp_path / "state.db", new_master_key())) as state:
        number = await fill(state, ANN)
        await state.append(JournalEntry(kind=JournalKind.PLAN, scope=ANN, body=b"later"))
        await state.forget(ANN, session=None, until=number)
        (row,) = await state.claim("index", limit=5, now=NOON)
        assert row.entry.body == b"later"
        assert await state.owners(after=None, limit=5) == [ANN.owner]
        await state.forget(ANN, session=None)
        assert await state.owners(after=None, limit=5) == []


async def test_a_plain_state_is_encrypted_when_it_opens_and_cannot_be_opened_plainly_then(tmp_path: Path) -> None:
    path, masters = tmp_path / "state.db", new_master_key()
    async with opening(SqliteState(path, sync="normal")) as plain:
        await fill(plain, ANN)
        assert residue(WORDS, tmp_path)
    async with opening(sealed(path, masters)) as state:
        assert residue(WORDS, tmp_path) == []
        await check(state, ANN)
        (row,) = await state.claim("index", limit=5, now=NOON)
        assert (row.entry.body, row.plan) == (TEXT.encode(), TEXT.encode())
    with pytest.raises(StateUnavailable, match="encrypt"):
        await SqliteState(path, sync="normal").open()


async def test_keys_are_wrapped_anew_and_only_right_master_keys_open(tmp_path: Path) -> None:
    path, old, new = tmp_path / "state.db", new_master_key(), new_master_key()
    async with opening(sealed(path, old)) as state:
        await fill(state, ANN)
    with pytest.raises(StateUnavailable, match="MEMPROXY_MASTER_KEY"):
        await sealed(path, new).open()
    async with opening(sealed(path, f"{new}, {old}")) as state:
        assert isinstance(state, SealedState)
        await check(state, ANN)
        assert [await state.rewrap(), await state.rewrap()] == [1, 0]
    async with opening(sealed(path, new)) as state:
        await check(state, ANN)
    with pytest.raises(StateUnavailable):
        await sealed(path, old).open()


@pytest.mark.parametrize("written", [None, "", " , ", "short", base64.b64encode(b"x" * 31).decode(), "ü" * 43])
def test_what_is_no_master_key_is_refused_with_how_to_make_one(written: str | None) -> None:
    with pytest.raises(ConfigError, match="memproxy keys master"):
        MasterKeys.read(written)


async def test_a_line_of_what_has_expired_is_not_repeated(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal")) as state:
        now = datetime.now(UTC)
        lines = [
            BlockLine(text="head"),
            BlockLine(text="over", memory_id="m1", expires_at=now - timedelta(seconds=1)),
            BlockLine(text="later", memory_id="m2", expires_at=now + timedelta(hours=1)),
        ]
        await state.save_block(ANN, "one", lines, erasures=0, at=now)
        await state.save_block(ANN, "two", lines[:2], erasures=0, at=now)
        assert (await state.find_blocks(ANN, ["one", "two"])).blocks == {"one": [lines[0], lines[2]]}


texts = st.text(max_size=40)
values = texts | st.lists(texts, max_size=4) | st.dictionaries(texts, texts | st.integers(), max_size=3)
KEY = DataKey(*new_data_key(), ANN.owner)


@given(st.dictionaries(st.sampled_from(sorted(HIDDEN)), values, max_size=8), st.data())
def test_payloads_and_changes_come_back_as_they_were(hidden: dict[str, Any], data: st.DataObject) -> None:
    lists = {name: value for name, value in hidden.items() if name not in {"tags", "entities"}}
    plain = {name: str(value) if name in {"subject", "slot", "category", "wing", "closet"} else value
             for name, value in lists.items()}  # fmt: skip
    payload = {"tenant": "acme", "user_id": "ann", "id": "m1", "kind": "semantic", **plain}
    stored = sealed_payload(KEY, payload)
    assert opened_payload(KEY, stored) == payload
    changes = {name: data.draw(st.none() | texts) for name in plain} | {"active": False}
    merged = {name: value for name, value in (stored | sealed_changes(KEY, changes)).items() if value is not None}
    after = {name: value for name, value in (payload | changes).items() if value is not None}
    assert opened_payload(KEY, merged) == after


@given(texts, texts)
def test_names_and_tokens_tell_equal_from_unequal_and_nothing_else(one: str, other: str) -> None:
    assert (KEY.name(one) == KEY.name(other)) == (one == other)
    assert (KEY.token(one, "x") == KEY.token(other, "x")) == (one == other)
    assert KEY.token(one, "x") != KEY.token(one, "y")
    assert KEY.plain_name(KEY.name(one)) == one
    assert KEY.open_text(KEY.seal_text(one, "x"), "x") == one
    with pytest.raises(Unreadable):
        KEY.open_text(KEY.seal_text(one, "x"), "y")
    with pytest.raises(Unreadable):
        DataKey(*new_data_key(), BEN.owner).plain_name(KEY.name(one))
