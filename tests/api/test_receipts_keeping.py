"""Receipts never stand in a request's way: what cannot be written is dropped and counted."""

from pathlib import Path

from memproxy.core.protocol import Citation, RecallAnswer, RecallRequest
from memproxy.core.scope import Scope
from memproxy.engine.receipts import LEFT_OUT_SHOWN, MOST_OF_A_TENANT, MOST_WAITING, ReceiptKeeper
from memproxy.metrics import metrics
from memproxy.settings import Settings
from memproxy.stores.sqlite_state import SqliteState
from tests.support.engine import WallClock

SCOPE = Scope(tenant="acme", user="ann")


def request(name: str, scope: Scope = SCOPE) -> RecallRequest:
    return RecallRequest(request_id=name, scope=scope, queries=["What is my budget?"], nonce="n", verdict="personal")


def dropped(reason: str) -> float:
    value: float = metrics().receipts_dropped.labels(reason=reason)._value.get()
    return value


async def test_a_state_that_is_away_costs_the_receipts_and_nothing_else(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    keeper, before = ReceiptKeeper(state, WallClock(), Settings()), dropped("state")
    keeper.note(request("req_1"), RecallAnswer(result="empty"))
    await keeper.written()
    assert dropped("state") == before + 1
    await state.open()
    keeper.note(request("req_2"), RecallAnswer(result="empty"))
    await keeper.close()
    assert await state.receipt(SCOPE, "req_1") is None
    assert await state.receipt(SCOPE, "req_2") is not None
    await state.close()


async def test_more_than_can_wait_is_dropped_and_counted(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    keeper, before = ReceiptKeeper(state, WallClock(), Settings()), dropped("full")
    owners = [Scope(tenant=f"tenant-{place % 5}", user="ann") for place in range(MOST_WAITING + 3)]
    for place, owner in enumerate(owners):
        keeper.note(request(f"req_{place}", owner), RecallAnswer(result="empty"))
    await keeper.written()
    assert dropped("full") == before + 3
    assert await state.receipt(owners[MOST_WAITING - 1], f"req_{MOST_WAITING - 1}") is not None
    assert await state.receipt(owners[MOST_WAITING], f"req_{MOST_WAITING}") is None
    await keeper.close()
    await state.close()


async def test_a_busy_tenant_does_not_cost_another_its_receipts(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    keeper, before = ReceiptKeeper(state, WallClock(), Settings()), dropped("full")
    for place in range(MOST_OF_A_TENANT + 2):
        keeper.note(request(f"req_{place}"), RecallAnswer(result="empty"))
    other = Scope(tenant="other", user="ann")
    keeper.note(request("req_other", other), RecallAnswer(result="empty"))
    await keeper.close()
    assert dropped("full") == before + 2
    found = await state.receipt(other, "req_other")
    assert found is not None
    assert found.recalled is not None
    assert found.recalled.verdict == "personal"
    await state.close()


async def test_a_receipt_shows_every_injected_candidate_and_the_best_of_the_others(tmp_path: Path) -> None:
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    keeper = ReceiptKeeper(state, WallClock(), Settings())
    candidates = [{"memory_id": f"m{place}", "injected": place in {0, 49}} for place in range(50)]
    line = Citation(memory_id="m0", turn_id=None, score=0.91234567, snippet="words that are not kept")
    keeper.note(request("req_1"), RecallAnswer(result="injected", citations=[line], candidates=candidates))
    await keeper.close()
    found = await state.receipt(SCOPE, "req_1")
    assert found is not None
    assert found.recalled is not None
    shown = [one["memory_id"] for one in found.recalled.candidates]
    assert shown == ["m0", *(f"m{place}" for place in range(1, LEFT_OUT_SHOWN + 1)), "m49"]
    assert (found.recalled.memories[0].memory_id, found.recalled.memories[0].score) == ("m0", 0.9123)
    await state.close()
