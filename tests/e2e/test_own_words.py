"""A question that is asked right behind a statement finds it: nothing is waited for between the two."""

import asyncio

import pytest

from tests.e2e.talk import chat, word
from tests.support.answers import text_of
from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_readme_s_example_is_injected_at_once(shared_proxy: Proxy, model: ScriptedUpstream) -> None:
    headers = {"x-memproxy-user": word()}
    async with shared_proxy.client() as client:
        await chat(client, "My budget for the Hawaii vacation is $10,000.", headers=headers)
        answer = await chat(client, "What's my budget for the trip?", headers=headers)
    assert answer.recall == "injected"
    assert "$10,000" in text_of(model.last.messages[0])


@pytest.mark.usefixtures("model")
async def test_a_streamed_statement_is_found_at_once_too(shared_proxy: Proxy) -> None:
    headers = {"x-memproxy-user": word()}
    async with shared_proxy.client() as client:
        await chat(client, "My sister Greta plays the violin in Graz.", headers=headers, stream=True)
        answer = await chat(client, "Which instrument does my sister Greta play?", headers=headers)
    assert answer.recall == "injected"


@pytest.mark.usefixtures("model")
async def test_many_users_at_once_each_find_their_own_words(shared_proxy: Proxy) -> None:
    async def one(place: int) -> str:
        headers = {"x-memproxy-user": word()}
        async with shared_proxy.client() as client:
            await chat(client, f"My locker code is 44{place}.", headers=headers)
            return (await chat(client, "What is my locker code?", headers=headers)).recall

    assert await asyncio.gather(*(one(place) for place in range(4))) == ["injected"] * 4
