"""A chat model behind a scripted endpoint."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
import respx

from memproxy.models.chat_client import OpenAIChatModel
from memproxy.ports import Credential
from memproxy.settings import ModelSettings
from tests.support.waiting import LONGEST_S

URL = "http://models.test/v1"
CREDENTIAL = Credential(base_url=URL, model="m1", api_key="sk-secret")


@pytest.fixture
async def model() -> AsyncIterator[OpenAIChatModel]:
    made = OpenAIChatModel(ModelSettings(timeout_s=LONGEST_S))
    yield made
    await made.close()


@pytest.fixture
def route() -> Any:
    with respx.mock(assert_all_called=False) as router:
        yield router.post(f"{URL}/chat/completions")
