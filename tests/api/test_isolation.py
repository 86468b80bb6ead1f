import pytest

from memproxy.core.protocol import Identity
from tests.support.engine import Api

ALICE = Identity(tenant="acme", named_user="alice")
BOB = Identity(tenant="acme", named_user="bob")
OTHER_ALICE = Identity(tenant="rival", named_user="alice")
STRANGERS = [BOB, OTHER_ALICE]


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_a_strangers_id_is_answered_exactly_as_one_that_is_not_there(api: Api, stranger: Identity) -> None:
    memory = await api.store("Alice's secret", identity=ALICE)
    for method, body in (("GET", None), ("PATCH", {"content": "taken over"}), ("DELETE", None)):
        yours = await api.call(method, f"/v1/memory/{memory['id']}", identity=stranger, json=body)
        nobodys = await api.call(method, "/v1/memory/mem_" + "0" * 32, identity=stranger, json=body)
        assert yours.status_code == nobodys.status_code == 404
        assert yours.text.replace(memory["id"], "ID") == nobodys.text.replace("mem_" + "0" * 32, "ID")
    assert (await api.call("GET", f"/v1/memory/{memory['id']}", identity=ALICE)).json() == memory


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_lists_searches_and_recall_show_nobody_elses_memory(api: Api, stranger: Identity) -> None:
    await api.store("The vault code is tangerine", identity=ALICE)
    said = {"session_id": "s1", "messages": [{"role": "user", "content": "my vault code is tangerine"}]}
    assert (await api.call("POST", "/v1/memory/turns", identity=ALICE, json=said)).status_code == 201
    assert len(await api.search("vault code tangerine", identity=ALICE)) == 2
    assert await api.page(identity=stranger) == []
    assert await api.page(identity=stranger, session_id="s1") == []
    assert await api.search("vault code tangerine", identity=stranger) == []
    recalled = await api.call("POST", "/v1/memory/recall", identity=stranger, json={"query": "What is my vault code?"})
    assert (recalled.status_code, recalled.json()["context"], recalled.json()["citations"]) == (200, "", [])


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_deleting_everything_of_one_owner_leaves_the_others(api: Api, stranger: Identity) -> None:
    memory = await api.store("kept", identity=ALICE, session_id="s1")
    await api.store("theirs", identity=stranger, session_id="s1")
    for query in ({"session_id": "s1"}, {"user_id": stranger.named_user}):
        gone = await api.call("DELETE", "/v1/memory", identity=stranger, params=query)
        assert gone.status_code == 200
    assert await api.page(identity=stranger) == []
    assert [one["id"] for one in await api.page(identity=ALICE)] == [memory["id"]]


async def test_the_same_turn_id_of_two_users_is_two_turns(api: Api) -> None:
    for identity, text in ((ALICE, "mine"), (BOB, "theirs")):
        said = {"session_id": "s1", "messages": [{"role": "user", "content": text, "id": "D1:1"}]}
        answer = await api.call("POST", "/v1/memory/turns", identity=identity, json=said)
        assert answer.json()["turn_ids"] == ["D1:1"]
    assert (await api.call("GET", "/v1/memory/D1:1", identity=ALICE)).json()["content"] == "mine"
    assert (await api.call("GET", "/v1/memory/D1:1", identity=BOB)).json()["content"] == "theirs"
    assert (await api.call("DELETE", "/v1/memory/D1:1", identity=BOB)).json() == {"deleted": 1}
    assert (await api.call("GET", "/v1/memory/D1:1", identity=ALICE)).json()["content"] == "mine"


async def test_a_header_and_a_field_that_disagree_are_refused(api: Api) -> None:
    for answer in (
        await api.call("POST", "/v1/memory", identity=ALICE, json={"content": "x", "user_id": "bob"}),
        await api.call("GET", "/v1/memory", identity=ALICE, params={"user_id": "bob"}),
        await api.call("POST", "/v1/memory/search", identity=ALICE, json={"query": "x", "user_id": "bob"}),
        await api.call("DELETE", "/v1/memory/users/bob", identity=ALICE),
    ):
        assert answer.status_code == 400
        assert answer.json()["error"]["param"] == "user_id"


async def test_nobody_named_is_refused_where_there_is_no_default_user(api: Api) -> None:
    nobody = Identity(tenant="acme")
    for answer in (
        await api.call("POST", "/v1/memory", identity=nobody, json={"content": "x"}),
        await api.call("GET", "/v1/memory", identity=nobody),
        await api.call("GET", "/v1/memory/some-id", identity=nobody),
    ):
        assert answer.status_code == 400


async def test_no_identity_is_401_and_a_missing_permission_403(api: Api) -> None:
    assert (await api.client.get("/v1/memory")).status_code == 401
    reader = Identity(tenant="acme", named_user="alice", permissions=frozenset({"memory:read"}))
    assert (await api.call("GET", "/v1/memory", identity=reader)).status_code == 200
    refused = await api.call("POST", "/v1/memory", identity=reader, json={"content": "x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (403, "forbidden")
