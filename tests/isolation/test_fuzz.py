"""The isolation fuzz, shortened; the whole of it is ``python -m tests.isolation.fuzz`` (docs/isolation.md)."""

import base64
from datetime import timedelta
from pathlib import Path

import httpx
import pytest

from tests.isolation.people import MODES, Mode, make_world
from tests.isolation.run import fuzz
from tests.isolation.watching import Leak, Watch

OPERATIONS = {"passthrough": 500, "keys": 500, "jwt": 500}


@pytest.mark.parametrize("mode", MODES)
async def test_nobody_sees_changes_or_tells_what_is_anothers(mode: Mode, tmp_path: Path) -> None:
    watch = await fuzz(mode, tmp_path / "home", operations=OPERATIONS[mode], tenants=4, users=4, seed=20)
    # what proves that something was there to be seen
    assert watch.counts["own words seen"] > 100
    assert watch.counts["own memories intact"] > 10
    assert watch.counts["blocks with own words"] > 5
    assert watch.counts["pairs compared"] > 30


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


def test_keys_in_a_log_are_found(watch: Watch) -> None:
    watch.nowhere("the log", "started")
    for text in (watch.world.people[0].key, watch.world.people[1].canary):
        with pytest.raises(Leak):
            watch.nowhere("the log", f"a line with {text} in it")
