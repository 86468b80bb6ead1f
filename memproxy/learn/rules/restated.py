"""Changes that no rule reads: the clause itself, in the third person, in the place of what it restates.

Only where the message says that something changed or was wrong, or where the clause says over again, in the same
words, what was said before with another value ("the topic orders has 12 partitions", "topic orders has 24
partitions"). The old statement that shares the clause's words, alone, is ended; where two could be meant none is, and
the new one is kept beside them.
"""

import re
from difflib import SequenceMatcher

import msgspec

from memproxy.core.slots import numbers, value_name
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.frames import at_other_times, without_now
from memproxy.learn.rules.general import OFTEN_SAID, fact
from memproxy.learn.rules.ledger import NAMES_NOTHING, Known, Ledger, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.typed import COLOURS, replaced
from memproxy.learn.rules.values import MASK, names_in, slug, third_person, trimmed

CHANGE = re.compile(
    r"\b(?:actually|correction|typo|(?:scratch|strike) that|hold on|hang on|wait|oops|whoops|my bad|my mistake|"
    r"misspoke|misread|mistaken|mistyped|mixed up|I meant|I was wrong|not right|wrong|no longer|any ?more|now|"
    r"these days|"
    r"nowadays|instead|chang(?:ed?|ing)|moved|switch(?:ed)?|rescheduled|pushed|postponed|delayed|vetoed|update|"
    r"turns out|final answer|since (?:then|last)|reversing|renamed|replaced|swapped|decided|went with|ended up|"
    r"halved|doubled|tripled|slashed|hiked|trimmed|adjusted|painted|repainted|dyed|"
    r"make (?:that|it)|sorry|fix|rather|revised|up to date|bumped|upped|cut to|raised|dropped to|grew to|"
    r"lowered|(?:put|went|gone|going|brought|taken) (?:\w+ ){0,2}(?:up|down) to|"
    r"refinanced|spelled|spelt|gave you|turned|joined|quit|sold|left|new|plan b|"
    r"asked for|as of|can only|became|become|from this)\b",
    re.IGNORECASE,
)
"""Words with which people say that something is not as they said before."""

_MARKS_CLAUSE = re.compile(
    r"\b(?:now|these days|nowadays|instead|from now on|since (?:then|last \w+))\b", re.IGNORECASE
)
_VERB = (
    r"(?:is|are|will be|has|have|is called|are called|is named|goes|starts?|begins?|ends?|opens?|closes?|runs?|leaves?|"
    r"lands?|departs?|arrives?|costs?|pays?|takes?|plays?|lives?|works?|weighs?|sleeps?|eats?|drinks?|wears?|attends?|"
    r"teaches|meets?|trains?|studies|speaks?|uses?|drives?|needs?|comes?|sits?|lasts?|stays?|belongs?)"
)
_DECLARES = re.compile(
    rf"(?P<subject>(?:all )?(?:(?:my|our|the|his|her|their) )?(?!(?:it|that|this|there|he|she|they|you|we|I|"
    rf"what|which|who|here|"
    rf"everything|nothing|something|these|those|one|anyone)\b)[\w'’-]+(?: (?!{_VERB}\b)[\w'’-]+){{0,4}}?)"
    rf" (?P<verb>{_VERB})(?: (?:now|actually|really|called|named))* (?P<rest>[^?]+)",
    re.IGNORECASE,
)
_OF_USER = re.compile(r"(?:I|we) (?P<said>[a-z][^?]+)", re.IGNORECASE)
_TYPED = re.compile(
    r"\d|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:january|february|march|april|may|june|july|august|"
    r"september|october|november|december|noon|midnight|one|two|three|four|five|six|seven|eight|nine|ten|twelve)\b",
    re.IGNORECASE,
)
_PASSING = re.compile(
    r"\b(?:it|this|that|these|those|you|your|error|bug|line|file|code|function|test|tests|script|button|div|page|"
    r"screen|regex|query|output|exception|not|never|cannot|fine|ok|okay|works|broken|wrong|better|worse|ready|done|"
    r"if|would|could|should|might|today|tonight|right now)\b|\?",
    re.IGNORECASE,
)
_EMPTY = frozenset(
    {"now", "day", "time", "new", "old", "one", "thing", "same", "update", "final", "answer", "have", "go", "get"}
    | {"actually", "week", "month", "year", "called", "named", "start", "end", "wk", "be", "please", "moved"}
)
_CUT = re.compile(r"[:;]\s+|,\s+")


def restated(clause: Clause, ledger: Ledger, place: int, *, changed: bool) -> list[Extracted]:
    """What a clause that no rule reads says instead of something known, or of something said before."""
    text = re.sub(r"\s+(?:lol|haha|typo|sorry|final answer|please|thanks)$", "", clause.text.strip(" .!,"))
    if changed and (known := _by_value(text, clause, ledger, place) or _respelled(text, ledger)) is not None:
        return [known]
    renamed = _RENAMED.match(text) or (_IS_NAME.match(text) if _RENAMES.search(clause.evidence) else None)
    if changed and renamed is not None:
        return _named_anew(renamed["x"], [*ledger.heard[-1:], terms(clause.evidence)], ledger)
    for part in dict.fromkeys((text, *(_CUT.split(text)[1:] if len(text) < 300 else ()))):
        found = _of_part(part, clause, ledger, changed=changed)
        if found:
            return found
    return []


_VALUE = re.compile(
    r"\+?\d{2,5}[ -]\d[\d -]{2,}\d|[$€£¥]?\d[\d.,:]*\d(?: ?(?:am|pm|mg|kg|km|cm|k|%|euros?|dollars|pounds|"
    r"hours?|minutes|people|guests)\b|[€%])?|"
    r"[$€£¥]?\d(?: ?(?:am|pm|mg|kg|km|people|guests|hours?)\b)?|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|"
    r"\b(?:noon|midnight)\b|"
    rf"\b(?:(?:light|dark|pale|deep|sage|navy|olive|forest|sky|royal|bright) )?(?:{COLOURS})\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"\b[A-Z]{2,3} ?\d{2,5}\b")
_PLAIN = re.compile(
    r"(?:(?:it|that|this|they|he|she|I|we) (?:is|are|am|turned|costs?|starts?|leaves?|said|asked for|wants?|needs?)|"
    r"(?:they|he|she|(?:my|our|the) [\w ]{2,20}?) (?:raised|upped|lowered|cut|increased|reduced|moved|pushed|bumped|"
    r"changed|set|put)|sorry|wrong|so|no)\b",
    re.IGNORECASE,
)
_ROAD = re.compile(r"\b\d+[a-z]? (?-i:[A-Z])\w+ (?:street|road|lane|avenue|drive|way|close|st|rd|ave)\b", re.IGNORECASE)
_TOPIC = re.compile(
    r"\W*(?:and |so |ok |oh )?(?:about|as for|regarding|re|on|with) (?:the |my |our |that "
    r")?(?P<x>[\w '-]{3,40}?)[:,–—-]",
    re.IGNORECASE,
)
"""“About the kitchen: no, it's 27,500 now” says first what it is about."""

_CHANGES = re.compile(
    r"(?:they|he|she|(?:my|our|the) [\w ]{2,20}?) (?:raised|upped|lowered|cut|increased|reduced|moved|pushed|bumped|"
    r"changed|set|put)\b",
    re.IGNORECASE,
)
"""Who changed it: that is said of something of before, of another day too; "it is 120" only of this conversation."""


def _by_value(text: str, clause: Clause, ledger: Ledger, place: int) -> Extracted | None:
    """The one known statement with a value of the sort of the only value that the clause says: by what both name, else
    where the clause names nothing by itself ("my doctor upped it to 50 mg").
    """
    codes = _CODE.findall(text)
    if len(codes) == 1:
        held = [(one, _CODE.findall(one.statement.content)) for one in ledger.newest()]
        fitting = [(one, found[0]) for one, found in held if len(found) == 1 and found[0] != codes[0]]
        return with_value(fitting[0][0].statement, fitting[0][1], codes[0]) if len(fitting) == 1 else None
    said = list(dict.fromkeys(found.group() for found in _VALUE.finditer(text)))
    if len(said) != 1 or _PASSING_VALUE.search(text) or _ROAD.search(text) or _is_another(said[0], text):
        return None
    label = _TOPIC.match(clause.evidence)
    about = (terms(text) | (terms(label["x"]) if label is not None else frozenset())) - _EMPTY - NAMES_NOTHING
    made = [
        (about & terms(one.statement.content), new, one.turn >= 0)
        for one in ledger.newest()
        if one.turn != place  # a message does not correct what it says itself
        for new in _replacing(one, said[0], clause)
    ]
    named = [new for shared, new, _ in made if any(not term[:1].isdigit() for term in shared)]
    if len(named) == 1:
        return named[0]
    if named or len(made) != 1 or _PLAIN.match(text) is None or _is_of_other_size(said[0], made[0][1]):
        return None
    return made[0][1] if made[0][2] or _CHANGES.match(text) is not None or _LONG_NUMBER.fullmatch(said[0]) else None


def _is_of_other_size(value: str, changed: Extracted) -> bool:
    """Whether a number said alone is many times the one whose place it would take: "it's 10 now" is no rent of 1200."""
    new, old = (numbers(text) for text in (value, changed.replaces or ""))
    if len(new) != 1 or len(old) != 1 or _LONG_NUMBER.fullmatch(value):
        return False
    less, more = sorted(abs(float(one)) for one in (*new, *old))
    return more > _TIMES * less


_TIMES = 6
_LONG_NUMBER = re.compile(r"\+?\d{2,5}[ -]\d[\d -]{4,}\d")
"""A number to ring: nobody says one that is not of somebody."""

_PASSING_VALUE = re.compile(
    r"\b(?:error|bug|line|file|code|function|tests?|version|page|row|column|px|ms|times|ago|in \d|"
    r"\d+ (?:minutes?|hours?|days?) (?:late|early|away|left|behind|ahead)|for \d+ (?:days|weeks|"
    r"hours|minutes)|last|percent|step|question|example|option|sentences?|words)\b|\?",
    re.IGNORECASE,
)


def _is_another(value: str, text: str) -> bool:
    """Whether it is of a thing told as one more ("a new 20-gallon tank")."""
    return (
        re.search(rf"\b(?:another|a second|an? new|an? extra|an? additional) {re.escape(value)}", text, re.I)
        is not None
    )


def _replacing(known: Known, value: str, clause: Clause) -> list[Extracted]:
    if known.statement.stance is not None:
        return []
    new = replaced(known.statement, value, clause)
    return [new] if new is not None and new.content != known.statement.content else []


def _respelled(text: str, ledger: Ledger) -> Extracted | None:
    """“It's spelled Jacob”, “typo, Mizo”: the known name that is nearly this one."""
    for name in (one for one in names_in(f"x {text}") if one.casefold().split()[0] not in NAMES_NOTHING):
        for one in ledger.newest()[:12]:
            for held in names_in(one.statement.content.partition(" ")[2]):
                near = SequenceMatcher(None, held.casefold(), name.casefold()).ratio()
                if (
                    held != name
                    and value_name(name) not in value_name(held)
                    and near >= _NEARLY
                    and held.casefold() not in text.casefold()
                ):
                    return with_value(one.statement, held, name)
    return None


_NEARLY = 0.75
_RENAMED = re.compile(r"(?:he|she|it|they) (?:is|are) (?:now )?(?:called|named) (?P<x>(?-i:[A-Z])\w+)", re.IGNORECASE)


_IS_NAME = re.compile(
    r"(?:it|they|we|he|she) (?:is|are) (?:now |called )?(?P<x>(?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*)*)(?: "
    r"now)?[.!]?$",
    re.IGNORECASE,
)
_RENAMES = re.compile(r"\b(?:renamed|rebranded|changed (?:its|the|our|his|her) name|new name)\b", re.IGNORECASE)


def _named_anew(name: str, heard: list[frozenset[str]], ledger: Ledger) -> list[Extracted]:
    """“We renamed the puppy. She's called Pickle now”: the one named thing that the sentence before speaks of."""
    found = []
    for one in ledger.newest():
        held = names_in(one.statement.content.partition(" ")[2])
        about = terms(one.statement.content) - terms(held[0] if held else "")
        if len(held) == 1 and any(about & said for said in heard):
            new = with_value(one.statement, held[0], name)
            found += [new] if new is not None else []
    return found if len(found) == 1 else []


def _of_part(text: str, clause: Clause, ledger: Ledger, *, changed: bool) -> list[Extracted]:
    match = _DECLARES.match(without_now(text))
    if match is None or MASK in text or _PASSING.search(text) or len(text.split()) > 16:
        return []
    rest = trimmed(match["rest"], "long")
    if rest is None:
        return []
    known = _meant(match["subject"], rest, ledger, changed=changed)
    if known is not None:
        return [_in_place(match, rest, known, clause)]
    if changed and _is_told(match["subject"], rest, text, ledger):
        return [_statement(match, rest)]
    return []


def _meant(subject: str, rest: str, ledger: Ledger, *, changed: bool) -> Extracted | None:
    """The one statement that says of the same thing something else of the same sort."""
    about = _frame(subject)
    if not about:
        return None
    whole = about | _frame(rest)
    held = [one.statement for one in ledger.newest() if about <= _frame(one.statement.content)]
    held = [one for one in held if one.stance is None and _differs(one, rest)]
    if not changed:
        held = [one for one in held if len(whole & _frame(one.content)) >= 2 and _sort(one.content) & _sort(rest)]
    alike = [one for one in held if _sort(one.content) & _sort(rest)]
    if not alike and changed:
        alike = [one for one in held if len(whole & _frame(one.content)) >= 2]
    return alike[0] if len(alike) == 1 else None


def _differs(known: Extracted, rest: str) -> bool:
    said = value_name(rest)
    if at_other_times(rest, known.content):
        return False
    return bool(said) and f"_{said}_" not in f"_{value_name(known.content)}_"


def _sort(text: str) -> frozenset[str]:
    """Which sorts of value a text holds: numbers, days and clock times, names."""
    found = {"typed"} if _TYPED.search(text) else set()
    if names_in(text.partition(" ")[2]) or (names_in(text) and text[:4] not in ("User", "The ")):
        found.add("name")
    return frozenset(found)


def _frame(text: str) -> frozenset[str]:
    plain = _TYPED.sub(" ", text)
    for name in names_in(plain):
        plain = plain.replace(name, " ") if not text.startswith(name) else plain
    return frozenset(term for term in terms(plain) if not any(map(str.isdigit, term))) - _EMPTY


def _in_place(match: re.Match[str], rest: str, known: Extracted, clause: Clause) -> Extracted:
    changed = replaced(known, rest, clause)
    if changed is not None and changed.content != known.content:
        return changed
    new = _statement(match, rest)
    return msgspec.structs.replace(
        new,
        subject=known.subject,
        predicate=known.predicate,
        kind=known.kind,
        category=known.category,
        tags=known.tags,
        intent=Intent.CORRECT,
        replaces=known.object or known.content,
    )


def _statement(match: re.Match[str], rest: str) -> Extracted:
    subject = match["subject"]
    own = re.match(r"(?:my|our) ", subject, re.IGNORECASE)
    who = f"User's {subject[own.end() :]}" if own else subject[0].upper() + subject[1:]
    said = third_person(f"{match['verb'].lower()} {rest}")
    return fact(f"{who} {said}.", f"told_{slug(subject)}_{slug(match['verb'])}", third_person(rest))


def _is_told(subject: str, rest: str, text: str, ledger: Ledger) -> bool:
    """Whether the user spoke of the same in this conversation, or says by a lasting value how it is from now on."""
    if not _sort(f"says {rest}"):
        return False
    about = _frame(subject)
    whole = about | _frame(rest)
    if about and any(about <= heard and len(whole & heard) >= 2 for heard in ledger.heard):
        return True
    return _MARKS_CLAUSE.search(text) is not None and OFTEN_SAID.search(text) is not None and bool(about)
