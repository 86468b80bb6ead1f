"""Earlier statements, and the plain corrections and retractions of them."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import has_many, predicate_name, same_value, singular, subject_name, value_name, words
from memproxy.core.text import GENERIC_WORDS, key_terms
from memproxy.learn.candidates import SHARED, Extracted, Intent
from memproxy.learn.rules.own_words import MASK, Clause, plain
from memproxy.learn.rules.statements import COUNT, EVENTS, SURE, VALUES, is_value, stated

_NAMES_NOTHING = GENERIC_WORDS | frozenset(
    """
    user told said changed actually wrong mistake moved old monday tuesday wednesday thursday friday saturday sunday
    today live use stay anymore longer stop stopped
    """.split()  # noqa: SIM905
)


_JUST_SAID = 2  # turns back to what the user said before the answer that a correction follows

_SAME = {"allergic": "allergy", "intolerant": "intolerance", "favourite": "favorite", "bday": "birthday", "mum": "mom"}


class Known(msgspec.Struct, frozen=True):
    """A statement that can be changed, and its turn's place in the window; -1 for the known fact ``memory``."""

    statement: Extracted
    turn: int
    memory: str | None = None

    @property
    def terms(self) -> frozenset[str]:
        """The words of its content and of its predicate."""
        return terms(f"{self.statement.content} {self.statement.predicate or ''}".replace("_", " "))

    @property
    def topic(self) -> frozenset[str]:
        """What it is about: its words without those of its value."""
        return terms(self.statement.content.replace("_", " ")) - terms(self.statement.object or "")


class Ledger:
    """Statements in order, the newest last."""

    def __init__(self, memories: Sequence[Memory]) -> None:
        facts = sorted(
            (memory for memory in memories if memory.kind is not Kind.TURN and memory.active),
            key=lambda memory: memory.created_at,
        )
        self._held = [Known(_of_memory(memory), -1, memory.id) for memory in facts]
        self.index, self.said_at = 0, datetime(1970, 1, 1, tzinfo=UTC)
        """Which turn is read, and when that was said (`read`)."""

    def read(self, turn: Memory, index: int) -> None:
        """Read this turn from now on."""
        self.index, self.said_at = index, turn.created_at

    def add(self, statement: Extracted) -> None:
        """Note what the turn that is read states; what it takes back or replaces is known no more."""
        self._held = [entry for entry in self._held if not _ends(statement, entry.statement)]
        if statement.intent is not Intent.FORGET:
            self._held.append(Known(statement, self.index))

    def newest(self) -> list[Known]:
        """All, the newest first."""
        return self._held[::-1]

    def just_said(self) -> list[Extracted]:
        """What the turn that is read and those right before it stated, the newest first."""
        first = max(self.index - _JUST_SAID, 0)
        return [entry.statement for entry in self.newest() if first <= entry.turn <= self.index]

    def holding(self, value: str) -> Extracted | None:
        """The one statement whose value is or holds this one; the newest where they say it of one question."""
        name = value_name(value)
        held = ((entry.statement, f"_{value_name(entry.statement.object or '')}_") for entry in self.newest())
        holders = [statement for statement, text in held if name and f"_{name}_" in text]
        return holders[0] if len({statement.predicate for statement in holders}) == 1 else None

    def answers_to(self, topic: str) -> list[Extracted]:
        """What is known of the user that answers the question a topic names ("my full name")."""
        topic_words = frozenset(words(topic))
        of_user = [entry.statement for entry in self.newest() if entry.statement.subject == "user"]
        return [item for item in of_user if item.predicate and frozenset(words(item.predicate)) <= topic_words]

    def all_about(self, topic: str) -> list[Extracted]:
        """The statements that hold every term of a topic, the newest first."""
        topic_terms = terms(topic)
        return [entry.statement for entry in self.newest() if topic_terms and topic_terms <= entry.terms]


def terms(text: str) -> frozenset[str]:
    """The words by which a statement can be meant, made singular."""
    singulars = (singular(term) for term in key_terms(text, 64))
    return frozenset(_SAME.get(term, term) for term in singulars) - _NAMES_NOTHING


def same_slot(statement: Extracted, other: Extracted) -> bool:
    """Whether two statements answer one question, that has one answer at a time."""
    if not (statement.subject and other.subject and statement.predicate and other.predicate):
        return False
    first, second = predicate_name(statement.predicate)[0], predicate_name(other.predicate)[0]
    return first == second and subject_name(statement.subject) == subject_name(other.subject) and not has_many(first)


def taken_back(statement: Extracted) -> Extracted:
    """The retraction of a statement."""
    return msgspec.structs.replace(statement, intent=Intent.FORGET, confidence=SURE, evidence=(), relations=())


def _put_aside(statement: Extracted) -> Extracted:
    """The retraction of a statement that holds with another value now."""
    return msgspec.structs.replace(taken_back(statement), replaces=statement.object)


def with_value(statement: Extracted, value: str) -> Extracted | None:
    """What puts another value in a statement's place: the table's own sentence of it. A sentence of a model or the API
    is not written anew but taken back, and the message says what holds. None: nothing changes.
    """
    old = statement.object or ""
    if same_value(value_name(old), value_name(value)):
        return None
    if not statement.evidence:
        return _put_aside(statement)
    head, separator, _ = statement.content.rpartition(f"{old}.")
    if not old or not separator:
        return None
    fields = {name: getattr(statement, name) for name in SHARED}
    fields |= {"content": f"{head}{value}.", "object": value, "aspect": None, "confidence": SURE}
    return Extracted(**fields, intent=Intent.CORRECT, replaces=old)


def _ends(new: Extracted, old: Extracted) -> bool:
    """Whether a statement leaves nothing of another one: it answers the same, replaces it or takes it back."""
    same_value_ = value_name(new.object or "") == value_name(old.object or "")
    if new.intent is Intent.FORGET and not new.predicate:
        return terms(new.content) <= Known(old, 0).terms
    if new.predicate == old.predicate and new.subject == old.subject:
        replaced = new.replaces is not None and value_name(new.replaces) == value_name(old.object or "")
        return same_value_ or replaced or same_slot(new, old)
    return new.intent is not Intent.FORGET and same_slot(new, old)


def _of_memory(memory: Memory) -> Extracted:
    """A fact as the rules look at it; its ``evidence`` is kept where the table itself read it there."""
    is_by_rules = str(memory.metadata.get("extractor", "")).startswith("rules/")
    evidence = memory.metadata.get("evidence")
    fields = {name: getattr(memory, name) for name in (*SHARED, "stance")}
    return Extracted(**fields, evidence=(evidence,) if is_by_rules and isinstance(evidence, str) else ())


_OLD = r"(?P<old>[^,;:!?]{1,50}?)"
_NEW = r"(?P<new>[^,;:!?]{1,50}?)"
_END = r"(?=\Z|[,;:!?]| (?:because|since|but|so|and|for|i|we)\b)"
_IT = r"(?:it|that|they|this|he|she|the \w{2,20}|my \w{2,20}|our \w{2,20})"
_IS = r"(?: is| are| was|'s)"
_PAIRS = (
    rf"{_IT}{_IS} {_NEW},? (?:and )?not {_OLD}{_END}",
    rf"{_IT}{_IS} not {_OLD}(?:[,;:]| but)(?: (?:but|it is|that is|they are|its))? {_NEW}{_END}",
    rf"(?:i meant|i mean|make (?:it|that)|make|read) {_NEW},? (?:and )?not {_OLD}{_END}",
    (
        rf"(?:i said|i wrote|i told you|it said) {_OLD},?(?: (?:but|and))?(?: i)? (?:meant"
        rf"|mean)(?: to say)? {_NEW}{_END}"
    ),
    rf"not {_OLD}(?:,| but)(?: (?:but|it is|i meant|i mean))? {_NEW}{_END}",
    rf"{_NEW},? (?:and )?not {_OLD}{_END}",
    (
        rf"(?:i|we) (?:have )?(?:switched|changed|moved|went|gone|migrated|upgraded)(?: over| jobs?| (?:my"
        rf"|our) \w{{2,20}})? from {_OLD} to {_NEW}{_END}"
    ),
    (
        rf"(?:i|we) (?:have )?(?:swapped|traded|replaced|exchanged)(?: in)? (?:my |our |the )?{_OLD} (?:for|with"
        rf"|by) (?:an? |the )?{_NEW}{_END}"
    ),
    (
        rf"(?:i|we) (?:have )?(?:left|quit) {_OLD} (?:for|and (?:now )?(?:work|joined|started)(?: at"
        rf"| for)?) {_NEW}{_END}"
    ),
    rf"{_IT}{_IS} (?:now )?{_NEW} instead of {_OLD}{_END}",
    rf"(?:i|we) (?:now )?(?:use|drive|have) (?:an? )?{_NEW} instead of (?:an? |the |my )?{_OLD}{_END}",
)  # fmt: skip
PAIRS = tuple(re.compile(rf"\A(?:{pattern})", re.IGNORECASE) for pattern in _PAIRS)
"""What names the wrong value and the right one."""

_CHANGED = (
    r"(?:is|are|will be|was|has been|have been|went up|goes up|rose|dropped|moved|has moved|changed|has changed"
    r"|got moved|has gone up|went down|slipped|increased|has increased|grew)(?: (?:now|moved|changed|pushed|postponed"
    r"|set|raised|increased|rescheduled|shifted|put back|brought forward|extended|lowered|cut|reduced|delayed|bumped"
    r"|renamed|called|back|up)){0,2}(?: (?:to|on|at|until|by|for))?(?: now)?"
)
_TOPIC = r"(?P<topic>[\w'-]{2,20}(?: [\w'-]{2,20}){0,3}?)"
_SUBJECTS = (
    rf"(?:(?:the|my|our) )?(?:new )?{_TOPIC} {_CHANGED} (?:an? |the )?(?P<new>\S.{{0,60}})",
    (
        rf"(?:about|on|re|regarding|for) (?:(?:the|my|our) )?{_TOPIC}[:,] (?:no,? )?(?:it is |that is "
        rf"|make it )?(?:now )?(?P<new>\S.{{0,60}})"
    ),
)
SUBJECTS = tuple(re.compile(rf"\A(?:{pattern})", re.IGNORECASE) for pattern in _SUBJECTS)
"""What names a question and its new answer."""

ALONE = re.compile(
    r"\A(?:(?:(?:it|that|they|this)(?: is| are| was|'s) (?:now |really )?|i meant |i mean |make (?:it|that) |should be "
    r"|it should be )(?:on |at |in |an? )?)(?P<new>\S.{0,60})",
    re.IGNORECASE,
)
COUNTED = re.compile(rf"\A(?P<new>{COUNT}) (?P<topic>[\w-]{{2,20}})(?=\Z|[,;])", re.IGNORECASE)
_TYPES = {kind: VALUES[kind].split("(?=\\Z")[0] + r"(?!\w)" for kind in ("AMOUNT", "DATE", "NUMBER")} | {
    "NAME": VALUES["NAME"]
}
_STARTS = re.compile(r"(?:\A|(?<=\s))(?=[\w$€£¥])")
_KINDS = {kind: re.compile(rf"\A{pattern}", re.IGNORECASE) for kind, pattern in _TYPES.items()}


def changed(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What a clause puts right of what is known."""
    return _by_pair(clause.text, ledger) or _by_subject(clause, ledger) or _by_value(clause, ledger)


_CONTRAST = re.compile(
    r"\A(?P<told>.{3,120}?),? (?:and )?(?:not|instead of|rather than) (?P<old>[^,;:!?]{1,50})\Z", re.IGNORECASE
)


def speaks_of_a_change(clause: Clause) -> bool:
    """Whether a clause is worded like one that puts a value right: whether `changed` could, whatever is known."""
    if clause.corrects:
        return True
    pairs = (pattern.match(clause.text) for pattern in PAIRS)
    if any(match is not None and is_value(_bare(match["old"])) and is_value(_bare(match["new"])) for match in pairs):
        return True
    alone = ALONE.match(clause.text)
    if alone is not None and (new := typed(alone["new"])) is not None and new[0] != "NAME":
        return True
    matches = [pattern.match(clause.text) for pattern in SUBJECTS] if clause.text[:4].lower() == "the " else []
    return any(match is not None and typed(match["new"]) is not None for match in matches)


def put_right(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What a whole statement puts right by the value that it denies ("I'm allergic to cashews, not almonds")."""
    match = _CONTRAST.match(clause.text)
    meant = stated(match["told"], ledger.said_at) if match is not None else []
    if match is None or len(meant) != 1:
        return []
    target = ledger.holding(_bare(match["old"]))
    if target is None or target.predicate != meant[0].predicate:
        return meant
    corrected = with_value(target, meant[0].object or "")
    return [corrected] if corrected else meant


def _by_pair(text: str, ledger: Ledger) -> list[Extracted]:
    for pattern in PAIRS:
        match = pattern.match(text)
        if match is None:
            continue
        old, new = _bare(match["old"]), _bare(match["new"])
        target = ledger.holding(old) if is_value(old) and is_value(new) else None
        whole = target is not None and same_value(value_name(target.object or ""), value_name(old))
        if target is not None and whole and (corrected := with_value(target, new)):
            return [corrected]
    return []


def _by_subject(clause: Clause, ledger: Ledger) -> list[Extracted]:
    for pattern in SUBJECTS:
        if (match := pattern.match(clause.text)) is not None and (new := typed(match["new"])) is not None:
            fitting = [meant for meant in ledger.all_about(match["topic"]) if _fits(meant.object, new)]
            questions = {(meant.subject, predicate_name(meant.predicate or meant.content)[0]) for meant in fitting}
            if len(questions) == 1 and (corrected := with_value(fitting[0], new[1])):
                return [corrected]
    return []


def _by_value(clause: Clause, ledger: Ledger) -> list[Extracted]:
    if clause.corrects and (counted := COUNTED.match(clause.text)) is not None:
        number = f"number_of_{counted['topic']}"
        held = [entry.statement for entry in ledger.newest() if entry.statement.predicate == number]
        if not held or not held[0].evidence:
            return [_put_aside(held[0])] if held else []
        return [msgspec.structs.replace(held[0], content=f"User has {counted[0]}.", object=counted["new"])]
    match = ALONE.match(clause.text)
    new = typed(match["new"]) if match is not None else None
    if new is None or (new[0] == "NAME" and not clause.corrects):
        return []
    near = [statement for statement in ledger.just_said() if _fits(statement.object, new)]
    corrected = with_value(near[0], new[1]) if len(near) == 1 else None
    return [corrected] if corrected else []


_DOSED = re.compile(r"\d ?(?P<unit>mg|mcg|iu|ml)\b", re.IGNORECASE)
_ASKED_ABOUT = frozenset({"budget", "dose"})
"""What a new value need not name beside what it is for ("I can spend 1,900 on the tiles")."""


def another_value(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """Another value of the kind of a known one, in a clause that holds all that the known one is about."""
    clause_terms = terms(clause.text)
    fitting = []
    for entry in ledger.newest():
        about = entry.topic - _ASKED_ABOUT
        unit = _unit(entry.statement.object or "")
        is_dose = unit is not None and unit == _unit(clause.text)
        if (about and about <= clause_terms) or (clause.corrects and about & clause_terms) or is_dose:
            fitting += [entry] if typed(entry.statement.object or "") else []
    if len(fitting) != 1:
        return []
    target = fitting[0].statement
    if not target.evidence:
        return []  # what somebody else worded may be about more than its words share with these
    typed_values = [typed(clause.text[start.end() :]) for start in _STARTS.finditer(clause.text)]
    allowed = [new for new in typed_values if new is not None and (new[0] != "NAME" or clause.corrects)]
    values = [value for kind, value in allowed if _fits(target.object, (kind, value))]
    corrected = with_value(target, values[0]) if len(set(values)) == 1 else None
    return [corrected] if corrected else []


def _unit(text: str) -> str | None:
    match = _DOSED.search(text)
    return match["unit"].lower() if match else None


def typed(text: str) -> tuple[str, str] | None:
    """The kind and words of the value at the beginning of a text: an amount, a day or time, a number or a name."""
    for kind, pattern in _KINDS.items():
        if (match := pattern.match(text)) is not None and is_value(match["x"]):
            return kind, match["x"]
    return None


def _fits(old: str | None, new: tuple[str, str]) -> bool:
    """Whether a value may stand where the old one stands: it is of its kind; a bare number may be an amount."""
    held = typed(old or "")
    return held is not None and (held[0] == new[0] or {held[0], new[0]} == {"AMOUNT", "NUMBER"})


def _bare(text: str) -> str:
    return re.sub(r"^(?:at|on|in|an?|the|my|our|to|for) ", "", text.strip(" .!,'\""), flags=re.IGNORECASE)


_ORDERED_TOPIC = r"(?P<topic>[^,;!?]{2,120}?)"
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
    rf"(?: (?:about|on|of|regarding))?(?: that)? {_ORDERED_TOPIC}"
    r"(?: from (?:your |the )?(?:memory|notes|records?|memories)| (?:again|please|now)|,.{0,200})?\Z",
    re.IGNORECASE,
)
_BACK = re.compile(
    r"\A(?:please )?(?:(?:forget|delete|ignore|disregard|scratch|strike) (?:that|it|this"
    r"|what i (?:just )?said)(?: again)?|(?:that|this) (?:was|is) (?:a joke|wrong|not true|a lie|nonsense)"
    r"|i was (?:joking|kidding|lying))(?:, (?P<tail>.{1,200}))?\Z",
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
_EVENTS = tuple((re.compile(rf"\b(?:{pattern})", re.IGNORECASE), predicates) for pattern, predicates in EVENTS)
_OVER = re.compile(r"\bno longer\b|\banymore\b", re.IGNORECASE)
_GONE = (
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
GONE = tuple(re.compile(rf"\A(?:{pattern})", re.IGNORECASE) for pattern in _GONE)


def is_order(clause: Clause) -> bool:
    """Whether a sentence orders to forget something, or takes back what was said just before."""
    text = clause.text.rstrip("?")
    return _BACK.match(text) is not None or ORDER.match(text) is not None


def is_plain_order(clause: Clause) -> bool:
    """Whether it orders the memory to forget: not "delete the last line", nor "forget it" for "never mind"."""
    return _OF_MEMORY.search(clause.text) is not None and is_order(clause)


def topic_of(clause: Clause) -> str:
    """What an order names that is to be forgotten; nothing of one that takes back what was said just before."""
    match = ORDER.match(clause.text.rstrip("?"))
    return plain(match["topic"]) if match is not None else ""


def speaks_of_an_end(clause: Clause) -> bool:
    """Whether a clause is worded like one that says of something that it is no longer so."""
    return any(pattern.search(clause.text) for pattern, _ in ENDED)


def order(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What a sentence orders to forget; read of questions too ("can you forget my address?")."""
    text = clause.text.rstrip("?")
    if (back := _BACK.match(text)) is not None:
        tail = Clause(plain(back["tail"] or ""), corrects=True)
        instead = changed(tail, ledger) or stated(tail.text, ledger.said_at)
        return instead or [taken_back(statement) for statement in ledger.just_said()]
    topic = topic_of(clause)
    if MASK in topic:
        return []
    if THERE.match(topic):
        return _denied_statements(topic, ledger, is_over=True)
    if not terms(topic):
        return [taken_back(statement) for statement in ledger.answers_to(topic)]
    if meant := stated(topic, ledger.said_at):
        return [taken_back(statement) for statement in meant]
    held = ledger.all_about(topic) or ledger.answers_to(topic)
    # what nothing known holds in these words, reconciliation looks for further
    request = Extracted(content=topic, intent=Intent.FORGET, confidence=SURE)
    return [taken_back(statement) for statement in held] or [request]


def ended(clause: Clause, ledger: Ledger, *, plainly: bool = False) -> list[Extracted]:
    """What a clause says is over; ``plainly``: not by what became of a thing ("I left Berlin", maybe today)."""
    for pattern, instead in ENDED:
        if (match := pattern.search(clause.text)) is not None:
            is_over = _OVER.search(clause.text) is not None
            if denied := _denied_statements(match.expand(instead), ledger, is_over=is_over):
                return denied
    for pattern in () if plainly else GONE:
        if (match := pattern.match(clause.text)) is not None and terms(topic := plain(match["topic"])):
            return [taken_back(statement) for statement in ledger.all_about(topic)]
    return []


def ended_by_event(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What an event ends ("got a new job"): the known answers to its questions."""
    for pattern, predicates in _EVENTS:
        if pattern.search(clause.text) is not None:
            held = [entry.statement for entry in ledger.newest() if entry.turn < ledger.index]
            of_user = [statement for statement in held if statement.subject == "user"]
            return [taken_back(statement) for statement in of_user if statement.predicate in predicates]
    return []


THERE = re.compile(
    r"\A(?:(?:i|we) (?P<verb>work|live|study) (?:there|here)|where (?:i|we) (?P<where>work|live|study))\b", re.I
)
_THERE = {"work": "works_at", "live": "lives_in", "study": "studies_at"}


def _denied_statements(text: str, ledger: Ledger, *, is_over: bool) -> list[Extracted]:
    """The known statements that a positive sentence says; by the question it answers, else by all of its words."""
    held = [entry.statement for entry in ledger.newest()]
    if (match := THERE.match(text)) is not None:
        predicate = _THERE[(match["verb"] or match["where"]).lower()]
        return [taken_back(statement) for statement in held if statement.predicate == predicate][:1]
    if meant := stated(text, ledger.said_at):
        denied = [statement for statement in held for positive in meant if _says(positive, statement)]
        denied = denied or (ledger.all_about(text) if is_over else [])
        return [taken_back(statement) for statement in denied or (meant if is_over else [])]
    return [taken_back(statement) for statement in ledger.all_about(text)] if is_over else []


def _says(statement: Extracted, held: Extracted) -> bool:
    same = statement.subject == held.subject and statement.predicate == held.predicate
    return (same_slot(statement, held) or same) and terms(statement.object or "") <= terms(held.content)
