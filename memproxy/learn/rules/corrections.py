"""Corrections that say only the new value ("no, it's 15,000 now", "I meant March"), and changes of a named thing.

What they are about is found in what was stated before; the new statement is the old one with the value put in its
place, so that it is complete by itself.
"""

import re
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher

import msgspec

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.exchange import exchange, with_value
from memproxy.learn.rules.frames import at_other_times
from memproxy.learn.rules.ledger import Known, Ledger, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.projects import is_tool, tool
from memproxy.learn.rules.typed import has_sort, is_ambiguous, replaced
from memproxy.learn.rules.values import bare, is_name, slug, third_person, trimmed

_BARE_VALUE = re.compile(
    r"(?:it|that|this|he|she|they|the (?:number|amount|date|name|price|right (?:one|name|number|date)|correct \w+)) "
    r"(?:is|are|should be|was|will be|needs to be|has to be)(?: called| named| spelled| spelt| at| for| actually| "
    r"really| supposed to be| more like)? (?P<x>.+)"
    r"|(?:I|we) (?:meant|mean)(?: to (?:say|write|type))? (?P<y>.+)"
    r"|(?:I am |we are )?(?:down|up|back) to (?P<w>.+)"
    r"|(?:please )?(?:make (?:it|that)|change (?:it|that) to|let us say) (?P<z>.+)",
    re.IGNORECASE,
)
_VALUE_ALONE = re.compile(
    r"(?P<x>[$€£¥]?\d[\w.,:%€$£ ]{0,25}|[A-Z][\w'-]+(?: [A-Z][\w'-]+)?)(?:,? not (?P<wrong>.+))?[.!]?$"
)
_NOT_BUT = re.compile(r"(?:it is )?not (?P<wrong>[^,]{1,50}?),? but (?P<x>.+)", re.IGNORECASE)
_INSTEAD_OF = re.compile(
    r"(?P<x>.+?),? (?:not|instead of|rather than|and not) (?P<wrong>[^,.;!]+?)[.!]?$",
    re.IGNORECASE,
)
_CHANGED = re.compile(
    r"(?P<what>(?:my|our|the|that) .{2,60}?|it|[A-Z][\w-]+|deadline|launch|meeting|flight|release"
    r"|go-live|interview|exam|wedding|party|appointment|budget|rent|price|due date) (?:got |has been "
    r"|have been |was |were |got |has |is |is being |had to be "
    r")?(?:changed|slipped|slid|moved|pushed|postponed|rescheduled|increased|raised|"
    r"cut|reduced|lowered|dropped|went up|gone up|shifted|bumped|brought forward|updated|delayed|extended|upgraded|"
    r"renamed)"
    r"(?: back| forward| up| down| out)?(?: from (?P<wrong>.+?))? to (?P<x>.+)",
    re.IGNORECASE,
)
_IS_NOW = re.compile(
    r"(?P<what>(?:my|our|the) [\w' -]{2,50}?|(?!it\b|that\b|this\b|he\b|she\b|they\b|there\b|I\b|we\b"
    r"|what\b)[\w'-]+(?: [\w'-]+){0,3}?) "
    r"(?:is|are|will be|takes place) (?:now |actually )?(?:on |in |at )?(?P<x>.+)",
    re.IGNORECASE,
)
_RESTATED = re.compile(
    r"(?:my |our |the )?(?P<what>(?!it\b|that\b|this\b|he\b|she\b|they\b|there\b|I\b|we\b|you\b"
    r"|what\b|which\b)[\w'-]+(?: [\w'-]+){0,3}?) "
    r"(?:costs?|weighs?|lasts?|leaves at|starts at|ends at|opens at|closes at|measures|pays) (?P<x>[$€£]?\d.*)",
    re.IGNORECASE,
)
_I_CHANGED = re.compile(
    r"(?:I|we|they|he|she|(?:my|our|the) [\w'-]+(?: [\w'-]+)?|please|can you|could you) (?:have |has "
    r"|had to |just )?(?:bump|move|change|raise|push|set|increase|"
    r"lower|update|changed|moved|pushed|postponed|rescheduled|increased|raised|cut|reduced|lowered|shifted|bumped|"
    r"updated|extended|renamed)"
    r" (?P<what>(?:my|our|the) .{2,60}?)(?: back| forward| up| down)?(?: from (?P<wrong>.+?))? to (?P<x>.+)",
    re.IGNORECASE,
)
_SWITCHED = re.compile(
    r"(?:I|we) (?:have )?(?:switched|migrated|moved|changed|converted|upgraded|transitioned|swapped)(?: over)?(?: "
    r"(?P<what>(?:(?:my|our|the|project) |(?-i:[A-Z]))[\w -]{1,40}?))?"
    r" from (?P<wrong>.+?) to (?P<x>.+)",
    re.IGNORECASE,
)
_SWITCHED_TO = re.compile(
    r"(?:I|we) (?:have )?(?:switched|migrated|upgraded)(?: over| back)? to (?P<x>.+)",
    re.IGNORECASE,
)
_REPLACED = re.compile(
    r"(?:I|we) (?:have )?(?:replaced|ditched|dropped|traded(?: in)?|swapped(?: out)?|exchanged|gave "
    r"up|left) (?P<wrong>.+?) (?:with|for|in favou?r of|by) (?P<x>.+)",
    re.IGNORECASE,
)


def corrections(clause: Clause, ledger: Ledger, turn: int) -> Iterator[Extracted]:
    """What a clause corrects; nothing when it is no correction, or not of anything known."""
    for find in (_of_named, _switched, _of_count, _of_last):
        found = list(find(clause, ledger, turn))
        if found:
            yield from found
            return


def _of_named(clause: Clause, ledger: Ledger, turn: int) -> Iterable[Extracted]:
    """“The deadline was moved to Friday”, “the budget is 15,000 now”: the thing is named."""
    match = _CHANGED.match(clause.text) or _I_CHANGED.match(clause.text) or _I_CHANGED.match(f"please {clause.text}")
    if match is None and clause.is_correction:
        match = _IS_NOW.match(clause.text)
    if match is None:
        match = _RESTATED.match(clause.text)
    if match is None:
        return
    wrong = match.groupdict().get("wrong")
    if match["what"].lower() == "it":
        said = (
            next(iter(_replaced(one.statement, match["x"], clause, wrong)), None)
            for one in _candidates(match["x"], clause, ledger, turn)
        )
        yield from [found for found in said if found is not None][:1]
        return
    known = _named(match["what"], ledger) or (ledger.holding(wrong) if wrong else None)
    if known is not None and not at_other_times(match["x"], known.content):
        named = terms(match["what"]) if not wrong else frozenset()
        for found in _replaced(known, match["x"], clause, wrong):
            if len(named & terms(known.content)) <= len(named & terms(found.content)):
                yield found  # of what is named itself ("Ines moved to Rome") nothing takes the place


def _named(what: str, ledger: Ledger) -> Extracted | None:
    wanted = terms(what)
    fitting = [
        one
        for one in ledger.newest()
        if wanted and wanted <= terms(f"{one.statement.content} {(one.statement.predicate or '').replace('_', ' ')}")
    ]
    return fitting[0].statement if fitting else None


def _switched(clause: Clause, ledger: Ledger, _turn: int) -> Iterable[Extracted]:
    """“We switched from MySQL to Postgres”."""
    match = _SWITCHED.match(clause.text) or _REPLACED.match(clause.text)
    if match is None:
        yield from _switched_to(clause, ledger)
        return
    wrong, new = trimmed(match["wrong"], "short"), trimmed(match["x"], "short")
    wrong = bare(wrong) if wrong is not None else None
    if wrong is None or new is None or not (_is_thing(wrong) and _is_thing(new)):
        return
    known = ledger.holding(wrong)
    if known is None and re.search(r"\bmoved\b", match.group()[: len(match.group()) - len(match["x"])]):
        return  # from one place to another
    if known is not None and known.object and (found := with_value(known, wrong, new)) is not None:
        about = match.groupdict().get("what")
        renamed = msgspec.structs.replace(found, predicate=_renamed(known.predicate, wrong, new))
        yield (renamed if not about or terms(about) <= terms(known.content) else _of(renamed, about))
        return
    if known is not None or not is_tool(new):
        return  # what is known holds it otherwise, or it is no tool
    purpose = re.search(r"\bfor (?P<p>.+)", match["x"])
    named = (
        match.groupdict().get("what") if (match.groupdict().get("what") or "").split(" ")[0] in ("my", "our") else None
    )
    stated = tool(new, trimmed(purpose["p"], "long") if purpose else named)
    yield msgspec.structs.replace(stated, intent=Intent.CORRECT, replaces=wrong)


def _of(statement: Extracted, about: str) -> Extracted:
    """The statement, and what it is of."""
    return msgspec.structs.replace(statement, content=f"{statement.content.rstrip('.')} ({third_person(about)}).")


def _renamed(predicate: str | None, wrong: str, new: str) -> str | None:
    """A predicate that names the old value names the new one ("mysql_version")."""
    old = slug(re.sub(r"\s+v?\d[\w.]*$", "", wrong))
    return predicate.replace(old, slug(re.sub(r"\s+v?\d[\w.]*$", "", new))) if predicate and old else predicate


def _is_thing(value: str) -> bool:
    return value[:1].isupper() or any(map(str.isdigit, value)) or len(value.split()) <= 2


def _switched_to(clause: Clause, ledger: Ledger) -> Iterable[Extracted]:
    """“We upgraded to Postgres 17” where an older version is known; else simply that it is used."""
    match = _SWITCHED_TO.match(clause.text)
    new = trimmed(match["x"], "short") if match else None
    if new is None or not new[:1].isupper():
        return
    purpose = re.search(r"\bfor (?P<p>.+)", match["x"]) if match else None
    stated = tool(new, trimmed(purpose["p"], "long") if purpose else None)
    old = ledger.same_slot(stated)
    yield msgspec.structs.replace(
        stated,
        intent=Intent.CORRECT if old else Intent.STATE,
        replaces=old.object if old else None,
    )


def _of_last(clause: Clause, ledger: Ledger, turn: int) -> Iterable[Extracted]:
    """“No, it's 15,000 now”, “I meant March, not May”: only the value is said."""
    value, wrong = _bare_value(clause)
    if value is None:
        return
    known = ledger.holding(wrong) if wrong else None
    if known is not None and wrong is not None:
        found = with_value(known, wrong, value)
        if found is not None:
            yield found
        return
    held = _candidates(value, clause, ledger, turn)
    if is_name(value):
        held.sort(key=lambda one: (one.statement.predicate or "").startswith(("has_", "name")))
    for one in held:
        found = next(iter(_replaced(one.statement, value, clause, None)), None)
        if found is not None:
            told = " ".join(one.statement.evidence)
            who = one.statement.subject or "user"
            if who != "user" and SequenceMatcher(None, who.casefold(), value.casefold()).ratio() < _ALIKE:
                told = told.replace(who, "who")
            if not is_ambiguous(value, told, clause):
                yield found
            return


_ALIKE = 0.5
"""From here on a name that is meant may be the right spelling of the one of whom something was told."""

_COUNTED = re.compile(
    r"(?:it is |we have |we are |make (?:it|that) |I have |there (?:are|is) )?(?P<x>\d+|an?|one|two"
    r"|three|four|five|six|seven|eight|"
    r"nine|ten|eleven|twelve) (?P<what>[a-z][\w-]*)(?=$|[.,;!]| (?:now|not|actually|in total)\b)",
    re.IGNORECASE,
)
_COUNT = r"\d+|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"


def _of_count(clause: Clause, ledger: Ledger, _turn: int) -> Iterable[Extracted]:
    """“Oops, four kids”: how many there are of something that was counted."""
    match = _COUNTED.match(clause.text) if clause.is_correction else None
    if match is None:
        return
    kind = re.escape(match["what"].removesuffix("s"))
    for one in ledger.newest():
        held = re.search(
            rf"\b(?P<count>{_COUNT})(?P<between> (?:[\w-]+ )?){kind}", one.statement.content, re.IGNORECASE
        )
        if held is not None and held["count"].lower() != match["x"].lower():
            old = held["count"] + held["between"]
            found = exchange(one.statement, old, match["x"] + held["between"], match["x"])
            if found is not None:
                one_only = re.sub(rf"\b(one|an?|1)( (?:[\w-]+ )?{kind})s\b", r"\1\2", found.content)
                yield msgspec.structs.replace(found, content=one_only)
            return


def _bare_value(clause: Clause) -> tuple[str | None, str | None]:
    text = clause.text.rstrip(" .!")
    if (exchanged := _NOT_BUT.match(text)) is not None:
        return _plain(exchanged["x"]), exchanged["wrong"]
    match = _BARE_VALUE.match(text)
    said = next((part for part in match.groups() if part), None) if match else None
    if match is None and clause.is_correction and (alone := _VALUE_ALONE.match(text)) is not None:
        return alone["x"], alone["wrong"]
    is_meant = match is not None and match["x"] is None
    if said is None:
        return None, None
    if not (clause.is_correction or is_meant):
        spelled = re.match(r"(?:spelled |spelt )?(?P<name>[A-Z][a-z]+) with (?:an? |one |two )", said)
        return (spelled["name"], None) if spelled else (None, None)
    if (instead := _INSTEAD_OF.match(said)) is not None:
        return _plain(instead["x"]), _plain(instead["wrong"])
    return _plain(said), None


def _plain(value: str) -> str | None:
    return trimmed(re.sub(r"^(?:on|in|at|for|called|named) ", "", value.strip()), "long")


def _candidates(value: str, clause: Clause, ledger: Ledger, turn: int) -> list[Known]:
    """What can be meant without a name."""
    return ledger.pointed_at(turn, clause.evidence, is_name=not has_sort(value, clause))


def _replaced(known: Extracted, said: str, clause: Clause, wrong: str | None) -> Iterable[Extracted]:
    """The known statement with the new value, if both values are of one sort."""
    found = replaced(known, said, clause, wrong)
    return [found] if found is not None else []
