"""Time of every regular expression of the package on texts that were made for it: it grows as the text does, or the
pattern reads no more than so much (`core.bounded_regex`). Nothing is asserted in seconds: times are compared.
"""

import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, partial

import pytest

from memproxy.core.block import quote, shown_texts, strip_blocks
from memproxy.core.facts import orders_to_forget
from memproxy.core.forget_all import order_in
from memproxy.core.gate import is_vague, judge
from memproxy.core.housekeeping import is_housekeeping
from memproxy.core.redact import KINDS, redact
from memproxy.core.text import embedder_tokens, key_terms, sentences, spaced, split_parts
from memproxy.core.timerange import spans
from memproxy.learn.parse import values
from memproxy.learn.planted import is_request, planting, plants, unquoted
from memproxy.learn.rules import statements
from memproxy.recall.query import parts_of
from tests.support.patterns import GENERAL, Found, all_patterns, fragments, unknown_patterns

pytestmark = pytest.mark.timeout(900)

SIZES = (10_000, 20_000, 40_000)
FACTORS = (3, 8)
"""Times as long for a text twice and four times as long: what is linear takes 2 and 4, what is quadratic 4 and 16."""

FIRST = (2_500, 10_000)
FIRST_FACTOR = 5
"""A first look at shorter texts: a pattern that takes less than five times as long for four times the text is linear up
to there and far behind it. Only what takes longer is measured at `SIZES`."""

TINY_S = 0.0003
"""What is quicker than that for the longer text of the first look is not measured: noise would be most of it."""

SHORTEST, SHORT = 16, 1_000
HOPELESS_S = 0.2
"""What takes that long for a text of up to a thousand characters is not tried on a longer one."""

QUICK_S = 0.0001
"""What is quicker than that is tried on twice the text, else on an eighth more: where time is to the power of the
text, as from 16 to 32 letters, a longer step from a tenth of a second would take many seconds.
"""

REPEATS = 3

PIECES = (
    *("<recalled-memory ", "<recalled-memory>", "</recalled-memory>", "\uff1crecalled-memory \u200b", "<\u200b"),
    *("-----BEGIN PRIVATE KEY-----\n", "AKIA", "secret key ", "eyJaaaaaaaa.", "a@", "+1 2", "4111 "),
    *(
        "ignore all ",
        "\nassistant:",
        "repeat <",
        "you are now ",
        "forget ",
        "concise ",
        "what is ",
        "```",
        '{"a":',
        "[[",
    ),
)
"""Beginnings of what is looked for by these readers."""


def cost(found: Found, text: str) -> float:
    """Processor seconds of this thread, so that a busy machine changes little."""
    began = time.thread_time()
    found.run(text)
    return time.thread_time() - began


def repeated(fragment: str, size: int) -> str:
    """A text of that size, which ends with what no pattern looks for: one that fits up to the end is found at once."""
    return (fragment * (size // len(fragment) + 1))[:size] + "1_\0"


@cache
def a_megabyte() -> float:
    """What it takes to look for a word in a megabyte once."""
    word = Found("", re.compile(r"\b(?:x|y)z"))
    return min(cost(word, " a" * 500_000) for _ in range(REPEATS))


class Reader(Found):
    """A function that reads texts, as if it were a pattern."""

    def run(self, text: str) -> None:
        self.pattern(text)  # type: ignore[operator]


def trouble(found: Found) -> str | None:
    """What is wrong with a pattern's time, and by which text, or None."""
    return next((why for one in fragments(found.compiled) if (why := trouble_with(found, one)) is not None), None)


def trouble_with(found: Found, fragment: str) -> str | None:
    if never_ends(found, fragment):
        return f"never ends: {fragment[:80]!r}"
    if found.most is not None:
        text = repeated(fragment, SIZES[-1])
        dear = min(cost(found, text) for _ in range(1 if cost(found, text) < a_megabyte() else REPEATS)) > a_megabyte()
        return f"costs more than a megabyte that is read once: {fragment[:80]!r}" if dear else None
    return f"grows faster than the text: {fragment[:80]!r}" if grows(found, fragment) else None


def never_ends(found: Found, fragment: str) -> bool:
    """Whether a short text takes so long already that no longer one is to be tried."""
    size = SHORTEST
    while size <= SHORT:
        if (took := cost(found, repeated(fragment, size))) > HOPELESS_S:
            return True
        size += size if took < QUICK_S else size // 8
    return False


def grows(found: Found, fragment: str) -> bool:
    """Whether time grows faster than the text, each time that it is measured."""
    brief, short = (cost(found, repeated(fragment, size)) for size in FIRST)
    if short < TINY_S or short < brief * FIRST_FACTOR:
        return False
    texts = [repeated(fragment, size) for size in SIZES]
    for _ in range(REPEATS):
        if (least := cost(found, texts[0])) < TINY_S:
            return False
        if any(cost(found, text) < least * most for text, most in zip(texts[1:], FACTORS, strict=True)):
            return False
    return True


@pytest.mark.parametrize(
    "where",
    [
        "memproxy.core.block._LINE",
        "memproxy.core.redact._FORMATS",
        "memproxy.core.timerange._PATTERNS",
        "memproxy.core.housekeeping._HOUSEKEEPING",
        "memproxy.recall.query._MANY",
        "memproxy.recall.links._PHRASES",
    ],
)
def test_patterns_are_found_wherever_a_module_holds_them(where: str) -> None:
    assert where in {found.where for found in all_patterns()}


def test_patterns_within_functions_are_found_and_none_is_put_together_of_what_only_the_call_knows() -> None:
    assert any(found.where.startswith("memproxy.core.slots:") for found in all_patterns())
    assert {(one.where.partition(":")[0], one.source) for one in unknown_patterns()} == {
        ("memproxy.core.bounded_regex", "pattern"),  # of those that are found as `BoundedPattern`
        ("memproxy.core.redact", "f'{left}(?:{pattern})(?![A-Za-z0-9])'"),  # held by `_FORMATS`
        ("memproxy.learn.rules.statements", "_written_out(row.pattern)"),  # those of `statements.patterns`
    }


@pytest.mark.parametrize(
    ("pattern", "is_slow"),
    [
        (r"<a\b[^>]*>", True),
        (r"(?:a|aa)+$", True),
        (r"(?:\w{9}|\w{10}|\w{11})*-", True),
        (r"x(?: \w+-?\w*){4} y", True),
        (r"\b\w+\b", False),
    ],
)
def test_a_pattern_whose_time_explodes_is_known_by_texts_made_of_it(pattern: str, is_slow: bool) -> None:
    assert (trouble(Found("here", re.compile(pattern))) is not None) is is_slow


def test_no_pattern_takes_longer_than_its_text_grows() -> None:
    table = [Found(f"statements: {one.pattern}", one) for one in statements.patterns()]
    slow = {found.where: why for found in [*all_patterns(), *table] if (why := trouble(found)) is not None}
    assert slow == {}


@pytest.mark.parametrize(
    "reads",
    [
        *(strip_blocks, quote, shown_texts, plants, is_request, unquoted, is_housekeeping, is_vague),
        *(order_in, orders_to_forget, sentences, split_parts, key_terms, spaced, embedder_tokens, parts_of),
        *(
            partial(redact, kinds=KINDS),
            partial(judge, skip=frozenset({"fact"})),
            partial(spans, now=datetime.now(UTC)),
        ),
        *(lambda text: list(planting(text)), lambda text: list(values(text))),
    ],
    ids=lambda reads: getattr(reads, "__name__", None),
)
def test_no_reader_of_texts_takes_longer_than_its_text_grows(reads: Callable[[str], object]) -> None:
    reader = Reader(reads.__repr__(), reads)  # type: ignore[arg-type]
    assert [piece for piece in (*GENERAL, *PIECES) if grows(reader, piece)] == []
