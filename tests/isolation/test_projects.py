"""A key of one project, or for administration alone: what its calls say beside the memories themselves."""

import msgspec
import pytest

from memproxy.core.protocol import Identity
from memproxy.core.receipt import Cited, Decided, ReceiptPart
from memproxy.core.scope import Scope
from tests.api.conftest import own_api
from tests.support.engine import Api

__all__ = ["own_api"]

ALICE = Identity(tenant="acme", named_user="alice")
APOLLO = Identity(
    tenant="acme",
    default_user="alice",
    bound_user=True,
    project="apollo",
    bound_project=True,
    permissions=frozenset({"memory:read", "memory:write"}),
)


async def receipt_of_both(api: Api) -> dict[str, str]:
    """A request outside of any project was given a memory of each; their ids by project."""
    ids = {}
    for project in ("apollo", "zeus"):
        memory = await api.store(f"The word of {project}", identity=ALICE, project_id=project)
        ids[project] = memory["id"]
    cited = [Cited(memory_id=name, turn_id=None, score=0.9) for name in ids.values()]
    decided = Decided(result="injected", memories=cited, tokens=10)
    part = ReceiptPart(
        scope=Scope(tenant="acme", user="alice"),
        request_id="req_1",
        at=api.engine.backends().clock.now(),
        decided=decided,
    )
    await api.engine.backends().state.note_receipts([part])
    return ids


async def test_a_receipt_tells_a_key_of_one_project_nothing_of_another(own_api: Api) -> None:
    await receipt_of_both(own_api)
    whole = await own_api.call("GET", "/v1/memory/receipts/req_1", identity=ALICE)
    assert "word of zeus" in whole.text
    seen = await own_api.call("GET", "/v1/memory/receipts/req_1", identity=APOLLO)
    assert seen.status_code == 200
    assert "word of apollo" in seen.text
    assert "word of zeus" not in seen.text


async def test_feedback_on_a_request_reaches_no_memory_of_another_project(own_api: Api) -> None:
    ids = await receipt_of_both(own_api)
    before = (await own_api.call("GET", f"/v1/memory/{ids['zeus']}", identity=ALICE)).json()
    said = {"request_id": "req_1", "signal": "wrong"}
    given = await own_api.call("POST", "/v1/memory/feedback", identity=APOLLO, json=said)
    assert given.status_code == 201
    assert given.json()["memory_ids"] == [ids["apollo"]]
    assert (await own_api.call("GET", f"/v1/memory/{ids['zeus']}", identity=ALICE)).json() == before


async def test_an_export_of_one_project_names_no_places_of_another(own_api: Api) -> None:
    for project, subject in (("apollo", "Armstrong"), ("zeus", "Hera")):
        await own_api.store(f"{subject} is here", identity=ALICE, project_id=project, subject=subject)
    whole = await own_api.call("GET", "/v1/memory/export", identity=ALICE)
    assert "hera" in whole.text.lower()
    seen = await own_api.call("GET", "/v1/memory/export", identity=APOLLO)
    assert "armstrong" in seen.text.lower()
    assert "hera" not in seen.text.lower()


async def test_an_idempotency_key_of_another_project_answers_nothing(own_api: Api) -> None:
    memory = await own_api.store("The word of zeus", identity=ALICE, project_id="zeus")
    path, key = f"/v1/memory/{memory['id']}", {"idempotency-key": "k1"}
    edited = await own_api.call("PATCH", path, identity=ALICE, json={"tags": ["a"]}, headers=key)
    assert edited.status_code == 200
    again = await own_api.call("PATCH", path, identity=APOLLO, json={"tags": ["a"]}, headers=key)
    assert again.status_code in {404, 409, 422}
    assert "word of zeus" not in again.text


async def test_a_key_for_administration_is_told_no_words_by_an_idempotency_key(own_api: Api) -> None:
    memory = await own_api.store("Alice's word", identity=ALICE)
    path, key = f"/v1/memory/{memory['id']}", {"idempotency-key": "k1"}
    assert (await own_api.call("PATCH", path, identity=ALICE, json={"tags": ["a"]}, headers=key)).status_code == 200
    operator = msgspec.structs.replace(ALICE, permissions=frozenset({"admin", "act_as_user"}))
    again = await own_api.call("PATCH", path, identity=operator, json={"tags": ["a"]}, headers=key)
    assert again.status_code == 403
    assert "Alice's word" not in again.text


@pytest.mark.parametrize("headers", [{}, {"idempotency-key": "k1"}])
async def test_administration_may_erase_a_user_with_and_without_an_idempotency_key(
    own_api: Api, headers: dict[str, str]
) -> None:
    await own_api.store("Alice's word", identity=ALICE)
    operator = Identity(tenant="acme", default_user="default", permissions=frozenset({"admin"}))
    for _ in range(2):
        gone = await own_api.call("DELETE", "/v1/memory/users/alice", identity=operator, headers=headers)
        assert gone.status_code == 200, gone.text
    assert await own_api.page(identity=ALICE) == []
