"""No web page of another place: a foreign ``Origin`` or ``Host`` is refused on every route, before anything is done."""

import asyncio
from collections.abc import Sequence

import pytest

from tests.support.proxy import Proxy
from tests.support.upstream import ScriptedUpstream

pytestmark = pytest.mark.asyncio(loop_scope="session")

ROUTES = [
    (method, path)
    for method, paths in {
        "GET": "/healthz /readyz /metrics /openapi.json /memory /v1/responses/resp_1 /v1/models /v1/memory "
        "/v1/memory/some-id /v1/memory/some-id/history /v1/memory/export /v1/memory/palace /v1/memory/entities "
        "/v1/memory/categories /v1/memory/activity /v1/memory/stats /v1/memory/settings /v1/memory/audit "
        "/v1/memory/receipts/req_1 /nothing/there",
        "POST": "/mcp /v1/chat/completions /v1/responses /v1/files /v1/memory /v1/memory/turns /v1/memory/search "
        "/v1/memory/recall /v1/memory/import /v1/memory/feedback /v1/memory/prune",
        "PUT": "/v1/memory/settings",
        "PATCH": "/v1/memory/some-id",
        "DELETE": "/v1/memory /v1/memory/some-id /v1/memory/sessions/s1 /v1/memory/users/default",
        "OPTIONS": "/v1/memory /v1/chat/completions",
    }.items()
    for path in paths.split()
]


async def asked(proxy: Proxy, method: str, path: str, *lines: str, host: str | None = None) -> tuple[int, str]:
    """Status and everything else of the answer to a request written byte by byte; ``{port}`` in a line is its port."""
    named = f"127.0.0.1:{proxy.port}" if host is None else host
    head = [f"{method} {path} HTTP/1.1", f"Host: {named}", *lines, "Connection: close", "Content-Length: 2"]
    raw = "\r\n".join(line.replace("{port}", str(proxy.port)) for line in head) + "\r\n\r\n{}"
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    try:
        writer.write(raw.encode("latin-1"))
        answer = (await asyncio.wait_for(reader.read(), 60)).decode("latin-1")
    finally:
        writer.close()
    return int(answer.split(" ", 2)[1]), answer


FOREIGN: list[tuple[str, str | None, Sequence[str]]] = [
    ("an origin of another name", None, ["Origin: https://evil.example"]),
    ("no origin that can be named", None, ["Origin: null"]),
    ("another port of this machine", None, ["Origin: http://127.0.0.1:1"]),
    ("a name that begins like ours", None, ["Origin: http://127.0.0.1:{port}.evil.example"]),
    ("another name for this machine", None, ["Origin: http://localhost:{port}"]),
    ("an extension", None, ["Origin: chrome-extension://abcdefghijklmnop"]),
    ("an empty origin", None, ["Origin:"]),
    ("our origin, then another", None, ["Origin: http://127.0.0.1:{port}", "Origin: https://evil.example"]),
    ("a page elsewhere that sends no origin", None, ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"]),
    ("a page on another port that sends none", None, ["Sec-Fetch-Site: same-site", "Sec-Fetch-Mode: no-cors"]),
    ("a frame elsewhere", None, ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: iframe"]),
    ("another name resolved to us", "evil.example:{port}", ["Origin: http://evil.example:{port}"]),
    ("another name without origin", "evil.example", []),
    ("a name that ends like ours", "evil.localhost", []),
    ("every address", "0.0.0.0:{port}", ["Origin: http://0.0.0.0:{port}"]),
    ("our name, then another", None, ["Host: evil.example"]),
    ("a name with a user", "127.0.0.1@evil.example", []),
]


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_a_foreign_page_reaches_no_route(
    shared_proxy: Proxy, model: ScriptedUpstream, method: str, path: str
) -> None:
    for what, host, lines in FOREIGN:
        status, answer = await asked(shared_proxy, method, path, "Content-Type: application/json", *lines, host=host)
        assert status in {400, 403}, (what, answer)
        assert "access-control-allow" not in answer.lower(), (what, answer)
    assert model.received == []


@pytest.mark.parametrize(
    "lines",
    [
        [],
        ["Origin: http://127.0.0.1:{port}"],
        ["Sec-Fetch-Site: none", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"],
        ["Sec-Fetch-Site: same-origin", "Sec-Fetch-Mode: cors", "Sec-Fetch-Dest: empty"],
    ],
    ids=["a program", "its own page", "an address that was typed", "its own page's script"],
)
@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/metrics", "/openapi.json", "/v1/memory"])
@pytest.mark.usefixtures("model")
async def test_who_may_call_is_answered(shared_proxy: Proxy, path: str, lines: list[str]) -> None:
    status, answer = await asked(shared_proxy, "GET", path, *lines)
    assert status == 200, answer


LINK = ["Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document"]
PAGES = ["/memory", "/healthz", "/readyz", "/metrics", "/openapi.json"]


@pytest.mark.parametrize("path", PAGES)
@pytest.mark.usefixtures("model")
async def test_a_link_of_another_page_leads_to_a_page_of_ours(shared_proxy: Proxy, path: str) -> None:
    status, answer = await asked(shared_proxy, "GET", path, *LINK)
    assert status not in {400, 403}, answer


@pytest.mark.parametrize(("method", "path"), [one for one in ROUTES if one[1] not in PAGES])
async def test_a_link_of_another_page_leads_to_nothing_else(
    shared_proxy: Proxy, model: ScriptedUpstream, method: str, path: str
) -> None:
    status, answer = await asked(shared_proxy, method, path, *LINK)
    assert status == 403, answer
    assert model.received == []


TYPES = ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""]
WRITES = [
    ("PUT", "/v1/memory/settings"),
    ("PATCH", "/v1/memory/some-id"),
    ("POST", "/v1/memory"),
    *(("POST", f"/v1/memory/{name}") for name in ("turns", "search", "recall", "import", "feedback", "prune")),
]


@pytest.mark.parametrize(("method", "path"), WRITES)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.usefixtures("model")
async def test_what_a_form_can_declare_is_no_json(shared_proxy: Proxy, method: str, path: str, kind: str) -> None:
    status, answer = await asked(shared_proxy, method, path, *([f"Content-Type: {kind}"] if kind else []))
    assert status == 415, answer
