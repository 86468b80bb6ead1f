"""What is declared of a thing of the user's that no rule knows: "the surgery I manage opens at 8 on weekdays".

Only of a thing that the clause binds to the user (by "my", "our", "I", or the name of somebody known), with a verb that
tells how it is for long and a value that says something: a number, a day, a name, a place. And what was announced as
changed where nothing of it is known yet ("the scrim got pushed to Sunday").
"""

import re

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.frames import NUMBER_WORDS, when_in, without_now
from memproxy.learn.rules.general import OFTEN_SAID, fact
from memproxy.learn.rules.ledger import Ledger, terms
from memproxy.learn.rules.lexicon import PASSING_NOUNS
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.recovered import as_told
from memproxy.learn.rules.typed import COLOURS
from memproxy.learn.rules.values import MASK, names_in, slug, third_person, trimmed

_VERB = (
    r"(?:is called|are called|is named|is|are|will be|has|have|takes place|starts?|begins?|ends?|opens?|closes?|runs?|"
    r"leaves|lands|departs|arrives|costs?|weighs?|lasts?|meets?|lives?|faces|flies|measures|seats|holds|goes|plays|"
    r"speaks|teaches|belongs|uses|expires?|comes|sits?)"
)
_DECLARES = re.compile(
    rf"(?P<subject>(?!(?:it|that|this|there|he|she|they|you|we|I|what|which|who|here|everything|nothing|something|"
    rf"these|"
    rf"those|one|anyone|if|when|where|how)\b)[\w'’-]+(?: (?!{_VERB}\b)[\w'’-]+){{0,6}}?) (?P<verb>{_VERB}) "
    rf"(?P<rest>[^?]+)",
    re.IGNORECASE,
)
_BOUND = re.compile(
    r"(?:my|our)\b|.*\b(?:at|of|in|for|on|with|from|to|by|near|behind) (?:my|our)\b|.*\b(?:I|we) [a-z]+", re.IGNORECASE
)
_OWN = re.compile(r"\b(?:my|our|I|we)\b", re.IGNORECASE)
_SAYS = re.compile(
    rf"\d|\b(?:{NUMBER_WORDS})\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:{COLOURS})\b|\b(?:january|"
    rf"february|"
    r"march|april|may|june|july|august|september|october|november|december|noon|midnight)\b",
    re.IGNORECASE,
)
_PLACED = re.compile(r"(?:in|at|on|to|with|from|near|for) (?:the |an? )?\w", re.IGNORECASE)
_PASSING = re.compile(
    r"\b(?:it|this|that|these|those|you|your|error|bug|line|file|code|function|tests?|script|button|div|page|screen|"
    r"regex|query|output|exception|not|no longer|never|cannot|fine|ok|okay|works|broken|wrong|better|worse|ready|"
    r"done|if|would|"
    r"could|should|might|maybe|today|tonight|tomorrow|yesterday|right now|now|always|too|so|very|question|problem|"
    r"issue|"
    r"version|answer|step|example|late|over|missing|down|full|empty|stuck|slow|dead|row|column|table|array|list|"
    r"variable|class|method|input|string|essay|draft|paragraph|sentence|words?)\b|\?",
    re.IGNORECASE,
)
_MOVED = re.compile(
    r"(?P<what>(?:(?:my|our|the|his|her|their) )?(?!(?:I|we|it|that|this|they|he|she|you)\b)[\w'’-]+(?: "
    r"[\w'’-]+){0,4}?) "
    r"(?:(?:got|has been|have been|was|were|is being|is) )?(?:moved|pushed|postponed|rescheduled|shifted|bumped|"
    r"brought "
    r"forward|delayed|changed|switched|put back)(?: back| forward| up| out)?(?: from .{1,30}?)? to (?P<x>.+)"
    r"|(?:I|we|they) (?:have )?(?:bumped|moved|upgraded|switched|renamed|pushed|postponed|rescheduled|changed|swapped) "
    r"(?P<that>(?!(?:it|that|this|them|from|to|over|back)\b)[\w'’-]+(?: [\w'’-]+){0,4}?) (?:from .{1,30}? )?to "
    r"(?P<y>.+)",
    re.IGNORECASE,
)
_TIMES = frozenset(
    {"night", "evening", "morning", "weekend", "dinner", "lunch", "breakfast", "party", "stock", "budget"}
)
"""Of these somebody says "my" or "our" for long: "quiz night at our pub"."""

_THE_THING = re.compile(
    r"(?P<what>the (?:car|van|bike|boat|dog|cat|flat|house|apartment|camera|phone|laptop|guitar|piano)) is an? "
    r"(?P<x>(?-i:[A-Z])[\w-]+(?: (?-i:[A-Z0-9])[\w-]*)*)",
    re.IGNORECASE,
)
"""Said beside something of the user's own, "the car" is his."""

_MOST_WORDS = 18


def declared(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """The clause as a statement of a thing of the user's; nothing when it tells nothing that lasts."""
    text = clause.text.strip(" .!,")
    if MASK in text or len(text.split()) > 2 * _MOST_WORDS:
        return []
    own = _THE_THING.match(text)
    if own is not None and _OWN.search(clause.evidence) is not None:
        kind = own["what"].split()[1].lower()
        return [fact(f"User's {kind} is a {own['x']}.", kind, own["x"], "possessions/things")]
    return _moved(text, clause) or _of_thing(text, ledger) or _asked_to_keep(clause)


_ASKED_TO_KEEP = re.compile(
    r"\W*(?:(?:please|pls|can you|could you) )?(?:remember|keep in mind|note(?: down)?|save|memori[sz]e|"
    r"don['’]?t forget)"
    r"(?: this| that)?\s*[:,]?\s+(?!to\b|when\b|how\b|what\b|me\b|it\b|this\b|if\b|about\b|for\b|where\b|why\b|not\b)",
    re.IGNORECASE,
)


def _asked_to_keep(clause: Clause) -> list[Extracted]:
    """“Remember: the code of our shed is 4471”: what the user asks to keep, in his words."""
    asked = _ASKED_TO_KEEP.match(clause.evidence)
    if asked is None or not re.search(
        r"\b(?:is|are|has|have|go|goes|come|comes|opens?|closes?|costs?|starts?)\b", clause.text
    ):
        return []
    text = re.sub(
        r"^(?:remember|keep in mind|note(?: down)?|save|do not forget)(?: this| that)?\W+", "", clause.text, flags=re.I
    )
    told = as_told(msgspec.structs.replace(clause, text=text))
    if told is None:
        return []
    content = (
        told.content if told.content.startswith("User") else re.sub(r"\btheir\b", "the user's", told.content, count=1)
    )
    return [msgspec.structs.replace(told, content=content)]


def _of_thing(text: str, ledger: Ledger) -> list[Extracted]:
    match = _DECLARES.match(without_now(text))
    if match is None:
        return []
    subject, rest = match["subject"], trimmed(match["rest"], "long")
    if (
        rest is None
        or not (_is_bound(subject, ledger) or _recurs(subject, rest))
        or _PASSING.search(f"{subject} {rest}")
    ):
        return []
    if len(rest.split()) > _MOST_WORDS or (
        _head(subject) in PASSING_NOUNS - _TIMES and match["verb"].lower() != "sits"
    ):
        return []
    if not (
        _SAYS.search(rest)
        or names_in(rest)
        or (match["verb"] != "is" and _PLACED.match(rest))
        or (match["verb"].lower() == "plays" and len(rest.split()) == 1)
    ):
        return []
    own = re.match(r"(?:my|our) ", subject, re.IGNORECASE)
    who = f"User's {third_person(subject[own.end() :])}" if own else third_person(subject[0].upper() + subject[1:])
    said = third_person(f"{match['verb'].lower()} {rest}")
    asked = f"told_{slug(subject)}_{slug(match['verb'])}_{slug(when_in(rest))}".rstrip("_")
    return [fact(f"{who} {said}.", asked, third_person(rest))]


def _head(subject: str) -> str:
    """The noun that is spoken of ("practice night at our tower": night)."""
    return re.split(r" (?:at|of|in|for|on|with|from|to|by|near|behind|I|we)\b", subject)[0].split()[-1].lower()


def _is_bound(subject: str, ledger: Ledger) -> bool:
    if _BOUND.match(subject):
        return True
    first = subject.split("'", maxsplit=1)[0].split("’", maxsplit=1)[0]
    return names_in(first) == [first] and any(first in one.statement.entities for one in ledger.newest())


_RECURRING = re.compile(
    r"(?:(?:choir|band|orchestra|football|soccer|rugby|tennis|dance|yoga|swimming|martial arts|karate|judo|theatre|"
    r"drama|team|rehearsal|language|cooking|pottery|art|music|piano|violin|guitar|singing|riding|chess|book|quiz|game|poker|"
    r"movie|date|laundry|bin|rubbish|market|therapy|physio|vet|scout) )?(?:practice|training|rehearsals?|class(?:es)?|"
    r"lessons?|club|night|day|nights|days|course|session|sessions|group)$",
    re.IGNORECASE,
)


def _recurs(subject: str, rest: str) -> bool:
    """Whether it is what somebody goes to again and again ("choir practice is every Tuesday")."""
    return _RECURRING.match(subject) is not None and " " in subject and OFTEN_SAID.search(rest) is not None


def _moved(text: str, clause: Clause) -> list[Extracted]:
    """“The scrim got pushed to Sunday 6 pm”: said as news, so it is of something that lasts."""
    match = _MOVED.match(text)
    if match is None:
        return []
    what, new = match["what"] or match["that"], trimmed(match["x"] or match["y"], "long")
    if new is None or _PASSING.search(f"{what} {new}") or not terms(what):
        return []
    if not (_SAYS.search(new) or names_in(new) or dates.find(new, clause.said_at)):
        return []
    own = re.match(r"(?:my|our) ", what, re.IGNORECASE)
    thing = f"User's {what[own.end() :]}" if own else what[0].upper() + what[1:]
    return [
        fact(f"{third_person(thing)} was moved to {third_person(new)}.", f"told_{slug(what)}_is", third_person(new))
    ]
