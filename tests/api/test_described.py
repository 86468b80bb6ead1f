"""`/openapi.json` is true: requests made from it, right ones and wrong ones, to a real server in mode `keys`, have no
5xx, and every answer is as described. `MEMPROXY_TEST_EXAMPLES=500` tries many more.
"""

import asyncio
import os
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from memproxy.api.openapi import describe
from memproxy.core.proxykey import PERMISSIONS, hashed, new_key
from memproxy.core.transfer_lines import MEDIA_TYPE
from tests.support.folders import Folders
from tests.support.proxy import Proxy, base_config, free_port, merged

EXAMPLES = int(os.environ.get("MEMPROXY_TEST_EXAMPLES", "3"))
KEY, KEY_ID = new_key()


@cache
def described() -> tuple[Any, Any, list[Any]]:
    """Schemathesis, the schema as it reads it, and its checks. Every worker collects this file and one runs it: only
    that one imports a library which takes longer than any other.
    """
    import schemathesis  # noqa: PLC0415 - see above
    from schemathesis.checks import not_a_server_error  # noqa: PLC0415
    from schemathesis.specs.openapi import checks  # noqa: PLC0415

    @schemathesis.serializer(MEDIA_TYPE)
    def lines(_context: Any, value: Any) -> bytes:
        """JSON Lines are text to a schema."""
        return str(value).encode("utf-8", "surrogatepass")

    wanted = [
        not_a_server_error,
        checks.status_code_conformance,
        checks.content_type_conformance,
        checks.response_headers_conformance,
        checks.response_schema_conformance,
    ]
    return schemathesis, schemathesis.openapi.from_dict(describe()), wanted


def requests() -> list[tuple[str, str, str]]:
    """Every call that is described, with right values and with wrong ones, where it takes any."""
    found = [(path, method.upper()) for path, methods in describe()["paths"].items() for method in methods]
    wrong = [(path, method, "negative") for path, method in found if path.startswith("/v1/")]
    return [*((path, method, "positive") for path, method in found), *wrong]


@pytest.fixture(scope="module")
def server(folders: Folders) -> Iterator[Proxy]:
    """A server whose key may do everything."""
    entry = {"id": KEY_ID, "hash": hashed(KEY), "tenant": "acme", "permissions": list(PERMISSIONS)}
    changes = {"auth": {"mode": "keys", "keys": [entry]}, "learn": {"enabled": False}}
    config = merged(base_config("http://127.0.0.1:9", free_port()), changes)
    with folders.new("home") as home:
        proxy = Proxy(home=home, config=config)
        try:
            proxy.launch()
            asyncio.run(proxy.served())
            yield proxy
        finally:
            asyncio.run(proxy.stop())


@pytest.mark.parametrize(("path", "method", "kind"), requests())
def test_every_answer_is_as_described(server: Proxy, path: str, method: str, kind: str) -> None:
    schemathesis, schema, checks = described()
    operation, mode = schema[path][method], schemathesis.GenerationMode(kind)

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
        case.validate_response(response, checks=checks)

    asked()


def test_an_edit_has_no_defaults_and_a_text_that_is_needed_is_not_empty() -> None:
    schemas = describe()["components"]["schemas"]
    assert not [name for name, field in schemas["MemoryEdit"]["properties"].items() if "default" in field]
    assert schemas["NewMemory"]["properties"]["tags"]["default"] == []
    for name, field in (("NewMemory", "content"), ("SearchBody", "query"), ("RelationBody", "subject")):
        assert schemas[name]["properties"][field]["minLength"] == 1
