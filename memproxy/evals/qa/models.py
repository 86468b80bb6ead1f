"""Which models answer and judge, and how they are reached."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
from pydantic import SecretStr

from memproxy.errors import ConfigError
from memproxy.evals.qa.run import Reading, Role
from memproxy.models.chat import OpenAIChatModel
from memproxy.ports import Credential
from memproxy.settings import ModelSettings, Settings
from memproxy.settings.loading import load_settings

_KEY = "OPENAI_API_KEY"


class Answering(msgspec.Struct, frozen=True, kw_only=True):
    """What the command line says of it: names of models above those of the configuration, and the log's file."""

    reader: str | None = None
    judge: str | None = None
    log: Path | None = None
    config: Path | None = None


@asynccontextmanager
async def reading(answering: Answering, log: Path) -> AsyncIterator[Reading]:
    """The models, open. ``log`` is where lines go when the command line names no file.

    Raises:
        ConfigError: the configuration cannot be used, or names no model.
    """
    settings = load_settings(answering.config)
    reader = _role("reader", settings.models.reader, answering.reader, settings)
    judge = _role("judge", settings.models.judge, answering.judge, settings)
    try:
        yield Reading(reader=reader, judge=judge, log=(answering.log or log).expanduser())
    finally:
        await reader.model.close()
        await judge.model.close()


def _role(name: str, role: ModelSettings, asked: str | None, settings: Settings) -> Role:
    model = asked or role.model
    if not model:
        raise ConfigError(f"--qa needs a model for this: give --{name} MODEL, or models.{name}.model in --config")
    base_url = role.base_url or settings.upstream.base_url
    own_host = base_url == settings.upstream.base_url
    key = role.api_key or (settings.upstream.api_key or _from_environment() if own_host else None)
    credential = Credential(base_url=base_url, model=model, api_key=key.get_secret_value() if key else None)
    return Role(OpenAIChatModel(role), credential)


def _from_environment() -> SecretStr | None:
    key = os.environ.get(_KEY)
    return SecretStr(key) if key else None
