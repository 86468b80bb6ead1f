"""Which of the found memories may be injected, and why the others may not."""

import math
import re
from collections.abc import Callable, Collection, Iterator, Sequence, Set
from datetime import datetime
from typing import overload

import msgspec

from memproxy.core.dream import PERMISSION
from memproxy.core.fusion import log_odds
from memproxy.core.memory import PLANTED, Kind, Memory, Trust
from memproxy.core.protocol import RecallLimits
from memproxy.core.slots import numbers
from memproxy.core.telling import tells_nothing
from memproxy.core.text import key_terms
from memproxy.core.turn import text_digest
from memproxy.recall.former import PAST
from memproxy.recall.lazy import lazy
from memproxy.recall.links import HOPS, strength
from memproxy.recall.query import Query
from memproxy.recall.ranking import REPLACED, Scored, repeats
from memproxy.settings import Settings

TURN_AHEAD_OF_FACT = 0.1
"""A turn whose score is better by no more than this says what its fact says, in more words."""

ELBOW = 2.3
"""How far the log odds of a score may lie below those of the one before it, which counts as no surer than `_SUREST`:
beside a sure answer nothing doubtful is given. Of the open lives' lines it takes one in
forty that is not needed, and one answer of 387.
"""

_SUREST = 0.95

_TURN, _EPISODIC = Kind.TURN, Kind.EPISODIC
"""Members of an enumeration as constants: looking one up takes longer than comparing it, and this runs for every
candidate.
"""

_TELLING = 2
"""Least key terms of a message that is informative by itself."""

_LONG = 1_000
"""Characters from which on a few facts cannot cover all of a message."""

_MORE = 2
"""Words of its own by which a message may answer what its facts leave open."""

_ROOT = 4
"""Letters compared of a word: ``named`` and ``name``, ``Germany`` and ``German`` share them."""

_MOST_TERMS = 200
_QUESTION_TERMS = 24
_NAME = re.compile(r"(?<=[\w,;] )[A-Z][^\W\d_]+")


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The recall limits of one request: the configured ones, as the request changes them.

    ``floor`` and ``min_confidence`` lie in [0, 1]; ``max_tokens`` bounds the whole block.
    """

    kinds: tuple[Kind, ...]
    limit: int
    floor: float
    max_tokens: int
    min_confidence: float
    min_trust: Trust

    @classmethod
    def of(cls, settings: Settings, request: RecallLimits) -> "Limits":
        """A request narrows the configured kinds, never widens them; the numbers it names replace the configured."""
        recall = settings.recall
        kinds = [Kind(name) for name in recall.kinds if request.memory_types is None or name in request.memory_types]
        return cls(
            kinds=tuple(kinds),
            limit=recall.limit if request.retrieval_limit is None else request.retrieval_limit,
            floor=recall.similarity_threshold if request.similarity_threshold is None else request.similarity_threshold,
            max_tokens=recall.max_tokens if request.max_tokens is None else request.max_tokens,
            min_confidence=recall.min_confidence,
            min_trust=Trust(settings.learn.min_trust),
        )


class Judged(msgspec.Struct, frozen=True, gc=False):
    """One candidate and why it is left out; ``rejected`` None means it may be injected. Nothing of it refers back to
    it, as of `Candidate`.
    """

    scored: Scored
    rejected: str | None


class Judgements(Sequence[Judged]):
    """Candidates, best first, and why each is left out. Those behind the last that may be kept, nearly all, are
    judged when they are looked at: most answers are never explained.
    """

    def __init__(self, judged: list[Judged], rest: Sequence[Scored], reason: Callable[[Scored], str | None]) -> None:
        """``rest`` come after the ``judged``; ``reason`` tells why one of them is not kept."""
        self._judged = judged
        self._rest = rest
        self._reason = reason

    @property
    def kept(self) -> list[Scored]:
        """The candidates that pass every check."""
        return [candidate.scored for candidate in self._judged if candidate.rejected is None]

    def __len__(self) -> int:
        return len(self._judged) + len(self._rest)

    @overload
    def __getitem__(self, index: int) -> Judged: ...

    @overload
    def __getitem__(self, index: slice) -> list[Judged]: ...

    def __getitem__(self, index: int | slice) -> Judged | list[Judged]:
        return self._all()[index]

    def __iter__(self) -> Iterator[Judged]:
        return iter(self._all())

    def explained(self, most: int) -> list[Judged]:
        """The candidates that are kept, and ``most`` of those left out, in their order."""
        most += len(self.kept)
        more = self._rest[: max(0, most - len(self._judged))]
        kept_later = [candidate for candidate in self._judged[most:] if candidate.rejected is None]
        return [*self._judged[:most], *(Judged(hit, self._reason(hit)) for hit in more), *kept_later]

    def followed_by(self, added: Sequence[Judged]) -> "Judgements":
        """With others at the end."""
        return Judgements([*self, *added], (), self._reason)

    def _all(self) -> list[Judged]:
        if self._rest:
            self._judged += [Judged(candidate, self._reason(candidate)) for candidate in self._rest]
            self._rest = ()
        return self._judged


def select(
    scored: Sequence[Scored],
    limits: Limits,
    *,
    present: frozenset[str],
    now: datetime,
    query: str = "",
    shown: frozenset[str] = frozenset(),
    elbow: float = ELBOW,
) -> Judgements:
    """Judge all candidates, best first: keep the best ``limits.limit`` that pass every check.

    ``shown`` are ids of memories that the request's earlier blocks hold: they are not given twice. ``elbow`` infinite:
    the scores are no probabilities, and no drop ends the list.
    """
    trusted = tuple(trust for trust in Trust if trust.level >= limits.min_trust.level)

    def reason(hit: Scored) -> str | None:
        later = REPLACED if REPLACED in hit.signals else None
        return is_gone(hit.memory, now, past=PAST in hit.signals) or later or _is_unwanted(hit, limits, trusted)

    count = _worth_judging(scored, limits.floor, shown)
    first, rest = scored[:count], scored[count:]
    candidates: list[Judged] = []
    for hit in first:
        rejected = reason(hit)
        if shown and hit.memory.id in shown:
            rejected = "shown"
        elif rejected is None and repeats(hit.memory, query):
            rejected = "question"
        candidates.append(Judged(hit, rejected))
    selection = _Selection(limits, present, query, elbow, first=candidates, rest=rest, reason=reason)
    judged = selection.judged
    for candidate in candidates:
        if candidate.rejected is None or candidate.rejected == "shown":
            selection.judge(candidate.scored, candidate.rejected)
        else:
            judged.append(candidate)
    return Judgements(judged, rest, reason)


def why_left_out(scored: Sequence[Scored], limits: Limits, query: str, *, now: datetime) -> list[str | None]:
    """Why a recall for this query leaves each of these out. A message that tells nothing is no candidate of it."""
    asks_assistant = Query(query, now).type.assistant_said
    candidates = [hit for hit in scored if asks_assistant or not tells_nothing(hit.memory)]
    judged = select(candidates, limits, present=frozenset(), now=now, query=query)
    reasons = {id(candidate.scored): candidate.rejected for candidate in judged}
    rejected = "tells_nothing"
    return [reasons.get(id(hit), rejected) for hit in scored]


def _worth_judging(scored: Sequence[Scored], floor: float, shown: Set[str]) -> int:
    """The number of leading candidates after which all are below the floor and none was shown before."""
    count = len(scored)
    while count:
        hit = scored[count - 1]
        if not hit.score < floor or HOPS in hit.signals or (shown and hit.memory.id in shown):
            break
        count -= 1
    return count


class _Selection:
    """What is kept so far, and what it says already."""

    def __init__(
        self,
        limits: Limits,
        present: frozenset[str],
        query: str,
        elbow: float,
        *,
        first: Sequence[Judged],
        rest: Sequence[Scored],
        reason: Callable[[Scored], str | None],
    ) -> None:
        """All candidates: the ``first`` are judged already, the ``rest`` are by ``reason`` where it matters."""
        self.judged: list[Judged] = []
        self._query = query
        self._limit = limits.limit
        self._elbow = elbow
        self._lowest = math.inf
        self._present = present
        self._seen_digests = set(present)
        self._given_facts: dict[str, set[str]] = {}
        self._kept: dict[int, Scored] = {}
        self._first, self._rest, self._reason = first, rest, reason

    @lazy
    def _question_terms(self) -> frozenset[str]:
        return frozenset(key_terms(self._query, _QUESTION_TERMS))

    @lazy
    def _told_turns(self) -> frozenset[str]:
        """The turns that are told by themselves or by a fact."""
        telling = [hit.scored.memory for hit in self._first if hit.rejected is None or hit.rejected == "shown"]
        return frozenset(name for memory in telling for name in _told_turn_ids(memory))

    @lazy
    def _turns(self) -> dict[str, list[Memory]]:
        """The turns among the candidates by their ids, of which clients may use one in several sessions."""
        turns: dict[str, list[Memory]] = {}
        for hit in (*(judged.scored for judged in self._first), *self._rest):
            if hit.memory.kind is _TURN:
                turns.setdefault(hit.memory.id, []).append(hit.memory)
        return turns

    def _are_held(self, turn_ids: Sequence[str]) -> bool:
        """Whether each of these turns is a candidate that the request holds."""
        return bool(self._present) and all(
            any(_is_held(turn, self._present) for turn in self._turns.get(name, ())) for name in turn_ids
        )

    @lazy
    def _learned(self) -> dict[str, set[str]]:
        """The facts that may be given, or are left out for their score alone, by the turns that they come from."""
        learned: dict[str, set[str]] = {}
        for candidate in self._first:
            if _is_fact(candidate.scored.memory) and candidate.rejected in (None, "shown", "score"):
                _note_fact(learned, candidate.scored.memory)
        for scored in self._rest:
            if _is_fact(scored.memory) and self._reason(scored) == "score":
                _note_fact(learned, scored.memory)
        return learned

    def judge(self, candidate: Scored, reason: str | None) -> None:
        """Keep the candidate if there is no ``reason`` against it, or say why not; a fact that is kept or was shown
        displaces turns before it (`_displaced_by`).
        """
        reason = reason or self._repetition(candidate.memory) or self._drop(candidate)
        displaced = self._displaced_by(candidate) if reason in (None, "shown") else []
        if reason is None and len(self._kept) - len(displaced) >= self._limit:
            reason, displaced = "limit", []
        for index in displaced:
            self.judged[index] = Judged(self._kept.pop(index), "fact")
        if reason is None:
            self._kept[len(self.judged)] = candidate
            self._lowest = min(self._lowest, _odds(candidate))
            self._seen_digests.add(text_digest(candidate.memory.content))
        if reason in (None, "shown") and candidate.memory.kind is not Kind.TURN:
            _note_fact(self._given_facts, candidate.memory)
        self.judged.append(Judged(candidate, reason))

    def _repetition(self, memory: Memory) -> str | None:
        """A turn that says no more than its facts that are given says nothing new; nor does an episode all of whose
        turns are told otherwise, or what the request already contains: these words, or all the turns that it was
        learned from.
        """
        if memory.kind is Kind.TURN and memory.id in self._given_facts and not self._says_more(memory):
            return "fact"
        if memory.kind is Kind.EPISODIC and memory.turn_ids and self._told_turns.issuperset(memory.turn_ids):
            return "fact"
        if memory.kind is not Kind.TURN and memory.turn_ids and self._are_held(memory.turn_ids):
            return "present"
        return "present" if text_digest(memory.content) in self._seen_digests else None

    def _drop(self, candidate: Scored) -> str | None:
        """Whether its score lies far below those that are kept."""
        return "elbow" if self._kept and _odds(candidate) < self._lowest - self._elbow else None

    def _displaced_by(self, fact: Scored) -> list[int]:
        """The places of kept turns that this fact came from, if they do not score much better and say no more. As they
        rank before it, they may answer what it leaves open.
        """
        if fact.memory.kind is Kind.TURN:
            return []
        sources = frozenset(fact.memory.turn_ids)
        return [
            index
            for index, kept_turn in self._kept.items()
            if kept_turn.memory.kind is Kind.TURN
            and kept_turn.memory.id in sources
            and kept_turn.score <= fact.score + TURN_AHEAD_OF_FACT
            and not self._says_more(kept_turn.memory, fact.memory.content, question_terms=self._question_terms)
        ]

    def _says_more(self, turn: Memory, *facts: str, question_terms: frozenset[str] = frozenset()) -> bool:
        """Whether a message says more than those of its facts that are given: another fact was learned from it, it has
        a name or a number that none of them has, or it has other words while they lack half or more of
        the question's key terms: "which sport does Leo do" beside "User's son is named Leo".

        A fact that says less than its message must not stand for it: of "I'm allergic to peanuts and shellfish" two
        facts are learned, and a question may find one of them only.
        """
        given_facts = self._given_facts.get(turn.id, set()).union(facts)
        if len(turn.content) > _LONG or self._learned.get(turn.id, set()) - given_facts:
            return True
        facts_text = " ".join(given_facts)
        if numbers(turn.content) - numbers(facts_text):
            return True
        fact_roots = _roots(facts_text)
        if not fact_roots.issuperset(name[:_ROOT].lower() for name in _NAME.findall(turn.content)):
            return True
        still_open = sum(term[:_ROOT] not in fact_roots for term in question_terms)
        return (
            bool(still_open)
            and 2 * still_open >= len(question_terms)
            and len(_roots(turn.content) - fact_roots) >= _MORE
        )


def _roots(text: str) -> set[str]:
    return {term[:_ROOT] for term in key_terms(text, limit=_MOST_TERMS)}


def _is_fact(memory: Memory) -> bool:
    return memory.kind is not _TURN and memory.kind is not _EPISODIC


def _note_fact(facts: dict[str, set[str]], memory: Memory) -> None:
    """Below each turn that it was learned from."""
    for turn in memory.turn_ids:
        facts.setdefault(turn, set()).add(memory.content)


def _is_held(turn: Memory, present: Collection[str]) -> bool:
    """Whether a request already holds what a turn says. A mere "yes" does not count: it answered something else."""
    return text_digest(turn.content) in present and len(key_terms(turn.content, limit=_TELLING)) == _TELLING


def _told_turn_ids(memory: Memory) -> Sequence[str]:
    """Ids of the turns that a candidate repeats, word for word or as a learned fact; an episode only sums up."""
    if memory.kind is Kind.EPISODIC:
        return ()
    return (memory.id,) if memory.kind is Kind.TURN else memory.turn_ids


def _odds(scored: Scored) -> float:
    """The log odds of a score, as the floor looks at it."""
    return log_odds(strength(scored), surest=_SUREST)


def is_gone(memory: Memory, now: datetime, *, past: bool = False) -> str | None:
    """Why a memory is no longer true or usable; ``past``: the question asks for former statements. Plain conditions, as
    this runs for every candidate.
    """
    if (memory.superseded_by is not None or not memory.active) and not past:
        return "superseded"
    if memory.quarantined:
        return "quarantined"
    if memory.expires_at is not None and memory.expires_at <= now:
        return "expired"
    if memory.valid_to is not None and memory.valid_to <= now and memory.kind is not _TURN and not past:
        return "ended"
    return None


def _is_unwanted(candidate: Scored, limits: Limits, trusted: Sequence[Trust]) -> str | None:
    """Which of the limits a memory does not meet; ``trusted`` are the sources that they allow."""
    memory = candidate.memory
    if memory.kind not in limits.kinds:
        return "kind"
    if memory.trust not in trusted:
        return "trust"
    if memory.trust is not Trust.USER and memory.metadata.get(PLANTED) is True:
        return PLANTED
    if memory.confidence < limits.min_confidence:
        return "confidence"
    if memory.metadata.get(PERMISSION) is True:
        return "permission"
    below = candidate.score < limits.floor and (HOPS not in candidate.signals or strength(candidate) < limits.floor)
    return "score" if below else None
