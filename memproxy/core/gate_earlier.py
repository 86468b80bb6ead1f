"""What leans on something said before: in another conversation ("which book was it that came up"), or in the messages
before this one ("and how long does it take from there").
"""

import re
from collections.abc import Iterator, Sequence

from memproxy.core.gate_match import any_of, words_of
from memproxy.core.gate_names import KNOWN_PLACES
from memproxy.core.gate_patterns import POINTING
from memproxy.core.text import key_terms

EARLIER_MESSAGES = 4
"""Messages before the last one among which the one is looked for that it leans on."""

_PICKED = (
    r"(?:suggested|recommended|mentioned|listed|proposed|chosen|picked|discussed|brought up|talked about|settled on"
    r"|shortlisted|advised)"
)

POINTS_BACK = any_of(
    r"\b(?:which|what|who|where|when|how)\b.{0,40}\b(?:was|were|wasn't|weren't) (?:it|that|those|they|these|he|she)\b",
    r"\b(?:is|was|were|wrote|made|about|of|for|on|by|did|called|from|with|to) (?:that|those) (?!is\b|was\b|are\b|were\b"
    r"|has\b|have\b|can\b|will\b|would\b|you\b|one can\b)[a-z]+",
    r"\b(?:what|which|who|where) (?:was|were|is|are) the (?:other|second|third|fourth|last|two|three|four|five|six"
    r"|seven) (?:\w+ )?(?!(?:largest|longest|highest|biggest|tallest|most|world)\b)\w+(?: (?:on the list|with|for|about"
    r"|from|again|called)\b|$)",
    r"\b(?:what|which|who|where|how \w+) (?:was|were) (?:the (?:name of )?)?(?:the|that) (?:\w+ ){1,3}(?:with|about"
    r"|near|by the|for the|from the|again|called|that (?:had|has|was|came|said))\b",
    r"\b(?:what|which) (?:was|were) .{2,40} called$",
    r"\b(?:supposed|meant) to\b|\b(?:came|come) (?:up(?! with)\b|out (?:on top|best|ahead|cheapest|first)\b)"
    r"|\bend(?:ed)? up\b|\bon (?:the|that) (?:\w+ )?(?:list|sheet|menu|page|shortlist|note|notes)\b",
    rf"\b(?:was|were|got|been) {_PICKED}\b",
    r"\b(?:which|what) of (?:the|those|these) (?:two|three|four|five|six|seven|ten|\w+ (?:options|ideas|suggestions"
    r"|choices))\b",
    r"\b(?:did|have|had|were|didn't|haven't) you\b|\byou (?:had|were|listed|named|proposed|advised|picked|chose|came)\b"
    r"|\byour (?:suggestion|recommendation|advice|(?:short)?list|answer|tip|idea|recipe|plan)s?\b",
    r"\bthe (?!same\b|right\b|wrong\b|only\b|big\b)\w+ ones?\b",
    r"\b(?:did|does|is|was|has|had|will|would|can|could|should|and|'s) (?:he|she|his|her)\b|\b(?:did|were|had) (?:they"
    r"|their)\b",
)
"""A question after what was said before, or about somebody who was spoken of, in whatever conversation."""

_PAST_PARTICULAR = any_of(
    r"\b(?:was|were|did) (?:the|that|those) (?!world\b)\w+",
    r"\b(?:which|what) (?:\w+ ){1,2}(?:was|were|had|went|came)\b",
    r"\bhow (?:much|many|long|often) (?:\w+ ){0,2}(?:went|was|were|came)\b",
    r"\bwhat did (?:option|version|plan|part|step|number) \w+",
)
"""Something definite that was, or was done."""

HISTORY = re.compile(
    r"\b(?:first|oldest|largest|biggest|longest|highest|tallest|deadliest|most famous|original|originally|world"
    r"|wars?|battle|revolution|empires?|king|queen|emperor|tsar|pope|president|minister|governor|dynasty|century|centuries"
    r"|ancient|medieval|middle ages|crusades?|treaty|plague|pyramids?|aztecs?|mayas?|incas?|romans?|greeks?|egyptians?"
    r"|vikings|pilgrims|nazis|soviets?|british|american|french|german|russian|chinese|japanese|titanic|moon|dinosaurs?"
    r"|ice age|big bang|universe|earth|species|century|bc|ad|invented|discovered|founded|built|born|died?|killed"
    r"|assassinated|shot|elected|signed|abolished|introduced|published|released|developed|named after|written by|god"
    r"|painted"
    r"|nobel|olympics?|olympic|super ?bowl|world cup|champions?|capital|country|countries|state|nation|population|stock"
    r"|market|nasdaq|election|congress|government|industry|crash|earthquake|hurricane|volcano|vaccine|disease|language"
    r"|bible"
    r"|church|myth|mythology|star|planet|satellite|spacecraft|point of|cause of|cause|causes|purpose|meaning|age"
    r"|\d{3,4})\b"
)
"""Of what the world knows the past."""


def asks_of_the_past(plain: str, text: str) -> bool:
    """Whether a question (``plain``: in lower case) is about something definite in the past that is no history: what it
    is about has no name of its own, and it does not ask for what the world remembers.
    """
    if _CAPITAL.search(text) and not text.isupper():
        return False
    if _PAST_PARTICULAR.search(plain) is None or HISTORY.search(plain):
        return False
    return KNOWN_PLACES.isdisjoint(words_of(plain))


FOREIGN = frozenset(
    """
    der das dem ist hat haben sind und nicht ein eine einen bei mit für fuer von im zum zur auf aus wird kann wurde
    wurden gab sie ihr ihre sein noch denn kostet heißt heisst mag
    el los las que qué cuándo cuánto cómo es está para por con del una su
    le les des est une du dans pour avec quel quelle elle il qui
    het een wie hoe waar niet voor hij zij haar zijn
    og det hvad hvor som
    foi ela ele qual para não onde quando
    di della che cosa quanto dove
    """.split()  # noqa: SIM905
)
"""Words of other languages that no English question has: German "was" and Spanish "has" begin no English one."""

_CAPITAL = re.compile(r"(?<=\W)[A-Z][A-Za-z]")
_CONTINUES = re.compile(r"(?:and|or|but|so|then|what about|how about|also)\b")
_DEFINITE = re.compile(r"\bthe \w+")
_DEFINED = re.compile(r"\b(?:of|in|for|between|on|from|at|to)\b")
_DEFINITION = re.compile(r"(?:what|who)(?:'s| is| are| was| were|s) (?:an? )?[\w'-]+")
_FEW_TERMS = 3


def leans_on_earlier(plain: str) -> bool:
    """Whether a question may be about what the messages before it speak of: it points there, goes on with "and", has
    no subject of its own, or has one ("the ingredients") without saying whose.
    """
    if POINTING.search(plain) or _CONTINUES.match(plain):
        return True
    if _DEFINITION.fullmatch(plain):
        return False
    terms = len(key_terms(plain, limit=_FEW_TERMS + 1))
    return terms <= 1 or (terms <= _FEW_TERMS and _DEFINITE.search(plain) is not None and not _DEFINED.search(plain))


def last_few(earlier: Sequence[str]) -> Iterator[str]:
    """The messages before the last one that are looked at, the latest first."""
    return reversed(earlier[-EARLIER_MESSAGES:])
