"""The journal's rows that wait for a model that does not answer: since when, until when, and whose fault it is."""

from collections import OrderedDict
from datetime import datetime, timedelta

import msgspec

from memproxy.errors import ModelAwaited
from memproxy.learn.outages import ModelOutages
from memproxy.ports import Clock, JournalRow

_OTHERS_FIRST_S = 2.0
"""So much later than the others comes a row again that the model was asked for in vain: it may be the row's fault, and
then another one finds out that the model answers.
"""

_GIVES_WAY = 3
"""Times that it lets others go first when it comes before them all the same; of those some may be erased by now."""

_FIND_OUT = 16
"""Rows that come again when the model may be asked; the others when it answers, or after some minutes."""

_LOOK_AGAIN = timedelta(minutes=5)

_MOST = 100_000
"""Rows that are remembered; one that was forgotten begins to wait anew."""


class _Wait(msgspec.Struct):
    since: datetime
    answers: int | None = None
    outage: int | None = None
    reason: str = ""
    gave_way: int = 0


class Awaiting:
    """In memory only: after a restart every row is due, and begins to wait anew.

    Args:
        most_s: ``learn.max_outage_s``, how long a row may wait.
    """

    def __init__(self, outages: ModelOutages, clock: Clock, most_s: float) -> None:
        self.most_s = most_s
        self._outages = outages
        self._clock = clock
        self._waits: OrderedDict[int, _Wait] = OrderedDict()
        self._rows: dict[int, tuple[JournalRow, int]] = {}
        self._of: dict[int, set[int]] = {}
        self._asked: dict[int, int] = {}

    def give_way(self, row: JournalRow) -> None:
        """Return when the model may be asked for this row.

        Raises:
            ModelAwaited: it was asked for this one last, in vain, and others wait too.
        """
        wait = self._waits.get(row.number)
        if wait is None or wait.outage is None or self._asked.get(wait.outage) != row.number:
            return
        if len(self._of[wait.outage]) > 1 and wait.gave_way < _GIVES_WAY:
            wait.gave_way += 1
            until = self._clock.now() + timedelta(seconds=_OTHERS_FIRST_S)
            raise ModelAwaited(wait.reason, until=until, outage=wait.outage)
        wait.gave_way = 0

    def is_its_own(self, row: JournalRow, error: ModelAwaited) -> bool:
        """Whether the model answered others since it last failed to answer for this row: then it is not away, but
        cannot cope with what it is asked.
        """
        wait = self._wait(row)
        if not error.asked or error.answers is None:
            return False
        before, wait.answers = wait.answers, error.answers
        return before is not None and error.answers > before

    def waited_s(self, row: JournalRow) -> float:
        """Seconds since the row began to wait."""
        return (self._clock.now() - self._wait(row).since).total_seconds()

    def due(self, row: JournalRow, error: ModelAwaited) -> datetime:
        """When the row is claimed again at the latest; it waits for the end of the outage from now on."""
        now = self._clock.now()
        if self._outages.is_over(error.outage):
            return now + timedelta(seconds=_OTHERS_FIRST_S if error.asked else 0)
        finds_out = len(self._rows) < _FIND_OUT
        self._note(row, error)
        if error.asked:
            self._asked[error.outage] = row.number
            return error.until + timedelta(seconds=_OTHERS_FIRST_S)
        return error.until if finds_out else max(error.until, now + _LOOK_AGAIN)

    def over(self, outage: int) -> list[JournalRow]:
        """The rows that waited for the end of this outage, in their order."""
        rows = [row for row, number in self._rows.values() if number == outage]
        for row in rows:
            del self._rows[row.number]
        self._asked.pop(outage, None)
        for number in self._of.pop(outage, ()):
            self._waits[number].outage = None
        return rows

    def goes_on(self, row: JournalRow) -> None:
        """The row was claimed again."""
        self._rows.pop(row.number, None)

    def ended(self, row: JournalRow) -> None:
        """The row is done, or given up."""
        if (wait := self._waits.pop(row.number, None)) is not None:
            self._leave(row.number, wait)

    def _note(self, row: JournalRow, error: ModelAwaited) -> None:
        wait = self._wait(row)
        self._leave(row.number, wait)
        lean = msgspec.structs.replace(row, entry=msgspec.structs.replace(row.entry, body=b""), plan=None)
        self._rows[row.number] = lean, error.outage  # its text waits in the journal alone
        self._of.setdefault(error.outage, set()).add(row.number)
        wait.outage, wait.reason = error.outage, error.message

    def _leave(self, number: int, wait: _Wait) -> None:
        if wait.outage is not None:
            self._of[wait.outage].discard(number)
            wait.outage = None

    def _wait(self, row: JournalRow) -> _Wait:
        wait = self._waits.setdefault(row.number, _Wait(self._clock.now()))
        if len(self._waits) > _MOST:
            self._leave(*self._waits.popitem(last=False))
        return wait
