"""What is read in a query, each once for all rankings: what kind of answer it wants, of whose words, and of when."""

import re
from datetime import datetime
from itertools import pairwise

import msgspec

from memproxy.core import timerange
from memproxy.core.bounded_regex import BoundedPattern
from memproxy.core.fusion import log_odds
from memproxy.core.message_kinds import OWN, fitted, plain, shares, speaks_of_self
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, key_terms, words
from memproxy.recall.lazy import lazy
from memproxy.recall.word_index import spelled

MOST_WORDS = 40
"""For longer queries (something pasted) a text's words are looked up one by one."""

MOST_PARTS = 3
"""Questions of one message; each costs a search."""

_READ = 2000
_MOST_OF_QUESTIONS = 300
"""Longest message that is split: a longer one tells more than it asks."""

_SUREST = 0.98
"""How sure it is at most that a query is about something of one's own."""

_EMPTY_WORDS = frozenset(word.encode() for word in STOPWORDS | GENERIC_WORDS)
_FUNCTION_WORDS = frozenset(part.encode() for word in STOPWORDS for part in word.split("'"))


class QueryType(msgspec.Struct, frozen=True):
    """What kind of answer a query wants and of whose words, 1 or 0 each."""

    number: float
    name: float
    time: float
    first_person: float
    assistant_said: float


class Query:
    """A query's ``text``, and what is read in it, each when it is first asked for; ``now`` is when it is asked."""

    def __init__(self, text: str, now: datetime) -> None:
        self.text = text
        self.now = now

    @lazy
    def type(self) -> QueryType:
        """Whether it is for what the assistant said in English, German, Spanish, French and Chinese, the rest in
        English only.
        """
        low = self.text[:_READ].lower().replace("’", "'")
        return QueryType(
            number=float(_HOW_MANY.search(low) is not None),
            name=float(_WHO.search(low) is not None),
            time=float(_WHEN.search(low) is not None),
            first_person=float(_ME.search(low) is not None),
            assistant_said=float(_YOU_SAID.search(low) is not None),
        )

    @lazy
    def spans(self) -> list[timerange.Span]:
        """The times that it names."""
        return timerange.spans(self.text, self.now)

    @lazy
    def asks_for_latest(self) -> bool:
        """Whether it is for what is newest."""
        return timerange.asks_for_latest(self.text)

    @lazy
    def names(self) -> frozenset[str]:
        """Its words, lower-cased, to see whose name is among them."""
        return frozenset(word.removesuffix("'s") for word in words(self.text[:_READ]))

    @lazy
    def speaks_of_self(self) -> float:
        """1 with a first-person word in any language, else 0."""
        return float(speaks_of_self(plain(self.text)))

    @lazy
    def own_odds(self) -> float:
        """The log odds that it is about something of one's own (`core.message_kinds`)."""
        return log_odds(shares(plain(self.text), self.text, fitted())[OWN], surest=_SUREST)

    @lazy
    def asks_for_many(self) -> bool:
        """Whether several memories may be the answer together (a plural after "which" or "what", and its like in
        German, Spanish, French and Chinese).
        """
        return _MANY.search(self.text[:_READ].lower()) is not None

    @lazy
    def word_pairs(self) -> list[bytes]:
        """The pairs of words that stand next to each other, at least one of them with a topic, as `WordIndex.having`
        takes them.
        """
        pairs = pairwise(spelled(self.text[:_READ]).split())
        telling = (pair for pair in pairs if any(len(word) > 1 and word not in _EMPTY_WORDS for word in pair))
        return [b" %b %b " % pair for pair in dict.fromkeys(telling)]

    @lazy
    def single_words(self) -> dict[bytes, bool]:
        """Its words, and whether each has no topic ("did", "when"); of a query that was pasted the first ones."""
        spelled_words = list(dict.fromkeys(spelled(self.text[:_READ]).split()))
        return {word: word in _FUNCTION_WORDS for word in spelled_words[:MOST_WORDS]}


def parts_of(query: str) -> list[str]:
    """The questions in a message, in order; the message itself when there is one. They are searched one by one, because
    a memory about one of two has few of the words of both.

    It is divided only where every part is a whole question: it asks by itself, names its own matter, and points back at
    nothing in the one before ("... and when did it start?").
    """
    if len(query) > _MOST_OF_QUESTIONS:
        return [query]
    parts = [part.strip() for part in _NEXT_QUESTION.split(query, MOST_PARTS - 1)]
    if len(parts) < 2:
        return [query]
    whole = all(map(_is_whole, parts)) and not any(map(_POINTS_BACK.search, parts[1:]))
    return parts if whole else [query]


def _is_whole(part: str) -> bool:
    return bool(key_terms(part, limit=1)) and _BEGINS_BY_ASKING.match(part) is not None


_BEGINS = r"(?:\b(?=\w)|(?=[\u4e00-\u9fff]))"
"""Where a word begins, or any Chinese character stands. In front of many alternatives it passes all other places
without trying each of them, in a half to a third of the time.
"""

_HOW_MANY = re.compile(r"\bhow (many|much|long|old|often|far|big|tall)\b|\bwhat (number|amount|percentage|age)\b")
_WHO = re.compile(
    r"\b(who|whose|whom|where)\b|\b(which|what) (kind of |type of )?"
    r"(person|book|movie|film|show|series|song|album|artist|band|game|city|country|state|place|restaurant|company"
    r"|brand"
    r"|store|shop|school|university|team|name|recipe|car|dish)s?\b|\bnames?\b"
)
_WHEN = re.compile(r"\bwhen\b|\b(what|which) (date|day|month|year|time|week)\b|\bhow long\b")
_ME = re.compile(r"\b(i|i'm|i've|i'd|my|me|mine|we|our)\b")
_YOU_SAID = re.compile(
    rf"{_BEGINS}(?:"
    r"\b(?:you|assistant)(?:'ve| have| had)?(?: \w+)? (?:said|told|suggested|recommended|mentioned|gave|given|listed"
    r"|provided|explained|described|wrote|written|advised|shared|proposed|came up|helped)\b"
    r"|\bdid (?:you|the assistant)\b"
    r"|\byour (?:suggestion|recommendation|advice|list|answer|explanation|idea|tip|plan|proposal|recipe)s?\b"
    r"|\byour(?: [\w-]+){1,3} (?:recipe|plan|tip|suggestion|recommendation|advice|idea)s?\b"
    r"|\bour (?:previous|last|earlier) (?:conversation|chat|discussion)\b"
    r"|\b(?:du|sie)\b[^.?!]{0,60}\b(?:empfohlen|vorgeschlagen|gesagt|geraten|genannt|erklärt|geschrieben|erwähnt)\b"
    r"|\bdein(?:e[mnrs]?)? (?:vorschl[aä]ge?|tipps?|empfehlung|rat|idee|plan|antwort|rezept)\b"
    r"|\b(?:recomendaste|sugeriste|dijiste|aconsejaste|propusiste|explicaste|mencionaste|diste|escribiste)\b"
    r"|\btus? (?:recomendaci[oó]n|sugerencia|consejo|plan|idea|respuesta|receta)\w*"
    r"|\bt(?:u|u m'|u me|u nous) ?(?:m')?(?:as|avais)\b[^.?!]{0,30}\b(?:conseillé|recommandé|suggéré|dit|proposé"
    r"|donné"
    r"|expliqué|écrit|mentionné)|\bt(?:on|a|es) (?:conseil|suggestion|recommandation|idée|plan|réponse|recette)s?\b"
    r"|你(?:上次|之前|以前|昨天|刚才|当时|那时)[^。？！]{0,8}(?:推荐|建议|说|告诉|提|介绍|写|给)"
    r"|你(?:推荐|建议|说|告诉|提到|介绍|写|给)(?:过|了|给我的|我的|的那))"
)

_MEASURES = (
    r"hours?|days?|weeks?|months?|years?|minutes?|seconds?"
    r"|miles?|kilomet(?:er|re)s?|steps|calories|people|pages|percent"
)
"""Amounts that one message tells in full; of other counted things each may have been told by itself."""

_MANY = BoundedPattern(
    rf"{_BEGINS}(?:"
    r"\b(?:which|what)(?:\s+(?!(?:does|is|was|has|did|do|are|were|have|had|i|we|my|our|the|time)\b)[\w-]+){0,2}?"
    r"\s+(?!(?:does|was|is|has|this|its|his|yes|address|business|class|bus|news|series|status|days)\b)"
    r"\w{2,}(?<!s)(?<!u)(?<!i)s\b"
    rf"|\bhow\s+many\s+(?!(?:{_MEASURES})\b)(?:[\w'’-]+\s+){{0,3}}?\w{{2,}}(?<!s)(?<!u)(?<!i)s\b"
    r"|\bwie\s*viele\b|\bcu[aá]nt[oa]s\b|\bcombien\s+d[e']|几[个本次只]"
    r"|\b(?:what|which|who|where|when|how\s+old|how)\s+(?:all\s+)?(?:are|were)\s+(?:all\s+)?"
    r"(?:my|our|the|his|her|their|some)\s+(?:\w+\s+)?\w+(?:s|children|people|kids)\b"
    r"|\b(?:list|name|all)\s+(?:all\s+|of\s+)*(?:the|my|our)\b|\beverything\b|\bwhat\s+all\b|\bnames\s+of\b"
    r"|\bwie\s+hei(?:ß|ss)en\b|\b(?:was|wer|wo|welche\s+\w+)\s+sind\b|\balle\s+meine\b"
    r"|\bqu[ée]\s+\w{2,}s\b|\bcu[aá]les\b|\bquel(?:le)?s\b|\b(?:quand|qui|o[uù])\s+sont\b|哪些|哪几)",
    most=_READ,
)
_ASKING = r"(?:what|when|where|who|whom|whose|which|why|how)\b"
_ASKING_OF_ME = r"(?:do|does|did|am|is|are|was|were|have|has|had|can|will|should) (?:i|we|my|our)\b"
_NEXT_QUESTION = BoundedPattern(
    r"(?:\?\s+(?:(?:and|also|or|but)[ ,]\s*)?|[,;]?\s+(?:and|also|or|but)\s+(?:also\s+)?)"
    rf"(?={_ASKING}|{_ASKING_OF_ME})",
    re.IGNORECASE,
    most=_MOST_OF_QUESTIONS,
)
_BEGINS_BY_ASKING = re.compile(
    rf"\W*(?:(?:please|hey|hi|so|and|ok|okay)\W+)*(?:(?:can|could|would) you )?(?:please )?"
    rf"(?:tell me |remind me |do you (?:know|remember) )?(?:{_ASKING}|{_ASKING_OF_ME})",
    re.IGNORECASE,
)
_POINTS_BACK = re.compile(
    r"\b(?:he|she|they|it|him|her|them|his|hers|their|its|there|that|this|those|these|then|one|ones|both|same)\b",
    re.IGNORECASE,
)
