"""Structured output: a provider's best form is tried first, and what it rejects is left out from then on."""

import json
from typing import Any

import httpx
import pytest
import respx

from memproxy.models.chat_client import OpenAIChatModel
from memproxy.ports import Credential, ModelReply
from tests.models.conftest import CREDENTIAL, URL, completion

SCHEMA: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "string"}}}


def completed(finish_reason: str = "stop") -> httpx.Response:
    return httpx.Response(200, json=completion("{}", finish_reason=finish_reason))


async def ask(model: OpenAIChatModel, credential: Credential = CREDENTIAL) -> ModelReply:
    return await model.complete(credential, system="be brief", user="hi", json_mode=True, schema=SCHEMA)


def formats(route: Any) -> list[str | None]:
    """The response formats of the calls so far."""
    bodies = [json.loads(call.request.content) for call in route.calls]
    return [body.get("response_format", {}).get("type") for body in bodies]


async def test_the_schema_is_sent(model: OpenAIChatModel, route: respx.Route) -> None:
    route.side_effect = [completed()]
    await ask(model)
    sent = json.loads(route.calls.last.request.content)["response_format"]
    assert sent["json_schema"] == {"name": "answer", "schema": SCHEMA, "strict": False}


@pytest.mark.parametrize("status", [400, 422])
async def test_the_schema_the_json_mode_and_neither_are_tried_in_turn_and_remembered(
    model: OpenAIChatModel, route: Any, status: int
) -> None:
    said = "'response_format.type' must be text or json_object", "response_format is not supported"
    no_schema, no_json = (httpx.Response(status, json={"error": {"message": why}}) for why in said)
    route.side_effect = [no_schema, completed(), no_json, completed(), completed()]
    await ask(model)
    await ask(model)
    await ask(model)
    assert formats(route) == ["json_schema", "json_object", "json_object", None, None]


async def test_a_rejection_without_a_reason_is_taken_for_one_of_the_schema(model: OpenAIChatModel, route: Any) -> None:
    route.side_effect = [httpx.Response(400, json={"error": {"message": "bad request"}}), completed()]
    await ask(model)
    assert formats(route) == ["json_schema", "json_object"]


async def test_it_is_remembered_for_one_model_alone(model: OpenAIChatModel, route: Any) -> None:
    rejection = httpx.Response(400, json={"error": {"message": "json_schema is not supported with this model"}})
    route.side_effect = [rejection, completed(), completed()]
    await ask(model)
    await ask(model, Credential(base_url=URL, model="m2", api_key="sk-secret"))
    assert formats(route) == ["json_schema", "json_object", "json_schema"]


@pytest.mark.parametrize(("finish_reason", "truncated"), [("stop", False), ("length", True)])
async def test_an_answer_says_whether_it_was_cut(
    model: OpenAIChatModel, route: Any, finish_reason: str, truncated: bool
) -> None:
    route.side_effect = [completed(finish_reason)] * (2 if truncated else 1)  # a cut one is asked for once more
    assert (await ask(model)).truncated is truncated
