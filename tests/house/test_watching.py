"""When an engine that does not answer is taken for hung or busy, and its state's file for another one."""

import os
from pathlib import Path
from types import TracebackType

import pytest

from memproxy.serve.launch import LongWork
from memproxy.serve.supervisor import HUNG_AFTER_S, LONGEST_START_S, LONGEST_WORK_S, PROBE_EVERY_S, Replaced, Silence
from tests.support.engine import make_engine, serve_engine
from tests.support.waiting import eventually


def probes(silence: Silence, pid: int, *answers: bool) -> list[bool]:
    return [silence.is_too_long(pid, answered=answered) for answered in answers]


def test_one_that_served_may_be_silent_for_a_while() -> None:
    silence, few = Silence(), int(HUNG_AFTER_S / PROBE_EVERY_S)
    assert probes(silence, 1, True, *[False] * few) == [False] * few + [True]
    assert probes(Silence(), 1, True, *[False] * (few - 1), True, False) == [False] * (few + 2)


def test_one_that_starts_may_be_silent_for_longer() -> None:
    many = int(LONGEST_START_S / PROBE_EVERY_S)
    assert probes(Silence(), 1, *[False] * many) == [False] * (many - 1) + [True]


def test_a_new_one_is_not_blamed_for_the_silence_of_the_one_before() -> None:
    silence, few = Silence(), int(HUNG_AFTER_S / PROBE_EVERY_S)
    assert not any(probes(silence, 1, True, *[False] * (few - 1)))
    assert not any(probes(silence, 2, *[False] * (few - 1)))


def test_a_state_file_is_replaced_for_the_process_that_had_another_one(tmp_path: Path) -> None:
    file, away, replaced = tmp_path / "state.db", tmp_path / "away", Replaced(tmp_path / "state.db")
    assert not replaced.since(1)
    file.touch()
    assert not replaced.since(1), "its start made it"
    file.rename(away)
    assert not replaced.since(1), "it may come back"
    file.touch()
    assert replaced.since(1)
    assert not replaced.since(2), "that one has opened the new one"


def probes_until_ended(*, works: bool) -> float:
    """Seconds of silence after which an engine that answered before is ended."""
    silence, probes = Silence(), 0
    silence.is_too_long(7, answered=True)
    while not silence.is_too_long(7, answered=False, works=works):
        probes += 1
    return (probes + 1) * PROBE_EVERY_S


def test_an_engine_that_said_what_keeps_it_busy_is_given_time() -> None:
    assert probes_until_ended(works=False) == HUNG_AFTER_S
    assert probes_until_ended(works=True) == LONGEST_WORK_S


def test_long_work_speaks_for_the_process_that_began_it_and_while_it_lasts(tmp_path: Path) -> None:
    work = LongWork(str(tmp_path / "engine.sock"))
    assert not work.is_of(os.getpid())
    with work:
        assert work.is_of(os.getpid())
        assert not work.is_of(os.getpid() + 1)
        assert not work.is_of(None)
    assert not work.is_of(os.getpid())


def test_long_work_goes_on_where_it_cannot_be_announced_and_the_log_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with LongWork(str(tmp_path / "gone" / "engine.sock")) as nothing:
        assert nothing is None
    assert "engine.works cannot be written" in caplog.text


class Told:
    """Notes that it was entered and left."""

    def __init__(self) -> None:
        self.times: list[str] = []

    def __enter__(self) -> None:
        self.times.append("begun")

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.times.append("ended")


async def test_an_erasure_is_announced(tmp_path: Path) -> None:
    engine, told = make_engine(tmp_path), Told()
    engine.announce_long_work(told)
    async with serve_engine(engine) as api:
        await api.store("Biscuit is a beagle")
        assert told.times == []
        gone = await api.call("DELETE", "/v1/memory/users/default")
        assert gone.json() == {"deleted": 1}
        await eventually(lambda: told.times[-1:] == ["ended"], what="an erasure that was announced")
    assert told.times[:2] == ["begun", "ended"]
