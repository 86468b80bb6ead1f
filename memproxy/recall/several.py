"""Whether somebody asks for all of a list of his own, which he told piece by piece: one piece is no whole answer."""

import re

from memproxy.core.late import LatePattern
from memproxy.recall.asking import BEGINS, asking
from memproxy.recall.constraints import whose
from memproxy.recall.levels import asks_for_many

_READ = 600

_LIST = LatePattern(
    rf"{BEGINS}(?:"
    r"\b(?:my|our) (?:[\w'-]+ ){0,3}(?:list|wishlist|to-?dos?|backlog|collection)\b"
    r"|\bhow many (?:[\w'-]+ ){1,4}(?:do|have) (?:i|we)\b"
    r"|\bwh(?:at|om?) (?:all )?(?:have (?:i|we)|do (?:i|we) (?:have|need|want) to)\b"
    r"|\b(?:meine|unsere)(?:r|n)? \w*liste\b|\bwas muss (?:ich|wir) (?:alles|noch)\b"
    r"|\b(?:mi|nuestra) lista\b|\bqu[ée] (?:tengo|tenemos) que\b"
    r"|\b(?:ma|notre) liste\b|\bque (?:dois-je|devons-nous)\b"
    r"|清单)",
    re.IGNORECASE,
    most=_READ,
)


def asks_for_all(query: str) -> bool:
    """Whether a query asks for several things of the user's own, and of nobody else's: of whom much is told that is no
    part of a list.
    """
    read = query[:_READ]
    return bool(asking(read).of_self) and not whose(read) and (asks_for_many(read) or _LIST.search(read) is not None)
