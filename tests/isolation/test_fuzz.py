"""The isolation fuzz, shortened; the whole of it is ``python -m tests.isolation.fuzz`` (docs/isolation.md)."""

import base64
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.isolation.calling import must
from tests.isolation.people import MODES, Mode, make_world
from tests.isolation.run import fuzz
from tests.isolation.watching import Leak, NotNow, Watch

OPERATIONS = 150
"""Of each mode: what a server costs to start is more than what they cost."""


@pytest.mark.parametrize("mode", MODES)
async def test_nobody_sees_changes_or_tells_what_is_anothers(mode: Mode, tmp_path: Path) -> None:
    watch = await fuzz(mode, tmp_path / "home", operations=OPERATIONS, tenants=4, users=4, seed=20)
    # what proves that something was there to be seen
    assert watch.counts["own words seen"] > 50
    assert watch.counts["own memories intact"] > 2
    assert watch.counts["blocks with own words"] > 2
    assert watch.counts["pairs compared"] > 30
    assert watch.counts["raw paths refused"] > 0
    assert watch.counts["idempotency keys refused elsewhere"] > 0
    assert mode == "passthrough" or watch.counts["a project's key changed nothing"] > 0


@pytest.fixture
def watch() -> Watch:
    return Watch(make_world("passthrough", 2, 2))


def shown(text: str, status: int = 200, headers: dict[str, str] | None = None) -> httpx.Response:
    answer = httpx.Response(status, text=text, headers=headers)
    answer.elapsed = timedelta(milliseconds=1)
    return answer


def cursor(text: str) -> str:
    return base64.urlsafe_b64encode(f'["entities",-1,"{text}"]'.encode()).decode().rstrip("=")


def test_words_of_another_are_found_wherever_they_are(watch: Watch) -> None:
    mine, other, *_ = watch.world.people
    watch.answer("a call", mine, shown(f"I said {mine.canary}"))
    for answer in (
        shown(other.canary.upper()),
        shown("", headers={"x-memproxy-session": other.canary}),
        shown(f'{{"next_cursor": "{cursor(other.canary)}"}}'),
        shown(f"No memory has the id {other.canary}", 404),
    ):
        with pytest.raises(Leak):
            watch.answer("a call", mine, answer)
    watch.answer("a call", mine, shown(f"No memory has the id {other.canary}", 404), [other.canary])


def test_a_request_upstream_that_mixes_two_people_is_found(watch: Watch) -> None:
    mine, other, *_ = watch.world.people
    watch.sent_upstream("a chat", f"{mine.canary} (sender-{mine.number}-of-this-message)")
    assert watch.leaks == []
    watch.sent_upstream("a chat", f"{other.canary} (sender-{mine.number}-of-this-message)")
    assert len(watch.leaks) == 1


def test_an_answer_about_anothers_that_differs_at_all_is_found(watch: Watch) -> None:
    assert not watch.differs(shown("no ab", 404), shown("no cd", 404), ("ab", "cd"))
    for other in (shown("no cd", 403), shown("nothing cd", 404), shown("no cd", 404, {"etag": '"x"'})):
        assert watch.differs(shown("no ab", 404), other, ("ab", "cd"))


@pytest.mark.parametrize(("theirs", "nobodys"), [(503, 404), (404, 429), (202, 200)])
def test_a_busy_servers_answers_decide_nothing(watch: Watch, theirs: int, nobodys: int) -> None:
    assert not watch.differs(shown("a", theirs), shown("b", nobodys), ("a", "b"))


def test_a_write_to_anothers_that_was_queued_is_found(watch: Watch) -> None:
    assert watch.differs(shown("a", 202), shown("b", 404), ("a", "b"))


def test_a_busy_server_is_no_leak_and_a_wrong_answer_is() -> None:
    asked = httpx.Request("GET", "http://127.0.0.1/v1/memory")
    with pytest.raises(NotNow):
        must(httpx.Response(503, request=asked), 401)
    with pytest.raises(Leak):
        must(httpx.Response(202, request=asked), 401)


def test_keys_in_a_log_are_found(watch: Watch) -> None:
    watch.nowhere("the log", "started")
    for text in (watch.world.people[0].key, watch.world.people[1].canary):
        with pytest.raises(Leak):
            watch.nowhere("the log", f"a line with {text} in it")
