"""Memories kept from one search to the next: never an older state than what was written."""

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from memproxy.core.memory import Kind, Memory
from memproxy.stores.payload import Read, RecentMemories

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def memory(name: str, content: str = "text", tokens: bytes = b"") -> Read:
    made = Memory(id=name, tenant="t", user_id="u", kind=Kind.SEMANTIC, content=content, created_at=NOW, updated_at=NOW)
    return Read(made, tokens)


def test_what_was_read_is_known_as_it_was_read_last_until_it_is_written() -> None:
    recent, changed = RecentMemories(), memory("a", "other")
    recent.add([("a", memory("a")), ("b", memory("b"))], writes=recent.writes)
    assert set(recent.get(["a", "b", "c"])) == {"a", "b"}
    recent.add([("a", changed)], writes=recent.writes)
    assert recent.get(["a"])["a"] is changed
    recent.forget(["a"])
    assert set(recent.get(["a", "b"])) == {"b"}
    recent.clear()
    assert recent.get(["b"]) == {}


def test_what_was_read_while_something_was_written_is_not_kept() -> None:
    recent = RecentMemories()
    began = recent.writes
    recent.forget([])
    recent.add([("a", memory("a"))], writes=began)
    assert recent.get(["a"]) == {}


@given(
    st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 50)), max_size=40),
    st.integers(1, 4),
    st.integers(0, 120),
)
def test_bounds_hold_and_the_newest_state_is_given(reads: list[tuple[str, int]], most: int, characters: int) -> None:
    recent, newest = RecentMemories(most=most, most_characters=characters), {}
    for name, size in reads:
        newest[name] = memory(name, "x" * (size // 2), b"x" * (size - size // 2))
        recent.add([(name, newest[name])], writes=recent.writes)
        known = recent.get(list("abcdef"))
        assert len(known) <= most
        assert sum(len(one.memory.content) + len(one.tokens) for one in known.values()) <= characters
        assert all(newest[place] is one for place, one in known.items())


def test_what_was_used_stays_longer_than_what_was_not() -> None:
    recent = RecentMemories(most=2)
    recent.add([("a", memory("a")), ("b", memory("b"))], writes=recent.writes)
    assert recent.all_of(["a", "c"]) is None
    assert [one.memory.id for one in recent.all_of(["a"]) or ()] == ["a"]
    recent.add([("c", memory("c"))], writes=recent.writes)
    assert set(recent.get(["a", "b", "c"])) == {"a", "c"}
