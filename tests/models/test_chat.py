"""The chat model behind our own calls: what is sent, what is left out when a provider rejects it, which errors come."""

import asyncio
import json
from typing import Any

import httpx
import pytest
import respx
from aiohttp import web

from memproxy.errors import ModelError, ModelRefused, ModelUnavailable
from memproxy.models.chat_client import OpenAIChatModel
from memproxy.ports import Credential, ModelReply
from memproxy.settings import ModelSettings
from tests.models.conftest import CREDENTIAL, URL, completion


async def ask(model: OpenAIChatModel, credential: Credential = CREDENTIAL) -> ModelReply:
    return await model.complete(credential, system="be brief", user="hi", json_mode=True)


def sent(route: Any, number: int = -1) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(route.calls[number].request.content)
    return body


async def test_the_settings_and_json_mode_are_sent(model: OpenAIChatModel, route: respx.Route) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 3, "total_tokens": 10}
    route.respond(json=completion(usage=usage))
    assert await ask(model) == ModelReply(text="hello", input_tokens=7, output_tokens=3)
    body = sent(route)
    assert (body["model"], body["temperature"], body["max_tokens"]) == ("m1", 0.1, 500)
    assert body["response_format"] == {"type": "json_object"}
    assert [message["role"] for message in body["messages"]] == ["system", "user"]
    headers = route.calls.last.request.headers
    assert headers["authorization"] == "Bearer sk-secret"
    assert headers["x-memproxy-internal"] == "extract"


async def test_without_a_key_no_authorization_is_sent(model: OpenAIChatModel, route: respx.Route) -> None:
    route.respond(json=completion())
    await ask(model, Credential(base_url=URL, model="m1"))
    assert "authorization" not in route.calls.last.request.headers


@pytest.mark.parametrize("status", [400, 422])
@pytest.mark.parametrize(
    ("said", "gone", "instead"),
    [
        ("response_format is not supported", "response_format", None),
        ("Unsupported parameter: 'max_tokens'; use 'max_completion_tokens'", "max_tokens", "max_completion_tokens"),
        ("'temperature' does not support 0.1 with this model", "temperature", None),
    ],
)
async def test_what_a_provider_rejects_is_left_out_and_remembered(
    model: OpenAIChatModel, route: Any, status: int, said: str, gone: str, instead: str | None
) -> None:
    rejection = httpx.Response(status, json={"error": {"message": said, "type": "invalid_request_error"}})
    route.side_effect = [rejection, *(httpx.Response(200, json=completion()) for _ in range(2))]
    await ask(model)
    await ask(model)
    assert [gone in sent(route, number) for number in range(3)] == [True, False, False]
    assert instead is None or sent(route)[instead] == 500


async def test_several_rejections_one_after_the_other_are_followed(model: OpenAIChatModel, route: Any) -> None:
    said = ("max_tokens is not supported", "temperature is not supported", "no json_object here")
    rejections = [httpx.Response(400, json={"error": {"message": text}}) for text in said]
    route.side_effect = [*rejections, httpx.Response(200, json=completion())]
    assert (await ask(model)).text == "hello"
    assert set(sent(route)) == {"model", "messages", "max_completion_tokens"}


async def test_another_rejection_is_an_error_and_nothing_is_remembered(model: OpenAIChatModel, route: Any) -> None:
    too_long = httpx.Response(400, json={"error": {"message": "context too long; reduce max_tokens"}})
    route.side_effect = [too_long, too_long, httpx.Response(200, json=completion())]
    with pytest.raises(ModelError, match=r"models\.test.*400"):
        await ask(model)
    await ask(model)
    assert "max_tokens" in sent(route)


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_told_from_other_errors(model: OpenAIChatModel, route: respx.Route, status: int) -> None:
    route.respond(status, json={"error": {"message": "bad key sk-secret"}})
    with pytest.raises(ModelRefused, match=r"models\.test") as caught:
        await ask(model)
    assert "sk-secret" not in str(caught.value)


@pytest.mark.parametrize("status", [404, 408, 409, 429, 500, 503])
async def test_other_statuses_are_errors_after_one_call(
    model: OpenAIChatModel, route: respx.Route, status: int
) -> None:
    route.respond(status, json={"error": {"message": "no"}})
    with pytest.raises(ModelError, match=str(status)) as caught:
        await ask(model)
    assert not isinstance(caught.value, ModelRefused)
    assert route.call_count == 1


@pytest.mark.parametrize(
    ("status", "headers", "wait_s", "limited"),
    [
        (503, {"retry-after": "120"}, 120.0, False),
        (429, {"retry-after": "Mon, 01 Jan 2001 00:00:00 GMT"}, 0.0, True),
        (429, {"retry-after": "soon"}, None, True),
        (500, {}, None, False),
    ],
)
async def test_a_model_that_is_away_is_told_from_one_that_refuses_what_it_is_asked(
    model: OpenAIChatModel,
    route: respx.Route,
    status: int,
    headers: dict[str, str],
    wait_s: float | None,
    limited: bool,
) -> None:
    route.respond(status, headers=headers, json={"error": {"message": "no"}})
    with pytest.raises(ModelUnavailable) as caught:
        await ask(model)
    assert (caught.value.retry_after_s, caught.value.limited) == (wait_s, limited)
    route.respond(413, json={"error": {"message": "too long"}})
    with pytest.raises(ModelError) as refused:
        await ask(model)
    assert not isinstance(refused.value, ModelUnavailable)


@pytest.mark.parametrize(
    "came",
    [
        *(failure("broken") for failure in (httpx.ConnectError, httpx.ReadTimeout, httpx.RemoteProtocolError)),
        *({}, {"choices": []}, {"choices": None}, {"error": {"message": "no"}}),
        httpx.Response(200, text="<html>hello</html>", headers={"content-type": "text/html"}),
        httpx.Response(200, text="{cut", headers={"content-type": "application/json"}),
    ],
)
async def test_a_broken_connection_and_an_answer_that_is_none_are_errors(
    model: OpenAIChatModel, route: Any, came: Exception | httpx.Response | dict[str, Any]
) -> None:
    route.side_effect = [httpx.Response(200, json=came) if isinstance(came, dict) else came]
    with pytest.raises(ModelError, match=r"models\.test"):
        await ask(model)


async def test_an_answer_without_text_is_an_empty_one(model: OpenAIChatModel, route: respx.Route) -> None:
    route.respond(json=completion(None))
    assert (await ask(model)).text == ""


async def test_many_tenants_keys_never_mix(model: OpenAIChatModel, route: respx.Route) -> None:
    route.respond(json=completion())
    for number in range(100):
        await ask(model, Credential(base_url=URL, model="m1", api_key=f"sk-{number % 80}"))
        assert route.calls.last.request.headers["authorization"] == f"Bearer sk-{number % 80}"


async def test_a_slow_server_on_a_real_socket_is_left_within_the_timeout() -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "application/json"})
        await response.prepare(request)
        while True:  # a byte now and then keeps the connection's own read timeout from ever firing
            await response.write(b" ")
            await asyncio.sleep(0.01)

    app = web.Application()
    app.router.add_post("/v1/chat/completions", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    model = OpenAIChatModel(ModelSettings(timeout_s=0.3))
    try:
        with pytest.raises(ModelError, match="did not answer"):
            await ask(model, Credential(base_url=f"http://127.0.0.1:{runner.addresses[0][1]}/v1", model="m1"))
    finally:
        await model.close()
        await runner.cleanup()
