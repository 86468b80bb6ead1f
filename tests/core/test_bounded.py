import re
import subprocess
import sys
from datetime import UTC, datetime

import pytest

from memproxy.core.bounded import ENTRY_BYTES, BoundedCache, footprint
from memproxy.core.bounded_regex import BoundedPattern
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


def test_a_bounded_pattern_finds_in_the_beginning_what_a_compiled_one_does() -> None:
    bounded, compiled = BoundedPattern(r"(rex)\b", re.IGNORECASE, most=20), re.compile(r"(rex)\b", re.IGNORECASE)
    text = "Ann's dog is Rex, Bob's is REX."
    assert [match.span() for match in bounded.finditer(text)] == [match.span() for match in compiled.finditer(text)][:1]
    assert (bounded.match("Rex!"), bounded.fullmatch("rex")) != (None, None)
    assert bounded.fullmatch("Rex!") is None
    assert bounded.search("a long, long way to Rex") is None
    assert bounded.split(text) == ["Ann's dog is ", "Rex", ", Bob's is REX."]


def test_what_is_longer_does_not_match_as_a_whole() -> None:
    assert BoundedPattern("a+", most=3).fullmatch("aaa") is not None
    assert BoundedPattern("a+", most=3).fullmatch("aaaa") is None


def test_a_pattern_that_is_none_says_so() -> None:
    with pytest.raises(re.error):
        BoundedPattern("(", most=1)


def test_the_supervisor_imports_neither_a_client_nor_a_store() -> None:
    heavy = "{'aiohttp', 'prometheus_client', 'sqlite3', 'numpy'}"
    program = f"import sys, memproxy.serve.supervisor; print(*({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
