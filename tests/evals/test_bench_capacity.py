"""The model of capacity: what it says of points that lie on its lines, and how it carries on."""

import asyncio
import math
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from tests.bench.capacity import MEASURED, Line, Machine, Measured, Model, Use, need, play, read_points
from tests.bench.plan import Population
from tests.bench.stores import Places, measure

USE = Use(exchanges=3, days=365, most=20_000, peak=3, hot=0.1)
MACHINE = Machine(cores=4, memory_gb=64, busy=0.5, core_price=15, memory_price=2, disk_price=0.1)


def point(memories: int, users: int = 100) -> Measured:
    return Measured(
        store="edge",
        memories=memories,
        users=users,
        cpu_ms=4 + memories / users / 100,
        ingest_cpu_ms=0.5,
        disk_mb=10 + memories / 200,
        memory_mb=100 + memories / 100,
        memory_before_mb=50,
        p95_ms=10,
    )


def test_a_point_on_the_lines_of_the_others_is_predicted() -> None:
    others = [point(10_000), point(100_000)]
    missed = Model.of(others).missed(point(500_000))
    assert all(math.isclose(share, 0, abs_tol=1e-6) for share in missed.values())
    assert Model.of(others).missed(msgspec.structs.replace(point(500_000), disk_mb=5020))["disk"] == pytest.approx(
        -0.5, 0.01
    )


def test_what_does_not_grow_is_taken_as_the_same_for_all() -> None:
    assert Line.through([(1, 5.0), (2, 4.0)]) == Line(4.5, 0.0)


def test_ten_times_the_users_take_ten_times_as_much_and_no_shard_more_than_its_share() -> None:
    model = Model.of([point(10_000), point(100_000)])
    few, many = (need(users, USE, model, MACHINE, replicas=2) for users in (100_000, 1_000_000))
    assert many.disk_tb == pytest.approx(10 * few.disk_tb)
    assert many.cores == pytest.approx(10 * few.cores)
    assert few.shards > 1
    assert many.shards == pytest.approx(10 * few.shards, rel=0.1)
    played = play(few, MACHINE)
    assert 1 <= played.uneven < 1.5
    assert played.busy == pytest.approx(
        few.requests / few.shards * played.uneven * few.request_ms / 1000 / MACHINE.cores
    )


def test_a_shard_whose_cores_are_nearly_all_busy_lets_requests_wait() -> None:
    model = Model.of([point(10_000), point(100_000)])
    idle = need(20_000, USE, model, MACHINE, replicas=1)
    crowded = msgspec.structs.replace(idle, requests=0.95 * MACHINE.cores * 1000 / idle.request_ms, shards=1)
    assert play(idle, MACHINE).wait_p95_ms < play(crowded, MACHINE).wait_p95_ms > idle.request_ms


def test_the_points_in_the_repository_are_read_and_a_run_makes_more_of_them(tmp_path: Path) -> None:
    assert {"edge", "qdrant", "postgres"} <= read_points(MEASURED).keys()
    places = Places(None, None, rest_too=False, exact_too=False)
    made = asyncio.run(
        measure(places.stores["edge"], Population(memories=60, users=3), 5, Console(quiet=True), folder=tmp_path)
    )
    assert (made["memories"], made["users"], made["nearest_found"]) == (60, 3, 1.0)
    (tmp_path / "points").write_bytes(msgspec.json.encode({"store": "edge", **made}) + b"\n")
    assert [one.memories for one in read_points(tmp_path / "points")["edge"]] == [60]
