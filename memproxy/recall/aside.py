"""Candidates that do not count in the ranking of the others: they stand in the way of an answer without being one.

A ranking weighs a candidate against those beside it. A statement that was superseded, an earlier question that asks the
same, and a turn whose fact is a candidate itself would each make the one answer look like one of many.
"""

import functools
import re
from collections.abc import Callable, Mapping, Sequence

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.text import clean, key_terms
from memproxy.ports import Candidate

_QUESTION = re.compile(
    r"(?:and |so |but )?(?:what|when|where|who|whom|whose|which|why|how|is|are|was|were|do|does|did|can|could|will"
    r"|would|should|have|has)\b[^.!?;:,\n\d]{0,160}\?\s*",
    re.IGNORECASE,
)
"""One question and nothing else: a second clause or a number may tell something."""

_LEAD = re.compile(r"[^.!?;:,\n\d]{1,40}:\s*")
"""What announces somebody's words: "You asked:"."""

_OWN_MATTER = re.compile(
    r"(?:(?:and|so|but) )?(?:what|when|where|who|whom|whose|which|how (?:much|many|old|long|often|far|big|tall))\b"
    r"[^?]*?(?:'s|’s|\b(?:is|are|was|were|do|does|did|have|has))\b[^?]*?\b(?:my|our|i|we)\b",
    re.IGNORECASE,
)
_ADVICE = re.compile(r"\b(?:can|could|should|shall|would|will|may|might|to)\b", re.IGNORECASE)
"""A question for something of the user's own that is known ("How much did I pay?"), not for advice, which tells what
occupies him: without a name it tells nothing.
"""

_SUPPOSED = re.compile(
    r"(?:suppos(?:e|ing)|imagin(?:e|ing)(?! (?:my|our|how)\b)|pretend|let['’]s (?:say|suppose|imagine|pretend)|what if"
    r"|hypothetically)\b[^.!?;\n]{0,200}[.!?]?\s*",
    re.IGNORECASE,
)
"""One sentence of what is not so."""

_NAME = re.compile(r"(?<=[\w,'’\"] )(?!I\b)[A-Z]\w+|\w[A-Z]")

_ABOUT_QUESTIONS = re.compile(r"\b(?:ask(?:ed|ing)?|questions?)\b", re.IGNORECASE)
"""Who asks what was asked wants the question."""

_QUOTES = "\"'`“”‘’«»*_ "

_READ = 500
"""Characters of a candidate that are read: an echo of a fact is short."""

_NEW_TERMS = 1
"""A question that adds no more than this to the query asks the same thing again."""


_KEPT = 4096
"""Texts whose terms are kept (about 5 MB): a user's questions keep finding the same memories."""


class _Question(msgspec.Struct, frozen=True):
    """A bare question: its key terms, and whether it tells nothing (`_OWN_MATTER`, `_SUPPOSED`)."""

    terms: frozenset[str]
    is_open: bool


class Aside:
    """Tells which candidates do not count. What it takes apart it keeps."""

    def __init__(self) -> None:
        self._asked: Callable[[str], _Question | None] = functools.lru_cache(_KEPT)(_read_question)
        self._said: Callable[[str], frozenset[str]] = functools.lru_cache(_KEPT)(_statement_terms)

    def places(self, query: str, candidates: Sequence[Candidate]) -> frozenset[int]:
        """The places of the candidates that do not count in the ranking of the others."""
        memories = [one.memory for one in candidates]
        told, again = self.told_by_facts(memories), self.asked_again(query, memories)
        return again.union(
            place
            for place, memory in enumerate(memories)
            if memory.superseded_by is not None or (memory.id in told and memory.kind is Kind.TURN)
        )

    def asked_again(self, query: str, memories: Sequence[Memory]) -> frozenset[int]:
        """The places of the turns that are bare questions about what is asked now, or give one back ("You asked: …?"):
        they were stored, but tell nothing; nor does one that asks for something else of the user's own, or only
        supposes something.
        """
        asked = [
            (place, question)
            for place, memory in enumerate(memories)
            if memory.kind is Kind.TURN and (question := self._question(memory.content)) is not None
        ]
        if not asked or _ABOUT_QUESTIONS.search(query):
            return frozenset()
        now = frozenset(key_terms(query))
        return frozenset(place for place, one in asked if one.is_open or len(one.terms - now) <= _NEW_TERMS)

    def _question(self, text: str) -> "_Question | None":
        """A text that is one question, or one supposition, and nothing else; long ones are not kept."""
        if not text.strip(_QUOTES).endswith("?") and not _SUPPOSED.match(text):
            return None
        return self._asked(text) if len(text) <= _READ else _read_question(text)

    def told_by_facts(self, memories: Sequence[Memory]) -> frozenset[str]:
        """Ids of the turns that say what one of the facts says: it came from them, or they hold all of its terms."""
        facts = [one for one in memories if one.kind is not Kind.TURN and one.superseded_by is None]
        if not facts:
            return frozenset()
        turns = [one for one in memories if one.kind is Kind.TURN]
        sources = (turn_id for fact in facts for turn_id in fact.turn_ids)
        return frozenset(sources) | self._repeating([fact.content[:_READ] for fact in facts], turns)

    def _repeating(self, facts: Sequence[str], turns: Sequence[Memory]) -> frozenset[str]:
        """Only a turn that has the letters of all of a fact's terms, the longest (rarest) first, is taken apart: that
        takes longer than the ranking.
        """
        by_longest: dict[str, list[frozenset[str]]] = {}
        for fact in facts:
            if terms := self._said(fact):
                by_longest.setdefault(max(terms, key=len), []).append(terms)
        return frozenset(turn.id for turn in turns if self._holds_any(turn.content[:_READ], by_longest))

    def _holds_any(self, turn: str, facts: Mapping[str, Sequence[frozenset[str]]]) -> bool:
        letters = clean(turn).lower().replace("’", "'")
        likely = [
            said
            for longest in [longest for longest in facts if longest in letters]
            for said in facts[longest]
            if all(term in letters for term in said)
        ]
        return bool(likely) and any(map(self._said(turn).issuperset, likely))


def _statement_terms(text: str) -> frozenset[str]:
    """The key terms of a statement; that it is about the user is no term of it."""
    return frozenset(key_terms(text)) - {"user", "users"}


def _read_question(text: str) -> _Question | None:
    """A bare question or supposition; None for what is none."""
    if _SUPPOSED.fullmatch(text.strip(_QUOTES)):
        return _Question(terms=frozenset(key_terms(text)), is_open=True)
    said = text.strip(_QUOTES)
    if (lead := _LEAD.match(said)) is not None:
        said = said[lead.end() :].lstrip(_QUOTES)
    if not _QUESTION.fullmatch(said):
        return None
    is_open = _OWN_MATTER.match(said) is not None and not (_NAME.search(said) or _ADVICE.search(said))
    return _Question(terms=frozenset(key_terms(text)), is_open=is_open)
