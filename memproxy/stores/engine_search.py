"""A search that the engine answers: both sides in one call, then what one side alone has found is scored by the
other.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

import msgspec

from memproxy.core.memory import Kind
from memproxy.stores.backend import Hybrid, Ranking, Scores
from memproxy.stores.filters import HasId, Where, facts
from memproxy.stores.payload import Points, Read

ReadPlaces = Callable[[list[str]], Awaitable[list[tuple[str, Read]]]]
"""Reads the memories at these places, in their order; missing ones are left out."""


class _Raw(msgspec.Struct, frozen=True):
    """Raw scores by point id, by vector and by words."""

    dense: dict[str, float]
    bm25: dict[str, float]


async def searched(engine: Points, asked: Hybrid, read: ReadPlaces) -> tuple[Scores, list[Read]]:
    """Every candidate's scores, and the candidates."""
    near, told = await _ranked(engine, _sides(asked, asked.where))
    best = list(near | told)
    more, found = await asyncio.gather(_filled(engine, asked, near, told), read(best))
    facts_too = await _more_facts(engine, asked, (near, told), dict(found))
    if new := list(facts_too.dense | facts_too.bm25):
        found += await read(new)
    by_vector = near | more[0] | facts_too.dense
    by_words = dict.fromkeys(best, 0.0) | told | more[1] | facts_too.bm25 if asked.bm25 is not None else {}
    places = [place for place, _ in found]
    scores = Scores(
        places=places,
        dense=[by_vector.get(place) for place in places],
        bm25=[by_words.get(place) for place in places],
    )
    return scores, [one for _, one in found]


def _sides(asked: Hybrid, where: Where) -> list[Ranking | None]:
    """The search by vector and the one by words; None for one that is not asked for."""
    limit, corpus = asked.limit, asked.corpus
    return [
        Ranking(where=where, limit=limit, dense=asked.dense, corpus=corpus) if asked.dense is not None else None,
        Ranking(where=where, limit=limit, bm25=asked.bm25, corpus=corpus) if asked.bm25 is not None else None,
    ]


async def _more_facts(
    engine: Points, asked: Hybrid, best: Sequence[Mapping[str, float]], found: Mapping[str, Read]
) -> _Raw:
    """Raw scores of the best facts that were not found, where a side has room for few of them."""
    wanted = msgspec.structs.replace(asked, limit=asked.facts)
    sides = [
        side if _lacks_facts(asked, there, found) else None
        for side, there in zip(_sides(wanted, facts(asked.where)), best, strict=True)
    ]
    dense, bm25 = await _ranked(engine, sides)
    new = dict.fromkeys(place for place in dense | bm25 if place not in found)
    if not new:
        return _Raw({}, {})
    by_vector, by_words = _sides(asked, asked.corpus)
    scored = await _ranked(engine, [_rest(by_vector, new), _rest(by_words, new)])
    return _Raw(scored[0], dict.fromkeys(new, 0.0) | scored[1])


def _lacks_facts(asked: Hybrid, best: Mapping[str, float], found: Mapping[str, Read]) -> bool:
    if len(best) < asked.limit:
        return False  # these are all there are
    kinds = [found[place].memory.kind for place in best if place in found]
    return len(kinds) - kinds.count(Kind.TURN) < asked.facts


async def _filled(
    engine: Points, asked: Hybrid, near: Mapping[str, float], told: Mapping[str, float]
) -> list[dict[str, float]]:
    """Raw scores of what only the other side found, by vector and by words."""
    dense, bm25 = _sides(asked, asked.corpus)
    # words are matched exactly: fewer than asked for are all there are, and every other memory has none of them
    words_open = len(told) >= asked.limit
    return await _ranked(
        engine,
        [_rest(dense, told.keys() - near.keys()), _rest(bm25, near.keys() - told.keys()) if words_open else None],
    )


def _rest(side: Ranking | None, places: Iterable[str]) -> Ranking | None:
    ids = tuple(places)
    if side is None or not ids:
        return None
    # the ids come from a scoped search; the corpus keeps the same IDF
    return Ranking(where=Where((HasId(ids),)), limit=len(ids), dense=side.dense, bm25=side.bm25, corpus=side.corpus)


async def _ranked(engine: Points, sides: Sequence[Ranking | None]) -> list[dict[str, float]]:
    asked = [side for side in sides if side is not None]
    answers = iter(await engine.rank(asked) if asked else ())
    return [dict(next(answers)) if side is not None else {} for side in sides]
