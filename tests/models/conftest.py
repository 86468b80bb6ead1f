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


def completion(text: str | None = "hello", *, finish_reason: str = "stop", **more: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "finish_reason": finish_reason, "message": message}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "m1", "choices": [choice], **more}


@pytest.fixture
async def model() -> AsyncIterator[OpenAIChatModel]:
    made = OpenAIChatModel(ModelSettings(timeout_s=LONGEST_S))
    yield made
    await made.close()


@pytest.fixture
def route() -> Any:
    with respx.mock(assert_all_called=False) as router:
        yield router.post(f"{URL}/chat/completions")
