"""A query as recall reads it: once, for what is searched beside it and for all rankings of what is found."""

from datetime import datetime

from memproxy.core import timerange
from memproxy.recall import constraints, matters
from memproxy.recall.asking import Asking, asking
from memproxy.recall.days import asked_days
from memproxy.recall.lazy import lazy


class Query:
    """A query's ``text``, and what is read in it, each when it is first asked for; ``now`` is when it is asked."""

    def __init__(self, text: str, now: datetime) -> None:
        self.text = text
        self.now = now

    @lazy
    def asking(self) -> Asking:
        """What kind of answer it wants, and of whose words."""
        return asking(self.text)

    @lazy
    def spans(self) -> list[timerange.Span]:
        """The times that it names."""
        return asked_days(self.text, self.now)

    @lazy
    def advice_fields(self) -> frozenset[str]:
        """The fields that it asks advice on (`constraints.asked_for`)."""
        return constraints.asked_for(self.text)

    @lazy
    def asked_about(self) -> matters.AskedMatters:
        """The everyday matters that it asks for."""
        return matters.asked_about(self.text)
