"""Candidates that do not count in the ranking of the others: they stand in the way of an answer without being one.

A ranking weighs a candidate against those beside it. A statement that was superseded, an earlier question that asks the
same, and a turn whose fact is a candidate itself would each make the one answer look like one of many.
"""

import re
from collections.abc import Sequence

from memproxy.core.memory import Kind, Memory
from memproxy.core.text import clean, key_terms
from memproxy.ports import Candidate

_QUESTION = re.compile(
    r"(?:and |so |but )?(?:what|when|where|who|whom|whose|which|why|how|is|are|was|were|do|does|did|can|could|will"
    r"|would|should|have|has)\b[^.!?;:,\n\d]{0,160}\?\s*",
    re.IGNORECASE,
)
"""One question and nothing else: a second clause or a number may tell something."""

_READ = 500
"""Characters of a candidate that are read: an echo of a fact is short."""

_NEW_TERMS = 1
"""A question that adds no more than this to the query asks the same thing again."""


def asks_again(query: str, memory: Memory) -> bool:
    """Whether a turn is a bare question about what is asked now: it was stored, but it tells nothing."""
    if memory.kind is not Kind.TURN or not (said := memory.content.strip()).endswith("?"):
        return False
    if not _QUESTION.fullmatch(said):
        return False
    return len(set(key_terms(memory.content)) - set(key_terms(query))) <= _NEW_TERMS


def told_by_facts(candidates: Sequence[Candidate]) -> frozenset[str]:
    """Ids of the turns that say what a candidate fact says: it came from them, or they hold all of its terms."""
    facts = [one.memory for one in candidates if one.memory.kind is not Kind.TURN and one.memory.superseded_by is None]
    terms = [sorted(said, key=len, reverse=True) for fact in facts if (said := _terms(fact))]
    turns = [one.memory for one in candidates if one.memory.kind is Kind.TURN] if facts else []
    repeating = {turn.id for turn in turns if _holds_any(turn, terms)}
    return frozenset(turn_id for fact in facts for turn_id in fact.turn_ids) | repeating


def _holds_any(turn: Memory, facts: Sequence[Sequence[str]]) -> bool:
    """Only a turn that has the letters of all of a fact's terms, the longest (rarest) first, is taken apart: that
    takes longer than the ranking.
    """
    letters = clean(turn.content[:_READ]).lower().replace("’", "'")
    likely = [said for said in facts if said[0] in letters and all(term in letters for term in said)]
    return bool(likely) and any(map(_terms(turn).issuperset, likely))


def _terms(memory: Memory) -> frozenset[str]:
    """The key terms of a statement; that it is about the user is no term of it."""
    return frozenset(key_terms(memory.content[:_READ])) - {"user", "users"}


def set_aside(query: str, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that do not count in the ranking of the others."""
    told = told_by_facts(candidates)
    return [
        one
        for one in candidates
        if one.memory.superseded_by is not None
        or (one.memory.kind is Kind.TURN and one.memory.id in told)
        or asks_again(query, one.memory)
    ]
