"""Changes that only say what is new: which known statement they are about, and what it then says.

In general, whatever the words: a clause that names what was wrong ("not Lyon, Marseille"), that says a change ("they
pushed the deadline to Friday"), or that is said as a correction ("oh wait, June 14") is about the statement that holds
the wrong value, or shares the clause's nouns, or, when it names nothing, was stated last; and only where that statement
has a value of the same sort as the new one.
"""

import re
from collections.abc import Iterator

import msgspec

from memproxy.core.slots import value_name
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.kinds import kind_of, named_of
from memproxy.learn.rules.ledger import Known, Ledger, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.typed import has_sort, is_ambiguous, replaced
from memproxy.learn.rules.values import bare, names_in, slug, trimmed

_PREPOSITION = r"(?:in |on |at |for |to |by |with |from |as |a |an |the |called |named )?"
_VALUE = r"[\w$€£¥][\w$€£¥@+%'’./:, -]{0,60}?"
_INSTEAD = (
    re.compile(
        rf"^(?:it is |that is |they are |I am |is |was |(?:my|our|the|his|her) [\w' -]{{1,40}}? (?:is|are|was|were) )?"
        rf"not {_PREPOSITION}(?P<wrong>[^,;]{{1,40}}?)"
        rf"(?:,| -| but)(?: but| it is| it's| I am| they are)? {_PREPOSITION}(?P<x>{_VALUE})[.!]?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?:^|\b(?:is|are|was|were|be|meant|mean|say|said|to|in|on|at|for|called|named|,|it's|with|from|see|use|"
        rf"using|"
        rf"drive|take|have|play|eat|drink|prefer|want|go to) )"
        rf"{_PREPOSITION}(?P<x>{_VALUE}),? (?:and )?(?:not|instead of|rather than) {_PREPOSITION}"
        rf"(?P<wrong>[^,;.!?]{{1,40}}?)(?: any ?more)?[.!]?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"\b(?:replaced|swapped|traded|exchanged|ditched|dumped|dropped|left|quit|moved from|switched from|migrated "
        rf"from|went from|changed from) (?:my |our |the |in )*(?P<wrong>[^,;]{{2,40}}?)(?: in| out)? "
        rf"(?:for|with|to|(?:and|to) (?:I )?(?:now )?(?:use|drive|join(?:ed)?|work(?:ing)? (?:at|for)|"
        rf"live in|moved to|started at|am at)) {_PREPOSITION}(?P<x>{_VALUE})(?=$|[.!,;]| (?:last|this|in|because|"
        rf"yesterday|now|when|since)\b)",
        re.IGNORECASE,
    ),
)
_MOVES = (
    "changed|moved|pushed|postponed|rescheduled|increased|raised|cut|reduced|lowered|dropped|shifted|bumped|upped|"
    "brought forward|updated|delayed|extended|upgraded|renamed|switched|migrated|converted|slipped|rebooked|rebranded|"
    "promoted|swapped|grew|shrank|shrunk|expanded|rose|fell|jumped|climbed|went up|went down|gone up|set|transitioned|"
    "relocated|downgraded|halved|doubled|tripled|slashed|hiked|trimmed|adjusted|talked down|bargained down|knocked "
    "down|"
    "bump|change|move|push|delay|grow|raise|lower|increase|cut|extend|postpone|reschedule|shift|update|rename|switch|"
    "swap"
)
_CHANGED = re.compile(
    rf"(?P<before>.{{0,80}}?)\b(?:{_MOVES})\b(?P<mid>.{{0,70}}?) to (?P<x>{_VALUE})"
    r"(?=$|[.!;]|, (?!and\b)| (?:because|since|so|now|instead|please|last|this|if|as|from|starting|by the way|btw|"
    r"until|for the|after|and (?!\w+days?\b))\b)",
    re.IGNORECASE,
)
_ALONE = (
    re.compile(
        rf"(?:it|that|this|they|he|she|those|these)(?: (?:is|are|was|will be|should (?:be|say|read|have been)|has "
        rf"to be|starts?|begins?|ends?|leaves?|departs?|arrives?|lands?|closes?|opens?|costs?|takes|says|falls))"
        rf"(?: (?:now|actually|really|going to be|supposed to be|more like|at|on|in|for|from|around|about|called|"
        rf"named|spelled|only))* (?P<x>{_VALUE})[.!]?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?:please )?(?:make|let us make|change|let us change|set|update|correct) (?:it|that|this)(?: to)? "
        rf"(?P<x>{_VALUE})(?: instead| please)*[.!]?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"(?:I|we) (?:meant|mean|should have said|wanted to say)(?: to (?:say|write|type))? {_PREPOSITION}"
        rf"(?P<x>{_VALUE})[.!]?$",
        re.IGNORECASE,
    ),
    re.compile(
        rf"let us (?:bump|go with|say|do|raise|move|push|set)(?: (?:it|that|this))?(?: up| down| back)?"
        rf"(?: to)? (?P<x>{_VALUE})(?: instead)?[.!]?$",
        re.IGNORECASE,
    ),
)
_BARE = re.compile(
    rf"{_PREPOSITION}(?P<x>[$€£¥]?\d[\w.,:%€$£ /-]{{0,25}}|[\w.+-]+@[\w.-]+|[\w-]+(?: [\w-]+){{0,3}})[.!]?$",
    re.IGNORECASE,
)
_IS_NOW = re.compile(
    rf"(?P<before>(?:my |our |the |your )?[\w'-]+(?: [\w'@-]+){{0,5}}?) (?:is|are|will be|starts?|begins?|ends?|"
    rf"leaves?|closes?|opens?|lands?|departs?|costs?|runs|takes place|has|have)(?: (?:now|actually|really|at|on|in|for|"
    rf"going to be|only))* (?P<x>{_VALUE})(?: now| instead| actually)?[.!]?$",
    re.IGNORECASE,
)
_SWITCHED = re.compile(
    r"(?:I|we)(?: have| just| finally| recently)* (?:switched|migrated|moved|changed|upgraded|transitioned|converted|"
    r"went|gone|swapped|defected)(?P<mid> .{0,40}?)??(?: over| back)? (?:to|for) (?:an? |the |using )?(?P<x>[\w.+#-]"
    r"[\w.+# -]{1,40}?)"
    r"(?=$|[,!;]|\.(?!\d)| (?:last|this|in|for|because|since|now|instead|and|so|a (?:week|month|year)|at)\b)",
    re.IGNORECASE,
)
_USED = re.compile(
    r"(?:I|we) (?:use|am using|are using|(?:write|code|program|am coding) in|write|run|am on|are on) "
    r"(?P<x>[\w.+# -]{2,40}?)[.!]?$",
    re.IGNORECASE,
)
_COMMON = frozenset(
    {"they", "thing", "new", "old", "actually", "now", "time", "day", "date", "one", "please", "just", "start", "end"}
    | {"live", "work", "go", "get", "plan", "landlord", "boss", "client", "company"}
)


_NO_VALUE = re.compile(
    r"^(?:I|we|he|she|they|it|you)\b(?! ?$)|\b(?:is|are|was|were|am|do|does|did|have|has|can|will)$"
    r"|^(?:my|our|the|his|her|their) .* (?:is|are|was|were) ",
    re.IGNORECASE,
)
"""A clause, or the verb before its "not" ("my name is not Dana"): nothing that could take a value's place."""

_POINTS_BACK = re.compile(r"\b(?:it|that|this|them|these|those)\b", re.IGNORECASE)


class _Said(msgspec.Struct, frozen=True):
    """What a clause says is new, what it calls wrong, and of what it speaks."""

    new: str
    wrong: str | None = None
    topic: frozenset[str] = frozenset()


def revised(clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    """The known statement that a clause changes, changed; nothing when it changes none that is known."""
    for said in _read(clause):
        found = _applied(said, clause, ledger, place)
        if found:
            return found
    return []


def exchanged_kind(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """“I switched to Figma”, where something else of its kind is known to be used."""
    kind = _of_kind(clause, ledger)
    return [kind] if kind is not None else []


def _read(clause: Clause) -> Iterator[_Said]:
    text = re.sub(r"(?<=[a-z]) (?:now|these days|nowadays|sorry|lol|haha)$", "", clause.text.strip(" .!,"), flags=re.I)
    for pattern in _INSTEAD:
        match = _found(pattern, text)
        if match is not None and len(match["wrong"].split()) <= 5 and not _NO_VALUE.search(match["x"]):
            yield _Said(match["x"], match["wrong"])
    if (match := _CHANGED.match(text)) is not None and _names_what(match, clause):
        yield from _of_changed(match)
    for pattern in _ALONE:
        if (match := pattern.match(text)) is not None and (clause.is_correction or pattern is not _ALONE[0]):
            yield _Said(match["x"])
    if not clause.is_correction:
        return
    if (match := _IS_NOW.match(text)) is not None and (topic := _topic(match["before"])):
        yield _Said(match["x"], None, topic)
    for part in dict.fromkeys((text, text.rpartition(", ")[2], text.partition(", ")[0])):
        if (match := _BARE.match(part)) is not None and has_sort(match["x"], clause):
            yield _Said(match["x"])


def _found(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    """The first match whose value is one ("padel" of "I play padel instead of tennis")."""
    match = pattern.search(text)
    if match is not None and _NO_VALUE.search(match["x"]):
        return pattern.search(text, match.start("x") + 1)
    return match


def _of_changed(match: re.Match[str]) -> Iterator[_Said]:
    """What was changed stands behind the verb ("the doctor raised the dose to 50"), else before it too."""
    wrong = _from(match["mid"])
    if what := _topic(_from_cut(match["mid"])):
        yield _Said(match["x"], wrong, what)
    yield _Said(match["x"], wrong, _topic(f"{match['before']} {match['mid']}"))


def _names_what(match: re.Match[str], clause: Clause) -> bool:
    """Whether a change is one of something said: by its name, by "it", or by a value that tells its sort.

    "I moved to Seattle" and "I converted to Judaism" change nothing that happens to hold another name.
    """
    around = f"{match['before']} {match['mid']}"
    return bool(_topic(around)) or _POINTS_BACK.search(around) is not None or has_sort(match["x"], clause)


def _from_cut(text: str) -> str:
    """What was changed, without the "from" of its old value."""
    return re.sub(r"\bfrom .*$", "", text, flags=re.IGNORECASE)


def _from(text: str) -> str | None:
    found = re.search(r"\bfrom (?P<wrong>.{2,40})$", text.strip(), re.IGNORECASE)
    return found["wrong"] if found else None


def _topic(text: str) -> frozenset[str]:
    return terms(text) - _COMMON


def _applied(said: _Said, clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    if said.wrong is not None:
        found = _exchanged(said, ledger)
        if found or not said.topic:
            return found
    near = _about(said.topic, ledger) if said.topic else _meant(said.new, clause, ledger, place)
    for one in near:
        changed = replaced(one, said.new, clause)
        if changed is not None and changed.content != one.content:
            unclear = not said.topic and is_ambiguous(said.new, " ".join(one.evidence), clause)
            return [] if unclear else [changed]
    return _noun_for_noun(said, near[:1], clause) if said.topic else []


def _meant(new: str, clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    return [one.statement for one in ledger.pointed_at(place, clause.evidence, is_name=not has_sort(new, clause))]


def _noun_for_noun(said: _Said, near: list[Extracted], clause: Clause) -> list[Extracted]:
    """“I changed my major to chemistry”: neither value has a form that tells its sort."""
    new = trimmed(said.new, "short")
    if new is None or len(new.split()) > 3 or has_sort(new, clause) or _CHANGED.match(clause.text) is None:
        return []
    return [
        changed
        for one in near
        if one.object
        and len(one.object.split()) <= 3
        and not has_sort(one.object, clause)
        and (changed := with_value(one, one.object, new)) is not None
    ]


def _exchanged(said: _Said, ledger: Ledger) -> list[Extracted]:
    """Each statement of the turn that last told the wrong value, with the new one in its place."""
    wrong, new = trimmed(said.wrong or "", "long"), trimmed(said.new, "long")
    if wrong is None or new is None or value_name(wrong) == value_name(new):
        return []
    new = re.sub(r"\s+(?:now|instead|please|sorry)$", "", new)
    if wrong[:1].isupper() and new.islower() and not new[:1].isdigit() and len(new.split()) == 1:
        new = new.capitalize()
    found: list[Extracted] = []
    at: int | None = None
    for one in ledger.newest():
        if at is not None and one.turn != at:
            break
        if _holds(one, wrong) and not _holds(one, new):
            changed = _with(one.statement, wrong, new)
            if changed is not None:
                at = one.turn
                same = changed.object == one.statement.object
                changed = msgspec.structs.replace(changed, object=new) if same else changed
                found.append(repredicated(changed, wrong, new))
    return found if at is None or at >= 0 else found[:1]


def _with(known: Extracted, wrong: str, new: str) -> Extracted | None:
    """The new value for the wrong one; for the whole name where only a part of it was said ("the Civic")."""
    whole = next((name for name in names_in(known.content) if wrong in name.split() and name != wrong), wrong)
    after = new.rsplit(maxsplit=1)[-1]
    if re.search(rf"\b{re.escape(wrong)} {re.escape(after)}\b", known.content) and " " in new:
        return with_value(known, f"{wrong} {after}", new)
    return with_value(known, whole if new[:1].isupper() else wrong, new)


def repredicated(changed: Extracted, wrong: str, new: str) -> Extracted:
    """A predicate that names the old value ("trip_to_lyon") names the new one."""
    old, predicate = slug(wrong), changed.predicate or ""
    if not old or f"_{old}_" not in f"_{predicate}_":
        return changed
    return msgspec.structs.replace(changed, predicate=f"_{predicate}_".replace(f"_{old}_", f"_{slug(new)}_").strip("_"))


def _holds(known: Known, value: str) -> bool:
    name = value_name(value)
    return bool(name) and f"_{name}_" in f"_{known.name}_"


def _about(topic: frozenset[str], ledger: Ledger) -> list[Extracted]:
    """The statements that share the most of the topic, at least half of it; the newest first of equals."""
    shared = [(len(topic & one.told), one.statement) for one in ledger.newest()]
    most = max((count for count, _ in shared), default=0)
    if most * 2 >= len(topic) and most:
        return [one for count, one in shared if count == most]
    stems = {term[:6] for term in topic if len(term) > 6}
    return [one.statement for one in ledger.newest() if stems & {term[:6] for term in one.told}][:1] if stems else []


def _of_kind(clause: Clause, ledger: Ledger) -> Extracted | None:
    """“I switched to Figma”: in the place of what is used of its kind."""
    match = _SWITCHED.match(clause.text) or (_USED.match(clause.text) if clause.is_correction else None)
    new = bare(match["x"].strip()) if match is not None else ""
    kind = kind_of(new)
    if match is not None and (version := _other_version(match["x"], ledger)) is not None:
        return version
    if match is None or kind is None:
        return None
    for one in ledger.newest():
        for held in named_of(kind, one.statement.content):
            if held.casefold() != new.casefold() and not _is_past(one.statement):
                changed = with_value(one.statement, held, new)
                return repredicated(changed, held, match["x"]) if changed is not None else None
    return None


def _other_version(new: str, ledger: Ledger) -> Extracted | None:
    """“We upgraded to Python 3.12” where Python 3.9 is known."""
    named = re.match(r"(?P<name>[A-Za-z][\w.+#-]*(?: [A-Za-z][\w.+#-]*)?) v?\d[\w.]*$", new.strip())
    if named is None:
        return None
    for one in ledger.newest():
        held = re.search(
            rf"\b{re.escape(named['name'])} v?\d[\w.]*\w\b|\b{re.escape(named['name'])} v?\d\b", one.statement.content
        )
        if held is not None and not _is_past(one.statement):
            return with_value(one.statement, held.group(), new.strip())
    return None


def _is_past(statement: Extracted) -> bool:
    return re.search(r"\b(?:bought|used to|learned|visited|hates?|dislikes?)\b", statement.content) is not None
