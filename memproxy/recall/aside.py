"""Candidates that do not count in the ranking of the others: they stand in the way of an answer without being one.

A ranking weighs a candidate against those beside it. A statement that was superseded, an earlier question that asks the
same, and a turn whose fact is a candidate itself would each make the one answer look like one of many.
"""

import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.questions import about_questions
from memproxy.core.text import clean, key_terms
from memproxy.ports import Candidate
from memproxy.recall.reading import (
    ASKS,
    BRIEF,
    BRIEF_CHARACTERS,
    BY_ASSISTANT,
    BY_USER,
    REPLACED,
    TURN,
    Reading,
    asked_by,
    numbers_of,
    unread,
)

_READ = 500
"""Characters of a candidate that are read: an echo of a fact is short."""

_TURN = Kind.TURN
"""To look a member up in its enumeration takes longer than what is asked of it, and this runs for every candidate."""

_GRAMS = 512
"""How many kinds of three letters that stand together are told apart, to see which turns may have a fact's terms."""

_MARKS = 512
"""Bits that terms are told apart by, to see which answers may have too many that no fact has."""

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
        numbers = numbers_of(readings)
        asks, replaced, is_turn, by_user = (numbers[name] > 0 for name in (ASKS, REPLACED, TURN, BY_USER))
        noise = _asking_the_same(query, [(place, readings[place]) for place in asks.nonzero()[0].tolist()])
        noise = noise.union(replaced.nonzero()[0].tolist())
        facts = _Some.at((~is_turn & ~replaced).nonzero()[0], candidates, readings)
        if not facts.memories:
            return Places(noise=noise, told=frozenset())
        turns = _Some.at(is_turn.nonzero()[0], candidates, readings)
        answers = _Some.at(((numbers[BY_ASSISTANT] > 0) & (numbers[BRIEF] > 0)).nonzero()[0], candidates, readings)
        ids = _told_by(facts, turns, answers, query)
        if not ids:
            return Places(noise=noise, told=frozenset())
        told = frozenset(place for place, one in zip(turns.places, turns.memories, strict=True) if one.id in ids)
        noise |= {place for place in told if not by_user[place]}  # echoes
        return Places(noise=noise, told=told - noise)

    def note(self, memory: Memory, reading: Reading) -> None:
        """See in a memory that nobody has found yet what is looked for in those that were."""
        if memory.kind is not _TURN:
            _said(memory, reading)
        _grams(memory, reading)
        if memory.kind is not _TURN or (memory.trust is Trust.ASSISTANT and len(memory.content) <= BRIEF_CHARACTERS):
            _marks_of(memory, reading)

    def asked_again(
        self, query: str, memories: Sequence[Memory], readings: Sequence[Reading | None] = ()
    ) -> frozenset[int]:
        """The places of the turns that are bare questions about what is asked now, or give one back ("You asked: …?"):
        they were stored, but tell nothing; nor does one that asks for something else of the user's own, or only
        supposes something. ``readings`` are those of the memories, as far as there are some.
        """
        some = readings or (None,) * len(memories)
        asked = [
            (place, reading)
            for place, (memory, made) in enumerate(zip(memories, some, strict=True))
            if (reading := made or _only_asked(memory)).asks is not None
        ]
        return _asking_the_same(query, asked)

    def told_by_facts(self, memories: Sequence[Memory], query: str = "") -> frozenset[str]:
        """Ids of the turns that say what one of the facts says: it came from them, they hold all of its terms, or they
        are short answers of an assistant that hardly have terms but the fact's and the query's.
        """
        facts = [one for one in memories if one.kind is not _TURN and one.superseded_by is None]
        turns = [one for one in memories if one.kind is _TURN]
        answers = [one for one in turns if one.trust is Trust.ASSISTANT and len(one.content) <= BRIEF_CHARACTERS]
        return _told_by(_Some.of(facts), _Some.of(turns), _Some.of(answers), query)


class _Some(msgspec.Struct, frozen=True):
    """Some of the candidates, and their readings, or such that are forgotten again."""

    places: list[int]
    memories: list[Memory]
    readings: list[Reading]

    @classmethod
    def at(cls, where: NDArray[np.intp], candidates: Sequence[Candidate], readings: Sequence[Reading]) -> "_Some":
        places: list[int] = where.tolist()
        return cls(places, [candidates[place].memory for place in places], [readings[place] for place in places])

    @classmethod
    def of(cls, memories: list[Memory]) -> "_Some":
        return cls(list(range(len(memories))), memories, [unread() for _ in memories])

    def said(self) -> list[frozenset[str]]:
        """The terms of what each says."""
        pairs = zip(self.memories, self.readings, strict=True)
        return [one.said if one.said is not None else _said(memory, one) for memory, one in pairs]

    def grams(self) -> NDArray[np.uint64]:
        """Of each turn the `_GRAMS` of its letters, of a fact those of its terms."""
        pairs = zip(self.memories, self.readings, strict=True)
        return _table([one.grams or _grams(memory, one) for memory, one in pairs], _GRAMS)

    def marks(self) -> NDArray[np.uint64]:
        """The `_MARKS` of each one's terms."""
        pairs = zip(self.memories, self.readings, strict=True)
        return _table([one.marks or _marks_of(memory, one) for memory, one in pairs], _MARKS)

    def telling(self) -> "_Some":
        """Those that have terms."""
        telling = [bool(terms) for terms in self.said()]
        if all(telling):
            return self
        return _Some(
            list(compress(self.places, telling)),
            list(compress(self.memories, telling)),
            list(compress(self.readings, telling)),
        )


def _only_asked(memory: Memory) -> Reading:
    reading = unread()
    reading.asks = asked_by(memory)
    return reading


def _asking_the_same(query: str, asked: Sequence[tuple[int, Reading]]) -> frozenset[int]:
    """The places of those that ask what the query asks."""
    if not asked or about_questions(query):
        return frozenset()
    now = frozenset(key_terms(query))
    return frozenset(
        place
        for place, reading in asked
        if (one := reading.asks) is not None and (one.is_open or len(one.terms - now) <= _NEW_TERMS)
    )


def _told_by(facts: _Some, turns: _Some, answers: _Some, query: str) -> frozenset[str]:
    """As `Aside.told_by_facts` says; ``answers`` are the short ones of an assistant among the turns."""
    sources = frozenset(turn_id for fact in facts.memories for turn_id in fact.turn_ids)
    facts = facts.telling()
    if not facts.places or not turns.places:
        return sources
    return sources | _repeating(facts, turns) | _answering(facts, answers, _statement_terms(query[:_READ]))


def _said(memory: Memory, reading: Reading) -> frozenset[str]:
    """The terms of what it says."""
    if reading.said is None:
        reading.said = _statement_terms(memory.content[:_READ])
    return reading.said


def _grams(memory: Memory, reading: Reading) -> bytes:
    """Who lacks one of a fact's lacks a term."""
    turn = memory.kind is _TURN
    parts = [_low(memory)] if turn else [term.encode(*_CODED) for term in _said(memory, reading)]
    held = np.zeros(_GRAMS, np.bool_)
    for part in parts:
        letters = np.frombuffer(part, np.uint8).astype(np.intp)
        held[(letters[:-2] * 31 * 31 + letters[1:-1] * 31 + letters[2:]) % _GRAMS] = True
    reading.grams = np.packbits(held).tobytes()
    return reading.grams


def _marks_of(memory: Memory, reading: Reading) -> bytes:
    reading.marks = _marks(_said(memory, reading))
    return reading.marks


def _marks(terms: Iterable[str]) -> bytes:
    """A bit for each term; some share one."""
    held = np.zeros(_MARKS, np.bool_)
    held[[zlib.crc32(term.encode(*_CODED)) % _MARKS for term in terms]] = True
    return np.packbits(held).tobytes()


def _table(bits: Sequence[bytes], count: int) -> NDArray[np.uint64]:
    return np.frombuffer(b"".join(bits), np.uint64).reshape(-1, count // 64)


def _low(turn: Memory) -> bytes:
    """Its letters as those of terms."""
    return clean(turn.content[:_READ]).lower().replace("’", "'").encode(*_CODED)


def _repeating(facts: _Some, turns: _Some) -> frozenset[str]:
    """Only a turn that has what three letters stand together in a fact's terms is taken apart: that takes longer than
    the ranking.
    """
    said = facts.said()
    return frozenset(
        turns.memories[place].id
        for fact, place in _likely(facts.grams(), turns.grams())
        if _said(turns.memories[place], turns.readings[place]).issuperset(said[fact])
    )


def _likely(wanted: NDArray[np.uint64], there: NDArray[np.uint64]) -> Iterable[tuple[int, int]]:
    """The rows of two tables of which the second has all bits of the first."""
    first, *rest = zip(wanted.T, ~there.T, strict=True)
    fact, turn = ((first[0][:, None] & first[1]) == 0).nonzero()
    for some, others in rest:  # each leaves a part of them, or none
        if not len(fact):
            break
        have = (some[fact] & others[turn]) == 0
        fact, turn = fact[have], turn[have]
    return zip(fact.tolist(), turn.tolist(), strict=True)


def _answering(facts: _Some, answers: _Some, query: frozenset[str]) -> frozenset[str]:
    """What an assistant answered from memory says part of a fact: asked often, such answers would be many."""
    if not answers.places:
        return frozenset()
    # nearly all have too many terms that no fact has: bits that none of them has tell of at least so many
    known = np.bitwise_or.reduce(facts.marks()) | np.frombuffer(_marks(query), np.uint64)
    others = np.add.reduce(np.bitwise_count(answers.marks() & ~known), axis=1)
    may = (others <= _OTHER_TERMS).nonzero()[0].tolist()
    if not may:
        return frozenset()
    terms = query.union(*facts.said())
    said = {place: _said(answers.memories[place], answers.readings[place]) for place in may}
    likely = {place: own - query for place, own in said.items() if len(own - terms) <= _OTHER_TERMS}
    having: dict[str, list[frozenset[str]]] = {}
    for fact in facts.said() if likely else ():
        for term in fact - query:
            having.setdefault(term, []).append(fact)
    return frozenset(answers.memories[place].id for place, new in likely.items() if _is_part_of_one(new, having))


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
