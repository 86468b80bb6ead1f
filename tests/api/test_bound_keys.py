"""What a key of one project may change, and what its calls tell of what other projects have."""

from typing import Any

import msgspec
import pytest

from memproxy.core.protocol import Identity, TurnsBody
from memproxy.core.receipt import Cited, Decided, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.ports import JournalEntry, JournalKind
from tests.api.conftest import APOLLO, own_api
from tests.isolation.operations import LINES, memory_line
from tests.support.engine import Api

__all__ = ["own_api"]

ALICE = Identity(tenant="acme", named_user="alice")
ZEUS = msgspec.structs.replace(ALICE, project="zeus")
LATER = "2099-01-01T00:00:00Z"


def said(session: str, *messages: tuple[str, str | None]) -> dict[str, Any]:
    """A conversation of the user's messages, with their ids."""
    ids = ({} if name is None else {"id": name} for _, name in messages)
    return {
        "session_id": session,
        "messages": [{"role": "user", "content": text} | one for (text, _), one in zip(messages, ids, strict=True)],
    }


async def tell(api: Api, identity: Identity, *messages: tuple[str, str | None], session: str = "s1") -> list[str]:
    told = await api.call("POST", "/v1/memory/turns", identity=identity, json=said(session, *messages))
    assert told.status_code == 201, told.text
    assert "conflicts" not in told.json()
    ids: list[str] = told.json()["turn_ids"]
    return ids


async def bring(api: Api, identity: Identity, *lines: bytes, query: str = "") -> dict[str, Any]:
    path = f"/v1/memory/import{query}"
    told = await api.call("POST", path, identity=identity, content=b"".join(lines), headers=dict(LINES))
    assert told.status_code == 200, told.text
    counts: dict[str, Any] = told.json()
    return counts


@pytest.mark.parametrize("project", ["zeus", None])
async def test_a_projects_key_moves_no_memory_out_of_its_project(own_api: Api, project: str | None) -> None:
    memory = await own_api.store("of apollo", identity=APOLLO)
    path = f"/v1/memory/{memory['id']}"
    refused = await own_api.call("PATCH", path, identity=APOLLO, json={"project_id": project})
    assert (refused.status_code, refused.json()["error"]["param"]) == (403, "project_id")
    same = await own_api.call("PATCH", path, identity=APOLLO, json={"project_id": "apollo", "tags": ["a"]})
    assert (same.status_code, same.json()["project_id"]) == (200, "apollo")


async def test_a_projects_key_takes_no_memory_of_none_for_its_project(own_api: Api) -> None:
    memory = await own_api.store("of all", identity=ALICE)
    path = f"/v1/memory/{memory['id']}"
    assert (await own_api.call("PATCH", path, identity=APOLLO, json={"project_id": "apollo"})).status_code == 403
    assert (await own_api.call("GET", path, identity=ZEUS)).status_code == 200


@pytest.mark.parametrize("owner", [ZEUS, ALICE])
async def test_an_import_by_a_projects_key_replaces_nothing_that_is_not_its_projects(
    own_api: Api, owner: Identity
) -> None:
    theirs = await own_api.store("theirs", identity=owner)
    lines = [
        memory_line(name, "mine", project_id="apollo", updated_at=LATER, supersedes=theirs["id"])
        for name in (theirs["id"], "mem_not_there")
    ]
    for query in ("?dry_run=true", ""):
        told = [await bring(own_api, APOLLO, line, query=query) for line in lines]
        assert told[0] == told[1]
        assert told[0]["imported"] == 1
    assert (await own_api.call("GET", f"/v1/memory/{theirs['id']}", identity=owner)).json() == theirs
    for line in lines:
        assert (await bring(own_api, APOLLO, line))["unchanged"] == 1
    found = [one for one in await own_api.page(identity=APOLLO) if one["content"] == "mine"]
    assert len(found) == 2
    for one in found:
        assert (await own_api.call("DELETE", f"/v1/memory/{one['id']}", identity=APOLLO)).status_code == 200
    assert (await own_api.call("GET", f"/v1/memory/{theirs['id']}", identity=owner)).json() == theirs


async def test_what_a_project_exports_it_imports_again_unchanged(own_api: Api) -> None:
    await own_api.store("of apollo", identity=APOLLO)
    await tell(own_api, APOLLO, ("hello", "D1:1"), ("I live in Bern", None))
    exported = await own_api.call("GET", "/v1/memory/export", identity=APOLLO)
    told = await bring(own_api, APOLLO, exported.content)
    assert (told["imported"], told["replaced"], told["unchanged"]) == (0, 0, 3)


@pytest.mark.parametrize("identity", [ALICE, APOLLO])
async def test_an_import_replaces_no_words_of_a_turn(own_api: Api, identity: Identity) -> None:
    await tell(own_api, identity, ("I live in Bern", "D1:1"))
    (turn,) = await own_api.page(identity=identity)
    fields = {"kind": "turn", "session_id": "s1", "project_id": identity.project, "metadata": {"role": "user"}}
    told = await bring(own_api, identity, memory_line(turn["id"], "I live in Rome", updated_at=LATER, **fields))
    assert (told["replaced"], told["unchanged"]) == (0, 1)
    assert [one["content"] for one in await own_api.page(identity=identity)] == ["I live in Bern"]


async def test_messages_under_another_projects_ids_and_in_its_words_are_kept_as_ones_own(own_api: Api) -> None:
    await tell(own_api, ZEUS, ("The code is 17", "D1:1"), ("I live in Bern", None))
    before = await own_api.page(identity=ZEUS)
    ids = await tell(own_api, APOLLO, ("The code is 18", "D1:1"), ("I live in Bern", None))
    assert ids[0] == "D1:1"
    mine = await own_api.page(identity=APOLLO)
    assert sorted(one["content"] for one in mine) == ["I live in Bern", "The code is 18"]
    read = await own_api.call("GET", "/v1/memory/D1:1", identity=APOLLO)
    assert read.json()["content"] == "The code is 18"
    assert await own_api.page(identity=ZEUS) == before
    await tell(own_api, APOLLO, ("The code is 18", "D1:1"), ("I live in Bern", None))
    assert len(await own_api.page(identity=APOLLO)) == 2


async def test_a_turn_is_not_found_by_words_that_another_project_said_beside_it(own_api: Api) -> None:
    await tell(own_api, ZEUS, ("Quincemarmalade is the code", None))
    await tell(own_api, APOLLO, ("Good to know", None))
    body = {"query": "quincemarmalade", "limit": 200}
    found = await own_api.call("POST", "/v1/memory/search", identity=APOLLO, json=body)
    assert (found.status_code, found.json()["data"]) == (200, [])


async def test_undoing_a_shared_conversation_in_a_project_leaves_what_others_have_there(own_api: Api) -> None:
    await tell(own_api, ZEUS, ("of zeus", None))
    await tell(own_api, APOLLO, ("of apollo", None))
    kept = await own_api.store("noted by zeus", identity=ZEUS, session_id="s1")
    undone = await own_api.call("DELETE", "/v1/memory/sessions/s1", identity=APOLLO)
    assert (undone.status_code, undone.json()) == (200, {"deleted": 1})
    assert {one["content"] for one in await own_api.page(identity=ALICE)} == {"of zeus", kept["content"]}


async def test_another_projects_conversation_is_answered_as_one_that_is_not_there(own_api: Api) -> None:
    await tell(own_api, ZEUS, ("of zeus", None))
    for method, path in (("DELETE", ""), ("POST", "/end"), ("POST", "/mine")):
        theirs, nobodys = [
            await own_api.call(method, f"/v1/memory/sessions/{name}{path}", identity=APOLLO) for name in ("s1", "s2")
        ]
        assert theirs.status_code == nobodys.status_code
        assert theirs.text.replace("s1", "s2") == nobodys.text
    assert len(await own_api.page(identity=ALICE)) == 1


async def test_a_conversation_of_another_project_that_waits_to_be_indexed_is_not_undone(own_api: Api) -> None:
    worker, clock = own_api.engine.backends().parts.worker, own_api.engine.backends().parts.clock
    body = TurnsBody(messages=[Message(role="user", content="of zeus")], said_at=clock.now())
    scope = Scope(tenant="acme", user="alice", project="zeus", session="s1")
    number = await worker.submit(JournalEntry(kind=JournalKind.TURNS, scope=scope, body=msgspec.json.encode(body)))
    undone = await own_api.call("DELETE", "/v1/memory/sessions/s1", identity=APOLLO)
    assert undone.status_code == 404
    assert await worker.applied(number, 30)
    assert [one["content"] for one in await own_api.page(identity=ALICE)] == ["of zeus"]


async def test_receipts_and_activity_name_nothing_of_another_project(own_api: Api) -> None:
    mine, theirs = [
        (await own_api.store("a word", identity=ALICE, project_id=project))["id"] for project in ("apollo", "zeus")
    ]
    decided = Decided(result="injected", memories=[Cited(memory_id=name) for name in (mine, theirs)], tokens=10)
    backends = own_api.engine.backends()
    place, now = Scope(tenant="acme", user="alice"), backends.parts.clock.now()
    await backends.state.note_receipts([ReceiptPart(scope=place, request_id="req_1", at=now, decided=decided)])
    edit = {"tags": ["a"]}
    for identity, name in ((ALICE, theirs), (ALICE, mine)):
        assert (await own_api.call("PATCH", f"/v1/memory/{name}", identity=identity, json=edit)).status_code == 200
    judged = await own_api.call(
        "POST", "/v1/memory/feedback", identity=ALICE, json={"request_id": "req_1", "signal": "helpful"}
    )
    assert judged.status_code == 201
    receipt = await own_api.call("GET", "/v1/memory/receipts/req_1", identity=APOLLO)
    activity = await own_api.call("GET", "/v1/memory/activity", identity=APOLLO)
    for seen in (receipt, activity):
        assert mine in seen.text
        assert theirs not in seen.text
    assert receipt.json()["tokens"] is None


@pytest.mark.parametrize("signal", ["wrong", "correction"])
async def test_feedback_on_a_turn_of_no_project_reaches_no_fact_of_another(own_api: Api, signal: str) -> None:
    (turn,) = await tell(own_api, ALICE, ("The code is 17", None))
    fields = {"session_id": "s1", "turn_ids": [turn], "project_id": "zeus"}
    await bring(own_api, ALICE, memory_line("fact-of-zeus", "The code of zeus is 17", **fields))
    before = (await own_api.call("GET", "/v1/memory/fact-of-zeus", identity=ALICE)).json()
    body = {"memory_id": turn, "signal": signal, "text": "The code is 18"}
    given = await own_api.call("POST", "/v1/memory/feedback", identity=APOLLO, json=body)
    assert given.status_code == 201
    assert "fact-of-zeus" not in given.text
    assert (await own_api.call("GET", "/v1/memory/fact-of-zeus", identity=ALICE)).json() == before


async def test_forgetting_a_turn_counts_no_facts_of_another_project(own_api: Api) -> None:
    (turn,) = await tell(own_api, ALICE, ("The code is 17", None))
    fields = {"session_id": "s1", "turn_ids": [turn], "project_id": "zeus"}
    await bring(own_api, ALICE, memory_line("fact-of-zeus", "The code of zeus is 17", **fields))
    gone = await own_api.call("DELETE", f"/v1/memory/{turn}", identity=APOLLO)
    assert gone.json() == {"deleted": 1}


async def test_a_projects_key_retries_nothing_and_is_told_of_no_queue(own_api: Api) -> None:
    assert (await own_api.call("POST", "/v1/memory/activity/retry", identity=APOLLO)).status_code == 403
    assert (await own_api.call("GET", "/v1/memory/stats", identity=APOLLO)).json()["queues"] == {}


async def test_a_page_of_the_palace_goes_on_only_where_more_may_be_seen(own_api: Api) -> None:
    for project, subject in (("apollo", "Armstrong"), ("zeus", "Hera"), ("zeus", "Leda")):
        await own_api.store(f"{subject} is here", identity=ALICE, project_id=project, subject=subject)
    page = (await own_api.call("GET", "/v1/memory/palace?limit=1", identity=APOLLO)).json()
    assert [one["name"] for one in page["data"]] == ["armstrong"]
    assert page["next_cursor"] is None


async def test_who_stands_in_an_agent_forgets_what_is_that_agents(own_api: Api) -> None:
    coder, planner = [msgspec.structs.replace(ALICE, agent=name) for name in ("coder", "planner")]
    for identity in (coder, planner, ALICE):
        await own_api.store("a word", identity=identity)
    gone = await own_api.call("DELETE", "/v1/memory?user_id=alice", identity=coder)
    assert gone.json() == {"deleted": 1}
    assert {one["agent_id"] for one in await own_api.page(identity=ALICE)} == {"planner", None}


KEY = {"idempotency-key": "k1"}


@pytest.mark.parametrize(
    "place", [{"project": "zeus"}, {"agent": "planner"}, {"session": "s2"}, {"project": "zeus", "bound_project": True}]
)
async def test_an_idempotency_key_from_another_place_is_refused(own_api: Api, place: dict[str, Any]) -> None:
    here = msgspec.structs.replace(ALICE, project="apollo", agent="coder", session="s1")
    there = msgspec.structs.replace(here, **place)
    first = await own_api.call("POST", "/v1/memory", identity=here, json={"content": "x"}, headers=KEY)
    assert first.status_code == 201
    other = await own_api.call("POST", "/v1/memory", identity=there, json={"content": "x"}, headers=KEY)
    assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
    again = await own_api.call("POST", "/v1/memory", identity=here, json={"content": "x"}, headers=KEY)
    assert again.content == first.content


async def test_an_idempotency_key_with_another_if_match_is_refused(own_api: Api) -> None:
    memory = await own_api.store("x", identity=ALICE)
    path, edit = f"/v1/memory/{memory['id']}", {"tags": ["a"]}
    tag = (await own_api.call("GET", path, identity=ALICE)).headers["etag"]
    first = await own_api.call("PATCH", path, identity=ALICE, json=edit, headers=KEY | {"if-match": tag})
    assert first.status_code == 200
    for headers in ({"if-match": '"another"'}, {"if-match": "*"}, {}):
        other = await own_api.call("PATCH", path, identity=ALICE, json=edit, headers=KEY | headers)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
