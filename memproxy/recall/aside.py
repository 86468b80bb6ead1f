"""Candidates that do not count in the ranking of the others: they stand in the way of an answer without being one.

A ranking weighs a candidate against those beside it. A statement that was superseded, an earlier question that asks the
same, and a turn whose fact is a candidate itself would each make the one answer look like one of many.
"""

import functools
from collections.abc import Callable, Mapping, Sequence

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.questions import Question, about_questions, may_be_question, read_question
from memproxy.core.text import clean, key_terms
from memproxy.ports import Candidate

_READ = 500
"""Characters of a candidate that are read: an echo of a fact is short."""

_ANSWER = 160
"""Characters of an answer that may be an echo."""

_OTHER_TERMS = 1
"""Terms of an answer that the fact need not have: "You are a cellist, you play the cello"."""

_SHORT = 3
"""Terms of so many letters ("gas") are left as they are."""

_NEW_TERMS = 1
"""A question that adds no more than this to the query asks the same thing again."""


_KEPT = 4096
"""Texts whose terms are kept (about 5 MB): a user's questions keep finding the same memories."""


class Places(msgspec.Struct, frozen=True):
    """Places of candidates that do not count. ``noise`` says nothing (questions, echoes) or nothing that still holds;
    ``told`` are the user's own words that a fact says as well.
    """

    noise: frozenset[int]
    told: frozenset[int]


class Aside:
    """Tells which candidates do not count. What it takes apart it keeps."""

    def __init__(self) -> None:
        self._asked: Callable[[str], Question | None] = functools.lru_cache(_KEPT)(read_question)
        self._said: Callable[[str], frozenset[str]] = functools.lru_cache(_KEPT)(_statement_terms)

    def places(self, query: str, candidates: Sequence[Candidate]) -> Places:
        """The places of the candidates that do not count in the ranking of the others."""
        memories = [one.memory for one in candidates]
        ids = self.told_by_facts(memories, query)
        told = {place for place, one in enumerate(memories) if one.id in ids and one.kind is Kind.TURN}
        echoes = {place for place in told if memories[place].trust is not Trust.USER}
        superseded = {place for place, one in enumerate(memories) if one.superseded_by is not None}
        noise = self.asked_again(query, memories).union(superseded, echoes)
        return Places(noise=noise, told=frozenset(told) - noise)

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
        if not asked or about_questions(query):
            return frozenset()
        now = frozenset(key_terms(query))
        return frozenset(place for place, one in asked if one.is_open or len(one.terms - now) <= _NEW_TERMS)

    def _question(self, text: str) -> Question | None:
        """A text that is one question, or one supposition, and nothing else; long ones are not kept."""
        if not may_be_question(text):
            return None
        return self._asked(text) if len(text) <= _READ else read_question(text)

    def told_by_facts(self, memories: Sequence[Memory], query: str = "") -> frozenset[str]:
        """Ids of the turns that say what one of the facts says: it came from them, they hold all of its terms, or they
        are short answers of an assistant that hardly have terms but the fact's and the query's.
        """
        facts = [one for one in memories if one.kind is not Kind.TURN and one.superseded_by is None]
        if not facts:
            return frozenset()
        said = [terms for fact in facts if (terms := self._said(fact.content[:_READ]))]
        turns = [one for one in memories if one.kind is Kind.TURN]
        sources = frozenset(turn_id for fact in facts for turn_id in fact.turn_ids)
        return sources | self._repeating(said, turns) | self._answering(said, turns, self._said(query[:_READ]))

    def _repeating(self, facts: Sequence[frozenset[str]], turns: Sequence[Memory]) -> frozenset[str]:
        """Only a turn that has the letters of all of a fact's terms, the longest (rarest) first, is taken apart: that
        takes longer than the ranking.
        """
        by_longest: dict[str, list[frozenset[str]]] = {}
        for terms in facts:
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

    def _answering(
        self, facts: Sequence[frozenset[str]], turns: Sequence[Memory], query: frozenset[str]
    ) -> frozenset[str]:
        """What an assistant answered from memory says part of a fact: asked often, such answers would be many."""
        having: dict[str, list[frozenset[str]]] = {}
        for terms in facts:
            for term in terms - query:
                having.setdefault(term, []).append(terms)
        answers = ((one.id, self._said(one.content) - query) for one in turns if _is_answer(one))
        return frozenset(
            name
            for name, new in answers
            # of any so many terms a fact that it is part of has one
            if any(_is_part(new, fact) for term in list(new)[: _OTHER_TERMS + 1] for fact in having.get(term, ()))
        )


def _is_answer(turn: Memory) -> bool:
    return turn.trust is Trust.ASSISTANT and len(turn.content) <= _ANSWER


def _is_part(new: frozenset[str], fact: frozenset[str]) -> bool:
    """Whether an answer's terms, but for those of the query, are the fact's; one of several may be another."""
    others = len(new - fact)
    return others <= min(_OTHER_TERMS, len(new) - others)


def _statement_terms(text: str) -> frozenset[str]:
    """The key terms of a statement, whoever's it is ("User works", "you work"); that it is about the user is no term of
    it.
    """
    return frozenset(map(_stem, key_terms(text))) - {"user"}


def _stem(term: str) -> str:
    """Without the s of a third person or a plural."""
    return term[:-1] if len(term) > _SHORT and term.endswith("s") and not term.endswith("ss") else term
