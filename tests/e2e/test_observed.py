"""What an operator sees of a server: its metrics from the first scrape on, and its log, in text and in JSON."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from memproxy.metrics import KNOWN, Metrics, metrics
from tests.e2e.talk import body, chat
from tests.support.proxy import KEY, Proxy, running_proxy
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import eventually

Sample = tuple[str, frozenset[tuple[str, str]]]

PERSON = {"x-memproxy-user": "anna-of-accounting", "x-memproxy-session": "a-session-of-annas"}
WORDS = "My locker code is tangerine-4711."


async def scraped(proxy: Proxy) -> tuple[str, dict[Sample, float]]:
    text = (await proxy.call("GET", "/metrics")).text
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    return text, {(sample.name, frozenset(sample.labels.items())): sample.value for sample in samples}


def known(counters: Metrics) -> set[Sample]:
    """Every series that is to be there before anything happened."""
    found: set[Sample] = set()
    for attribute, rows in KNOWN.items():
        counter = getattr(counters, attribute)
        for row in (row for of_process in rows.values() for row in of_process):
            found.add((f"{counter._name}_total", frozenset(zip(counter._labelnames, row, strict=True))))
    return found


def lines(proxy: Proxy) -> list[dict[str, Any]]:
    return [json.loads(line) for line in proxy.log.splitlines()]


async def test_every_known_word_is_counted_from_zero_on_and_nobody_is_named(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    settings = {"telemetry": {"log_format": "json", "log_level": "debug"}}
    async with running_proxy(upstream.base_url, tmp_path / "home", settings) as proxy:
        await proxy.served()
        _, before = await scraped(proxy)
        assert known(metrics()) <= before.keys()
        assert before["memproxy_turns_lost_total", frozenset({("reason", "journal")})] == 0
        ready = (await proxy.readiness())[1]["parts"]
        for part in ready:
            states = {dict(labels)["state"] for (name, labels), value in before.items()
                      if name == "memproxy_part_state" and ("part", part) in labels and value}  # fmt: skip
            assert states == {ready[part].partition(":")[0]}, part
        assert before["memproxy_disk_free_bytes", frozenset({("place", "home")})] > 0
        assert before["memproxy_learn_oldest_seconds", frozenset({("lane", "index")})] >= 0
        async with proxy.client(**PERSON) as client:
            assert (await chat(client, WORDS)).status == 200
            assert (await chat(client, "What is my locker code?")).status == 200
            assert (await client.post("/v1/chat/completions", content=b"{")).status_code
        text, after = await scraped(proxy)
        assert after["memproxy_requests_total", frozenset({("route", "chat"), ("status", "200")})] >= 2
        for personal in (*PERSON.values(), KEY, "tangerine"):
            assert personal not in text
    said = lines(proxy)
    assert said[-1]["message"] == "stopped"
    requests = [line for line in said if line["message"].startswith("request: ") and line.get("route") == "chat"]
    assert [(line["status"], line["recall"], line["reason"]) for line in requests[:2]] == [
        (200, "empty", None),
        (200, "injected", None),
    ]
    assert [line["memories"] > 0 for line in requests] == [False, True, False]
    assert all(line["request"].startswith("req_") and line["ms"] > 0 for line in requests)
    assert not [line for line in said if line["level"] == "info" and "stored 0" in line["message"].lower()]
    for personal in (*PERSON.values(), KEY, "tangerine", "locker"):
        assert personal not in proxy.log


NOWHERE = {"HF_ENDPOINT": "http://127.0.0.1:9"}
DOWNLOADS = {"embedding": {"provider": "fastembed"}}


async def announced(proxy: Proxy) -> None:
    await eventually(lambda: "downloading" in proxy.log, what=lambda: f"a download is announced\n{proxy.log}")


def assert_announced(proxy: Proxy, logger_of: Callable[[str], str]) -> None:
    """A download was announced before it began, and nobody else speaks."""
    (told,) = [line for line in proxy.log.splitlines() if "downloading" in line]
    assert "all-MiniLM-L6-v2, about 90 MB, from http://127.0.0.1:9/" in told
    assert f"to {proxy.home / 'models'}; recall goes by words until it is there" in told
    for line in proxy.log.splitlines():
        assert logger_of(line).startswith("memproxy."), line


async def test_in_text_a_request_has_one_line_a_download_another_and_the_end_is_the_last(
    upstream: ScriptedUpstream, tmp_path: Path
) -> None:
    settings = {**DOWNLOADS, "telemetry": {"log_level": "debug"}}
    starting = running_proxy(upstream.base_url, tmp_path / "home", settings, environment=NOWHERE)
    async with starting as proxy, proxy.client() as client:
        answer = await client.post("/v1/chat/completions", content=body("Hello!"))
        request_id = answer.headers["x-memproxy-request-id"]
        await announced(proxy)
    (line,) = [line for line in proxy.log.splitlines() if request_id in line]
    assert "DEBUG" in line
    assert re.search(r"route=chat status=200 recall=skipped reason=greeting memories=0 ms=[\d.]+$", line)
    assert proxy.log.splitlines()[-1].endswith(": stopped")
    assert_announced(proxy, lambda line: line.split()[4])


async def test_in_json_a_download_is_announced_too(upstream: ScriptedUpstream, tmp_path: Path) -> None:
    settings = {**DOWNLOADS, "telemetry": {"log_format": "json"}}
    async with running_proxy(upstream.base_url, tmp_path / "home", settings, environment=NOWHERE) as proxy:
        await announced(proxy)
    assert_announced(proxy, lambda line: str(json.loads(line)["logger"]))
