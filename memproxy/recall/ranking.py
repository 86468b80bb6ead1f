"""Ranking: every signal that the recipe's stages see in the candidates, one score for each, best first."""

from collections.abc import Mapping, Sequence, Set
from operator import attrgetter, gt
from typing import Any

import msgspec
import numpy as np

from memproxy.core.memory import Kind, Memory
from memproxy.core.text import GENERIC_WORDS, STOPWORDS
from memproxy.ports import Candidate, HybridQuery, LexicalEncoder, Notes
from memproxy.recall import later_statements
from memproxy.recall.candidate_table import CandidateTable, SearchResult
from memproxy.recall.query import Query
from memproxy.recall.reading import Reader, Reading, readings_of
from memproxy.recall.recipes import Recipe
from memproxy.recall.scores import scores as scores_of
from memproxy.recall.stages import STAGES, Columns
from memproxy.recall.topics import PROFILE, Topics, profile
from memproxy.recall.word_index import WordIndex

_TURN = Kind.TURN
"""Looking up a member of an enumeration takes longer than comparing it, and this runs for every candidate."""

REPLACED = "replaced"
"""The signal of a message whose place a later one takes."""

_PROFILE_SCORE, _PROFILE_STEP = 0.9, 1e-3

_MARGIN = 64
"""Most by which equal texts differ in length: by blanks, and by letters whose other case is two letters."""


class Scored(msgspec.Struct, kw_only=True, gc=False):
    """One memory with its score in [0, 1] (of the default recipe: calibrated) and the signals it comes from
    (``cosine`` only with a vector). ``notes`` as in `Candidate`; nothing of it refers back to it either.
    """

    memory: Memory
    score: float
    signals: dict[str, float]
    notes: Notes = msgspec.field(default_factory=Notes)

    @property
    def key(self) -> tuple[str | None, str]:
        """Clients may use one turn id in several sessions."""
        return self.memory.session_id, self.memory.id


class Ranker:
    """Turns a store's candidates into scored memories, best first, by one recipe."""

    def __init__(self, lexical: LexicalEncoder, recipe: Recipe) -> None:
        self._recipe = recipe
        self._reader = Reader(lexical)
        self.topics = Topics()
        self._generic = self._reader.terms(" ".join(GENERIC_WORDS | STOPWORDS))

    def read(self, candidates: Sequence[Candidate]) -> list[Reading]:
        """The reading of each candidate's surface; one that is made is kept beside the candidate."""
        earlier, read = readings_of([candidate.notes for candidate in candidates]), self._reader.of
        return [reading or read(hit.memory, hit.notes) for reading, hit in zip(earlier, candidates, strict=True)]

    def bears(self, searched: HybridQuery, candidates: Sequence[Candidate]) -> bool:
        """Whether one of them bears on a topic that the question is near to (`topics.Topics.bears`)."""
        return searched.dense is not None and self.topics.bears(searched.dense, candidates, self.read(candidates))

    def note(self, memory: Memory, notes: Notes) -> None:
        """Read a memory before any search finds it; the reading is kept in its notes."""
        self._reader.of(memory, notes)

    def rank(
        self,
        query: Query,
        searched: HybridQuery,
        candidates: Sequence[Candidate],
        *,
        aside: Set[int] = frozenset(),
        noise: Set[int] = frozenset(),
        readings: Sequence[Reading] | None = None,
        ranked: bool = True,
    ) -> list[Scored]:
        """All candidates by descending score; ties go to the newer memory, then by id, so the order is stable.

        The candidates at the places ``noise`` and ``aside`` are compared with all but the noise, the rest only with
        each other. ``readings``: what `read` returned, where it was called before. ``ranked`` as in `scores.scores`.
        """
        if not candidates:
            return []
        table = self.table(query, searched, candidates, readings=readings)
        places = range(len(candidates))
        everyone = table.part(places, silent=noise) if noise else table
        if not aside - noise:
            return best_first(self._scored(everyone, ranked=ranked))
        scored = self._scored(everyone, sorted(aside | noise), ranked=ranked)
        if rest := [index for index in places if index not in aside and index not in noise]:
            scored += self._scored(table.part(rest), ranked=ranked)
        return best_first(scored)

    def _scored(self, table: CandidateTable, places: Sequence[int] | None = None, *, ranked: bool) -> list[Scored]:
        """The candidates of the table, or those at some of its places."""
        columns = self.columns(table)
        odds, replaced = scores_of(self._recipe, table, columns, ranked=ranked)
        candidates, scores = table.candidates, odds.tolist()
        signals = _signals(table, columns, places)
        places = range(len(candidates)) if places is None else places
        for index, entry in zip(places, signals, strict=True):
            if index in replaced:
                entry[REPLACED] = 1.0
        return [
            Scored(memory=candidates[index].memory, score=scores[index], signals=entry, notes=candidates[index].notes)
            for index, entry in zip(places, signals, strict=True)
        ]

    def profile(self, candidates: Sequence[Candidate], topic: int) -> list[Scored]:
        """The statements about a topic (`topics.profile`), each scored a little below the one before it; later
        statements about the same thing come first.
        """
        whole = {PROFILE: 1.0} if self.topics.is_everything(topic) else {}
        statements = profile(candidates, self.read(candidates), self.topics, topic)
        about, outdated = later_statements.successors([candidate for candidate, _ in statements])
        order: list[int] = []

        def put(index: int) -> None:
            if index not in order:
                if index in about:
                    put(about[index])
                order.append(index)

        for index in range(len(statements)):
            put(index)
        return [
            Scored(
                memory=statements[index][0].memory,
                score=_PROFILE_SCORE - _PROFILE_STEP * number,
                signals={"topic": statements[index][1]} | whole | ({REPLACED: 1.0} if index in outdated else {}),
                notes=statements[index][0].notes,
            )
            for number, index in enumerate(order)
        ]

    def table(
        self,
        query: Query,
        searched: HybridQuery,
        candidates: Sequence[Candidate],
        *,
        readings: Sequence[Reading] | None = None,
    ) -> CandidateTable:
        """The candidates side by side, with their ``readings``, where these were made."""
        terms = list(self._reader.terms(query.text) if searched.bm25 else ())
        readings = readings or self.read(candidates)
        words = WordIndex([reading.letters for reading in readings])
        result = SearchResult(
            query=query,
            searched=searched,
            candidates=candidates,
            readings=readings,
            terms=terms,
            generic=self._generic,
            held=self._reader.held_terms(query.text, terms, readings, words),
            words=words,
            topics=self.topics if self.topics.has_vectors else None,
        )
        return CandidateTable(result)

    def columns(self, table: CandidateTable) -> Columns:
        """What the recipe's stages see, by name."""
        columns: Columns = {}
        for name in self._recipe.stages:
            columns |= STAGES[name](table)
        return columns


def set_aside(query: str, candidates: Sequence[Candidate]) -> tuple[Set[int], Set[int]]:
    """The places of candidates that do not count in the ranking of the others, as each would make the one answer look
    like one of many: messages whose fact is a candidate itself, what was said again later in the same words, and noise
    (what was superseded, and the question itself).
    """
    noise = {
        index
        for index, hit in enumerate(candidates)
        if hit.memory.superseded_by is not None or repeats(hit.memory, query)
    }
    facts = (hit.memory for index, hit in enumerate(candidates) if hit.memory.kind is not _TURN and index not in noise)
    sources = {turn for fact in facts for turn in fact.turn_ids}
    told_by_fact = {
        index for index, hit in enumerate(candidates) if hit.memory.kind is _TURN and hit.memory.id in sources
    }
    said_again = _older_copies({index: hit.memory for index, hit in enumerate(candidates) if index not in noise})
    return (told_by_fact - noise) | said_again, noise


def _older_copies(memories: Mapping[int, Memory]) -> set[int]:
    """The places of all but the newest of those that have the same words."""
    newest: dict[str, int] = {}
    for index, memory in memories.items():
        last = newest.setdefault(memory.content, index)
        if memory.created_at > memories[last].created_at:
            newest[memory.content] = index
    return memories.keys() - newest.values()


def repeats(memory: Memory, query: str) -> bool:
    """Whether a message is the query word for word, whatever it tells."""
    if memory.kind is not _TURN or abs(len(memory.content) - len(query)) > _MARGIN:
        return False
    return memory.content.strip().casefold() == query.strip().casefold()


def best_first(scored: Sequence[Scored]) -> list[Scored]:
    """By descending score; ties go to the newer memory, then by id."""
    ordered = sorted(scored, key=attrgetter("score"), reverse=True)
    scores = [hit.score for hit in ordered]
    if all(map(gt, scores, scores[1:])):
        return ordered  # no ties, as nearly always

    def rank(hit: Scored) -> tuple[Any, ...]:
        return (-hit.score, -hit.memory.created_at.timestamp(), hit.memory.id)

    return sorted(ordered, key=rank)


def merge_searches(searches: Sequence[Sequence[Scored]]) -> list[Scored]:
    """Everything that the searches for the parts of a message found, by the mean of its scores (0 where it was not
    found), so that none drowns the others; each keeps the best of its scores, by which the floor judges it.
    """
    best: dict[tuple[str | None, str], Scored] = {}
    total: dict[tuple[str | None, str], float] = {}
    for hit in (hit for search in searches for hit in search):
        total[hit.key] = total.get(hit.key, 0.0) + hit.score
        if hit.key not in best or best[hit.key].score < hit.score:
            best[hit.key] = hit
    return sorted(best.values(), key=lambda hit: (-total[hit.key], -hit.score))


def searched_candidates(recipe: Recipe, query: HybridQuery, candidates: Sequence[Candidate]) -> list[Candidate]:
    """The candidates; while none has vectors of tokens, only those that a smaller search would have found, and the
    facts (they may be there for their kind).
    """
    most = recipe.candidates
    # a larger limit than the recipe's is the caller's wish
    if query.tokens is None or query.limit > recipe.by_tokens or any(hit.tokens for hit in candidates):
        return list(candidates)
    near = sorted((hit for hit in candidates if hit.cosine is not None), key=lambda hit: -(hit.cosine or 0.0))
    matching = sorted((hit for hit in candidates if hit.bm25), key=lambda hit: -(hit.bm25 or 0.0))
    best = {id(hit) for hit in (*near[:most], *matching[:most])}
    return [hit for hit in candidates if id(hit) in best or hit.memory.kind is not _TURN]


SHOWN_SIGNALS = frozenset(
    ("session", "speaker", "your_words", "not_my_words", "near_time", "newest", "answers_match", "late", "topic")
)
"""Columns beside the raw scores that explain an order; a receipt has them where they are not 0."""


def _signals(table: CandidateTable, columns: Columns, places: Sequence[int] | None) -> list[dict[str, float]]:
    """The named signals of each candidate, or of those at these places, for an explanation."""
    rows = slice(None) if places is None else np.array(places, np.intp)
    cosine = table.cosine[rows]
    scores = zip(table.bm25[rows].tolist(), table.coverage[rows].tolist(), cosine.tolist(), strict=True)
    signals = [{"bm25": bm25, "coverage": coverage, "cosine": cosine} for bm25, coverage, cosine in scores]
    for row in table.without_vector[rows].nonzero()[0].tolist():
        del signals[row]["cosine"]
    for name in [name for name, column in columns.items() if name in SHOWN_SIGNALS and column is not table.zeros]:
        values = columns[name][rows]
        non_zero = values.nonzero()[0]  # most columns are 0 for all
        for row, value in zip(non_zero.tolist(), values[non_zero].tolist(), strict=True):
            signals[row][name] = value
    return signals
