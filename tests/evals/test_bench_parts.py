"""The parts of the benchmark that its figures stand on: the load client, what is sent, percentiles, plans."""

import contextlib
import io
import json
import socket
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console
from typer.testing import CliRunner

from memproxy.core.gate import is_vague, judge
from memproxy.settings import GateSettings
from tests.bench import payloads
from tests.bench.calls import Situation, situations, takes_part
from tests.bench.client import Load
from tests.bench.engine import main, measure
from tests.bench.figures import percentile
from tests.bench.jobs import Job, chat_job
from tests.bench.learn import median_interval
from tests.bench.learn_load import Traffic
from tests.bench.plan import FULL, QUICK, STANDARD, Plan, Population, scaled
from tests.bench.targets import OURS
from tests.bench.versions import Compared
from tests.support.answers import Answer, chat_events, json_answer, stream
from tests.support.shared import MODEL_PATH, needs_model
from tests.support.upstream import ScriptedUpstream


def job(upstream: ScriptedUpstream, **changes: Any) -> Job:
    values = {"count": 6, "warmup": 1, "concurrency": 2, "headers": {}, **changes}
    return chat_job(upstream.port, ["one", "two", "three"], **values)


async def test_the_client_measures_what_it_was_asked_for_and_not_its_warm_up(upstream: ScriptedUpstream) -> None:
    result = await Load(job(upstream)).run()
    assert len(result.total_ms) == len(result.first_ms) == 6
    assert result.answered == len(upstream.received) == 8
    assert result.errors == {}
    assert all(0 < first <= total for first, total in zip(result.first_ms, result.total_ms, strict=True))
    assert result.elapsed_s > 0


async def test_the_client_asks_one_question_after_the_other_in_whole_requests(upstream: ScriptedUpstream) -> None:
    await Load(job(upstream, concurrency=1, warmup=0, count=4)).run()
    asked = [received.json["messages"][-1]["content"] for received in upstream.received]
    assert asked == ["one", "two", "three", "one"]


async def test_the_warm_up_has_headers_of_its_own(upstream: ScriptedUpstream) -> None:
    await Load(job(upstream, concurrency=1, headers={"x-mode": "on"}, warmup_headers={"x-mode": "read"}, count=1)).run()
    assert [received.header("x-mode") for received in upstream.received] == ["read", "on"]


async def test_the_client_counts_what_the_recall_header_says(upstream: ScriptedUpstream) -> None:
    timing = ("server-timing", "gate;dur=0.10, search;dur=1.50")
    empty = json_answer({}, headers=[("x-memproxy-recall", "empty"), timing])
    injected = json_answer({}, headers=[("X-Memproxy-Recall", "injected"), timing])
    upstream.script(injected, injected, empty, injected)
    result = await Load(job(upstream, concurrency=1, warmup=1, count=3)).run()
    assert result.outcomes == {"injected": 2, "empty": 1}
    assert result.stages == {"gate": [0.1] * 3, "search": [1.5] * 3}


async def test_errors_are_counted_and_are_no_measurements(upstream: ScriptedUpstream) -> None:
    upstream.script(json_answer({}, status=503))
    result = await Load(job(upstream, concurrency=1, warmup=0, count=3)).run()
    assert result.errors == {"status 503": 1}
    assert len(result.total_ms) == 2


async def test_a_broken_connection_is_an_error_and_another_one_takes_its_place(upstream: ScriptedUpstream) -> None:
    upstream.script(Answer([b"{"], headers=[("content-length", "10")], cut=True))
    result = await Load(job(upstream, concurrency=1, warmup=0, count=5)).run()
    assert result.errors == {"connection lost": 1}
    assert len(result.total_ms) == 4


async def test_a_server_that_does_not_take_connections_ends_the_job(upstream: ScriptedUpstream) -> None:
    with contextlib.ExitStack() as held:
        full = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(4):  # more than wait to be accepted
            waiting = held.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        asked = msgspec.structs.replace(job(upstream, concurrency=3), port=full.getsockname()[1], connect_s=0.2)
        with pytest.raises(OSError, match=r"0 of 3 within 0\.2 s"):
            await Load(asked).run()


async def test_a_stream_begins_before_it_ends(upstream: ScriptedUpstream) -> None:
    upstream.default = lambda _: stream(chat_events("some", "words"))
    result = await Load(job(upstream, concurrency=1, warmup=0, count=2, stagger_s=0.001)).run()
    assert len(result.first_ms) == 2
    assert result.pieces > 2


@given(st.lists(st.floats(0, 1e6), min_size=1), st.floats(0.01, 1))
def test_so_many_values_lie_at_or_below_a_percentile(values: list[float], share: float) -> None:
    found = percentile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values)
    assert sum(value < found for value in values) < share * len(values)


def test_two_versions_are_compared_block_by_block() -> None:
    found = Compared.of([100.0, 400.0, 200.0, 0.0], [50.0, 440.0, 160.0, 7.0])
    assert (found.before, found.after) == (150, 105)
    assert (found.ratio, found.less) == (0.8, 2 / 3), "a block in which nothing was measured says nothing"


def test_facts_and_questions_are_all_different() -> None:
    count = 20_000
    assert len({payloads.question(number) for number in range(count)}) == count
    assert len({payloads.stranger(number) for number in range(count)}) == count


@pytest.mark.parametrize("number", [0, 1, 999, 54_321])
def test_questions_are_searched_for_as_they_are(number: int) -> None:
    skip = frozenset[str](GateSettings().skip)
    for question in (payloads.question(number), payloads.stranger(number)):
        assert judge(question, skip).searched
        assert not is_vague(question)


@pytest.mark.parametrize("size", STANDARD.bodies)
@pytest.mark.parametrize("streamed", [True, False])
def test_a_request_has_its_size_and_its_question_last(size: int, streamed: bool) -> None:
    prefix, suffix = payloads.chat_template(size, stream=streamed)
    question = payloads.question(7)
    body = prefix + question + suffix
    assert 0.9 * size <= len(body) <= 1.1 * size
    request = json.loads(body)
    assert request["messages"][-1] == {"role": "user", "content": question}
    assert request["stream"] is streamed


def test_numbers_begin_again_at_their_bound() -> None:
    assert list(islice(payloads.numbers(3, 5), 5)) == [3, 4, 0, 1, 2]


@pytest.mark.parametrize("plan", [QUICK, STANDARD, FULL])
@pytest.mark.parametrize("scale", [0.001, 0.1, 1])
def test_a_scaled_plan_still_measures_everything(plan: Plan, scale: float) -> None:
    small = scaled(plan, scale)
    assert len(set(situations(small))) == len(situations(plan))
    assert small.concurrencies[0] == small.streams[0] == 1
    counts = (small.latency_requests, small.captured_requests, small.searches, small.stream_rounds)
    assert all(count >= 1 for count in counts)
    assert all(one.memories // one.users >= 1 for one in small.populations)


def test_every_kind_is_measured_one_at_a_time() -> None:
    for situation in situations(STANDARD):
        if situation.concurrency == 1 and not situation.stream:
            assert all(takes_part(kind, situation) for kind in OURS)


def test_what_a_captured_kind_leaves_in_the_store_is_bounded() -> None:
    large = Situation(kind="call", body_bytes=200_000, concurrency=16)
    assert not any(takes_part(kind, large) for kind in OURS if kind.captures)


async def test_every_population_is_asked_and_timed() -> None:
    row = await measure(Population(memories=400, users=4), 30, Console(file=io.StringIO()))
    assert (row.memories, row.users, row.recall.count) == (400, 4, 30)
    assert 0 < row.recall.p50_ms <= row.recall.p95_ms <= row.recall.p99_ms
    assert {"embed", "search", "rank", "assemble", "recall"} <= row.stages.keys()
    assert row.stages["search"] > 0
    assert row.with_embedding is None


@needs_model
@pytest.mark.model
async def test_the_time_of_a_model_is_told_apart() -> None:
    console = Console(file=io.StringIO())
    row = await measure(Population(memories=10, users=2), 5, console, model_path=Path(MODEL_PATH))
    assert row.with_embedding is not None
    assert row.with_embedding.count == row.recall.count == 5
    assert row.with_embedding.p50_ms > row.recall.p50_ms


def test_the_figures_are_written_for_each_population(tmp_path: Path) -> None:
    app = typer.Typer()
    app.command()(main)
    out = tmp_path / "figures.json"
    done = CliRunner().invoke(app, ["--full", "--most", "1000", "--questions", "5", "--json", str(out)])
    assert done.exit_code == 0, done.output
    assert [(row["memories"], row["users"]) for row in json.loads(out.read_text())] == [(1_000, 1), (1_000, 10)]


@pytest.mark.parametrize(
    ("count", "low", "high", "coverage"),
    [(1, 1, 1, 0.0), (5, 1, 5, 0.9375), (6, 1, 6, 0.96875), (9, 2, 8, 0.9609375), (20, 6, 15, 0.9586105346679688)],
)
def test_the_interval_of_a_median_is_of_order_statistics(count: int, low: int, high: int, coverage: float) -> None:
    assert median_interval([float(value) for value in range(1, count + 1)]) == (low, high, coverage)


@given(st.lists(st.floats(0.1, 10), min_size=1, max_size=40))
def test_the_interval_holds_the_median_of_what_was_measured(values: list[float]) -> None:
    low, high, coverage = median_interval(values)
    ordered = sorted(values)
    assert low <= ordered[len(ordered) // 2] <= high or low <= ordered[(len(ordered) - 1) // 2] <= high
    assert 0 <= coverage < 1


def test_the_slowest_percent_is_told_in_the_order_of_sending() -> None:
    took = [1.0] * 200
    took[150], took[20] = 70.0, 50.0
    run = Traffic(sent_s=[number / 100 for number in range(200)], alone_ms=took)
    assert run.slowest() == [(0.2, 50.0), (1.5, 70.0)]
    assert Traffic().slowest() == []
