"""The ranking stages by name. Each reads the candidates of one query and answers named columns, one value for each.

What a column is worth is not said here but in `recall.recipes`: the score is a weighted sum of columns, so a stage
that a recipe leaves out costs nothing, and one without a weight changes nothing.
"""

import math
from collections.abc import Callable
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from memproxy.core import fusion
from memproxy.core.text import GENERIC_WORDS, STOPWORDS
from memproxy.recall.candidate_table import Array, CandidateTable

Columns = dict[str, Array]
Stage = Callable[[CandidateTable], Columns]

RANK_CONSTANT = 60
"""The k of reciprocal rank fusion as its authors have it (Cormack and others, 2009)."""

NEAR_DAYS = 7.0
"""How far from a named time something may have been said that is about it ("yesterday I ...")."""

MOST_INSIDE = 3.0
"""What being one of few memories of a time counts at most, as a logarithm."""

BEST_OF_SESSION = 3
"""How many of a session's turns speak for it."""

MOST_PHRASES = 3
"""Pairs of words beyond this say nothing more: a question that was pasted has them all."""

_WITHOUT_TOPIC = STOPWORDS | GENERIC_WORDS


def fused(table: CandidateTable) -> Columns:
    """The scores by vector and by words, absolute and relative to the other candidates (`core.fusion`)."""
    return table.columns


def dense(table: CandidateTable) -> Columns:
    """The cosine alone."""
    return {"dense": np.nan_to_num(table.cosine)}


def bm25(table: CandidateTable) -> Columns:
    """BM25 alone, by that of the best candidate."""
    return {"bm25": _by_best(table.bm25)}


def average(table: CandidateTable) -> Columns:
    """The mean of the scores by vector and by words, each divided by its best; words alone without vectors."""
    cosine = _by_best(np.clip(np.nan_to_num(table.cosine), 0.0, None))
    return {"average": (cosine + _by_best(table.bm25)) / (2 if cosine.any() else 1)}


def reciprocal_ranks(table: CandidateTable) -> Columns:
    """1 / (k + rank) by vector and by words, scaled so that the first of both has 1 in each."""
    return {"rank_dense": _reciprocal(np.nan_to_num(table.cosine, nan=-1.0)), "rank_bm25": _reciprocal(table.bm25)}


def late(table: CandidateTable) -> Columns:
    """Token by token: the nearest that each candidate has to each token of the query, and with the turns beside it.
    What an assistant answers lifts none of them where the user asks about himself: in a long text something is near
    to everything.
    """
    functional = [word in _WITHOUT_TOPIC for word in table.result.searched.words]
    return fusion.late_columns(table.similarities, table.window, functional, table.counted)


def phrases(table: CandidateTable) -> Columns:
    """Words of the query that stand next to each other in a candidate as well."""
    return {"phrases": np.minimum(table.phrases, MOST_PHRASES)}


def neighbours(table: CandidateTable) -> Columns:
    """What stands next to a turn: whether a question stands before it, how well that matches, and how much of the query
    the turn after it has. (What BM25 says of a turn has its neighbours' words in it already.) What an assistant answers
    says nothing of what the user asks about himself.
    """
    predecessor, successor = table.around
    question = (1 - table.not_my_words) * table.neighbour_values(table.surface("question"), predecessor)
    return {
        "answers": question,
        "answers_match": question * np.maximum(table.neighbour_values(table.strength, predecessor), 0.0),
        "after_coverage": table.neighbour_values(table.coverage, successor),
    }


def sessions(table: CandidateTable) -> Columns:
    """How well the best turns of the same session match: many weak ones speak for each other. By words alone: how many
    of the query's words, whatever their kind, the candidates of the session have together.
    """
    strength, session = table.strength, table.session
    matching = table.among_counted((strength > 0) & (table.is_turn > 0)).nonzero()[0]
    # those of each session together, its best first
    grouped = matching[np.lexsort((-strength[matching], session[matching]))]
    rank_in_session = np.arange(len(grouped)) - session[grouped].searchsorted(session[grouped])
    best = grouped[rank_in_session < BEST_OF_SESSION]
    total = np.bincount(session[best], strength[best], minlength=int(session.max(initial=-1)) + 1)
    return {
        "session": table.is_turn * total[session] / BEST_OF_SESSION,
        "session_words": _session_words(table),
    }


def speakers(table: CandidateTable) -> Columns:
    """Whether a memory is by the speaker that the query asks for: a named one, the user ("my"), or the assistant ("you
    suggested"). Boosts, never filters.
    """
    assistant_said, asked_for = table.query.type.assistant_said, table.asked_speakers
    by_model = table.by_assistant
    return {
        "speaker": table.by_speaker(*asked_for) if len(asked_for) == 1 else table.zeros,
        "your_words": assistant_said * by_model if assistant_said else table.zeros,
        "not_your_words": assistant_said * table.by_user if assistant_said else table.zeros,
        "not_my_words": table.not_my_words,
        "assistant": by_model,
    }


def times(table: CandidateTable) -> Columns:
    """How near a memory is to the times that the query names, whether it is of one of them (the more the fewer others
    are), and, only when it asks for the latest, how new it is.
    """
    spans, nothing = table.query.spans, table.zeros
    near = inside = nothing
    if spans:
        moments = [memory.valid_from or memory.created_at for memory in table.memories]
        away = np.array([min(span.days_away(moment) for span in spans) for moment in moments])
        near = np.clip(1 - away / NEAR_DAYS, 0.0, 1.0)
        is_inside = (away == 0).astype(float)
        counted = is_inside if table.counted is None else is_inside[table.counted]
        inside = is_inside * min(MOST_INSIDE, math.log((len(counted) + 1) / (float(counted.sum()) + 0.5)))
    newest = nothing
    if table.query.asks_for_latest and len(table.memories) > 1:
        newest = _order(table.created, table.counted)
    return {"near_time": near, "inside_time": inside, "newest": newest}


def expectations(table: CandidateTable) -> Columns:
    """Whether a turn has the kind of answer that the question wants: a number, a name, a word of time."""
    asks = table.query.type
    asks_for = {"number": asks.number, "name": asks.name, "time": asks.time}
    number, name, time = (table.surface(sign) if is_asked else table.zeros for sign, is_asked in asks_for.items())
    return {"number": number, "name": name, "time_word": time}


def substance(table: CandidateTable) -> Columns:
    """Whether a turn is informative: long rather than short, a statement rather than a question or a thanks."""
    return {
        "turn": table.is_turn,
        "turn_crowd": table.is_turn * table.columns["crowd"],
        "length": table.surface("length"),
        "question": table.surface("question"),
        "first_person": table.surface("first_person"),
        "acknowledgement": table.surface("acknowledgement"),
    }


def topics(table: CandidateTable) -> Columns:
    """Whether it bears on what is asked about, by its topic (`recall.topics`)."""
    return {"topic": table.topic}


STAGES: MappingProxyType[str, Stage] = MappingProxyType(
    {
        "fused": fused,
        "dense": dense,
        "bm25": bm25,
        "average": average,
        "rrf": reciprocal_ranks,
        "late": late,
        "phrases": phrases,
        "topics": topics,
        "neighbours": neighbours,
        "sessions": sessions,
        "speakers": speakers,
        "times": times,
        "expectations": expectations,
        "substance": substance,
    }
)


def _by_best(values: Array) -> Array:
    best = values.max(initial=0.0)
    result: Array = values / best if best > 0 else np.zeros(len(values))
    return result


def _session_words(table: CandidateTable) -> Array:
    """How turns' sessions stand by their share of the query's words; not computed where all candidates have vectors."""
    if not np.logical_or.reduce(table.among_counted(table.without_vector)):
        return table.zeros
    words, turns = table.query.single_words, table.is_turn > 0
    standing = np.zeros(len(turns))
    if words and np.logical_or.reduce(turns):
        held, counted, in_turns = table.has_words, table.counted, table.among_counted(turns)
        together = np.zeros((int(table.session.max(initial=-1)) + 1, len(words)), dtype=np.bool_)
        np.logical_or.at(together, table.session[in_turns], held[in_turns])
        shares = fusion.shares(held if counted is None else held[counted], list(words.values()))
        session_shares = np.add.reduce(together.T * shares[:, None], axis=0)  # not by `@`: see `fusion.coverage`
        standing[turns] = fusion.places(
            session_shares[table.session[turns]], None if counted is None else counted[turns]
        )
    return standing


def _order(times: Array, counted: NDArray[np.bool_] | None) -> Array:
    """0 for the oldest to 1 for the newest of those that count; others as their neighbours in time."""
    if counted is None:
        return times.argsort().argsort() / (len(times) - 1)
    counted_times = np.sort(times[counted])
    return np.minimum(1.0, counted_times.searchsorted(times) / max(1, len(counted_times) - 1))


def _reciprocal(values: Array) -> Array:
    ranks = np.empty(len(values))
    ranks[np.argsort(-values, kind="stable")] = np.arange(len(values))
    return (RANK_CONSTANT + 1) / (RANK_CONSTANT + 1 + ranks)
