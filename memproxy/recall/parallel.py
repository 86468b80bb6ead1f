"""Statements of one form about two things: "my roof budget is 500" says nothing of the garden's, though it came later
and is the nearest to "my garden budget is 1001".

Where the earlier of two statements has a word of the question, and the later has another in that place, the later one
is about something else than what is asked for. What stands behind "which" or "what" names no thing but a kind of
answer: "I drive a Tesla" is about the car of "which car do I drive", whatever "I drive a VW car" has in that place.
"""

import re
from difflib import SequenceMatcher

from memproxy.core.text import GENERIC_WORDS, STOPWORDS, words

_MOST_WORDS = 40
"""Longer statements are of many things, and have no form."""

_LONGEST = 3
"""Words that a thing is named by, at most."""

_ALIKE = 1 / 3
"""Share of the words of both that are the same in the same order, from which on they are of one form."""

_BEFORE_SUBJECT = 2
"""Words that may stand before what a statement is about: "in my", "the old"."""

_ENDINGS = ("ing", "ed", "es", "s", "e")
_STEM = 3
_PART = 4
_KIND = re.compile(r"\b(?:which|what)\b((?:\s+[^\W\d_]+)+)", re.IGNORECASE)
_YES_OR_NO = re.compile(
    r"(?:^|[.!?,;:]\s*)(?:and |so |but )?(?:do|does|did|is|are|am|was|were|have|has|had|can|could|will|would|should"
    r"|bin|ist|sind|habe|hat|soy|est-ce)\b",
    re.IGNORECASE,
)
_NO_THING = STOPWORDS | GENERIC_WORDS
_CHANGES = frozenset({"now", "new", "chang", "mov", "switch", "currently", "anymore", "longer", "actually", "instead"})
"""Beginnings of words of change, which name no thing."""


def names_another(question: str, earlier: str, later: str) -> bool:
    """Whether the later statement has the form of the earlier one, with another thing where that has the question's."""
    before, after = _stems(earlier), _stems(later)
    if max(len(before), len(after)) > _MOST_WORDS:
        return False
    asked = _things(question)
    if not any(word in asked and not _is_in(word, after) for word in before):
        return False
    form = SequenceMatcher(None, before, after, autojunk=False)
    if form.ratio() < _ALIKE:
        return False
    kinds = _kinds(question)
    for kind, start, end, other_start, other_end in form.get_opcodes():
        if kind != "replace" or max(end - start, other_end - other_start) > _LONGEST:
            continue
        named = {word for word in before[start:end] if word in asked and not _is_in(word, after)}
        if start > _BEFORE_SUBJECT:
            named -= kinds
        if named and any(_is_thing(word) and word not in asked for word in after[other_start:other_end]):
            return True
    return False


def names_as_much(question: str, earlier: str, later: str) -> bool:
    """Whether the later statement names what is asked for as far as the earlier one does: what the question names
    first, and half of all. "Home insurance" is not the car's; "the gym raised its price" tells of the gym membership.
    """
    before, after, kinds = _stems(earlier), _stems(later), _kinds(question)
    asked = list(dict.fromkeys(word for word in _stems(question) if _is_thing(word) and word not in kinds))
    named = [word for word in asked if _is_in(word, before)]
    kept = [word for word in named if _is_in(word, after)]
    return not named or (named[0] in kept and 2 * len(kept) >= len(named))


def is_yes_or_no(question: str) -> bool:
    """Whether a question names its own answer: "do I still live in Berlin" asks for what is instead of that as well."""
    return _YES_OR_NO.search(question) is not None


def _kinds(question: str) -> frozenset[str]:
    """What kinds of answers are asked for: "which car", "what shoe size"."""
    found: set[str] = set()
    for run in _KIND.findall(question):
        for word in words(run):
            if word in STOPWORDS:
                break
            found.add(_stem(word))
    return frozenset(found)


def _things(text: str) -> frozenset[str]:
    return frozenset(word for word in _stems(text) if _is_thing(word))


def _is_thing(word: str) -> bool:
    return len(word) >= _STEM and word.isalpha() and word not in _NO_THING and word not in _CHANGES


def _is_in(word: str, stems: list[str]) -> bool:
    """Whether one of the stems has it, also as a part: "iphone" is a phone, "editing" is done in an editor."""
    return any(word in stem or (len(stem) >= _PART and word.startswith(stem)) for stem in stems)


def _stems(text: str) -> list[str]:
    return [_stem(word) for word in words(text)]


def _stem(word: str) -> str:
    word = word.removesuffix("'s").removesuffix("’s")
    if word in _NO_THING:
        return word
    for ending in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _STEM:
            return word.removesuffix(ending)
    return word
