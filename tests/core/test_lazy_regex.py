"""Patterns that are compiled when they are first looked for, or in the background."""

import re
import subprocess
import sys

import pytest

from memproxy.core.lazy_regex import LazyPattern, compiling

TEXT = "Ann's dog is Rex, Bob's is REX."


def test_a_late_pattern_finds_what_a_compiled_one_does() -> None:
    late, now = LazyPattern(r"(rex)\b", re.IGNORECASE), re.compile(r"(rex)\b", re.IGNORECASE)

    assert [match.span() for match in late.finditer(TEXT)] == [match.span() for match in now.finditer(TEXT)]
    assert [match.span() for match in late.finditer(TEXT, 20, len(TEXT))] == [(27, 30)]
    assert late.sub(r"<\1>", TEXT) == now.sub(r"<\1>", TEXT)
    assert (late.match("Rex!"), late.fullmatch("Rex!")) != (None, None)
    assert late.fullmatch("Rex!") is None
    assert late.search("no dog") is None
    assert late.compiled == now


def test_each_pattern_that_was_not_looked_for_is_compiled_once() -> None:
    list(compiling())  # those of what other tests imported
    looked_for, waiting = LazyPattern("a+"), LazyPattern("b+")
    assert looked_for.search("caa") is not None

    assert list(compiling()) == [waiting]
    assert list(compiling()) == []


def test_a_pattern_that_is_none_says_so_when_it_is_looked_for() -> None:
    wrong = LazyPattern("(")
    with pytest.raises(re.error):
        wrong.search("(")
    with pytest.raises(re.error):
        list(compiling())


def test_the_supervisor_imports_neither_a_client_nor_a_store() -> None:
    heavy = "{'aiohttp', 'prometheus_client', 'sqlite3', 'numpy'}"
    program = f"import sys, memproxy.serve.supervisor; print(*({heavy} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.split() == []
