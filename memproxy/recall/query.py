"""A query as recall reads it: once, for all rankings of what is found."""

from datetime import datetime

from memproxy.core import timerange
from memproxy.recall.asking import Asking, asking
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
        return timerange.spans(self.text, self.now)
