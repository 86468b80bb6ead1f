"""What the user said later about the same thing: "car's on -2, spot 75" after "parked on level -3, spot 118".

A ranking looks at each memory beside the question, and the older statement is often the one that has its words. So what
is said later about the same is looked for beside the memory that was found: near to it token by token, and a change by
its words ("switched", "now"), or in the same form with other values.
"""

import re
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from memproxy.core.memory import Kind, Trust
from memproxy.core.tokenvectors import similarities, unpack
from memproxy.recall import changes, constraints, learned, parallel
from memproxy.recall.asking import BEGINS
from memproxy.recall.batch import NOBODY, Array, Batch
from memproxy.recall.levels import asks_for_many

MOST = 4
"""Memories, best first, beside which later ones are looked for."""

AMONG = 24
"""Candidates, best first, that may be such a later one."""

NEAR = 0.15
"""How much nearer than the others a later statement is, token by token (a difference of mean cosines), from which on it
is about the same.
"""

NEAR_LIKELY = 0.07
"""The same where that is likely to be the answer itself."""

USUAL = 0.15
"""How near two statements of one user usually are: counted as `_USUAL_COUNT` others, where there are few."""

_USUAL_COUNT = 4

ALIKE = 0.36
_MANY = 4
"""So many that are as near as that are lines of a log, each of which holds beside the others."""

MOSTLY = 0.6
"""What has this part of the question's words tells of more than whom it asks about."""

_AS_LIKELY = 0.7
"""Log odds by which what is later may be less likely than what it replaces in a matter that has several things."""

_AS_NEAR = 0.08
"""Of several that are hardly less near than the nearest the newest holds."""

_PAST = re.compile(
    rf"{BEGINS}(?:"
    r"\b(?:used to|previous\w*|before|original\w*|first|old|former\w*|earlier|back then|when did|initially|at first"
    r"|beginning|früher|zuerst|anfangs"
    r"|vorher|damals"
    r"|antes|primer\w*|antigu\w*|avant|premi\w+|anci\w+)\b|以前|之前|原来|第一|上次)",
    re.IGNORECASE,
)
_WAS = re.compile(
    rf"{BEGINS}(?:"
    r"(?!^)\bwas\b|\b(?:were|did|had|war|hatte|era|fue|hice|étai\w+|avai\w+|ai|as)\b|了|过)",
    re.IGNORECASE,
)
_COUNT = re.compile(r"\bhow many\b|\bwie ?viele\b|\bcuánt[oa]s\b|\bcombien de\b|几|多少", re.IGNORECASE)
_LISTED = re.compile(r"\w,? (?:and|&|und|y|et) \w|\w, \w|[、和]", re.IGNORECASE)
_READ = 400
_SHORT = 240
"""Characters of a message whose every name counts; a long one has a bit of everything."""

_RARE = 3
"""So many messages at most have a name by which what one says is known to be about what the other says."""

LIKELY_ENOUGH = -1.0
"""Log odds from which on what has such a name and a word of change is given beside it."""

_ASKS = ("?", "？")
_LATIN = 0x250
_NO_FACTS = (Kind.TURN, Kind.EPISODIC)


class Later(msgspec.Struct, frozen=True):
    """The places of a memory and of a later one about the same; ``instead`` when the later one holds instead. Both are
    one where the later one holds instead and is not ranked beside it, but a fact that was learned from it.
    """

    place: int
    later: int
    instead: bool


Way = Callable[[int], Later | None]
"""How what became of the memory at a place is found."""


class _Said:
    """What the user said, candidate by candidate; a fact stands for the message that it was learned from, which has its
    time, its words and the vectors of its tokens, wherever that is among the candidates.
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self._asked = parallel.Asked.of(batch.text[:_READ])
        self._own = batch.whole
        self._sources = [batch.each.sources[place] for place in self._own]
        by_user = batch.each.by_user[self._sources].tolist()
        self.mine = [
            bool(source_by_user) or (memory.kind not in _NO_FACTS and memory.trust is Trust.USER)
            for source_by_user, memory in zip(by_user, batch.memories, strict=True)
        ]

    def text(self, place: int) -> str:
        return self.batch.each.memories[self._sources[place]].content[:_READ]

    def made(self, place: int) -> float:
        return float(self.batch.each.created[self._sources[place]])

    def stands_for_another(self, place: int) -> bool:
        """Whether what was said is not ranked here itself, but what was learned from it."""
        return self._sources[place] != self._own[place]

    def is_of_another(self, place: int, later: int) -> bool:
        """Whether the later one is about something else than what is asked for, by its form; a fact that is of what is
        asked for gives way to none that only has a word of it.
        """
        if self._is_fact(later, of_it=False) and (
            self._is_fact(place, of_it=True) or learned.holds_beside(self.text(place), self.text(later))
        ):
            return True
        return self._asked.names_another(self.text(place), self.text(later))

    def _is_fact(self, place: int, *, of_it: bool) -> bool:
        """Whether it is said by a fact of the user, and of what is asked for or not."""
        own, each = self._own[place], self.batch.each
        is_of_it = bool(each.named_by(own) or each.begins(own))
        return learned.is_of_user(self.text(place)) and is_of_it is of_it

    def names_as_much(self, place: int, later: int) -> bool:
        """Whether the later one tells of what is asked for, and of nobody else, as far as its words show; what says of
        itself that it takes a place ("switched to Simbly") need not name it.
        """
        question, earlier, text = self.batch.text[:_READ], self.text(place), self.text(later)
        known = constraints.whose(question) | constraints.whose(earlier)
        return constraints.whose(text) <= known and (
            changes.takes_a_place(text) or self._asked.names_as_much(earlier, text)
        )

    def asks(self, place: int) -> bool:
        return self.text(place).rstrip().endswith(_ASKS)

    def others(self, place: int, order: Sequence[int]) -> list[int]:
        """Those of the places in order that hold what else was said, each message once."""
        first: dict[int, int] = {} if place == NOBODY else {self._sources[place]: place}
        for other in order:
            if self.mine[other]:
                first.setdefault(self._sources[other], other)
        return [other for other in first.values() if other != place]

    def tokens(self, places: Sequence[int]) -> list[bytes]:
        return [self.batch.each.packed[self._sources[place]] for place in places]


def wanted(batch: Batch) -> bool:
    """Whether it is asked what holds now: no past, no time that is past, and not of one of several named speakers."""
    text = batch.text[:_READ]
    if batch.asks_of_speaker or batch.asking.assistant_said or _PAST.search(text) is not None:
        return False
    return not batch.each.spans or _WAS.search(text) is None


def pairs(batch: Batch, odds: Array, floor: float) -> list[Later]:
    """What became of the memories that ``odds`` put over the ``floor``, the best last."""
    if not (odds > floor).any():
        return []
    order: list[int] = np.argsort(-odds, kind="stable").tolist()
    said = _Said(batch)
    told = [place for place in order[: MOST + 2] if said.mine[place] and odds[place] > floor][:MOST]
    if not told:
        return []
    several = batch.each.of_text(asks_for_many) or _COUNT.search(batch.text[:_READ]) is not None
    likely = None if several else np.where(odds > floor, odds, -np.inf)
    ways = [
        _by_matter(said, order[:AMONG], odds, likely),
        _by_tokens(said, order[:AMONG], odds, floor),
        _by_name(said, odds, floor),
    ]
    known = [later for place in told if (later := _last(place, ways)) is not None]
    return [_beside(said, later) if several else later for later in known[::-1]]


def _beside(said: _Said, later: Later) -> Later:
    """Where several may be asked for: each holds, but of one thing only what took its place."""
    one = _LISTED.search(said.text(later.place)) is None
    instead = later.instead and one and changes.takes_a_place(said.text(later.later))
    return msgspec.structs.replace(later, instead=instead)


def _last(place: int, ways: Sequence[Way]) -> Later | None:
    """The first way that finds what holds instead, or else what stands beside; what replaced it may have been replaced
    in turn.
    """
    beside: Later | None = None
    for way in ways:
        later = way(place)
        if later is not None and later.instead:
            last = way(later.later) if later.later != place else None
            return later if last is None else Later(place, last.later, last.instead)
        beside = beside or later
    return beside


def _by_tokens(said: _Said, order: Sequence[int], odds: Array, floor: float) -> Way:
    least = np.where(odds > floor, NEAR_LIKELY, NEAR)
    return lambda place: _later(said, place, order, least) if any(said.tokens([place])) else None


def _by_matter(said: _Said, order: Sequence[int], odds: Array, likely: Array | None) -> Way:
    """Among those that tell of the matter that is asked for: of which one holds at a time, or which is asked for as it
    is now; of another where what is later tells of a change and both are likely to be the one thing that is asked for,
    or where it says that it is instead of what was before, and that was one thing.
    """
    query, each, whole = said.batch.text, said.batch.each, said.batch.whole
    asked = each.asked_about
    core = asked.names - asked.somewhere
    single = core if changes.asks_for_now(query[:_READ]) else asked.one_at_a_time
    mine = [place for place in order if asked.names and said.mine[place]]
    told = {place: each.told(whole[place]) for place in mine}
    lasting = single <= asked.one_at_a_time
    of_whom = asked.somewhere if each.bearers and (core or each.asks_more) else frozenset[str]()

    def is_one(place: int, names: frozenset[str]) -> bool:
        """Whether it tells of the one thing; of somebody's there is much to tell, and what is asked for holds beside
        the rest of it.
        """
        answers = bool(names & core) or said.batch.coverage[place] >= MOSTLY
        return bool(names & (single - of_whom if answers else single))

    of_one = [
        place for place, names in told.items() if is_one(place, names) and (lasting or odds[place] > LIKELY_ENOUGH)
    ]
    of_any = [place for place, names in told.items() if names & core]

    def later(place: int) -> Later | None:
        text = said.text(place)
        if place in of_one:
            return _newest(said, place, [other for other in of_one if changes.may_change(text, said.text(other))])
        if likely is not None and place in of_any:
            as_likely = [other for other in of_any if likely[other] >= likely[place] - _AS_LIKELY]
            changed = [other for other in as_likely if changes.tells_change(said.text(other))]
            if (last := _newest(said, place, changed)) is not None:
                return last
        before = {said.made(other) for other in of_any if not changes.takes_a_place(said.text(other))}
        if place not in of_any or len(before) != 1:
            return None
        return _newest(said, place, [other for other in of_any if changes.takes_a_place(said.text(other))])

    return later


def _by_name(said: _Said, odds: Array, floor: float) -> Way:
    """What names in few words what hardly anything else names, and tells of a change; where that is said of what is
    named, or what it says is likely itself, it holds instead.
    """
    asked = changes.names(said.batch.text)
    places = said.others(NOBODY, range(len(odds)))
    low = {place: text.lower() for place in places if len(text := said.text(place)) <= _SHORT}
    of_user = not said.batch.each.bearers

    def about(place: int) -> dict[int, list[str]]:
        """Who else has a rare name of his, and which; letters first, as words take longer to see."""
        found: dict[int, list[str]] = {}
        for name in changes.names(said.text(place)) - asked:
            having = [other for other, text in low.items() if name in text]
            for other in having if len(having) <= _RARE else ():
                found.setdefault(other, []).append(name)
        return found

    def later(place: int) -> Later | None:
        found: list[Later] = []
        for other, having in about(place).items():
            text = said.text(other)
            if said.made(other) <= said.made(place) or said.asks(other) or said.is_of_another(place, other):
                continue
            if not (shared := changes.names(text).intersection(having)):
                continue
            ended = any(changes.is_ended(text, name) for name in shared)
            if ended or (odds[other] > LIKELY_ENOUGH and changes.tells_change(text)):
                instead = of_user and (ended or odds[other] > floor)
                found += filter(None, [_stands(said, place, other, instead=instead)])
        return max(found, key=lambda one: (one.instead, said.made(one.later)), default=None)

    return later


def _newest(said: _Said, place: int, known: Sequence[int]) -> Later | None:
    """The newest that is newer than the one at this place, and no question."""
    later = [other for other in known if said.made(other) > said.made(place) and not said.asks(other)]
    newest_first = sorted(later, key=said.made, reverse=True)
    newest = next((other for other in newest_first if not said.is_of_another(place, other)), None)
    return None if newest is None else Later(place, newest, True)


def _later(said: _Said, place: int, order: Sequence[int], least_near: Array) -> Later | None:
    text = said.text(place)
    others = [other for other in said.others(place, order) if any(said.tokens([other])) and not said.asks(other)]
    made = said.made(place)
    if all(said.made(other) <= made for other in others) or not _is_latin(text):
        return None
    near = closeness(said.tokens([place])[0], said.tokens(others))
    if np.count_nonzero(near >= ALIKE) >= _MANY:
        return None
    away = near - (near.sum() - near + _USUAL_COUNT * USUAL) / (len(near) - 1 + _USUAL_COUNT)
    known = [
        (value, said.made(other), other)
        for other, value in zip(others, away.tolist(), strict=True)
        if value >= least_near[other] and said.made(other) > made and changes.may_change(text, said.text(other))
    ]
    known = [one for one in known if not said.is_of_another(place, one[2])]
    if not known:
        return None
    least = max(value for value, _, _ in known) - _AS_NEAR
    _, other = max((when, other) for value, when, other in known if value >= least)
    instead = changes.replaces(text, said.text(other)) and said.names_as_much(place, other)
    return _stands(said, place, other, instead=instead)


def _stands(said: _Said, place: int, other: int, *, instead: bool) -> Later | None:
    if said.stands_for_another(other):  # what was learned of it may be something else that it says
        return Later(place, place, True) if instead else None
    return Later(place, other, instead)


def _is_latin(text: str) -> bool:
    """Whether most of its letters are: of others a model for English has hardly a token, and everything seems near."""
    return text.isascii() or 2 * sum(ord(letter) < _LATIN for letter in text) > len(text)


def closeness(packed: bytes, others: Sequence[bytes]) -> Array:
    """How near each of the others' tokens come to those of a text, on the mean."""
    tokens = unpack(packed)[1:-1]
    if not len(tokens):
        return np.zeros(len(others))
    found: Array = np.nan_to_num(similarities(tokens, others)).mean(axis=1)
    return found
