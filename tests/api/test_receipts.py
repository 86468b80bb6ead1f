"""Receipts, activity and statistics: what they say of a request, and to whom."""

import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from memproxy.api.receipts import MOST_STREAMS
from memproxy.core.protocol import (
    IDENTITY_HEADER,
    RECALL_PATH,
    Citation,
    LearnBody,
    PlanBody,
    RecallAnswer,
    RecallRequest,
    TurnsBody,
)
from memproxy.core.receipt import Decided, Outcome, Recalled
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.engine.engine import Engine
from memproxy.engine.receipt_keeper import LEFT_OUT_SHOWN, MOST_OF_A_TENANT, MOST_WAITING, ReceiptKeeper
from memproxy.metrics import metrics
from memproxy.ports import JournalEntry, JournalKind
from memproxy.settings import RecallSettings, Settings
from memproxy.stores.sqlite_state import SqliteState
from tests.support.engine import Api, WallClock, make_engine, serve_engine
from tests.support.opening import opening

pytestmark = pytest.mark.asyncio(loop_scope="module")

QUESTION = "What's my budget for the Hawaii trip?"
BUDGET = "User's budget for the Hawaii trip is $10,000"


def place(api: Api, **fields: Any) -> Scope:
    return Scope(tenant=api.tenant, **{"user": "default", "session": "s1", **fields})


async def asked(api: Api, request_id: str, query: str = QUESTION, **fields: Any) -> Any:
    """What the relay is told for a request."""
    scope = place(api, **fields)
    request = RecallRequest(request_id=request_id, scope=scope, queries=[query], nonce="abc", verdict="personal")
    return (await api.client.post(RECALL_PATH, content=msgspec.json.encode(request))).json()


async def receipt(api: Api, request_id: str) -> dict[str, Any]:
    found: dict[str, Any] = await api.get(f"receipts/{request_id}")
    return found


def row(api: Api, kind: JournalKind, body: msgspec.Struct, **fields: Any) -> JournalEntry:
    return JournalEntry(kind=kind, scope=place(api), body=msgspec.json.encode(body), **fields)


async def captured(api: Api, request_id: str, decided: Decided, text: str, *, waits: bool = True) -> None:
    """What the relay writes when it captures a turn; returns when it is indexed."""
    body = TurnsBody(
        messages=[Message(role="user", content=text)],
        said_at=WallClock().now(),
        metadata={"request_id": request_id},
        decision=decided,
    )
    worker = api.engine.backends().parts.worker
    number = await worker.submit(row(api, JournalKind.TURNS, body, request_id=request_id))
    assert not waits or await worker.applied(number, 20)


async def note(api: Api, *outcomes: Outcome) -> None:
    """Outcomes of a learn row, as the learner notes them."""
    state = api.engine.backends().state
    number = await state.append(row(api, JournalKind.LEARN, LearnBody(unlearned=0, reason="test")))
    await state.note_outcomes(number, outcomes, WallClock().now())


async def test_a_receipt_asked_for_at_once_knows_what_came_with_the_turn(api: Api) -> None:
    await api.store(BUDGET)
    await asked(api, "req_now")
    await captured(api, "req_now", Decided(result="shadow", mode="shadow"), QUESTION, waits=False)
    found = await receipt(api, "req_now")
    assert (found["result"], found["mode"], found["captured"]) == ("shadow", "shadow", True)


async def test_a_receipt_says_what_was_searched_found_and_injected_and_the_relay_is_not_sent_it(api: Api) -> None:
    budget = await api.store(BUDGET)
    garden = await api.store("The garden needs water on Mondays for the trip")
    answer = await asked(api, "req_1")
    assert answer["candidates"] == []
    found = await receipt(api, "req_1")

    assert (found["result"], found["reason"], found["captured"]) == ("injected", None, False)
    assert found["decision"]["searched"] is True
    assert found["decision"]["reason"]
    assert "Hawaii" in found["query"]
    assert found["tokens"] == answer["tokens"] > 0
    assert found["timings"]["recall"] > 0
    assert (found["user_id"], found["session_id"]) == ("default", "s1")
    assert [(one["memory_id"], one["content"]) for one in found["memories"]] == [(budget["id"], budget["content"])]
    candidates = {one["memory_id"]: one for one in found["candidates"]}
    assert candidates[budget["id"]]["injected"] is True
    assert candidates[garden["id"]]["rejected"] in {"elbow", "score"}
    assert found["floor"] == api.engine.backends().parts.settings.recall.similarity_threshold
    assert all(one["signals"] for one in candidates.values())
    assert found["learned"] == {"state": "none", "outcomes": []}


async def test_a_receipt_of_somebody_else_or_of_another_project_is_missing(api: Api) -> None:
    await asked(api, "req_mine")
    stranger = Api(api.client, api.engine, tenant="stranger")
    answers = [
        await api.ask("GET", "receipts/req_none"),
        await api.ask("GET", "receipts/req_mine?user_id=other"),
        await stranger.ask("GET", "receipts/req_mine"),
    ]
    assert {answer.status_code for answer in answers} == {404}
    messages = {answer.json()["error"]["message"].replace("req_mine", "req_none") for answer in answers}
    assert len(messages) == 1
    assert (await receipt(api, "req_mine"))["result"] == "empty"
    await asked(api, "req_p", project="p")
    for project, status in (("p", 200), ("q", 404)):
        assert await api.status("GET", "receipts/req_p", identity=api.identity(project=project)) == status


async def test_what_the_relay_decided_comes_with_the_turn(api: Api) -> None:
    decided = Decided(result="skipped", reason="greeting", timings={"gate": 0.1}, status=200, model="gpt-x")
    await captured(api, "req_hi", decided, "hello there my friend")
    found = await receipt(api, "req_hi")
    assert (found["result"], found["reason"], found["captured"]) == ("skipped", "greeting", True)
    assert found["decision"] == {"searched": False, "reason": "greeting"}
    assert found["upstream"] == {"status": 200, "model": "gpt-x"}
    assert found["timings"] == {"gate": 0.1}
    assert found["learned"]["state"] == "off"
    (turn,) = await api.page(kind="turn")
    assert found["turn_ids"] == [turn["id"]]
    (listed,) = await api.data("receipts")
    assert (listed["query"], listed["said"], found["said"]) == (None, "hello there my friend", "hello there my friend")
    await api.delete(turn["id"], session_id="s1")
    assert (await receipt(api, "req_hi"))["said"] is None, "a receipt keeps no words of what is forgotten"


async def test_the_relays_word_on_the_result_counts_more_than_recalls(api: Api) -> None:
    await api.store(BUDGET)
    await asked(api, "req_1")
    await captured(api, "req_1", Decided(result="degraded", reason="upstream_rejected", status=200), QUESTION)
    found = await receipt(api, "req_1")
    assert (found["result"], found["reason"]) == ("degraded", "upstream_rejected")
    assert found["memories"] == []
    assert any(one["injected"] for one in found["candidates"])


async def test_what_was_learned_is_told_and_a_forgotten_memory_has_no_words(api: Api) -> None:
    memory = await api.store("User has a dog named Biscuit")
    await captured(api, "req_1", Decided(result="empty", mode="on"), "I have a dog named Biscuit")
    await note(
        api,
        Outcome(result="stored", request_ids=["req_1"], memory_id=memory["id"], kind="semantic"),
        Outcome(result="rejected", reason="evidence", request_ids=["req_1"], content="User has a cat"),
    )
    learned = (await receipt(api, "req_1"))["learned"]
    assert learned["state"] == "done"
    stored, rejected = learned["outcomes"]
    assert (stored["result"], stored["content"]) == ("stored", memory["content"])
    assert (rejected["result"], rejected["reason"], rejected["content"]) == ("rejected", "evidence", "User has a cat")
    await api.delete(memory["id"])
    stored, _ = (await receipt(api, "req_1"))["learned"]["outcomes"]
    assert (stored["memory_id"], stored["content"]) == (memory["id"], None)


async def test_a_query_is_kept_without_its_secrets(api: Api) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLF"
    await asked(api, "req_1", f"What is my budget with the key {key}?")
    query = (await receipt(api, "req_1"))["query"]
    assert key not in query
    assert "[redacted:" in query


async def test_learning_that_waits_or_was_given_up_says_so(tmp_path: Path) -> None:
    engine = make_engine(tmp_path, settings=Settings(recall=RecallSettings(deadline_ms=60_000)))
    async with serve_engine(engine) as api:
        await captured(api, "req_1", Decided(result="empty"), "I have a dog named Biscuit")
        assert (await receipt(api, "req_1"))["learned"] == {"state": "pending", "outcomes": []}
        state = engine.backends().state
        learn = row(api, JournalKind.LEARN, LearnBody(unlearned=1, reason="test"))
        await state.append(learn)  # waits for a key, and the next one for it
        await state.park(await state.append(learn), error="the model's answer holds no JSON")
        learned = (await receipt(api, "req_1"))["learned"]
        assert (learned["state"], learned["reason"]) == ("parked", "the model's answer holds no JSON")


@pytest.mark.parametrize("path", ["users/default", "sessions/s1"])
async def test_forgetting_a_user_or_session_forgets_the_receipts(api: Api, path: str) -> None:
    await asked(api, "req_1")
    await captured(api, "req_2", Decided(result="empty"), "something")
    await api.delete(path)
    for name in ("req_1", "req_2"):
        assert await api.status("GET", f"receipts/{name}") == 404


async def test_receipts_that_wait_are_written_when_the_engine_closes(tmp_path: Path) -> None:
    scope = Scope(tenant="acme", user="ann")
    async with opened(tmp_path) as engine:
        await engine.recall(RecallRequest(request_id="req_1", scope=scope, queries=[QUESTION], nonce="abc"))
    async with opened(tmp_path) as engine:
        assert await engine.backends().state.receipt(scope, "req_1") is not None


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Engine]:
    engine = make_engine(folder, own_store=True)
    await engine.start()
    await engine.wait_open()
    yield engine
    await engine.close(5)


async def test_activity_tells_what_was_learned_newest_first(api: Api) -> None:
    memory = await api.store("User has a dog named Biscuit")
    await note(api, Outcome(result="stored", request_ids=["req_1"], memory_id=memory["id"], kind="semantic"))
    await note(api, Outcome(result="nothing", request_ids=["req_2"]))
    await note(api, Outcome(result="superseded", memory_id="gone", supersedes=memory["id"]))
    state = api.engine.backends().state
    unread = JournalEntry(kind=JournalKind.LEARN, scope=place(api, session="s2"), body=b"{}")
    await state.park(await state.append(unread), error="no JSON")

    async def events(**query: Any) -> list[dict[str, Any]]:
        return await api.data("activity", **query)

    parked, superseded, stored, written = await events()
    assert (written["result"], written["reason"], written["memory_id"]) == ("stored", "api", memory["id"])
    assert (parked["result"], parked["what"], parked["reason"]) == ("parked", "learning", "no JSON")
    assert (superseded["result"], superseded["supersedes"], superseded["content"]) == ("superseded", memory["id"], None)
    assert (stored["result"], stored["content"], stored["session_id"]) == ("stored", memory["content"], "s1")
    assert [one["result"] for one in await events(limit=1)] == ["parked"]
    assert [one["result"] for one in await events(session_id="s1")] == ["superseded", "stored"]
    assert await events(user_id="other") == []


async def test_statistics_count_by_kind_and_are_the_users_alone(api: Api) -> None:
    await api.store("tea is liked")
    await api.store("tea was hated", valid_to="2021-01-01T00:00:00Z")
    await api.store("tea is brewed", kind="procedural")
    told = await api.get("stats")
    memories = told["memories"]
    assert (memories["active"], memories["total"]) == (2, 3)
    assert memories["kinds"]["semantic"] == {"active": 1, "total": 2}
    assert memories["kinds"]["turn"] == {"active": 0, "total": 0}
    assert told["queues"]["index"] == {"waiting": 0, "running": 0, "parked": 0}
    assert (await api.get("stats", user_id="other"))["memories"]["total"] == 0


async def test_what_was_given_up_is_tried_again_on_request(api: Api) -> None:
    state = api.engine.backends().state
    number = await state.append(row(api, JournalKind.LEARN, PlanBody()))
    await state.park(number, error="no JSON")
    for user, retried in (("other", 0), ("default", 1), ("default", 0)):
        assert await api.ok("POST", f"activity/retry?user_id={user}") == {"retried": retried}
    assert (await state.backlog(place(api)))["learn"] == {"waiting": 1, "running": 0, "parked": 0}
    reader = msgspec.structs.replace(api.identity(), permissions=frozenset({"memory:read"}))
    assert await api.status("POST", "activity/retry", identity=reader) == 403


async def test_a_receipt_tells_what_learning_from_the_turn_cost(api: Api) -> None:
    await captured(api, "req_1", Decided(result="empty"), "My budget is $10,000")
    spent = {"extract": (10, 5), "judge": (4, 1)}
    for _ in range(2):
        await note(api, Outcome(result="tokens", request_ids=["req_1"], tokens=spent))
    learned = (await receipt(api, "req_1"))["learned"]
    assert (learned["state"], learned["outcomes"]) == ("done", [])
    assert learned["tokens"]["extract"] == {"input_tokens": 20, "output_tokens": 10}
    assert all(event["result"] != "tokens" for event in await api.data("activity"))


async def test_requests_are_listed_newest_first_page_by_page_and_by_what_they_were_given(api: Api) -> None:
    memory = await api.store(BUDGET)
    for name in ("req_1", "req_2", "req_3"):
        await asked(api, name, session="s2" if name == "req_2" else "s1")
    await asked(api, "req_4", "Tell me about quantum chromodynamics")
    await asked(api, "req_other", user="somebody")

    async def listed(**query: str) -> list[str]:
        return [one["request_id"] for one in await api.walk("receipts", limit=2, **query)]

    assert await listed() == ["req_4", "req_3", "req_2", "req_1"]
    first = (await api.data("receipts"))[3]
    assert (first["query"], first["result"], first["memories"]) == (QUESTION, "injected", 1)
    assert await listed(session_id="s2") == ["req_2"]
    assert await listed(memory_id=memory["id"]) == ["req_3", "req_2", "req_1"]
    assert await api.status("GET", "receipts?memory_id=mem_none") == 404
    assert await api.status("GET", "receipts?cursor=bm90") == 400


def streaming(api: Api, path: str = "/v1/memory/activity") -> AbstractAsyncContextManager[httpx.Response]:
    headers = {IDENTITY_HEADER: msgspec.json.encode(api.identity()).decode(), "accept": "text/event-stream"}
    return api.client.stream("GET", path, headers=headers)


async def test_activity_is_told_as_it_happens(api: Api) -> None:
    """The newest first of all, oldest first, then what comes; as server-sent events, to its user alone."""
    for name in ("one", "two", "three"):
        await api.store(name)
    told: list[str] = []
    async with streaming(api, "/v1/memory/activity?limit=2") as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                told.append(json.loads(line.removeprefix("data: "))["content"])
                if told == ["two", "three"]:
                    await api.store("not yours", user_id="somebody")
                    await api.store("four")
                if told[-1] == "four":
                    break
    assert told == ["two", "three", "four"]


async def test_streams_of_activity_are_bounded(api: Api) -> None:
    read: list[AsyncIterator[str]] = []
    async with AsyncExitStack() as open_streams:
        for _ in range(MOST_STREAMS):
            answer = await open_streams.enter_async_context(streaming(api))
            read.append(answer.aiter_lines())
            await anext(read[-1])
        async with streaming(api) as refused:
            assert refused.status_code == 429
        assert len(read) == MOST_STREAMS
        await api.get("activity")


SCOPE = Scope(tenant="acme", user="ann")


def request(name: str, scope: Scope = SCOPE) -> RecallRequest:
    return RecallRequest(request_id=name, scope=scope, queries=["What is my budget?"], nonce="n", verdict="personal")


def dropped(reason: str) -> float:
    value: float = metrics().receipts_dropped.labels(reason=reason)._value.get()
    return value


async def recalled(state: SqliteState, scope: Scope, name: str) -> Recalled:
    found = await state.receipt(scope, name)
    assert found is not None
    assert found.recalled is not None
    return found.recalled


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
    async with opening(SqliteState(tmp_path / "state.db", sync="normal")) as state:
        keeper, before = ReceiptKeeper(state, WallClock(), Settings()), dropped("full")
        owners = [Scope(tenant=f"tenant-{place % 5}", user="ann") for place in range(MOST_WAITING + 3)]
        for place, owner in enumerate(owners):
            keeper.note(request(f"req_{place}", owner), RecallAnswer(result="empty"))
        await keeper.written()
        assert dropped("full") == before + 3
        assert await state.receipt(owners[MOST_WAITING - 1], f"req_{MOST_WAITING - 1}") is not None
        assert await state.receipt(owners[MOST_WAITING], f"req_{MOST_WAITING}") is None
        await keeper.close()


async def test_a_busy_tenant_does_not_cost_another_its_receipts(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal")) as state:
        keeper, before = ReceiptKeeper(state, WallClock(), Settings()), dropped("full")
        for place in range(MOST_OF_A_TENANT + 2):
            keeper.note(request(f"req_{place}"), RecallAnswer(result="empty"))
        other = Scope(tenant="other", user="ann")
        keeper.note(request("req_other", other), RecallAnswer(result="empty"))
        await keeper.close()
        assert dropped("full") == before + 2
        assert (await recalled(state, other, "req_other")).verdict == "personal"


async def test_a_receipt_shows_every_injected_candidate_and_the_best_of_the_others(tmp_path: Path) -> None:
    async with opening(SqliteState(tmp_path / "state.db", sync="normal")) as state:
        keeper = ReceiptKeeper(state, WallClock(), Settings())
        candidates = [{"memory_id": f"m{place}", "injected": place in {0, 49}} for place in range(50)]
        line = Citation(memory_id="m0", turn_id=None, score=0.91234567, snippet="words that are not kept")
        keeper.note(request("req_1"), RecallAnswer(result="injected", citations=[line], candidates=candidates))
        await keeper.close()
        found = await recalled(state, SCOPE, "req_1")
        shown = [one["memory_id"] for one in found.candidates]
        assert shown == ["m0", *(f"m{place}" for place in range(1, LEFT_OUT_SHOWN + 1)), "m49"]
        assert (found.memories[0].memory_id, found.memories[0].score) == ("m0", 0.9123)
