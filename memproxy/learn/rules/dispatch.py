"""Which rules can match a clause, told by its first two words alone.

Most rules begin with a few words ("(?:own|drive) (?P<x>.+)"); a clause that begins otherwise need not be tried against
their patterns. The words are read off the pattern's text; where they cannot be, the rule is always tried.
"""

import re
from collections.abc import Iterator
from functools import cache, lru_cache

from memproxy.learn.rules.model import Rule

_I = r"(?:I|we)\s+"
_MY = r"(?:my|our)\s+"
_WORD = re.compile(r"[a-z']+", re.IGNORECASE)
_FIRST_TWO = re.compile(r"(?P<one>[a-z']+)(?:\s+(?P<two>[a-z']+))?", re.IGNORECASE)
_GROUP = re.compile(r"\((?:\?:|\?P<\w+>)")
_MOST_BEGINNINGS = 4096


class Rules:
    """Rules in the order in which they are asked."""

    def __init__(self, rules: tuple[Rule, ...]) -> None:
        self._rules = tuple((rule, *_begins(rule.pattern.pattern)) for rule in rules)
        self._known = frozenset[str]().union(
            *(words for _, *both in self._rules for words in both if words is not None)
        )
        self._that_fit = lru_cache(_MOST_BEGINNINGS)(self._fitting)

    def that_fit(self, text: str) -> tuple[Rule, ...]:
        """Those that can match this clause, in their order."""
        found = _FIRST_TWO.match(text)
        if found is None:
            return self._that_fit("", "")
        return self._that_fit(self._if_known(found["one"]), self._if_known(found["two"] or ""))

    def _if_known(self, word: str) -> str:
        """A word that some rule begins with, else none: what is remembered of clauses is the rules' own words."""
        word = word.lower()
        return word if word in self._known else ""

    def _fitting(self, one: str, two: str) -> tuple[Rule, ...]:
        return tuple(
            rule
            for rule, first, second in self._rules
            if (first is None or one in first) and (second is None or two in second)
        )


def _begins(pattern: str) -> tuple[frozenset[str] | None, frozenset[str] | None]:
    """The words with which what a pattern matches begins, and those that come second; None: any."""
    for prefix, first in ((_I, frozenset({"i", "we"})), (_MY, frozenset({"my", "our"}))):
        if pattern.startswith(prefix):
            rest = pattern[len(prefix) :]
            return (None, None) if _has_alternatives(rest) else (first, heads(rest))
    return heads(pattern), None


@cache
def heads(pattern: str) -> frozenset[str] | None:
    """The first words of all that a pattern matches, in lower case; None where its text does not tell them."""
    if _has_alternatives(pattern):
        return None
    while pattern.startswith("(?!"):
        pattern = pattern[_end_of_group(pattern) :]
    group = _GROUP.match(pattern)
    if group is None:
        return _head(pattern, "")
    end = _end_of_group(pattern)
    after = pattern[end:]
    if after[:1] in ("?", "*", "{"):
        return None
    found: set[str] = set()
    for part in _alternatives(pattern[group.end() : end - 1]):
        words = heads(part + after) if part.startswith("(") else _head(part, after)
        if words is None:
            return None
        found |= words
    return frozenset(found)


def _head(text: str, after: str) -> frozenset[str] | None:
    """The word with which a text begins that is no pattern up to the end of that word."""
    word = _WORD.match(text)
    if word is None:
        return None
    rest = text[word.end() :] + after
    ended = rest.startswith((" ", r"\b", "$")) or not rest
    return frozenset({word.group().lower()}) if ended else None


def _alternatives(text: str) -> Iterator[str]:
    """The parts of a group's text between its own bars."""
    begin = 0
    for place in _bars(text):
        yield text[begin:place]
        begin = place + 1
    yield text[begin:]


def _has_alternatives(text: str) -> bool:
    return next(_bars(text), None) is not None


def _bars(text: str) -> Iterator[int]:
    """Where bars stand outside of groups and sets."""
    depth, place, in_set = 0, 0, False
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            place += 1
        elif in_set:
            in_set = sign != "]"
        elif sign == "[":
            in_set = True
        elif sign in "()":
            depth += 1 if sign == "(" else -1
        elif sign == "|" and depth == 0:
            yield place
        place += 1


def _end_of_group(text: str) -> int:
    """Behind the bracket that closes the group with which a text begins."""
    depth, place, in_set = 0, 0, False
    while place < len(text):
        sign = text[place]
        if sign == "\\":
            place += 1
        elif in_set:
            in_set = sign != "]"
        elif sign == "[":
            in_set = True
        elif sign == "(":
            depth += 1
        elif sign == ")":
            depth -= 1
            if depth == 0:
                return place + 1
        place += 1
    return len(text)
