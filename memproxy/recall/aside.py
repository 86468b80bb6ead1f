"""Candidates that do not count in the ranking of the others: they stand in the way of an answer without being one.

A ranking weighs a candidate against those beside it. A statement that was superseded, an earlier question that asks the
same, and a turn whose fact is a candidate itself would each make the one answer look like one of many.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.questions import Question, about_questions, may_be_question, read_question
from memproxy.core.text import clean, key_terms
from memproxy.ports import Candidate
from memproxy.recall.reading import Reading, unread

_READ = 500
"""Characters of a candidate that are read: an echo of a fact is short."""

_ANSWER = 160
"""Characters of an answer that may be an echo."""

_TURN, _USER, _ASSISTANT = Kind.TURN, Trust.USER, Trust.ASSISTANT
"""To look a member up in its enumeration takes longer than what is asked of it, and this runs for every candidate."""

_Read = tuple[Memory, Reading]

_GRAMS = 512
"""How many kinds of three letters that stand together are told apart, to see which turns may have a fact's terms."""

_CODED = ("utf-8", "surrogatepass")

_OTHER_TERMS = 1
"""Terms of an answer that the fact need not have: "You are a cellist, you play the cello"."""

_SHORT = 3
"""Terms of so many letters ("gas") are left as they are."""

_NEW_TERMS = 1
"""A question that adds no more than this to the query asks the same thing again."""


class Places(msgspec.Struct, frozen=True):
    """Places of candidates that do not count. ``noise`` says nothing (questions, echoes) or nothing that still holds;
    ``told`` are the user's own words that a fact says as well.
    """

    noise: frozenset[int]
    told: frozenset[int]


class Aside:
    """Tells which candidates do not count. What it takes apart of a text it keeps in the text's reading."""

    def places(self, query: str, candidates: Sequence[Candidate], readings: Sequence[Reading]) -> Places:
        """The places of the candidates that do not count in the ranking of the others."""
        memories = [one.memory for one in candidates]
        noise = self.asked_again(query, memories, readings)
        noise = noise.union([place for place, one in enumerate(memories) if one.superseded_by is not None])
        ids = self.told_by_facts(memories, query, readings)
        if not ids:
            return Places(noise=noise, told=frozenset())
        told = frozenset(place for place, one in enumerate(memories) if one.kind is _TURN and one.id in ids)
        noise |= {place for place in told if memories[place].trust is not _USER}  # echoes
        return Places(noise=noise, told=told - noise)

    def asked_again(
        self, query: str, memories: Sequence[Memory], readings: Sequence[Reading | None] = ()
    ) -> frozenset[int]:
        """The places of the turns that are bare questions about what is asked now, or give one back ("You asked: …?"):
        they were stored, but tell nothing; nor does one that asks for something else of the user's own, or only
        supposes something. ``readings`` are those of the memories, as far as there are some.
        """
        asked = [
            (place, question)
            for place, reading in enumerate(readings or (None,) * len(memories))
            # most were seen before, and are none
            if (reading is None or reading.asks is not None)
            and memories[place].kind is _TURN
            and (question := _question(memories[place], reading or unread())) is not None
        ]
        if not asked or about_questions(query):
            return frozenset()
        now = frozenset(key_terms(query))
        return frozenset(place for place, one in asked if one.is_open or len(one.terms - now) <= _NEW_TERMS)

    def told_by_facts(
        self, memories: Sequence[Memory], query: str = "", readings: Sequence[Reading | None] = ()
    ) -> frozenset[str]:
        """Ids of the turns that say what one of the facts says: it came from them, they hold all of its terms, or they
        are short answers of an assistant that hardly have terms but the fact's and the query's.
        """
        facts: list[_Read] = []
        turns: list[_Read] = []
        for one in _with(memories, readings):
            memory = one[0]
            if memory.kind is _TURN:
                turns.append(one)
            elif memory.superseded_by is None:
                facts.append(one)
        sources = frozenset(turn_id for fact, _ in facts for turn_id in fact.turn_ids)
        facts = [fact for fact in facts if _said(fact)]
        if not facts or not turns:
            return sources
        said = [_said(fact) for fact in facts]
        return sources | _repeating(facts, turns) | _answering(said, turns, _statement_terms(query[:_READ]))


def _with(memories: Sequence[Memory], readings: Sequence[Reading | None]) -> Iterable[_Read]:
    """Each memory with its reading, or one that is forgotten again."""
    some = readings or (None,) * len(memories)
    return zip(memories, [one or unread() for one in some], strict=True)


def _question(memory: Memory, reading: Reading) -> Question | None:
    """What a message asks or supposes that is one question, or one supposition, and nothing else."""
    if reading.asks is msgspec.UNSET:
        reading.asks = read_question(memory.content) if may_be_question(memory.content) else None
    return reading.asks


def _said(one: _Read) -> frozenset[str]:
    """The terms of what it says."""
    memory, reading = one
    if reading.said is None:
        reading.said = _statement_terms(memory.content[:_READ])
    return reading.said


def _grams(one: _Read) -> bytes:
    """Of a turn the `_GRAMS` of its letters, of a fact those of its terms: who lacks one of these lacks a term."""
    memory, reading = one
    if reading.grams is None:
        parts = [_low(memory)] if memory.kind is _TURN else [term.encode(*_CODED) for term in _said(one)]
        held = np.zeros(_GRAMS, np.bool_)
        for part in parts:
            letters = np.frombuffer(part, np.uint8).astype(np.intp)
            held[(letters[:-2] * 31 * 31 + letters[1:-1] * 31 + letters[2:]) % _GRAMS] = True
        reading.grams = np.packbits(held).tobytes()
    return reading.grams


def _low(turn: Memory) -> bytes:
    """Its letters as those of terms."""
    return clean(turn.content[:_READ]).lower().replace("’", "'").encode(*_CODED)


def _repeating(facts: Sequence[_Read], turns: Sequence[_Read]) -> frozenset[str]:
    """Only a turn that has what three letters stand together in a fact's terms is taken apart: that takes longer than
    the ranking.
    """
    return frozenset(
        turns[place][0].id
        for fact, place in _likely(_table(facts), _table(turns))
        if _said(turns[place]).issuperset(_said(facts[fact]))
    )


def _likely(wanted: NDArray[np.uint64], there: NDArray[np.uint64]) -> Iterable[tuple[int, int]]:
    """The rows of two tables of which the second has all bits of the first."""
    first, *rest = zip(wanted.T, ~there.T, strict=True)
    fact, turn = ((first[0][:, None] & first[1]) == 0).nonzero()
    for some, others in rest:  # each leaves a part of them
        have = (some[fact] & others[turn]) == 0
        fact, turn = fact[have], turn[have]
    return zip(fact.tolist(), turn.tolist(), strict=True)


def _table(read: Sequence[_Read]) -> NDArray[np.uint64]:
    # what was made before is taken without a call: this runs for every candidate
    return np.frombuffer(b"".join([one[1].grams or _grams(one) for one in read]), np.uint64).reshape(-1, _GRAMS // 64)


def _answering(facts: Sequence[frozenset[str]], turns: Sequence[_Read], query: frozenset[str]) -> frozenset[str]:
    """What an assistant answered from memory says part of a fact: asked often, such answers would be many."""
    known = query.union(*facts)
    answers = [one for one in turns if one[0].trust is _ASSISTANT and len(one[0].content) <= _ANSWER]
    # nearly all others have too many terms that no fact has; what was made before is taken without a call
    likely = [one for one in answers if len((one[1].said or _said(one)) - known) <= _OTHER_TERMS]
    if not likely:
        return frozenset()
    having: dict[str, list[frozenset[str]]] = {}
    for terms in facts:
        for term in terms - query:
            having.setdefault(term, []).append(terms)
    return frozenset(answer[0].id for answer in likely if _is_part_of_one(_said(answer) - query, having))


def _is_part_of_one(new: frozenset[str], having: Mapping[str, Sequence[frozenset[str]]]) -> bool:
    """Whether an answer's terms are part of a fact: of any so many of them it has one."""
    return any(_is_part(new, fact) for term in list(new)[: _OTHER_TERMS + 1] for fact in having.get(term, ()))


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
