"""How the page's files are served: to everybody, holding nobody's data, and under rules that a browser enforces."""

import re
from importlib.resources import files
from pathlib import Path

import pytest

from memproxy.core.memory import PLANTED
from memproxy.page import PATH, page_files
from memproxy.recall import select
from memproxy.recall.former import PAST
from memproxy.recall.links import HOPS
from memproxy.recall.listed import BY_DAY, STABLE
from memproxy.recall.ranking import REPLACED, SHOWN_SIGNALS
from memproxy.recall.topics import PROFILE
from memproxy.stores.sqlite_state import SqliteState
from tests.docs_check import ROOT
from tests.relay.rig import running_relay
from tests.support.http_client import plain_client
from tests.support.proxy import Proxy

pytestmark = pytest.mark.asyncio(loop_scope="session")

FILES = sorted(page_files())


@pytest.mark.parametrize("path", FILES)
@pytest.mark.usefixtures("model")
async def test_a_file_comes_with_the_rules_of_the_page_and_without_a_key(shared_proxy: Proxy, path: str) -> None:
    async with shared_proxy.client(None) as client:
        answer = await client.get(path)
        again = await client.get(path, headers={"if-none-match": answer.headers["etag"]})
    assert answer.status_code == 200
    rules = dict(one.strip().split(" ", 1) for one in answer.headers["content-security-policy"].split(";"))
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["frame-ancestors"] == "'none'"
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert (again.status_code, again.content) == (304, b"")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", PATH, 405),
        ("DELETE", f"{PATH}/app.js", 405),
        ("GET", f"{PATH}/nothing.js", 404),
        ("GET", f"{PATH}/__init__.py", 404),
        ("GET", f"{PATH}/index.html", 404),
        ("GET", f"{PATH}/..%2f..%2ferrors.py", 404),
        ("GET", f"{PATH}/", 308),
        ("HEAD", PATH, 200),
    ],
)
@pytest.mark.usefixtures("model")
async def test_nothing_else_is_served_there(shared_proxy: Proxy, method: str, path: str, status: int) -> None:
    assert (await shared_proxy.call(method, path, None)).status_code == status


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}])
@pytest.mark.parametrize("path", [PATH, f"{PATH}/app.js"])
@pytest.mark.usefixtures("model")
async def test_another_origin_or_host_is_refused_as_for_the_api(
    shared_proxy: Proxy, path: str, headers: dict[str, str]
) -> None:
    assert (await shared_proxy.call("GET", path, None, headers=headers)).status_code == 403


async def test_the_page_opens_while_the_engine_is_away(tmp_path: Path) -> None:
    """It says itself what is wrong."""
    state = SqliteState(tmp_path / "state.db", sync="normal")
    async with running_relay("http://127.0.0.1:9/v1", state, tmp_path, engine_runs=False) as relay:
        root = relay.base_url.removesuffix("/v1")
        async with plain_client(base_url=root) as client:
            assert (await client.get(PATH)).status_code == 200


async def test_all_modules_are_asked_for_at_once() -> None:
    shell = page_files()[PATH].body.decode()
    assert set(re.findall(r"(?:modulepreload\" href|src)=\"memory/(\w+\.js)", shell)) == {
        path.rpartition("/")[2] for path in FILES if path.endswith(".js")
    }


async def test_every_signal_reason_and_stage_is_explained() -> None:
    """What search, receipts and the gate name, people read in words."""
    told = {name: files("memproxy.page").joinpath(name).read_text("utf-8") for name in ("search.js", "why.js")}

    def table(file: str, name: str) -> set[str]:
        (found,) = re.findall(rf"const {name} = {{(.*?)\n}};", told[file], re.DOTALL)
        return set(re.findall(r"(\w+): \"", found))

    signals = {"score", "cosine", "bm25", "coverage", *SHOWN_SIGNALS, HOPS, PAST, BY_DAY, STABLE, PROFILE, REPLACED}
    assert signals <= table("search.js", "SIGNALS")
    left_out = re.findall(r"(?:return|rejected =|reason, \w+ =) \"(\w+)\"", Path(select.__file__).read_text("utf-8"))
    assert {*left_out, PLANTED, "budget"} == table("search.js", "LEFT_OUT")
    gate = re.findall(r"^\| `(\w+)` \|", (ROOT / "docs" / "gate.md").read_text("utf-8"), re.MULTILINE)
    assert set(gate) == table("why.js", "GATE")


async def test_no_file_names_another_host_or_makes_markup_of_text() -> None:
    """What the rules of the page forbid is not even tried."""
    for file in files("memproxy.page").iterdir():
        if file.name.endswith((".html", ".css", ".js")):
            text = file.read_text("utf-8")
            hosts = set(re.findall(r"https?://[\w.-]+", text)) - {"http://www.w3.org"}
            assert not hosts, file.name
            assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(|new Function", text)
            assert not file.name.endswith(".html") or not re.search(r"\son\w+=|\sstyle=|<script>|javascript:", text)
