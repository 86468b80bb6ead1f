from datetime import UTC, datetime

from memproxy.core.bounded import ENTRY_BYTES, BoundedCache, footprint
from memproxy.ports import KnownSession


def test_what_was_used_least_recently_is_forgotten_first() -> None:
    cache: BoundedCache[int, str] = BoundedCache(4 * (ENTRY_BYTES + 28 + 1_000), size_of=len)
    for number in range(4):
        cache.put(number, "x" * 1_000)
    assert cache.get(0) is not None
    cache.put(4, "x" * 1_000)
    assert list(cache) == [2, 3, 0, 4]


def test_however_long_keys_and_values_are_they_take_no_more_than_the_bound() -> None:
    cache: BoundedCache[tuple[str, str], list[str]] = BoundedCache(100_000)
    for number in range(1_000):
        key, value = (str(number), "k" * (number % 50) ** 2), ["v" * (number % 70) ** 2]
        cache.put(key, value)
        assert footprint([(one, cache.get(one)) for one in list(cache)]) <= 100_000
        assert cache.bytes <= 100_000
    assert len(cache) > 10


def test_what_is_larger_than_the_bound_is_not_kept_and_displaces_only_what_had_its_name() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10_000)
    cache.put("a", "small")
    cache.put("b", "small")
    cache.put("a", "x" * 20_000)
    assert (cache.get("a"), cache.get("b")) == (None, "small")


def test_what_takes_the_place_of_another_counts_once() -> None:
    cache: BoundedCache[str, str] = BoundedCache(10_000)
    for _ in range(100):
        cache.put("a", "x" * 1_000)
    held = cache.bytes
    assert ENTRY_BYTES + 1_000 < held < 2_000
    assert cache.pop("a") is not None
    assert (cache.bytes, len(cache), cache.pop("a")) == (0, 0, None)


def test_a_structure_is_as_large_as_all_that_it_holds() -> None:
    known = KnownSession(session="s" * 10_000, said_at=datetime.now(UTC), answer="a" * 10_000)
    assert 20_000 < footprint([known]) < 21_000
