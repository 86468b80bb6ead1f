"""What the user said later about the same thing: "car's on -2, spot 75" after "parked on level -3, spot 118".

A ranking looks at each memory beside the question, and the older statement is often the one that has its words. So what
is said later about the same is looked for beside the memory that was found: near to it token by token, and a change by
its words ("switched", "now"), or in the same form with other values.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from memproxy.core.tokenvectors import similarities, unpack
from memproxy.recall import constraints, matters
from memproxy.recall.batch import Array, Batch
from memproxy.recall.levels import asks_for_many

MOST = 4
"""Memories, best first, beside which later ones are looked for."""

AMONG = 24
"""Candidates, best first, that may be such a later one."""

NEAR = 0.15
"""How much nearer than the others a later statement is, token by token (a difference of mean cosines), from which on it
is about the same.
"""

USUAL = 0.15
"""How near two statements of one user usually are: counted as `_USUAL_COUNT` others, where there are few."""

_USUAL_COUNT = 4

ALIKE = 0.36
_MANY = 4
"""So many that are as near as that are lines of a log, each of which holds beside the others."""

_AS_NEAR = 0.08
"""Of several that are hardly less near than the nearest the newest holds."""

_CHANGE = re.compile(
    r"\b(?:now|switched|switching|moved|changed|new|instead|no longer|not anymore|anymore|sold|settled|quit|left"
    r"|stopped"
    r"|broke up|divorced|finally|actually|replaced|upgraded|cancelled|canceled|got rid|returned|found|died"
    r"|passed away|back"
    r"|already|over|done|became|got|ordered|bought"
    r"|jetzt|umgezogen|umzug|gewechselt|neue?[mnrs]?|stattdessen|nicht mehr|verkauft|endlich|inzwischen|doch"
    r"|gekündigt"
    r"|ahora|mud\w+|cambi\w+|nuev[oa]s?|ya no|vend[ií]\w*|por fin|dej[eé]|dejado|ya est\w+"
    r"|maintenant|déménag\w+|changé|nouve\w+|vendu|enfin|install\w+|finalement|quitté|trouvé|remplacé)\b"
    r"|现在|搬|换|新|终于|不再|改|卖|已经|了",
    re.IGNORECASE,
)
_PLAN = re.compile(
    r"\b(?:plan|planning|want|wants|would like|looking|thinking|until|till|currently|for now|at the moment|trying"
    r"|signed up"
    r"|going to|gonna|will|need to|considering|möchte|will|wollen|suche\w*|überlege\w*|bisher|noch"
    r"|quiero|queremos|mirando|buscando|pensando|hasta|cherche\w*|veux|voulons|voudrais|pense|jusqu\w*)\b"
    r"|打算|想|准备|目前|现在|找",
    re.IGNORECASE,
)
_VALUE = re.compile(r"\d")
_PAST = re.compile(
    r"\b(?:used to|previous\w*|before|original\w*|first|old|former\w*|earlier|back then|when did|früher|zuerst"
    r"|vorher|damals"
    r"|antes|primer\w*|antigu\w*|avant|premi\w+|anci\w+)\b|以前|之前|原来|第一|上次",
    re.IGNORECASE,
)
_WAS = re.compile(
    r"(?!^)\bwas\b|\b(?:were|did|had|war|hatte|era|fue|hice|étai\w+|avai\w+|ai|as)\b|了|过", re.IGNORECASE
)
_COUNT = re.compile(r"\bhow many\b|\bwie ?viele\b|\bcuánt[oa]s\b|\bcombien de\b|几|多少", re.IGNORECASE)
_READ = 400
_ASKS = ("?", "？")
_LATIN = 0x250


class Later(msgspec.Struct, frozen=True):
    """The places of a memory and of a later one about the same; ``instead`` when the later one holds instead."""

    place: int
    later: int
    instead: bool


Way = Callable[[int], Later | None]
"""How what became of the memory at a place is found."""


def wanted(batch: Batch) -> bool:
    """Whether the user asks what holds now of himself: no past, and no time that is past."""
    text = batch.text[:_READ]
    if not batch.asking.of_self or batch.asking.assistant_said or _PAST.search(text) is not None:
        return False
    return not batch.each.spans or _WAS.search(text) is None


def pairs(batch: Batch, odds: Array, floor: float) -> list[Later]:
    """What became of the memories that ``odds`` put over the ``floor``, the best last."""
    order = np.argsort(-odds, kind="stable")
    mine = batch.by_user > 0
    told = [place for place in order[: MOST + 2].tolist() if mine[place] and odds[place] > floor][:MOST]
    if not told:
        return []
    several = asks_for_many(batch.text) or _COUNT.search(batch.text[:_READ]) is not None
    ways = [
        _by_tokens(batch, order[:AMONG], mine),
        _by_matter(batch, order[:AMONG], mine),
    ]
    known = [later for place in told if (later := _last(place, ways)) is not None]
    found = [msgspec.structs.replace(later, instead=False) if several else later for later in known]
    return found[::-1]


def _last(place: int, ways: Sequence[Way]) -> Later | None:
    """The first way that finds something; what replaced it may have been replaced in turn."""
    for way in ways:
        later = way(place)
        if later is not None:
            last = way(later.later) if later.instead else None
            return later if last is None else Later(place, last.later, last.instead)
    return None


def _by_tokens(batch: Batch, order: NDArray[np.intp], mine: NDArray[np.bool_]) -> Way:
    return lambda place: _later(batch, place, order, mine & batch.has_tokens) if batch.has_tokens[place] else None


def _by_matter(batch: Batch, order: NDArray[np.intp], mine: NDArray[np.bool_]) -> Way:
    """Among those that tell of the matter that is asked for and of which one holds at a time."""
    single = matters.Asked(matters.asked(batch.text).one_at_a_time)
    bearers = constraints.whose(batch.text)
    telling = [place for place in order.tolist() if mine[place] and single.told(_text(batch, place), bearers)]

    def later(place: int) -> Later | None:
        text = _text(batch, place)
        return _newest(batch, place, [other for other in telling if _changes(text, _text(batch, other))])

    return lambda place: later(place) if place in telling else None


def _newest(batch: Batch, place: int, known: Sequence[int]) -> Later | None:
    """The newest that is newer than the one at this place, and no question."""
    made = batch.created
    later = [other for other in known if made[other] > made[place] and not _text(batch, other).rstrip().endswith(_ASKS)]
    return Later(place, max(later, key=lambda other: float(made[other])), True) if later else None


def _text(batch: Batch, place: int) -> str:
    return batch.memories[place].content[:_READ]


def _later(batch: Batch, place: int, order: NDArray[np.intp], mine: NDArray[np.bool_]) -> Later | None:
    text, made = batch.memories[place].content[:_READ], batch.created
    others = [
        other
        for other in order.tolist()
        if other != place and mine[other] and not batch.memories[other].content.rstrip().endswith(_ASKS)
    ]
    if not others or not _is_latin(text):
        return None
    near = closeness(batch, place, others)
    if np.count_nonzero(near >= ALIKE) >= _MANY:
        return None
    away = near - (near.sum() - near + _USUAL_COUNT * USUAL) / (len(near) - 1 + _USUAL_COUNT)
    known = [
        (value, made[other], other)
        for other, value in zip(others, away.tolist(), strict=True)
        if value >= NEAR and made[other] > made[place] and _changes(text, batch.memories[other].content[:_READ])
    ]
    if not known:
        return None
    least = max(value for value, _, _ in known) - _AS_NEAR
    _, other = max((when, other) for value, when, other in known if value >= least)
    return Later(place, other, _replaces(text, batch.memories[other].content[:_READ]))


def _changes(text: str, later: str) -> bool:
    """Whether what was said later may be what became of it."""
    return _PLAN.search(text) is not None or _replaces(text, later)


def _replaces(text: str, later: str) -> bool:
    """Whether it tells of a change, or another value."""
    return _CHANGE.search(later) is not None or (_VALUE.search(text) is not None and _VALUE.search(later) is not None)


def _is_latin(text: str) -> bool:
    """Whether most of its letters are: of others a model for English has hardly a token, and everything seems near."""
    return text.isascii() or 2 * sum(ord(letter) < _LATIN for letter in text) > len(text)


def closeness(batch: Batch, place: int, others: list[int]) -> Array:
    """How near each of the others' tokens come to those of the one at ``place``, on the mean."""
    packed = batch.tokens(others)
    tokens = unpack(batch.tokens([place])[0])[1:-1]
    if not len(tokens):
        return np.zeros(len(others))
    found: Array = np.nan_to_num(similarities(tokens, packed)).mean(axis=1)
    return found
