"""When an engine that does not answer is taken for hung, and when its state for another one."""

from pathlib import Path

from memproxy.serve.watching import HUNG_AFTER_S, LONGEST_START_S, PROBE_EVERY_S, Replaced, Silence


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
