import pytest

from memproxy.core.protocol import Identity
from tests.api.conftest import APOLLO
from tests.support.engine import Api

ALICE = Identity(tenant="acme", named_user="alice")
BOB = Identity(tenant="acme", named_user="bob")
OTHER_ALICE = Identity(tenant="rival", named_user="alice")
STRANGERS = [BOB, OTHER_ALICE]


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_lists_searches_and_recall_show_nobody_elses_memory(own_api: Api, stranger: Identity) -> None:
    await own_api.store("The vault code is tangerine", identity=ALICE)
    said = {"session_id": "s1", "messages": [{"role": "user", "content": "my vault code is tangerine"}]}
    assert (await own_api.call("POST", "/v1/memory/turns", identity=ALICE, json=said)).status_code == 201
    assert len(await own_api.search("vault code tangerine", identity=ALICE)) == 2
    assert await own_api.page(identity=stranger) == []
    assert await own_api.page(identity=stranger, session_id="s1") == []
    assert await own_api.search("vault code tangerine", identity=stranger) == []
    recalled = await own_api.call(
        "POST", "/v1/memory/recall", identity=stranger, json={"query": "What is my vault code?"}
    )
    assert (recalled.status_code, recalled.json()["context"], recalled.json()["citations"]) == (200, "", [])


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_deleting_everything_of_one_owner_leaves_the_others(own_api: Api, stranger: Identity) -> None:
    memory = await own_api.store("kept", identity=ALICE, session_id="s1")
    await own_api.store("theirs", identity=stranger, session_id="s1")
    for query in ({"session_id": "s1"}, {"user_id": stranger.named_user}):
        gone = await own_api.call("DELETE", "/v1/memory", identity=stranger, params=query)
        assert gone.status_code == 200
    assert await own_api.page(identity=stranger) == []
    assert [one["id"] for one in await own_api.page(identity=ALICE)] == [memory["id"]]


async def test_the_same_turn_id_of_two_users_is_two_turns(own_api: Api) -> None:
    for identity, text in ((ALICE, "mine"), (BOB, "theirs")):
        said = {"session_id": "s1", "messages": [{"role": "user", "content": text, "id": "D1:1"}]}
        answer = await own_api.call("POST", "/v1/memory/turns", identity=identity, json=said)
        assert answer.json()["turn_ids"] == ["D1:1"]
    assert (await own_api.call("GET", "/v1/memory/D1:1", identity=ALICE)).json()["content"] == "mine"
    assert (await own_api.call("GET", "/v1/memory/D1:1", identity=BOB)).json()["content"] == "theirs"
    assert (await own_api.call("DELETE", "/v1/memory/D1:1", identity=BOB)).json() == {"deleted": 1}
    assert (await own_api.call("GET", "/v1/memory/D1:1", identity=ALICE)).json()["content"] == "mine"


async def test_a_header_and_a_field_that_disagree_are_refused(own_api: Api) -> None:
    for answer in (
        await own_api.call("POST", "/v1/memory", identity=ALICE, json={"content": "x", "user_id": "bob"}),
        await own_api.call("GET", "/v1/memory", identity=ALICE, params={"user_id": "bob"}),
        await own_api.call("POST", "/v1/memory/search", identity=ALICE, json={"query": "x", "user_id": "bob"}),
        await own_api.call("DELETE", "/v1/memory/users/bob", identity=ALICE),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "user_id"


async def test_nobody_named_is_refused_where_there_is_no_default_user(own_api: Api) -> None:
    nobody = Identity(tenant="acme")
    for answer in (
        await own_api.call("POST", "/v1/memory", identity=nobody, json={"content": "x"}),
        await own_api.call("GET", "/v1/memory", identity=nobody),
        await own_api.call("GET", "/v1/memory/some-id", identity=nobody),
    ):
        assert answer.status_code == 400


async def test_no_identity_is_401_and_a_missing_permission_403(own_api: Api) -> None:
    assert (await own_api.client.get("/v1/memory")).status_code == 401
    reader = Identity(tenant="acme", default_user="alice", permissions=frozenset({"memory:read"}))
    assert (await own_api.call("GET", "/v1/memory", identity=reader)).status_code == 200
    refused = await own_api.call("POST", "/v1/memory", identity=reader, json={"content": "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")


async def test_a_key_of_one_project_erases_nothing_of_another(own_api: Api) -> None:
    for project in ("apollo", "zeus"):
        await own_api.store(f"of {project}", identity=ALICE, project_id=project, session_id=f"s-{project}")
    for path, status in (
        ("/v1/memory?project_id=zeus", 403),
        ("/v1/memory/users/alice", 403),
        ("/v1/memory/sessions/s-zeus", 404),
    ):
        assert (await own_api.call("DELETE", path, identity=APOLLO)).status_code == status, path
    assert len(await own_api.page(identity=ALICE)) == 2
    assert (await own_api.call("DELETE", "/v1/memory/sessions/s-apollo", identity=APOLLO)).status_code == 200
    assert (await own_api.call("DELETE", "/v1/memory?user_id=alice", identity=APOLLO)).status_code == 200
    assert [one["content"] for one in await own_api.page(identity=ALICE)] == ["of zeus"]


async def test_a_header_that_the_key_may_not_send_opens_nothing(own_api: Api) -> None:
    """A key for nobody in particular, without ``act_as_user``, whose caller names somebody by header."""
    await own_api.store("Alice's secret", identity=ALICE)
    naming = Identity(
        tenant="acme",
        named_user="alice",
        default_user="default",
        permissions=frozenset({"memory:read", "memory:write"}),
    )
    for method, path, body in (
        ("GET", "/v1/memory", None),
        ("GET", "/v1/memory/settings", None),
        ("POST", "/v1/memory/search", {"query": "secret"}),
        ("POST", "/v1/memory/feedback", {"memory_id": "x", "signal": "wrong"}),
        ("DELETE", "/v1/memory/users/alice", None),
    ):
        assert (await own_api.call(method, path, identity=naming, json=body)).status_code == 403, path
