"""What a key of one project may change, and what its calls tell of what other projects have."""

import base64
from typing import Any

import msgspec
import pytest

from memproxy.core.protocol import Identity, TurnsBody
from memproxy.core.receipt import Cited, Decided, ReceiptPart
from memproxy.core.scope import Scope
from memproxy.core.turn import Message
from memproxy.ports import JournalEntry, JournalKind
from memproxy.stores.edge import EdgeStore
from tests.api.conftest import APOLLO, own_api
from tests.isolation.operations import memory_line
from tests.support.engine import Api

__all__ = ["own_api"]

ALICE = Identity(tenant="acme", named_user="alice")
ZEUS = msgspec.structs.replace(ALICE, project="zeus")
LATER = "2099-01-01T00:00:00Z"


@pytest.fixture
def alice(own_api: Api) -> Api:
    return own_api.by(ALICE)


@pytest.fixture
def apollo(own_api: Api) -> Api:
    """Her key of one project."""
    return own_api.by(APOLLO)


@pytest.fixture
def zeus(own_api: Api) -> Api:
    """She, in another project."""
    return own_api.by(ZEUS)


async def tell(api: Api, *messages: tuple[str, str | None]) -> list[str]:
    """Say what has these texts and ids; the ids."""
    ids = ({} if name is None else {"id": name} for _, name in messages)
    said = [{"role": "user", "content": text} | one for (text, _), one in zip(messages, ids, strict=True)]
    told = await api.post("turns", status=201, session_id="s1", messages=said)
    assert "conflicts" not in told
    turn_ids: list[str] = told["turn_ids"]
    return turn_ids


async def fact_of_zeus(alice: Api) -> str:
    """A fact that was learned in a project from a turn of none; the turn."""
    (turn,) = await tell(alice, ("The code is 17", None))
    fields = {"session_id": "s1", "turn_ids": [turn], "project_id": "zeus"}
    await alice.bring(memory_line("fact-of-zeus", "The code of zeus is 17", **fields))
    return turn


@pytest.mark.parametrize("project", ["zeus", None])
async def test_a_projects_key_moves_no_memory_out_of_its_project(apollo: Api, project: str | None) -> None:
    name = (await apollo.store("of apollo"))["id"]
    assert await apollo.refused("PATCH", name, json={"project_id": project}) == (403, "project_id")
    assert (await apollo.edit(name, project_id="apollo", tags=["a"]))["project_id"] == "apollo"


async def test_a_projects_key_takes_no_memory_of_none_for_its_project(alice: Api, apollo: Api, zeus: Api) -> None:
    name = (await alice.store("of all"))["id"]
    assert await apollo.status("PATCH", name, json={"project_id": "apollo"}) == 403
    await zeus.get(name)


@pytest.mark.parametrize("owner", ["zeus", "alice"])
async def test_an_import_by_a_projects_key_replaces_nothing_that_is_not_its_projects(
    alice: Api, apollo: Api, zeus: Api, owner: str
) -> None:
    their = {"zeus": zeus, "alice": alice}[owner]
    theirs = await their.store("theirs")
    lines = [
        memory_line(name, "mine", project_id="apollo", updated_at=LATER, supersedes=theirs["id"])
        for name in (theirs["id"], "mem_not_there")
    ]
    for dry_run in (True, False):
        told = [await apollo.bring(line, dry_run=dry_run) for line in lines]
        assert told[0] == told[1]
        assert told[0]["imported"] == 1
    assert await their.get(theirs["id"]) == theirs
    for line in lines:
        assert (await apollo.bring(line))["unchanged"] == 1
    found = [one for one in await apollo.page() if one["content"] == "mine"]
    assert len(found) == 2
    for one in found:
        await apollo.delete(one["id"])
    assert await their.get(theirs["id"]) == theirs


async def test_what_a_project_exports_it_imports_again_unchanged(apollo: Api) -> None:
    await apollo.store("of apollo")
    await tell(apollo, ("hello", "D1:1"), ("I live in Bern", None))
    told = await apollo.bring((await apollo.ask("GET", "export")).content)
    assert (told["imported"], told["replaced"], told["unchanged"]) == (0, 0, 3)


@pytest.mark.parametrize("identity", [ALICE, APOLLO])
async def test_an_import_replaces_no_words_of_a_turn(own_api: Api, identity: Identity) -> None:
    caller = own_api.by(identity)
    await tell(caller, ("I live in Bern", "D1:1"))
    (turn,) = await caller.page()
    fields = {"kind": "turn", "session_id": "s1", "project_id": identity.project, "metadata": {"role": "user"}}
    told = await caller.bring(memory_line(turn["id"], "I live in Rome", updated_at=LATER, **fields))
    assert (told["replaced"], told["unchanged"]) == (0, 1)
    assert [one["content"] for one in await caller.page()] == ["I live in Bern"]


async def test_messages_under_another_projects_ids_and_in_its_words_are_kept_as_ones_own(
    apollo: Api, zeus: Api
) -> None:
    await tell(zeus, ("The code is 17", "D1:1"), ("I live in Bern", None))
    before = await zeus.page()
    own = (("The code is 18", "D1:1"), ("I live in Bern", None))
    assert (await tell(apollo, *own))[0] == "D1:1"
    mine = await apollo.page()
    assert sorted(one["content"] for one in mine) == ["I live in Bern", "The code is 18"]
    assert (await apollo.get("D1:1"))["content"] == "The code is 18"
    assert await zeus.page() == before
    await tell(apollo, *own)
    assert len(await apollo.page()) == 2


async def test_a_turn_is_not_found_by_words_that_another_project_said_beside_it(apollo: Api, zeus: Api) -> None:
    await zeus.say("s1", "Quincemarmalade is the code")
    await apollo.say("s1", "Good to know")
    assert await apollo.search("quincemarmalade", limit=200) == []


async def test_undoing_a_shared_conversation_in_a_project_leaves_what_others_have_there(
    alice: Api, apollo: Api, zeus: Api
) -> None:
    await zeus.say("s1", "of zeus")
    await apollo.say("s1", "of apollo")
    kept = await zeus.store("noted by zeus", session_id="s1")
    assert await apollo.delete("sessions/s1") == 1
    assert {one["content"] for one in await alice.page()} == {"of zeus", kept["content"]}


async def test_another_projects_conversation_is_answered_as_one_that_is_not_there(
    alice: Api, apollo: Api, zeus: Api
) -> None:
    await zeus.say("s1", "of zeus")
    for method, path in (("DELETE", ""), ("POST", "/end"), ("POST", "/mine")):
        theirs, nobodys = [await apollo.ask(method, f"sessions/{name}{path}") for name in ("s1", "s2")]
        assert theirs.status_code == nobodys.status_code
        assert theirs.text.replace("s1", "s2") == nobodys.text
    assert len(await alice.page()) == 1


async def test_a_conversation_of_another_project_that_waits_to_be_indexed_is_not_undone(
    alice: Api, apollo: Api
) -> None:
    parts = alice.engine.backends().parts
    body = TurnsBody(messages=[Message(role="user", content="of zeus")], said_at=parts.clock.now())
    scope = Scope(tenant="acme", user="alice", project="zeus", session="s1")
    entry = JournalEntry(kind=JournalKind.TURNS, scope=scope, body=msgspec.json.encode(body))
    number = await parts.worker.submit(entry)
    assert await apollo.status("DELETE", "sessions/s1") == 404
    assert await parts.worker.applied(number, 30)
    assert [one["content"] for one in await alice.page()] == ["of zeus"]


@pytest.mark.parametrize("signal", ["wrong", "correction"])
async def test_feedback_on_a_turn_of_no_project_reaches_no_fact_of_another(
    alice: Api, apollo: Api, signal: str
) -> None:
    turn = await fact_of_zeus(alice)
    before = await alice.get("fact-of-zeus")
    given = await apollo.judge(signal, memory_id=turn, text="The code is 18")
    assert "fact-of-zeus" not in str(given)
    assert await alice.get("fact-of-zeus") == before


async def test_forgetting_a_turn_counts_no_facts_of_another_project(alice: Api, apollo: Api) -> None:
    turn = await fact_of_zeus(alice)
    assert await apollo.delete(turn) == 1


async def test_a_projects_key_retries_nothing_and_is_told_of_no_queue(apollo: Api) -> None:
    assert await apollo.status("POST", "activity/retry") == 403
    assert (await apollo.get("stats"))["queues"] == {}


async def test_a_page_of_the_palace_goes_on_only_where_more_may_be_seen(alice: Api, apollo: Api) -> None:
    for project, subject in (("apollo", "Armstrong"), ("zeus", "Hera"), ("zeus", "Leda")):
        await alice.store(f"{subject} is here", project_id=project, subject=subject)
    page = await apollo.get("palace", limit=1)
    assert [one["name"] for one in page["data"]] == ["armstrong"]
    assert page["next_cursor"] is None


async def test_who_stands_in_an_agent_forgets_what_is_that_agents(own_api: Api) -> None:
    coder, planner = [own_api.by(msgspec.structs.replace(ALICE, agent=name)) for name in ("coder", "planner")]
    alice = own_api.by(ALICE)
    for caller in (coder, planner, alice):
        await caller.store("a word")
    assert await coder.delete(user_id="alice") == 1
    assert {one["agent_id"] for one in await alice.page()} == {"planner", None}


KEY = {"idempotency-key": "k1"}


@pytest.mark.parametrize(
    "place", [{"project": "zeus"}, {"agent": "planner"}, {"session": "s2"}, {"project": "zeus", "bound_project": True}]
)
async def test_an_idempotency_key_from_another_place_is_refused(own_api: Api, place: dict[str, Any]) -> None:
    here = msgspec.structs.replace(ALICE, project="apollo", agent="coder", session="s1")
    there = msgspec.structs.replace(here, **place)
    sent: dict[str, Any] = {"json": {"content": "x"}, "headers": KEY}
    first = await own_api.by(here).ask("POST", **sent)
    assert first.status_code == 201
    assert await own_api.by(there).code("POST", **sent) == (422, "idempotency_key_reused")
    assert (await own_api.by(here).ask("POST", **sent)).content == first.content


async def test_an_idempotency_key_with_another_if_match_is_refused(alice: Api) -> None:
    edit = {"tags": ["a"]}
    name = (await alice.store("x"))["id"]
    tag = (await alice.ask("GET", name)).headers["etag"]
    await alice.ok("PATCH", name, json=edit, headers=KEY | {"if-match": tag})
    for headers in ({"if-match": '"another"'}, {"if-match": "*"}, {}):
        other = await alice.code("PATCH", name, json=edit, headers=KEY | headers)
        assert other == (422, "idempotency_key_reused")


async def receipt_of_both(alice: Api) -> dict[str, str]:
    """A request outside of any project was given a memory of each; their ids by project."""
    projects = ("apollo", "zeus")
    ids = {name: (await alice.store(f"The word of {name}", project_id=name))["id"] for name in projects}
    cited = [Cited(memory_id=name, turn_id=None, score=0.9) for name in ids.values()]
    decided = Decided(result="injected", memories=cited, tokens=10)
    backends, scope = alice.engine.backends(), Scope(tenant="acme", user="alice")
    part = ReceiptPart(scope=scope, request_id="req_1", at=backends.parts.clock.now(), decided=decided)
    await backends.state.note_receipts([part])
    return ids


async def test_receipts_and_activity_tell_a_key_of_one_project_nothing_of_another(alice: Api, apollo: Api) -> None:
    ids = await receipt_of_both(alice)
    assert "word of zeus" in str(await alice.get("receipts/req_1"))
    for name in ids.values():
        await alice.edit(name, tags=["a"])
    await alice.judge("helpful", request_id="req_1")
    receipt = await apollo.get("receipts/req_1")
    assert "word of apollo" in str(receipt)
    for seen in (receipt, await apollo.get("activity")):
        assert ids["apollo"] in str(seen)
        assert ids["zeus"] not in str(seen)
        assert "word of zeus" not in str(seen)
    assert receipt["tokens"] is None


async def test_feedback_on_a_request_reaches_no_memory_of_another_project(alice: Api, apollo: Api) -> None:
    ids = await receipt_of_both(alice)
    before = await alice.get(ids["zeus"])
    assert (await apollo.judge("wrong", request_id="req_1"))["memory_ids"] == [ids["apollo"]]
    assert await alice.get(ids["zeus"]) == before


async def test_an_export_of_one_project_names_no_places_of_another(alice: Api, apollo: Api) -> None:
    for project, subject in (("apollo", "Armstrong"), ("zeus", "Hera")):
        await alice.store(f"{subject} is here", project_id=project, subject=subject)
    assert "hera" in (await alice.ask("GET", "export")).text.lower()
    seen = (await apollo.ask("GET", "export")).text.lower()
    assert "armstrong" in seen
    assert "hera" not in seen


async def test_a_palace_shown_to_one_project_tells_no_names_that_were_told_in_another(alice: Api) -> None:
    for subject in ("My dog Biscuit", "the user's dog"):
        await alice.store("It barks", project_id="zeus", subject=subject)
    await alice.store("Biscuit is a beagle", project_id="apollo", subject="Biscuit")
    asked = {ALICE: ["dog"], APOLLO: [], msgspec.structs.replace(ALICE, project="apollo"): []}
    for identity, aliases in asked.items():
        wings = await alice.data("palace", identity=identity)
        assert [(wing["name"], wing["aliases"]) for wing in wings] == [("biscuit", aliases)]


async def test_a_cursor_among_entities_holds_no_name_that_was_told_in_another_project(alice: Api, apollo: Api) -> None:
    await alice.store("It barks", project_id="zeus", subject="My dog Biscuit")
    for name in ("dog", "Rex"):
        await alice.store(f"{name} sleeps", project_id="apollo", entities=[name], subject=name)
    assert [one["name"] for one in await apollo.walk("entities", limit=1)] == ["dog", "Rex"]
    cursor = (await apollo.get("entities", limit=1))["next_cursor"]
    assert base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)) == b'["entities",1]'


@pytest.mark.parametrize("agent", [None, "coder"])
async def test_a_key_of_one_project_changes_no_settings_that_hold_in_all(
    alice: Api, apollo: Api, agent: str | None
) -> None:
    body = {"mode": "off", "agent_id": agent}
    assert await apollo.status("PUT", "settings", json=body) == 403
    assert (await apollo.get("settings"))["mode"] == "on"
    await alice.ok("PUT", "settings", json=body)


async def test_statistics_for_a_key_of_one_project_count_what_it_sees(alice: Api, apollo: Api) -> None:
    for project in ("apollo", "zeus", None):
        await alice.store("A word", project_id=project)
    assert [(await caller.get("stats"))["memories"]["total"] for caller in (alice, apollo)] == [3, 2]


@pytest.mark.parametrize(
    ("permissions", "told"), [({"memory:read"}, False), ({"memory:read", "act_as_user"}, True), ({"admin"}, True)]
)
async def test_a_tenants_cost_is_told_to_who_speaks_for_all_of_it(
    own_api: Api, permissions: set[str], told: bool
) -> None:
    backends, spent = own_api.engine.backends(), {"input_tokens": 100, "output_tokens": 20}
    await backends.state.note_tokens("acme", "extract", **spent, at=backends.parts.clock.now())
    someone = Identity(tenant="acme", default_user="alice", bound_user=True, permissions=frozenset(permissions))
    seen = await own_api.get("stats", identity=someone)
    cost = {"extract": spent}
    assert seen["cost"] == ({"today": cost, "year": cost} if told else None)


@pytest.mark.parametrize(
    ("who", "statuses"),
    [
        (APOLLO, {404, 409, 422}),
        (msgspec.structs.replace(ALICE, permissions=frozenset({"admin", "act_as_user"})), {403}),
    ],
    ids=["another project", "administration"],
)
async def test_an_idempotency_key_tells_nobody_the_words_of_an_answer_to_another(
    alice: Api, who: Identity, statuses: set[int]
) -> None:
    memory = await alice.store("The word of zeus", project_id="zeus")
    edit: dict[str, Any] = {"json": {"tags": ["a"]}, "headers": {"idempotency-key": "k1"}}
    await alice.ok("PATCH", memory["id"], **edit)
    again = await alice.ask("PATCH", memory["id"], identity=who, **edit)
    assert again.status_code in statuses
    assert "word of zeus" not in again.text


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k1"}])
async def test_administration_may_erase_a_user_with_and_without_an_idempotency_key(
    alice: Api, headers: dict[str, str]
) -> None:
    await alice.store("Alice's word")
    operator = Identity(tenant="acme", default_user="default", permissions=frozenset({"admin"}))
    for _ in range(2):
        await alice.ok("DELETE", "users/alice", identity=operator, headers=headers)
    assert await alice.page() == []


async def test_a_projects_key_asks_what_would_be_pruned_and_prunes_nothing(apollo: Api) -> None:
    for dry_run, status in ((True, 200), (False, 403)):
        await apollo.post("prune", status=status, dry_run=dry_run)


async def test_activity_elsewhere_takes_no_place_in_what_a_key_of_one_project_is_told(alice: Api, apollo: Api) -> None:
    """A page that got shorter told how much was done in other projects, and when."""

    async def told() -> list[list[str]]:
        pages = [await apollo.data("activity", limit=limit) for limit in (1, 2, 3, 50)]
        return [[event["content"] for event in page] for page in pages]

    for number in range(3):
        await apollo.store(f"apollo {number}")
    before = await told()
    assert before[0] == ["apollo 2"]
    zeus = [await alice.store(f"zeus {number}", project_id="zeus") for number in range(9)]
    for memory in zeus:  # outside of any project, about one's memories
        await alice.judge("helpful", memory_id=memory["id"])
    assert await told() == before
    assert len(await alice.data("activity", limit=50)) == 3 + 9 * 3, "each is stored, edited and judged"


@pytest.mark.parametrize("place", ["project", "agent"])
async def test_how_rare_a_word_is_elsewhere_changes_no_score(alice: Api, place: str) -> None:
    """IDF that is counted over all of the user's memories told whether, and how often, another project has a word."""
    here = alice.by(msgspec.structs.replace(APOLLO, agent="coder") if place == "agent" else APOLLO)
    for content in ("The harbour runs on lanterns.", "Lunch is at noon.", "A harbour is wide."):
        await here.store(content)
    store = alice.engine.backends().store
    assert isinstance(store, EdgeStore)

    async def scores() -> list[tuple[object, ...]]:
        found = list[tuple[object, ...]]()
        for _ in range(2):  # by the engine, and by the index in memory that the first search makes
            told = await here.post("search", query="lanterns harbour")
            found += [(one["memory"]["id"], one["score"], one["signals"]) for one in told["data"]]
            await store.settle()
        return found

    before = await scores()
    assert len(before) == 4
    assert before[:2] == before[2:]
    fields: dict[str, Any] = {"agent_id": "other"} if place == "agent" else {"project_id": "zeus"}
    for number in range(8):
        await alice.store(f"lanterns, lanterns {number}", **fields)
    assert await scores() == before
