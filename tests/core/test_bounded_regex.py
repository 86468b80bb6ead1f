"""Patterns that read the beginning of a text alone."""

import re
import subprocess
import sys

import pytest

from memproxy.core.bounded_regex import BoundedPattern


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
