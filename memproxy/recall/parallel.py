"""Statements of one form about two things: "my roof budget is 500" says nothing of the garden's, though it came later
and is the nearest to "my garden budget is 1001".

Where the earlier of two statements has a word of the question, and the later has another in that place, the later one
is about something else than what is asked for. What stands behind "which" or "what" names no thing but a kind of
answer: "I drive a Tesla" is about the car of "which car do I drive", whatever "I drive a VW car" has in that place.
"""

import re
from difflib import SequenceMatcher

import msgspec

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
    r"|bin|ist|sind|habe|hat|soy|est-ce)\b(?! you\b)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\b(?:what|which|who|whom|whose|where|when|why|how|was(?! (?:i|my|it|he|she|we|our|the|there|that|this)\b)"
    r"|welche\w*|wer|wem|wo|wann|wie"
    r"|qué|cuál\w*|quién\w*|dónde|cuándo|cómo|quel\w*|qui|où|quand|comment|combien)\b",
    re.IGNORECASE,
)
"""Asks for something that it does not name: "is it true, and when is my flight to Lisbon". "Was" is the German word."""

_NO_THING = STOPWORDS | GENERIC_WORDS
_CHANGES = frozenset({"now", "new", "chang", "mov", "switch", "currently", "anymore", "longer", "actually", "instead"})
"""Beginnings of words of change, which name no thing."""


class Asked(msgspec.Struct, frozen=True):
    """What a question names: its things in order, and those of them that are only kinds of answers. ``of_itself``: it
    names its own answer, as "do I still live in Berlin" does, which asks for what is instead of that as well.
    """

    things: tuple[str, ...]
    kinds: frozenset[str]
    of_itself: bool

    @classmethod
    def of(cls, question: str) -> "Asked":
        """As it is read, once for all statements."""
        things = dict.fromkeys(word for word in _stems(question) if _is_thing(word))
        of_itself = _YES_OR_NO.search(question) is not None and _OPEN.search(question) is None
        return cls(tuple(things), _kinds(question), of_itself)

    def names_another(self, earlier: str, later: str) -> bool:
        """Whether the later statement has the form of the earlier one, with another thing where that has the
        question's.
        """
        before, after = _stems(earlier), _stems(later)
        if self.of_itself or max(len(before), len(after)) > _MOST_WORDS:
            return False
        missed = {word for word in before if word in self.things and not _is_in(word, after)}
        form = SequenceMatcher(None, before, after, autojunk=False) if missed else None
        if form is None or form.ratio() < _ALIKE:
            return False
        for kind, start, end, other_start, other_end in form.get_opcodes():
            if kind != "replace" or max(end - start, other_end - other_start) > _LONGEST:
                continue
            named = missed.intersection(before[start:end]) - (self.kinds if start > _BEFORE_SUBJECT else frozenset())
            if named and any(_is_thing(word) and word not in self.things for word in after[other_start:other_end]):
                return True
        return False

    def names_as_much(self, earlier: str, later: str) -> bool:
        """Whether the later statement names what is asked for as far as the earlier one does: what the question names
        first, and half of all. "Home insurance" is not the car's; "the gym raised its price" tells of the gym
        membership.
        """
        before, after = _stems(earlier), _stems(later)
        named = [word for word in self.things if word not in self.kinds and _is_in(word, before)]
        kept = [word for word in named if _is_in(word, after)]
        return not named or (named[0] in kept and 2 * len(kept) >= len(named))


def _kinds(question: str) -> frozenset[str]:
    """What kinds of answers are asked for: "which car", "what shoe size"."""
    found: set[str] = set()
    for run in _KIND.findall(question):
        for word in words(run):
            if word in STOPWORDS:
                break
            found.add(_stem(word))
    return frozenset(found)


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
