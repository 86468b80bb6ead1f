"""Plain retractions: orders to forget something, and what the user says is no longer so."""

import re
from datetime import datetime

import msgspec

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.changes import changed
from memproxy.learn.rules.known import Ledger, same_slot, taken_back, terms
from memproxy.learn.rules.said import MASK, Clause, plain
from memproxy.learn.rules.statements import SURE, stated
from memproxy.learn.rules.table import EVENTS

_JUST_SAID = 2
_TOPIC = r"(?P<topic>[^,;!?]{2,120}?)"
_POLITE = (
    r"(?:(?:please|can you|could you|would you|will you|i want you to|i'd like you to|i need you to|you can|just|now)"
    r" ){0,3}"
)
ORDER = re.compile(
    rf"\A{_POLITE}(?:forget|delete|erase|remove|drop|scrub|wipe|unlearn|(?:do not|stop) (?:remember|store|keep"
    rf"|save)(?:ing)?)"
    r"(?: about)?(?: everything| anything| all| the fact| the thing| the part)?"
    r"(?: (?:(?:that |what |which )?(?:i|we) (?:have )?(?:ever )?(?:said|told you|mentioned|shared)|(?:that "
    r"|what )?you (?:know|have|remember)))?"
    rf"(?: (?:about|on|of|regarding))?(?: that)? {_TOPIC}"
    r"(?: from (?:your |the )?(?:memory|notes|records?|memories)| (?:again|please|now)|,.{0,200})?\Z",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"\A(?:please )?(?:(?:forget|delete|ignore|disregard|scratch|strike) (?:that|it|this"
    r"|what i (?:just )?said)(?: again)?"
    r"|(?:that|this) (?:was|is) (?:a joke|wrong|not true|a lie|nonsense)|i was (?:joking|kidding"
    r"|lying))(?:, (?P<tail>.{1,200}))?\Z",
    re.IGNORECASE,
)
"""Takes back what was said just before."""

ENDED = (
    (re.compile(r"\A(I|we) no longer (.{2,120})\Z", re.IGNORECASE), r"\1 \2"),
    (re.compile(r"\A(I|we) (am|are) no longer (.{2,120})\Z", re.IGNORECASE), r"\1 \2 \3"),
    (re.compile(r"\A(I|we) (?:do not|did not|will not) (.{2,110}) anymore\b", re.IGNORECASE), r"\1 \2"),
    (re.compile(r"\A(I|we) (am|are|have) (?:not|no) (.{2,110}) anymore\b", re.IGNORECASE), r"\1 \2 \3"),
    (re.compile(r"\A(I|we) (cannot) (.{2,110}) anymore\b", re.IGNORECASE), r"\1 can \3"),
    (re.compile(r"\b(I|we) (do|am|are|have) not (.{2,110}?)(?: after all| at all)?\Z", re.IGNORECASE), r"\1 \2 \3"),
    (re.compile(r"\A(my|our) (.{2,80}) (?:is|are) (?:no longer|not) (.{2,60})\Z", re.IGNORECASE), r"\1 \2 is \3"),
)
"""What is no longer so, and the statement of it that it takes back."""

_OF_MEMORY = re.compile(
    r"\b(?:forget (?!it\Z|that\Z|this\Z)|unlearn|remember|memor(?:y|ies)\b|i (?:have )?(?:ever |just )?(?:said|told you"
    r"|mentioned|shared)\b|you (?:know|have|remember)\b|was (?:joking|kidding|lying)\b)",
    re.IGNORECASE,
)
_EVENTS = tuple((re.compile(rf"\b(?:{one})", re.IGNORECASE), predicates) for one, predicates in EVENTS)
_OVER = re.compile(r"\bno longer\b|\banymore\b", re.IGNORECASE)
GONE = (
    (
        r"(?:(?:i|we) (?:have )?)?(?:sold|got rid of|gave away|gave up on|gave up|given up on|given up|returned"
        r"|lost|scrapped|cancelled|canceled|called off"
        r"|dropped|quit|left|stopped|ditched|deleted|traded in|donated|rehomed|closed|ended|resigned from"
        r"|unsubscribed from"
        r"|finished|broke up with|split up with|split from|divorced)"
        r"(?: (?:my|our|the|using|doing|taking|playing|going to|working (?:at|for)|my job at|learning|with"
        r"|at)){0,2} (?P<topic>[^,;!?]{2,60}?)"
        r"(?=\Z|[,;!?]| (?:last|this|in|on|because|since|and|so|a|for|two|three|yesterday|today|to)\b)"
    ),
    (
        r"(?:my|our|the) (?P<topic>[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?)(?: (?:has|have|is|are|was|were|got|been)){0,2}"
        r" (?:died|passed away|cancelled|canceled|called off|off the table|off|sold|gone for good|scrapped|over)"
        r"(?=\Z|[,;!?]| (?:last|this|in|on|because|since|and|so|a)\b)"
    ),
    r"(?:me|i) and (?P<topic>\w{2,20}) (?:have |are |got )?(?:broke up|broken up|split up|separated|divorced)\b",
    r"(?:(?:i|we) )?(?:have |had to )?put (?P<topic>\w{2,20}) (?:to sleep|down)\b",
    r"(?P<topic>\w{2,20}) (?:died|passed away)\b",
    (
        r".{0,60}\b(?:not|no|off)(?: on| using| with| the| my| any| a){0,2} (?P<topic>[^,;!?]{2,60}?) (?:anymore"
        r"|after all)\b"
    ),
    r"(?P<topic>\w{2,20}) and i (?:have |are |got )?(?:broke up|broken up|split up|separated|divorced)\b",
    r"i (?:have )?(?:broke|broken|split) up with (?P<topic>\w{2,20})\b",
)  # fmt: skip
GONE_PATTERNS = tuple(re.compile(rf"\A(?:{one})", re.IGNORECASE) for one in GONE)


def is_order(clause: Clause) -> bool:
    """Whether a sentence orders to forget something, or takes back what was said just before."""
    text = clause.text.rstrip("?")
    return _BACK.match(text) is not None or ORDER.match(text) is not None


def is_plain_order(clause: Clause) -> bool:
    """Whether it orders the memory to forget something. "Delete the last line" is for the work at hand, and "forget it"
    may be no more than "never mind".
    """
    return _OF_MEMORY.search(clause.text) is not None and is_order(clause)


def topic_of(clause: Clause) -> str:
    """What an order names that is to be forgotten; nothing of one that takes back what was said just before."""
    match = ORDER.match(clause.text.rstrip("?"))
    return plain(match["topic"]) if match is not None else ""


def speaks_of_an_end(clause: Clause) -> bool:
    """Whether a clause is worded like one that says of something that it is no longer so."""
    return any(pattern.search(clause.text) for pattern, _ in ENDED)


def order(clause: Clause, ledger: Ledger, place: int, said_at: datetime) -> list[Extracted]:
    """What a sentence orders to forget; read of questions too ("can you forget my address?")."""
    text = clause.text.rstrip("?")
    if (back := _BACK.match(text)) is not None:
        tail = Clause(plain(back["tail"] or ""), corrects=True)
        instead = changed(tail, ledger, place) or stated(tail.text, said_at)
        return instead or [taken_back(one) for one in ledger.said_in(place - _JUST_SAID, place)]
    match = ORDER.match(text)
    topic = plain(match["topic"]) if match is not None else ""
    if MASK in topic:
        return []
    if THERE.match(topic):
        return _denied(topic, ledger, said_at, is_over=True)
    if not terms(topic):
        return [taken_back(one) for one in ledger.asked_by(topic)]
    if meant := stated(topic, said_at):
        return [taken_back(one) for one in meant]
    return [taken_back(one) for one in ledger.all_about(topic) or ledger.asked_by(topic)] or [_request(topic)]


def ended(clause: Clause, ledger: Ledger, said_at: datetime, *, plainly: bool = False) -> list[Extracted]:
    """What a clause says is no longer so; ``plainly``: in these words, and not by what became of a thing ("I left
    Berlin", this morning or for good).
    """
    for pattern, instead in ENDED:
        if (match := pattern.search(clause.text)) is not None:
            is_over = _OVER.search(clause.text) is not None
            if found := _denied(match.expand(instead), ledger, said_at, is_over=is_over):
                return found
    for pattern in () if plainly else GONE_PATTERNS:
        if (match := pattern.match(clause.text)) is not None and terms(topic := plain(match["topic"])):
            return [taken_back(one) for one in ledger.all_about(topic)]
    return []


def ended_by_event(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What an event ends ("got a new job"): the known answers to its questions."""
    for pattern, predicates in _EVENTS:
        if pattern.search(clause.text) is not None:
            held = (one.statement for one in ledger.newest() if one.turn < ledger.place)
            return [taken_back(one) for one in held if one.predicate in predicates and one.subject == "user"]
    return []


THERE = re.compile(
    r"\A(?:(?:i|we) (?P<verb>work|live|study) (?:there|here)|where (?:i|we) (?P<where>work|live|study))\b", re.I
)
_THERE = {"work": "works_at", "live": "lives_in", "study": "studies_at"}


def _denied(text: str, ledger: Ledger, said_at: datetime, *, is_over: bool) -> list[Extracted]:
    """The known statements that a positive sentence says; by the question it answers, else by all of its words."""
    held = [one.statement for one in ledger.newest()]
    if (there := THERE.match(text)) is not None:
        asked = _THERE[(there["verb"] or there["where"]).lower()]
        return [taken_back(one) for one in held if one.predicate == asked][:1]
    if meant := stated(text, said_at):
        found = [one for one in held for said in meant if _says(said, one)]
        found = found or (ledger.all_about(text) if is_over else [])
        return [taken_back(one) for one in found or (meant if is_over else [])]
    return [taken_back(one) for one in ledger.all_about(text)] if is_over else []


def _says(said: Extracted, held: Extracted) -> bool:
    same = said.subject == held.subject and said.predicate == held.predicate
    return (same_slot(said, held) or same) and terms(said.object or "") <= terms(held.content)


def _request(topic: str) -> Extracted:
    """A request to forget what nothing known holds in these words; reconciliation looks further."""
    return msgspec.structs.replace(Extracted(content=topic), intent=Intent.FORGET, confidence=SURE)
