"""What the memories of one owner are filtered by, as columns in memory: `filters.Where` becomes a mask over their rows.

Only what recall and its neighbours ask for is here. Any other condition is not answered (`NotHere`), so that the engine
is asked instead: a condition is never passed over.
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from memproxy.core.scope import Scope
from memproxy.stores.backend import FLAG_FIELDS, TIME_FIELDS
from memproxy.stores.filters import FACTS, AnyOf, Between, Condition, HasId, Missing, OneOf, Owner, Where, owned

Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float32]
Places = npt.NDArray[np.intp]

WORD_FIELDS = ("kind", "session_id", "project_id", "agent_id")
OWNER_PAYLOAD = ("tenant", "user_id")
PAYLOAD = ("id", *OWNER_PAYLOAD, *WORD_FIELDS, *TIME_FIELDS, *FLAG_FIELDS)
"""The payload fields that an index is made of."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER = np.iinfo(np.int64).min
"""Stands for a time that is not there; before every time there is."""

_UNSET = -1
_FIRST_ROWS = 64
_BLOCK = 32


class NotHere(Exception):
    """This cannot be held or answered in memory; the engine can."""


def owned_by(owner: Owner) -> Where:
    """Everything of this owner, as `filters.owned` has it."""
    return owned(Scope(tenant=owner[0], user=owner[1]))


def grown(array: npt.NDArray[Any], rows: int, empty: object = 0) -> npt.NDArray[Any]:
    """The array with space for so many rows, the last axis; what is new holds ``empty``."""
    bigger = np.full((*array.shape[:-1], rows), empty, array.dtype)
    bigger[..., : array.shape[-1]] = array
    return bigger


def capacity(rows: int, wanted: int) -> int:
    """Rows to make space for: a share more than there are, so that appending one after the other stays cheap."""
    return max(wanted, rows + rows // 4, _FIRST_ROWS)


def greatest(scores: Floats, count: int) -> Places:
    """The places of the ``count`` greatest, the greatest first; of equal ones the first."""
    if count * _BLOCK < len(scores):
        return _greatest_of_many(scores, count)
    if count >= len(scores):
        return (-scores).argsort(kind="stable")
    bound = _partitioned(scores, len(scores) - count)
    return _above(scores, bound, count)


def _greatest_of_many(scores: Floats, count: int) -> Places:
    """The ``count``-th greatest maximum of blocks is a bound that ``count`` scores reach: few are left to be sorted."""
    blocks = len(scores) // _BLOCK
    maxima = scores[: blocks * _BLOCK].reshape(_BLOCK, blocks).max(axis=0)
    return _above(scores, _partitioned(maxima, blocks - count), count)


def _partitioned(scores: Floats, place: int) -> np.float32:
    """What would stand there if they were in order."""
    scores = scores.copy()
    scores.partition(place)
    found: np.float32 = scores[place]
    return found


def _above(scores: Floats, bound: np.float32, count: int) -> Places:
    """As `greatest`, where at least so many scores reach the bound."""
    above = (scores > bound).nonzero()[0]
    above = above[(-scores[above]).argsort(kind="stable")][:count]
    same = (scores == bound).nonzero()[0][: count - len(above)]
    return np.concatenate((above, same))


class _Words:
    """A column of strings as numbers. A string that no row has any more is forgotten: it may have been erased."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._names: dict[int, str] = {}
        self._uses: dict[int, int] = {}
        self._next = 0
        self.rows = np.full(_FIRST_ROWS, _UNSET, np.int32)

    def set(self, row: int, value: Any) -> None:
        before = int(self.rows[row])
        code = _UNSET if value is None else self._code(value)
        self.rows[row] = code
        if before != _UNSET:
            self._left(before)

    def _code(self, value: Any) -> int:
        if not isinstance(value, str):
            raise NotHere("a word that is no text")
        code = self._codes.get(value)
        if code is None:
            code, self._next = self._next, self._next + 1
            self._codes[value], self._names[code], self._uses[code] = code, value, 0
        self._uses[code] += 1
        return code

    def _left(self, code: int) -> None:
        self._uses[code] -= 1
        if not self._uses[code]:
            del self._codes[self._names.pop(code)], self._uses[code]

    def equal(self, values: Sequence[str | bool], rows: int, some: Places | None = None) -> Mask:
        """Which of the first ``rows`` rows, or of ``some``, have one of the values."""
        codes = [self._codes[value] for value in values if isinstance(value, str) and value in self._codes]
        here = self.rows[:rows] if some is None else self.rows[some]
        found: Mask = np.zeros(len(here), np.bool_)
        for code in codes:
            found |= here == code
        return found


class Columns:
    """The conditions' columns of one owner. A row is given by `OwnerIndex`; one that is not in use is not alive."""

    def __init__(self, owner: Owner) -> None:
        self._owner = dict(zip(OWNER_PAYLOAD, owner, strict=True))
        self._words = {name: _Words() for name in WORD_FIELDS}
        self._times = {name: np.full(_FIRST_ROWS, _NEVER, np.int64) for name in TIME_FIELDS}
        self._dated = dict.fromkeys(TIME_FIELDS, 0)
        """How many rows have such a time."""
        self._flags = {name: np.full(_FIRST_ROWS, _UNSET, np.int8) for name in FLAG_FIELDS}
        self._alive = np.zeros(_FIRST_ROWS, np.bool_)
        self._names: list[str | None] = []
        self._rows_of: dict[str, tuple[int, ...]] = {}

    def __len__(self) -> int:
        """Rows in use at one time or another."""
        return len(self._names)

    @property
    def nbytes(self) -> int:
        """Of the arrays."""
        words = sum(one.rows.nbytes for one in self._words.values())
        times = sum(one.nbytes for one in self._times.values())
        return words + times + sum(one.nbytes for one in self._flags.values()) + self._alive.nbytes

    def put(self, row: int, payload: Mapping[str, Any]) -> None:
        """Fill a row, which is alive from now on. Raises `NotHere`."""
        name = payload.get("id")
        if not isinstance(name, str) or any(payload.get(key) != value for key, value in self._owner.items()):
            raise NotHere("a point that is not this owner's memory")
        while len(self._names) <= row:
            self._names.append(None)
        self.reserve(row + 1)
        self._names[row] = name
        self._rows_of[name] = (*self._rows_of.get(name, ()), row)
        self._set(row, payload)
        self._alive[row] = True

    def reserve(self, wanted: int) -> None:
        """Make space for so many rows."""
        if wanted <= len(self._alive):
            return
        space = capacity(len(self._alive), wanted)
        for words in self._words.values():
            words.rows = grown(words.rows, space, _UNSET)
        self._times = {name: grown(times, space, _NEVER) for name, times in self._times.items()}
        self._flags = {name: grown(flags, space, _UNSET) for name, flags in self._flags.items()}
        self._alive = grown(self._alive, space)

    def change(self, row: int, fields: Mapping[str, Any]) -> None:
        """Set these fields of a row; others than those filtered by do not count. Raises `NotHere`."""
        if any(name in fields for name in ("id", *OWNER_PAYLOAD)):
            raise NotHere("a memory that becomes another one")
        self._set(row, fields)

    def _set(self, row: int, fields: Mapping[str, Any]) -> None:
        for name, value in fields.items():
            if name in self._words:
                self._words[name].set(row, value)
            elif name in self._times:
                time = _NEVER if value is None else _micros(_read_time(value))
                self._dated[name] += int(time != _NEVER) - int(self._times[name][row] != _NEVER)
                self._times[name][row] = time
            elif name in self._flags:
                self._flags[name][row] = _flag(value)

    def free(self, row: int) -> None:
        """Nothing is left of what the row held."""
        name = self._names[row]
        self._alive[row] = False
        self._set(row, dict.fromkeys((*WORD_FIELDS, *TIME_FIELDS, *FLAG_FIELDS)))
        self._names[row] = None
        if name is not None:
            others = tuple(one for one in self._rows_of.pop(name) if one != row)
            if others:
                self._rows_of[name] = others

    def mask(self, where: Where) -> Mask:
        """The rows that match. Raises `NotHere`."""
        found: Mask = self._alive[: len(self)].copy()
        for one in where.must:
            held = self._holds(one)
            if held is not None:
                found &= held
        for one in where.must_not:
            held = self._holds(one)
            found &= False if held is None else ~held
        return found

    def count_facts(self, rows: Places) -> int:
        """How many of these rows are no verbatim messages."""
        return int(np.count_nonzero(self._words[FACTS.key].equal(FACTS.values, len(self), rows)))

    def facts(self) -> Mask:
        """The rows that are no verbatim messages."""
        return self._words[FACTS.key].equal(FACTS.values, len(self))

    def _holds(self, condition: Condition) -> Mask | None:
        """Where it holds among rows that are alive; None: everywhere."""
        match condition:
            case OneOf(key, values):
                return self._one_of(key, values)
            case Missing(key):
                return self._missing(key)
            case Between():
                return self._between(condition)
            case AnyOf(conditions):
                return self._any_of(conditions)
            case HasId():
                raise NotHere("point ids")

    def _one_of(self, key: str, values: Sequence[str | bool]) -> Mask | None:
        if key in self._owner:
            return None if self._owner[key] in values else self._nowhere()
        if key in self._words:
            return self._words[key].equal(values, len(self))
        found = self._nowhere()
        if key == "id":
            for value in values:
                for row in self._rows_of.get(str(value), ()):
                    found[row] = True
        elif key in self._flags:
            for value in values:
                if not isinstance(value, bool):
                    raise NotHere(key)
                found |= self._flags[key][: len(self)] == value
        else:
            raise NotHere(key)
        return found

    def _missing(self, key: str) -> Mask | None:
        found: Mask
        if self._dated.get(key) == 0:
            return None
        if key in self._words:
            found = self._words[key].rows[: len(self)] == _UNSET
        elif key in self._times:
            found = self._times[key][: len(self)] == _NEVER
        else:
            raise NotHere(key)
        return found

    def _between(self, between: Between) -> Mask:
        if between.key not in self._times:
            raise NotHere(between.key)
        times = self._times[between.key][: len(self)]
        found: Mask = times != _NEVER
        if between.after is not None:
            found &= times > _micros(between.after)
        if between.at_or_after is not None:
            found &= times >= _micros(between.at_or_after)
        if between.at_or_before is not None:
            found &= times <= _micros(between.at_or_before)
        if between.before is not None:
            found &= times < _micros(between.before)
        return found

    def _any_of(self, conditions: Sequence[Condition]) -> Mask | None:
        found = self._nowhere()
        for one in conditions:
            held = self._holds(one)
            if held is None:
                return None
            found |= held
        return found

    def _nowhere(self) -> Mask:
        return np.zeros(len(self), np.bool_)


def _read_time(value: Any) -> datetime:
    try:
        time = msgspec.convert(value, datetime)
    except msgspec.ValidationError as error:
        raise NotHere("a time that is none") from error
    if time.tzinfo is None:
        raise NotHere("a time without its zone")
    return time


def _micros(time: datetime) -> int:
    return (time - _EPOCH) // _MICROSECOND


def _flag(value: Any) -> int:
    if value is None:
        return _UNSET
    if not isinstance(value, bool | int):
        raise NotHere("a flag that is none")
    return int(value)
