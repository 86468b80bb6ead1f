"""What the arms of the experiment came to, as the statistics tell it to who speaks for the tenant."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from memproxy.core.experiment_arms import HOLDOUT, MEMORY, arm_of
from memproxy.core.protocol import Identity
from memproxy.settings import ExperimentSettings, LearnSettings, RecallSettings, Settings
from tests.support.engine import Api, make_engine, serve_engine
from tests.support.waiting import eventually

SHARE = 0.5


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    settings = Settings(
        learn=LearnSettings(enabled=False),
        recall=RecallSettings(deadline_ms=60_000),
        experiment=ExperimentSettings(holdout=SHARE),
    )
    async with serve_engine(make_engine(tmp_path, settings=settings)) as served:
        yield served


def user_of(api: Api, arm: str) -> str:
    secret = api.engine.parts.secret
    users = (f"user-{number}" for number in range(100))
    return next(user for user in users if arm_of(secret, api.tenant, user, SHARE) == arm)


async def arms(api: Api) -> dict[str, dict[str, object]]:
    told = (await api.get("stats"))["experiment"]
    assert told["share"] == SHARE
    found: dict[str, dict[str, object]] = told["arms"]
    return found


async def test_judgements_and_corrections_in_the_chat_are_told_by_arm_until_their_user_is_erased(api: Api) -> None:
    said = {}
    for arm in (MEMORY, HOLDOUT):
        user = api.identity(user_of(api, arm))
        memory = await api.store("I live in Bern.", identity=user)
        await api.judge("helpful" if arm == MEMORY else "wrong", identity=user, memory_id=memory["id"])
        said[arm] = user
    await api.say("s", "I live in Bern.", identity=said[HOLDOUT])
    await api.say("s", "I don't live in Bern any more, I live in Basel now.", identity=said[HOLDOUT])

    async def counted() -> bool:
        found = await arms(api)
        return all(found[arm]["users"] == 1 for arm in (MEMORY, HOLDOUT))

    await eventually(counted, what="both arms are counted")
    found = await arms(api)
    assert found[MEMORY]["feedback"] == {"helpful": 1, "wrong": 0, "correction": 0}
    assert found[HOLDOUT]["feedback"] == {"helpful": 0, "wrong": 1, "correction": 0}
    await api.delete(f"users/{said[HOLDOUT].named_user}")
    left = await arms(api)
    assert (left[MEMORY]["users"], left[HOLDOUT]["users"]) == (1, 0)


async def test_a_user_alone_is_told_nothing_of_it(api: Api) -> None:
    own = Identity(
        tenant=api.tenant, default_user="ann", bound_user=True, permissions=frozenset({"memory:read", "memory:write"})
    )
    told = await api.get("stats", identity=own)
    assert (told["experiment"], told["cost"]) == (None, None)
