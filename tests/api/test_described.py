"""`/openapi.json` is true: requests made from it, right ones and wrong ones, to a real server in mode `keys`, have no
5xx, and every answer is as described. `MEMPROXY_TEST_EXAMPLES=500` tries many more.
"""

import asyncio
import os
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from memproxy.api.openapi import describe
from memproxy.core.proxykey import PERMISSIONS, hashed, new_key
from memproxy.core.transfer import MEDIA_TYPE
from tests.support.folders import Folders
from tests.support.proxy import Proxy, base_config, free_port, merged
from tests.support.waiting import eventually

EXAMPLES = int(os.environ.get("MEMPROXY_TEST_EXAMPLES", "3"))
KEY, KEY_ID = new_key()
SCHEMA = schemathesis.openapi.from_dict(describe())
CHECKS: list[Any] = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]


@schemathesis.serializer(MEDIA_TYPE)
def lines(_context: Any, value: Any) -> bytes:
    """JSON Lines are text to a schema."""
    return str(value).encode("utf-8", "surrogatepass")


def requests() -> list[Any]:
    """Every call that is described, with right values and with wrong ones, where it takes any."""
    modes = schemathesis.GenerationMode
    found = [operation.ok() for operation in SCHEMA.get_all_operations() if isinstance(operation, Ok)]
    right = [(operation, modes.POSITIVE) for operation in found]
    wrong = [(operation, modes.NEGATIVE) for operation in found if operation.path.startswith("/v1/")]
    named = [(operation, mode, f"{operation.label}-{mode.value}") for operation, mode in (*right, *wrong)]
    return [pytest.param(operation, mode, id=name) for operation, mode, name in named]


@pytest.fixture(scope="module")
def server(folders: Folders) -> Iterator[Proxy]:
    """A server whose key may do everything."""
    entry = {"id": KEY_ID, "hash": hashed(KEY), "tenant": "acme", "permissions": list(PERMISSIONS)}
    changes = {"auth": {"mode": "keys", "keys": [entry]}, "learn": {"enabled": False}}
    config = merged(base_config("http://127.0.0.1:9", free_port()), changes)
    with folders.new("home") as home:
        proxy = Proxy(home=home, config=config)
        try:
            asyncio.run(_started(proxy))
            yield proxy
        finally:
            asyncio.run(proxy.stop())


async def _started(proxy: Proxy) -> None:
    await proxy.start(memory=False)

    async def ready() -> bool:
        return (await proxy.readiness())[1].get("status") == "ready"

    await eventually(ready, 60, what="every part is ready")


@pytest.mark.parametrize(("operation", "mode"), requests())
def test_every_answer_is_as_described(server: Proxy, operation: Any, mode: schemathesis.GenerationMode) -> None:
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(data=st.data())
    def asked(data: st.DataObject) -> None:
        case = data.draw(operation.as_strategy(generation_mode=mode))
        response = case.call(base_url=server.root_url, headers={"authorization": f"Bearer {KEY}"}, timeout=70)
        case.validate_response(response, checks=CHECKS)

    asked()
