"""One value of a kind at a time: a new home, employer, car, phone or course in the place of the known one.

What is said here names the kind by its verb or its value alone ("we are back in Porto", "I started at Aldi", "we
switched to an Audi"), so it changes something only where exactly one statement of that kind is known.
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules import dates
from memproxy.learn.rules.contrasts import with_articles
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.kinds import CARS, STUDIES, VEHICLES_OF_ROAD, kind_of
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import SURE, Clause
from memproxy.learn.rules.pets import named_pet, pet
from memproxy.learn.rules.tastes import topic_of
from memproxy.learn.rules.values import bare, names_in, trimmed
from memproxy.learn.rules.whereabouts import changes_job
from memproxy.learn.rules.words import PETS

_HELD = ("owns", "drives", "car", "phone", "laptop", "tablet", "bike", "uses", "computer", "watch", "camera")
_BACK_IN = re.compile(
    r"(?:I|we) (?:am|are|have moved|moved|came|have come|went)(?: now)? back (?:in|to) (?P<x>(?-i:[A-Z])[\w'-]+(?: "
    r"(?-i:[A-Z])[\w'-]+)*)(?: now| again| for good)?[.!]?$",
    re.IGNORECASE,
)
_AT_NOW = re.compile(
    r"(?:I|we) (?:am|started|have started|start|began|joined|got a job|got hired|got a new job)(?: working)?"
    r"(?: now)?(?: (?:at|with|by))? (?:the )?(?P<x>(?:the )?[\w&.+-]+(?: (?-i:[A-Z])[\w&.+-]*)*)"
    r"(?= now\b| this\b| last\b| in\b| instead\b| since\b|\s*[.!]?$)",
    re.IGNORECASE,
)
_NO_EMPLOYER = re.compile(
    r"(?:the )?(?:home|work|school|uni|university|college|gym|office|noon|midnight|night|it|this|that|least|peace|"
    r"loss|risk|war|ease|lunch|dinner|church|\d.*|one|two|three|four|five|six|seven|eight|nine|ten|first|last|here|there|"
    r"beach|airport|station|doctor|doctors|dentist|vet|party|hotel|pub|bar|work|my|our|a|an|monday|scratch|zero|late|"
    r"early|all|once|present|back|top|bottom|end|start|door|table)$",
    re.IGNORECASE,
)
_SWAPPED = re.compile(
    r"(?:I|we) (?:have )?(?:just |finally |recently )?(?:swapped|traded(?: in)?|exchanged|replaced|switched|dumped) "
    r"(?:(?:my|our|"
    r"the) )?(?P<wrong>[\w' -]{2,30}?)(?: in| out)? (?:for|with|to) (?P<x>(?:an? |the )?[\w][\w .+-]{1,30}?)"
    r"(?=\s*$|[.,!;]| (?:last|this|in|because|since|now|yesterday|and|so)\b)",
    re.IGNORECASE,
)
_SWITCHED = re.compile(
    r"(?:I|we) (?:have )?(?:just |finally |recently )?(?:switched|changed|moved|went|upgraded|transferred|"
    r"gone)(?: over|"
    r" back)? to (?P<x>(?:an? )?[\w][\w .+-]{1,30}?)(?=\s*$|[.,!;]| (?:last|this|in|because|since|now|yesterday|and|"
    r"so|instead)\b)",
    re.IGNORECASE,
)
_ENDED_UP = re.compile(
    r"(?:I|we) (?:ended up (?:with|getting|buying|taking|choosing|going with|booking|going to|in)|went (?:with|for)|"
    r"settled (?:on|for)|got|bought|took|chose|picked) (?P<x>(?:an? |the )?[\w][\w' .+-]{1,30}?),? instead\b",
    re.IGNORECASE,
)
_LOST_BABY = re.compile(
    r"(?:I|we) (?:have )?(?:lost (?:the|our|my) baby|had a miscarriage|miscarried|am not pregnant|are not pregnant|"
    r"am no longer pregnant|had (?:the|our|my) baby|gave birth)\b|(?:the|our|my) baby (?:is here|was born|is "
    r"born|arrived|came|has arrived)\b|(?-i:[A-Z])\w+ (?:was born|has arrived)\b|(?:my|our) (?:son|daughter|twins|"
    r"girl|boy|little (?:boy|girl|one)) (?:was|"
    r"were|is|are) born\b",
    re.IGNORECASE,
)
_PREFERS_NOW = re.compile(r"(?:I|we) prefer (?P<x>[^,;.!?]{2,40}?)(?: now| these days| instead| nowadays)[.!]?$", re.I)
_PET_NAME = re.compile(r"my (?P<pet>[\w ]{3,20}?)(?:'s name is| is called| is named) (?P<x>(?-i:[A-Z])\w+)", re.I)
_HAS_NOW = re.compile(
    r"(?:I|we) (?:have|use|got|own|bought|am on|are on) (?P<x>(?:an? )?[\w][\w .+-]{1,30}?)(?: now)?[.!]?$", re.I
)
_DEVICES = frozenset({"phone", "tablet", "computer"})
_PREFERS = re.compile(r"(?:I|we) prefer (?P<x>[^,;.!?]{2,40}?)[.!]?$", re.IGNORECASE)


def turned_over(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What a clause puts in the place of the one known of its kind, or ends of it."""
    finders: tuple[Callable[[Clause, Ledger], Iterator[Extracted]], ...] = (
        _pregnancy,
        _pet_name,
        _home,
        _employer,
        _exchange,
        _switch,
        _has_now,
        _instead,
        _preference,
        _role,
    )
    clause = msgspec.structs.replace(clause, text=clause.text.partition(", not ")[0])
    for find in finders:
        found = list(find(clause, ledger))
        if found:
            return found
    return []


def _of(ledger: Ledger, *predicates: str) -> list[Extracted]:
    return [one.statement for one in ledger.newest() if one.statement.predicate in predicates]


def _changed(known: Extracted, content: str, value: str) -> Extracted:
    return msgspec.structs.replace(
        known,
        content=content,
        object=value,
        intent=Intent.CORRECT,
        replaces=known.object or known.content,
        entities=tuple(names_in(value)) or (value,),
        relations=tuple(msgspec.structs.replace(one, object=value) for one in known.relations),
        confidence=SURE,
        evidence=(),
        valid_from=None,
        valid_to=None,
    )


def _pregnancy(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“We lost the baby”: nothing known of a pregnancy or a due date goes on."""
    if _LOST_BABY.match(clause.text) is not None:
        for one in ledger.newest():
            if re.search(
                r"\bpregnan\w+|\bbaby is due|\bexpecting\b|due date|\bbaby on the way",
                one.statement.content,
                re.IGNORECASE,
            ):
                yield forgotten(one.statement)


def _pet_name(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“The hamster's name is Pim”: of the only one that is known."""
    match = _PET_NAME.match(clause.text)
    if match is None or re.search(r"\bthe [\w ]+(?:['’]s name| is)\b", clause.evidence, re.IGNORECASE) is None:
        return
    held = [one for one in _of(ledger, f"has_{PETS.get(match['pet'].lower(), '?')}") if one.entities]
    if len(held) == 1 and held[0].object != match["x"]:
        yield _changed(held[0], held[0].content.replace(held[0].object or "?", match["x"]), match["x"])


def _home(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“We are back in Porto”, where the user is known to live elsewhere."""
    match, held = _BACK_IN.match(clause.text), _of(ledger, "lives_in")
    place = trimmed(match["x"], "place") if match is not None else None
    if place is not None and len(held) == 1 and place not in held[0].content:
        yield _changed(held[0], f"User lives in {place}.", place)


def _employer(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“I changed jobs, I'm at Aldi now”, “started at adidas this month”, where another employer is known."""
    match = _AT_NOW.match(clause.text)
    held = _of(ledger, "employer")
    if match is None or len(held) != 1 or not re.search(r"\b(?:at|with|by|joined)\b", match.group(), re.IGNORECASE):
        return
    said = match["x"].rstrip(".")
    value = bare(said)
    told = " ".join(f"{one.text.rstrip('.')}." for _, one in ledger.told[-2:])
    being = re.match(r"(?:I|we) am\b", clause.text, re.IGNORECASE)
    if (
        (being and ("?" in clause.evidence or not changes_job(clause, told)))  # asked where one is just now
        or _NO_EMPLOYER.match(said)
        or value.lower() in held[0].content.lower()
    ):
        return
    if kind_of(value) is not None and value.islower():
        return
    where = said if said.lower().startswith("the ") else value
    yield _changed(held[0], f"User works at {where}.", value)


def _vehicle(value: str) -> bool:
    words = bare(value).lower().split()
    return bool(words) and (words[0] in CARS or words[-1] in VEHICLES_OF_ROAD or words[-1] in CARS)


def _exchange(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“I traded the Fiesta for a Mazda 3”: the whole thing, its make with it."""
    match = _SWAPPED.match(clause.text)
    new = trimmed(match["x"], "short") if match is not None else None
    if match is None or new is None:
        return
    wanted = terms(match["wrong"])
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.predicate in _HELD and one.statement.object and wanted and wanted <= one.told
    ]
    if len(held) == 1:
        yield _in_place(held[0], new)


def _in_place(known: Extracted, new: str) -> Extracted:
    """A thing in the place of another, with the article that the old one has."""
    value = bare(new)
    old = known.object or ""
    plain = re.sub(rf"\b(?:an? |the )?{re.escape(old)}", lambda _: new, known.content, count=1)
    if not re.match(r"an? ", new) and re.search(rf"\ban? {re.escape(old)}", known.content):
        plain = known.content.replace(old, value, 1)
    return _changed(known, with_articles(plain, value), value)


def _switch(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“We switched to an Audi”, “I switched to medicine”."""
    match = _SWITCHED.match(clause.text)
    new = trimmed(match["x"], "short") if match is not None else None
    if new is None:
        return
    if _vehicle(new):
        held = [one for one in _of(ledger, "drives", "car", "owns") if _vehicle(one.object or "")]
    elif bare(new).lower() in STUDIES:
        held = _of(ledger, "studies")
    elif re.match(r"(?:keto|paleo|vegan|vegetarian|low[- ]carb|gluten[- ]free)\b", new, re.IGNORECASE):
        held = _of(ledger, "diet")
    else:
        held = []
    if len(held) == 1 and bare(new).lower() != (held[0].object or "").lower():
        yield _in_place(held[0], new)


def _has_now(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“I have an iPad Air now”, where another thing of its kind is known to be the user's."""
    match = _HAS_NOW.match(clause.text) if clause.is_correction else None
    new = trimmed(match["x"], "short") if match is not None else None
    kind = kind_of(bare(new)) if new is not None else None
    if new is None or kind not in _DEVICES:
        return
    held = [one for one in _of(ledger, *_HELD) if kind_of(one.object or "") == kind or one.predicate == kind]
    if len(held) == 1 and bare(new).lower() != (held[0].object or "").lower():
        yield _in_place(held[0], new)


def _instead(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“We ended up with a whippet instead”: of the plan or choice that this conversation, or only one known, tells."""
    match = _ENDED_UP.match(clause.text)
    new = trimmed(match["x"], "long") if match is not None else None
    if new is None:
        return
    held = [
        one.statement
        for one in ledger.newest()
        if re.match(
            r"User (?:is (?:getting|buying|going|planning|booking|flying|looking)|plans|wants|booked|decided|"
            r"chose|will)",
            one.statement.content,
        )
        and not one.statement.stance
    ]
    if len(held) != 1:
        return
    names = [name for name in names_in(held[0].content[5:]) if dates.find(f"in {name}", clause.said_at) is None]
    kind = PETS.get(bare(new).lower())
    if kind is not None:
        yield forgotten(held[0])
        yield from _new_pet(kind, bare(new).lower(), clause)
    elif len(names) == 1 and names_in(f"x {new}") == [bare(new)]:
        changed = with_value(held[0], names[0], bare(new))
        yield from [changed] if changed is not None else []
    elif re.match(r"an? ", new):
        yield forgotten(held[0])


def _new_pet(kind: str, said: str, clause: Clause) -> Iterator[Extracted]:
    called = re.search(rf"\b{re.escape(said)}\b[^.!?]*\b(?:called|named) (?P<x>[A-Z]\w+)", clause.evidence)
    if called is not None:
        yield named_pet(kind, said, called["x"])
    else:
        yield from pet({"pet": said, "owned": "owned"}, clause)


def _preference(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“I prefer coffee now”, where one other preference of the same sort is known."""
    match = _PREFERS_NOW.match(clause.text) or (_PREFERS.match(clause.text) if clause.is_correction else None)
    value = trimmed(match["x"], "long") if match is not None else None
    if value is None or topic_of(value) == "user-preferences/general":
        return
    held = [one for one in _of(ledger, "prefers") if one.category == topic_of(value)]
    if len(held) == 1 and held[0].object != bare(value):
        yield _changed(held[0], f"User prefers {value}.", bare(value))


_NEW_IN_ROLE = re.compile(
    r"(?:(?:I|we) (?:have|got|changed to) )?(?:(?:my|our|the|an?) )?new (?P<role>[\w-]+(?: [\w-]+)?)(?:,|:| is|['’]s|"
    r" called| named| -)* (?P<x>(?-i:(?:(?:Dr|Mr|Mrs|Ms|Prof)\.? )?[A-Z][\w'-]+(?: [A-Z][\w'-]+)?))[.!]?$",
    re.IGNORECASE,
)


def _role(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“New landlord, Mrs Hale”, where the name of the one before is known."""
    match = _NEW_IN_ROLE.match(clause.text)
    if match is None:
        return
    role = terms(match["role"])
    held = [
        one.statement
        for one in ledger.newest()
        if role and role <= one.told and one.statement.object and names_in(f"x {one.statement.object}")
    ]
    if len(held) == 1 and held[0].object != match["x"]:
        changed = with_value(held[0], held[0].object or "", match["x"])
        yield from [changed] if changed is not None else []
