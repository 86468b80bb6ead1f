import pytest

from memproxy.core.protocol import Identity
from tests.api.conftest import APOLLO, own_api
from tests.support.engine import Api

__all__ = ["own_api"]

ALICE = Identity(tenant="acme", named_user="alice")
BOB = Identity(tenant="acme", named_user="bob")
OTHER_ALICE = Identity(tenant="rival", named_user="alice")
STRANGERS = [BOB, OTHER_ALICE]


@pytest.fixture
def alice(own_api: Api) -> Api:
    return own_api.by(ALICE)


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_lists_searches_and_recall_show_nobody_elses_memory(alice: Api, stranger: Identity) -> None:
    await alice.store("The vault code is tangerine")
    await alice.say("s1", "my vault code is tangerine")
    assert len(await alice.search("vault code tangerine")) == 2
    other = alice.by(stranger)
    assert await other.page() == []
    assert await other.page(session_id="s1") == []
    assert await other.search("vault code tangerine") == []
    recalled = await other.recall("What is my vault code?")
    assert (recalled["context"], recalled["citations"]) == ("", [])


@pytest.mark.parametrize("stranger", STRANGERS)
async def test_deleting_everything_of_one_owner_leaves_the_others(alice: Api, stranger: Identity) -> None:
    memory = await alice.store("kept", session_id="s1")
    other = alice.by(stranger)
    await other.store("theirs", session_id="s1")
    for query in ({"session_id": "s1"}, {"user_id": stranger.named_user}):
        await other.delete(**query)
    assert await other.page() == []
    assert [one["id"] for one in await alice.page()] == [memory["id"]]


async def test_the_same_turn_id_of_two_users_is_two_turns(alice: Api) -> None:
    bob = alice.by(BOB)
    for caller, text in ((alice, "mine"), (bob, "theirs")):
        assert await caller.say("s1", {"role": "user", "content": text, "id": "D1:1"}) == ["D1:1"]
    assert (await alice.get("D1:1"))["content"] == "mine"
    assert (await bob.get("D1:1"))["content"] == "theirs"
    assert await bob.delete("D1:1") == 1
    assert (await alice.get("D1:1"))["content"] == "mine"


async def test_a_header_and_a_field_that_disagree_are_refused(alice: Api) -> None:
    for method, path, body in (
        ("POST", "", {"content": "x", "user_id": "bob"}),
        ("GET", "?user_id=bob", None),
        ("POST", "search", {"query": "x", "user_id": "bob"}),
        ("DELETE", "users/bob", None),
    ):
        assert await alice.refused(method, path, json=body) == (400, "user_id")


async def test_no_identity_no_user_and_no_permission_are_told_apart(own_api: Api) -> None:
    assert (await own_api.client.get("/v1/memory")).status_code == 401
    nobody = own_api.by(Identity(tenant="acme"))
    assert await nobody.status("POST", json={"content": "x"}) == 400
    for path in ("", "some-id"):
        assert await nobody.status("GET", path) == 400
    reader = own_api.by(Identity(tenant="acme", default_user="alice", permissions=frozenset({"memory:read"})))
    await reader.page()
    assert await reader.code("POST", json={"content": "x"}) == (403, "forbidden")


async def test_a_key_of_one_project_erases_nothing_of_another(alice: Api) -> None:
    for project in ("apollo", "zeus"):
        await alice.store(f"of {project}", project_id=project, session_id=f"s-{project}")
    apollo = alice.by(APOLLO)
    for path, status in (("?project_id=zeus", 403), ("users/alice", 403), ("sessions/s-zeus", 404)):
        assert await apollo.status("DELETE", path) == status, path
    assert len(await alice.page()) == 2
    for path in ("sessions/s-apollo", "?user_id=alice"):
        await apollo.delete(path)
    assert [one["content"] for one in await alice.page()] == ["of zeus"]


async def test_a_header_that_the_key_may_not_send_opens_nothing(alice: Api) -> None:
    """A key for nobody in particular, without ``act_as_user``, whose caller names somebody by header."""
    await alice.store("Alice's secret")
    may = frozenset({"memory:read", "memory:write"})
    naming = alice.by(Identity(tenant="acme", named_user="alice", default_user="default", permissions=may))
    for method, path, body in (
        ("GET", "", None),
        ("GET", "settings", None),
        ("POST", "search", {"query": "secret"}),
        ("POST", "feedback", {"memory_id": "x", "signal": "wrong"}),
        ("DELETE", "users/alice", None),
    ):
        assert await naming.status(method, path, json=body) == 403, path
