"""The chat model behind memproxy's own calls (extraction, rewriting, judging), through the `openai` client. What a
provider rejects (JSON mode, a token limit's name, a temperature) is left out and, once the call succeeded without it,
remembered for that base URL and model. So is that an answer was cut at the token limit (by a reasoning model): learning
gets a higher one, once.
"""

import asyncio
import email.utils
import enum
import logging
import ssl
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from memproxy.core.bounded import BoundedCache
from memproxy.errors import ModelError, ModelRefused, ModelUnavailable
from memproxy.metrics import metrics
from memproxy.ports import Credential, ModelReply
from memproxy.settings import ModelSettings
from memproxy.traces import chat_attributes, step, token_attributes

if TYPE_CHECKING:
    import httpx
    import openai

log = logging.getLogger(__name__)

INTERNAL_HEADER = "X-Memproxy-Internal"
"""Sent with every call of ours, with the model's role; beside it ``X-Memproxy-Memory: off``, so that an upstream that
is a memproxy itself neither recalls for it nor learns from it.
"""

_CLIENT_BYTES = 16 * 1024  # about what a client takes, its connections, which are shared, aside
_REMEMBERED_BYTES = 1024 * 1024
_KEYLESS = "none"  # the client insists on some key; without one of ours no Authorization header is sent at all
_LEARNING = frozenset({"extract", "judge"})  # background roles, which get more tokens where the limit is short

_RAISED = 8
_MOST_RAISED = 16_000
"""A model whose answer was cut gets this many times the configured limit, and at most `_MOST_RAISED` tokens."""

_OF_WHAT_WAS_ASKED = frozenset({400, 409, 413, 414, 422, 431, 451})
"""Statuses that say something of the request; every other one says it of the model, or of the account."""

_OF_THE_ACCOUNT = frozenset({402, 404, 429})  # used up, no such model for this key, too many requests


class _Without(enum.Enum):
    """Options that a provider was found to reject."""

    SCHEMA = "json schema"
    JSON_MODE = "json mode"
    MAX_TOKENS = "max_tokens"
    TEMPERATURE = "temperature"


_Formats = dict[_Without, dict[str, Any]]
_FORMAT_WORDS = ("response_format", "json_schema", "json_object", "json mode", "structured output")


@cache
def _library() -> Any:
    """The `openai` package, which takes most of a second to load: many deployments never ask a model."""
    import openai  # noqa: PLC0415
    import openai.resources.chat.completions  # noqa: PLC0415 - else it is loaded at the first call, on the event loop

    return openai


@cache
def _authorities() -> ssl.SSLContext:
    """Whose certificates are trusted: to read them takes 20 ms of processor time, for each client anew."""
    import httpx  # noqa: PLC0415 - as above

    return httpx.create_ssl_context()


class OpenAIChatModel:
    """`ports.ChatModel` for OpenAI-compatible APIs, for all tenants of a role; its library is loaded at first use."""

    def __init__(self, settings: ModelSettings, *, role: str = "extract") -> None:
        """``role`` is sent to the upstream in a header."""
        self._settings = settings
        self._role = role
        self._headers = {INTERNAL_HEADER: role, "X-Memproxy-Memory": "off"}
        self._opening = asyncio.Lock()
        self._http: httpx.AsyncClient | None = None
        self._clients: BoundedCache[tuple[str, str | None], openai.AsyncOpenAI] = BoundedCache(
            _REMEMBERED_BYTES, lambda _: _CLIENT_BYTES
        )
        self._rejected: BoundedCache[tuple[str, str], frozenset[_Without]] = BoundedCache(_REMEMBERED_BYTES)
        self._limits: BoundedCache[tuple[str, str], int] = BoundedCache(_REMEMBERED_BYTES)

    async def complete(
        self, credential: Credential, *, system: str, user: str, json_mode: bool, schema: dict[str, Any] | None = None
    ) -> ModelReply:
        """Ask once; ``timeout_s`` of the settings bounds it with all repetitions without what was rejected (``schema``,
        then JSON mode, then neither). Learning's first answer that is cut is asked for with a higher limit.

        Raises:
            ModelRefused: 401 or 403 (a missing key looks the same).
            ModelUnavailable: timeouts, connection errors, every status that says nothing of what was asked.
            ModelError: what was asked is refused, or the answer is no chat completion.
        """
        await self._open()
        prompt = (credential, system, user, _formats(json_mode, schema))
        reply = await self._once(*prompt)
        if not reply.truncated or not self._raise_limit(credential):
            return reply
        retry = await self._once(*prompt)
        input_tokens, output_tokens = reply.input_tokens + retry.input_tokens, reply.output_tokens + retry.output_tokens
        return msgspec.structs.replace(retry, input_tokens=input_tokens, output_tokens=output_tokens)

    async def _open(self) -> None:
        import httpx  # noqa: PLC0415 - as above

        async with self._opening:
            if self._http is None:
                await asyncio.to_thread(_library)
                authorities = await asyncio.to_thread(_authorities)
                # Ours, so that all credentials share one connection pool, and because the client's own default differs
                # between its versions (httpx, httpx2); it takes this one in all of them.
                timeout_s = self._settings.timeout_s
                self._http = httpx.AsyncClient(verify=authorities, timeout=timeout_s, follow_redirects=True)

    def _raise_limit(self, credential: Credential) -> bool:
        """Note that an answer was cut; whether the model's limit is higher from now on."""
        metrics().model_answers_cut.labels(source=self._role).inc()
        place, configured = (credential.base_url, credential.model), self._settings.max_tokens
        raised = min(configured * _RAISED, _MOST_RAISED)
        if self._role not in _LEARNING or self._limits.get(place) is not None or raised <= configured:
            return False
        self._limits.put(place, raised)
        log.warning(
            "an answer of %s was cut at models.%s.max_tokens (%d); it gets %d from now on: set more where answers go on"
            " being cut (a reasoning model thinks within it), and a longer timeout_s where it takes longer",
            credential.model,
            self._role,
            configured,
            raised,
        )
        return True

    async def _once(self, credential: Credential, system: str, user: str, formats: _Formats) -> ModelReply:
        import httpx  # noqa: PLC0415 - as above

        openai, host = _library(), httpx.URL(credential.base_url).host or credential.base_url
        messages = [{"role": "system", "content": system}, {"role": "user", "content": user}]
        about = chat_attributes(credential.model, host, **{"memproxy.role": self._role})
        try:
            with step(f"chat {credential.model}", about, kind="client") as span:
                async with asyncio.timeout(self._settings.timeout_s):
                    reply = _reply(await self._call_adapted(credential, messages, formats), host)
                if span is not None:
                    span.note(token_attributes(reply.input_tokens, reply.output_tokens))
                return reply
        except (openai.AuthenticationError, openai.PermissionDeniedError) as error:
            message = f"{host} refused the model call ({error.status_code}); give a key that may use {credential.model}"
            raise ModelRefused(message) from error
        except (TimeoutError, openai.APITimeoutError) as error:
            message = f"{host} did not answer the model call within {self._settings.timeout_s:g} s; it is tried again"
            raise ModelUnavailable(message) from error
        except openai.APIStatusError as error:
            raise _status_error(error, host) from error
        except (openai.OpenAIError, httpx.HTTPError, ValueError) as error:
            message = f"the model call to {host} failed ({type(error).__name__}); check that it can be reached"
            away = isinstance(error, openai.APIConnectionError | httpx.HTTPError)
            raise (ModelUnavailable if away else ModelError)(message) from error

    async def close(self) -> None:
        """Close all connections."""
        self._clients = BoundedCache(0)
        if self._http is not None:
            await self._http.aclose()

    async def _call_adapted(self, credential: Credential, messages: list[dict[str, str]], formats: _Formats) -> Any:
        openai, place = _library(), (credential.base_url, credential.model)
        without = self._rejected.get(place) or frozenset()
        while True:
            try:
                answer = await self._ask(credential, messages, formats, without)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                named = _option_named(error, without, formats)
                if named is None:
                    raise
                without |= {named}
            else:
                self._rejected.put(place, without)
                return answer

    async def _ask(
        self, credential: Credential, messages: list[dict[str, str]], formats: _Formats, without: frozenset[_Without]
    ) -> Any:
        limit = "max_completion_tokens" if _Without.MAX_TOKENS in without else "max_tokens"
        options: dict[str, Any] = {
            limit: self._limits.get((credential.base_url, credential.model)) or self._settings.max_tokens
        }
        if _Without.TEMPERATURE not in without:
            options["temperature"] = self._settings.temperature
        if (response_format := _best_format(formats, without)) is not None:
            options["response_format"] = formats[response_format]
        headers: dict[str, Any] = dict(self._headers)
        if credential.api_key is None:
            headers["Authorization"] = _library().Omit()
        create: Any = self._client(credential).chat.completions.create
        return await create(model=credential.model, messages=messages, extra_headers=headers, **options)

    def _client(self, credential: Credential) -> "openai.AsyncOpenAI":
        place = (credential.base_url, credential.api_key)
        client = self._clients.get(place)
        if client is None:
            openai = _library()
            client = openai.AsyncOpenAI(
                base_url=credential.base_url,
                api_key=credential.api_key or _KEYLESS,
                # An organisation of this process's environment has nothing to do with the key that is used.
                default_headers={"OpenAI-Organization": openai.Omit(), "OpenAI-Project": openai.Omit()},
                timeout=self._settings.timeout_s,
                max_retries=0,
                http_client=self._http,
            )
            self._clients.put(place, client)
        return client


def _formats(json_mode: bool, schema: dict[str, Any] | None) -> _Formats:
    """The response formats that would do, the best one first."""
    formats: _Formats = {}
    if schema is not None:
        named = {"name": "answer", "schema": schema, "strict": False}
        formats[_Without.SCHEMA] = {"type": "json_schema", "json_schema": named}
    if json_mode:
        formats[_Without.JSON_MODE] = {"type": "json_object"}
    return formats


def _best_format(formats: _Formats, without: frozenset[_Without]) -> _Without | None:
    """The best response format that is not known to be rejected."""
    return next((option for option in formats if option not in without), None)


def _option_named(error: "openai.APIStatusError", without: frozenset[_Without], formats: _Formats) -> _Without | None:
    """Which of the optional parameters the rejection names, if it is one that was sent. A rejection that names none is
    taken for one of the schema, which is the least known of them.
    """
    message = f"{error.message} {error.body}".lower()
    sent_format = _best_format(formats, without)
    if sent_format is not None and any(word in message for word in _FORMAT_WORDS):
        return sent_format
    for option, words in (
        (_Without.MAX_TOKENS, ("max_tokens", "max_completion_tokens")),
        (_Without.TEMPERATURE, ("temperature",)),
    ):
        if option not in without and any(word in message for word in words):
            return option
    return sent_format if sent_format is _Without.SCHEMA else None


def _status_error(error: "openai.APIStatusError", host: str) -> ModelError:
    message = f"{host} answered the model call with status {error.status_code}; check the model's name and host"
    if error.status_code in _OF_WHAT_WAS_ASKED:
        return ModelError(message)
    limited = error.status_code in _OF_THE_ACCOUNT
    return ModelUnavailable(message, retry_after_s=retry_after(error.response.headers), limited=limited)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds (or a date) of ``Retry-After``; None where there is none that can be read."""
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value[:9])
    try:
        at = email.utils.parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, (at.replace(tzinfo=at.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _reply(answer: Any, host: str) -> ModelReply:
    if isinstance(answer, str):  # for example a gateway's page: the answer is not the model's
        raise ModelUnavailable(f"{host} answered the model call with something that is no JSON; check its base URL")
    choices = getattr(answer, "choices", None)
    if not choices or choices[0].message is None:
        raise ModelError(
            f"{host} answered the model call with something that is no chat completion; check its base URL"
        )
    text = choices[0].message.content
    usage = getattr(answer, "usage", None)
    return ModelReply(
        text=text if isinstance(text, str) else "",
        truncated=choices[0].finish_reason == "length",
        input_tokens=getattr(usage, "prompt_tokens", 0) or 0,
        output_tokens=getattr(usage, "completion_tokens", 0) or 0,
    )
