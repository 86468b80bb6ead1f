"""Messages that ask and tell nothing: bare questions for something of the user's own ("Where do I work?"), and
suppositions ("Suppose I lived in Rome.").

They are stored as every message is, and asked again they have all of the question's words, more of them than the
answer. What is stored of that is `VERSION`'s to say.
"""

import re

import msgspec

from memproxy.core.late import LatePattern
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.text import key_terms

VERSION = 1
"""Of `tells_nothing`, noted by a store beside its memories: with another one all of its turns are looked at again."""

_LONGEST = 300
"""Characters of a question; `_QUESTION` fits no longer one."""

_QUESTION = re.compile(
    r"(?:and |so |but )?(?:what|when|where|who|whom|whose|which|why|how|is|are|was|were|do|does|did|can|could|will"
    r"|would|should|have|has)\b[^.!?;:,\n\d]{0,160}\?\s*",
    re.IGNORECASE,
)
"""One question and nothing else: a second clause or a number may tell something."""

_LEAD = re.compile(r"[^.!?;:,\n\d]{1,40}:\s*")
"""What announces somebody's words: "You asked:"."""

_OWN_MATTER = LatePattern(
    r"(?:(?:and|so|but) )?(?:what|when|where|who|whom|whose|which|how (?:much|many|old|long|often|far|big|tall))\b"
    r"[^?]*?(?:'s|’s|\b(?:is|am|are|was|were|do|does|did|have|has))\b"
    r"(?:\s+[^\s?]+){0,6}?\s+(?:my|our|i|we)\b",
    re.IGNORECASE,
    most=_LONGEST,
)
_ADVICE = re.compile(r"\b(?:can|could|should|shall|would|will|may|might|to(?!\s*\?)|some)\b", re.IGNORECASE)
"""A question for something of the user's own that is known ("How much did I pay?"), not for advice ("What are some tips
for my garden?"), which tells what occupies him; nor one whose own matter stands far behind ("What are the benefits of
setting up a fund for my child?"). Without a name it tells nothing.
"""

_SUPPOSED = re.compile(
    r"(?:suppos(?:e|ing)|imagin(?:e|ing)(?! (?:my|our|how)\b)|pretend|let['’]s (?:say|suppose|imagine|pretend)|what if"
    r"|hypothetically)\b[^.!?;\n]{0,200}[.!?]?\s*",
    re.IGNORECASE,
)
"""One sentence of what is not so."""

_NAME = re.compile(r"(?<=[\w,'’\"] )(?!I\b)[A-Z]\w+|\w[A-Z]")

_ABOUT_QUESTIONS = re.compile(r"\b(?:ask(?:ed|ing)?|questions?)\b", re.IGNORECASE)

_QUOTES = "\"'`“”‘’«»*_ "


class Question(msgspec.Struct, frozen=True):
    """A bare question or supposition: its key terms, and whether it tells nothing (`_OWN_MATTER`, `_SUPPOSED`)."""

    terms: frozenset[str]
    is_open: bool


def may_be_question(text: str) -> bool:
    """Whether `read_question` is worth its time."""
    return text.rstrip(_QUOTES + "\n").endswith("?") or _SUPPOSED.match(text.lstrip(_QUOTES)) is not None


def read_question(text: str) -> Question | None:
    """A text that is one question, or one supposition, and nothing else; None for what is none."""
    said = text.strip(_QUOTES)
    if _SUPPOSED.fullmatch(said):
        return Question(terms=frozenset(key_terms(text)), is_open=True)
    if (lead := _LEAD.match(said)) is not None:
        said = said[lead.end() :].lstrip(_QUOTES)
    if not _QUESTION.fullmatch(said):
        return None
    return Question(terms=frozenset(key_terms(text)), is_open=_is_open(said))


def _is_open(question: str) -> bool:
    return _OWN_MATTER.match(question) is not None and not (_NAME.search(question) or _ADVICE.search(question))


def tells_nothing(memory: Memory) -> bool:
    """Whether this is a message of the user's that only asks for what is his own, or supposes something."""
    if memory.kind is not Kind.TURN or memory.trust is not Trust.USER or not may_be_question(memory.content):
        return False
    question = read_question(memory.content)
    return question is not None and question.is_open


def about_questions(query: str) -> bool:
    """Whether somebody asks for what was asked ("What did I ask you about the trip?")."""
    return _ABOUT_QUESTIONS.search(query) is not None
