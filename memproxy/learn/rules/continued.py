"""What goes on otherwise than it was told: somebody is elsewhere, a stay ends on another day, one thing for another.

Each is of the one known statement that it can be of, or says by itself what is so from now on.
"""

import re
from collections.abc import Callable, Iterator

import msgspec

from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.exchange import with_value
from memproxy.learn.rules.general import fact
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import SURE, Clause
from memproxy.learn.rules.revisions import repredicated
from memproxy.learn.rules.typed import replaced
from memproxy.learn.rules.values import is_name, names_in, slug, third_person, trimmed
from memproxy.learn.rules.whereabouts import is_errand
from memproxy.learn.rules.words import KIN, PARENTS, PARTNERS, PETS

_NAME = r"(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)*"
_IS_ELSEWHERE = re.compile(
    rf"(?:my|our) (?P<who>[\w-]+)(?: (?P<name>(?-i:[A-Z])[\w'-]+))? is (?:now )?(?P<at>in|at) (?P<x>(?:the )?{_NAME})"
    rf"(?: now)?(?:, not (?:in |at )?[\w ]+)?[.!]?$",
    re.IGNORECASE,
)
_GOES = re.compile(r"(?:goes|studies|works|attends|is) (?:to|at) ")
_KIN = KIN | PARENTS | PARTNERS
_DATE = (
    r"(?:the )?\d{1,2}(?:st|nd|rd|th)?(?: (?:of )?(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*)?|"
    r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]* \d{1,2}(?:st|nd|rd|th)?|"
    r"(?:mon|tues|wednes|thurs|fri|satur|sun)day"
)
_UNTIL = re.compile(
    rf"(?:I|we|it|they) (?:will |now |actually )*(?:stay|am|are|is|be|run|runs|last|lasts|go|goes)(?: there| here| "
    rf"on)? "
    rf"(?:until|till|to) (?P<x>{_DATE})[.!]?$",
    re.IGNORECASE,
)
_SPAN = re.compile(rf"\b(?:from )(?:{_DATE}) (?:to|until|till) (?P<end>{_DATE})", re.IGNORECASE)
_KIN_SWAP = re.compile(r"(?:to |at |with )?my (?P<x>[a-z-]+)(?:'s)?, not my (?P<wrong>[a-z-]+)(?:'s)?\b", re.IGNORECASE)
_SWAPPED = re.compile(
    r"(?:I|we) (?:have )?(?:just |finally |recently )?(?:(?:swapped|traded|replaced) (?=[\w' -]{2,30}? (?:for|with) )|"
    r"(?:switched|changed|went) from (?=[\w' -]{2,30}? to ))(?P<wrong>[\w' -]{2,30}?) (?:for|with|to) "
    r"(?P<x>(?!the (?:other|next)\b|an? (?:\w+ )?one\b|ones?\b|something\b)[\w][\w' +-]{1,30}?)(?=$|[.,;!]| (?:last|"
    r"this|"
    r"because|since|now|and|so)\b)",
    re.IGNORECASE,
)
_NAMED_HER = re.compile(
    rf"(?:I|we) (?:have )?(?:named|called|ended up (?:naming|calling)) (?:her|him|it) (?P<x>{_NAME})"
    r"(?: in the end| after all| instead)?[.!]?$",
    re.IGNORECASE,
)
_BORN = {"girl": "daughter", "boy": "son", "daughter": "daughter", "son": "son"}


def continued(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What a clause changes of what is known, or ends of it; nothing where nothing known is meant."""
    finders: tuple[Callable[[Clause, Ledger], Iterator[Extracted]], ...] = (
        _elsewhere,
        _until,
        _other_kin,
        _new_one,
        _for_it,
        _other_instead,
        _other_end,
        _new_address,
        _in_role,
        _in_its_place,
        _new_team,
    )
    return next((found for find in finders if (found := list(find(clause, ledger)))), [])


def told_anew(clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What is so from now on, though it is not known what was before: a child's name, one thing taken for another."""
    return [*_named(clause, ledger), *_taken_for(clause)][:1]


def _elsewhere(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Lena is at Schiller now”, “Sophie is in Liverpool, not in Leeds”."""
    match = _IS_ELSEWHERE.match(clause.text)
    if match is None or not clause.is_correction or match["who"].lower() not in _KIN or is_errand(clause):
        return
    name = match["name"]
    who = f"{match['who'].lower()}{f' {name}' if name else ''}"
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.content.startswith(f"User's {who} ")
        and (_GOES if match["at"].lower() == "at" else re.compile(r"lives in ")).match(
            one.statement.content.removeprefix(f"User's {who} ")
        )
    ]
    if len(held) == 1 and held[0].object:
        said = held[0].content.removeprefix(f"User's {who} ").split(maxsplit=2)
        yield _instead(held[0], f"User's {who} {said[0]} {said[1]} {match['x']}.", match["x"])
    elif not held and match["at"].lower() == "in":
        yield _instead(
            Extracted(
                content="", subject=name or f"user's {who}", predicate="lives_in", category="user-profile/people"
            ),
            f"User's {who} is in {match['x']}.",
            match["x"],
        )


def _instead(known: Extracted, content: str, value: str) -> Extracted:
    return msgspec.structs.replace(
        known,
        content=content,
        object=value,
        intent=Intent.CORRECT if known.content else Intent.STATE,
        replaces=known.object if known.content else None,
        entities=(value,),
        relations=(),
        confidence=SURE,
        evidence=(),
        valid_from=None,
        valid_to=None,
    )


def _until(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“We stay until 12 August” of what this conversation told from 3 to 10 August."""
    match = _UNTIL.match(clause.text)
    held = [
        (one.statement, span["end"])
        for one in ledger.newest()
        if one.turn >= 0 and (span := _SPAN.search(one.statement.content)) is not None
    ]
    if match is None or len(held) != 1:
        return
    known, end = held[0]
    new = match["x"] if re.search(r"[a-z]{3}", match["x"]) else f"{match['x']} {end.split()[-1]}"
    changed = with_value(known, f"to {end}" if f"to {end}" in known.content else end, f"to {new}")
    if changed is not None:
        yield changed


_NEW_ONE = re.compile(
    r"(?:(?:the|my|our) )?(?:new|next) (?:one|date|time|day|slot|appointment) (?:is|will be)(?: now)?(?: on| at| "
    r"for)? (?P<x>.+)",
    re.IGNORECASE,
)


def _new_one(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“They cancelled the test. The new one is on 24 March”."""
    match = _NEW_ONE.match(clause.text)
    for one in reversed(ledger.ended if match is not None else []):
        changed = replaced(one, match["x"], clause) if match is not None else None
        if changed is not None and changed.content != one.content:
            yield msgspec.structs.replace(changed, intent=Intent.STATE, replaces=None)
            return


_FOR_IT = re.compile(
    r"(?:(?:I|we|he|she|they)|(?:my|our) [\w -]{2,20}?|(?-i:[A-Z])\w+) (?:have |has |just |finally )*(?:swapped|"
    r"traded|exchanged|"
    r"replaced|switched) (?:it|that|them) (?:for|with|by|to) (?P<x>[\w][\w' -]{1,30}?)(?=$|[.,;!(]| (?:last|this|in|"
    r"because|"
    r"since|now|and|so)\b)",
    re.IGNORECASE,
)
_DONE_WITH = re.compile(
    r"(?P<does>User(?:'s [\w -]+?)? (?:plays|drives|uses|has|does|takes|eats|drinks|studies|is learning|owns|rides|"
    r"wears)) "
    r"(?P<old>(?:an? |the )?[\w' -]+?)\.$"
)


def _for_it(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Nele doesn't play the cello any more, she swapped it for drums”: of what was just taken back."""
    match = _FOR_IT.match(clause.text)
    gone = ledger.ended[-1] if match is not None and ledger.ended else None
    done = _DONE_WITH.match(gone.content) if gone is not None else None
    new = trimmed(match["x"], "short") if match is not None else None
    if gone is not None and done is not None and new is not None:
        content = f"{done['does']} {third_person(new)}."
        yield msgspec.structs.replace(gone, content=content, object=new, intent=Intent.STATE, evidence=())


_INSTEAD = re.compile(
    rf"(?:so )?(?:I|we) (?:am|are|will be) (?:doing|going to|going for|taking|getting|visiting|booking|flying to|"
    rf"having) "
    rf"(?P<x>{_NAME}) instead\b",
    re.IGNORECASE,
)


def _other_instead(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Peru's off the table, we're doing Portugal instead”: in the plan that was just taken back."""
    match = _INSTEAD.match(clause.text)
    for gone in reversed(ledger.ended if match is not None else []):
        names = names_in(gone.content.partition(" ")[2])
        if match is not None and len(names) == 1 and (changed := with_value(gone, names[0], match["x"])) is not None:
            yield msgspec.structs.replace(
                repredicated(changed, names[0], match["x"]), intent=Intent.STATE, replaces=None
            )
            return


_AT_END = re.compile(rf"(?P<at>from|to|at|in|near|via|with|for) (?P<x>{_NAME})[.!]?$", re.IGNORECASE)


def _other_end(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Sorry, from Stansted”: in the place of the one name behind the same word in what this conversation told last."""
    match = _AT_END.fullmatch(clause.text.strip()) if clause.is_correction else None
    if match is None:
        return
    behind = re.compile(rf"\b{match['at']} (?P<x>{_NAME})", re.IGNORECASE)
    held = [
        (one.statement, found[0])
        for one in ledger.newest()
        if one.turn >= 0 and len(found := behind.findall(one.statement.content)) == 1
    ]
    if len(held) == 1 and held[0][1] != match["x"]:
        changed = with_value(held[0][0], f"{match['at']} {held[0][1]}", f"{match['at']} {match['x']}")
        yield from [changed] if changed is not None else []


_MAIL = re.compile(r"[\w.+-]{1,60}@[\w-]{1,60}(?:\.[\w-]{1,60})+")
_NEW_MAIL = re.compile(
    r"\b(?:from now on|now|new|changed|instead|old (?:one|address|mail|e-?mail)|no longer|dead|any ?more|use)\b",
    re.IGNORECASE,
)


def _new_address(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Please use jo@new.example from now on”, where one address of the user is known."""
    said = _MAIL.findall(clause.text)
    if len(said) != 1 or _NEW_MAIL.search(clause.evidence) is None or _OF_OTHERS.search(clause.text):
        return
    held = [one.statement for one in ledger.newest() if _MAIL.search(one.statement.content)]
    held = [one for one in held if one.subject == "user"]
    if (
        len(held) == 1
        and (changed := replaced(held[0], said[0], clause)) is not None
        and said[0] not in held[0].content
    ):
        yield changed


_OF_OTHERS = re.compile(r"\b(?:his|her|their|your|to|write|send|mail|cc|forward|[a-z]+'s)\b", re.IGNORECASE)
_TITLED = r"(?:(?:Mr|Mrs|Ms|Miss|Dr|Prof)\.? )?(?-i:[A-Z])[\w'-]+"
_HAS_NOW = re.compile(
    rf"(?:(?:I|we|they|(?:my|our) [\w -]{{2,20}}?|it|he|she|(?-i:[A-Z])\w+) (?:have|has|is|are|got|gets?|sees?) (?:now "
    rf")?)(?P<x>{_TITLED})"
    r"(?: now| instead| from now on)*[.!]?$",
    re.IGNORECASE,
)
_ROLE = re.compile(rf" is (?:named |called )?(?P<x>{_TITLED})\.$")
_GONE = (
    r"(?:has |have |is |was |just |finally )*(?:left|retired|quit|resigned|died|gone|moved (?:on|away)|fired|let go|on "
    r"(?:leave|maternity leave|parental leave)|sacked|replaced)\b"
)


def _in_role(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Mr Boyle left, my son has Ms Adeyemi now”: whoever is gone had one role that is known."""
    match = _HAS_NOW.match(clause.text) if clause.is_correction else None
    if match is None:
        return
    held = [
        (one.statement, role["x"])
        for one in ledger.newest()
        if (role := _ROLE.search(one.statement.content)) is not None
        and re.search(rf"\b{re.escape(role['x'])} {_GONE}", clause.evidence, re.IGNORECASE)
    ]
    if len(held) == 1 and (changed := with_value(held[0][0], held[0][1], match["x"])) is not None:
        yield changed


_NOW_AT = re.compile(
    rf"(?:I|we) (?:am|are|go|went|moved|train|practi[sc]e|play|swim|climb|shop|rehearse|meet)(?: over)? (?:at|to|"
    rf"with|in|for) "
    rf"(?P<x>(?:the )?{_NAME})(?: instead| now| these days)+[.!]?$",
    re.IGNORECASE,
)
_CLOSED = (
    r"(?:has |have |is |was |just |finally |sadly |got )*(?:closed|closing|shut|folded|gone|bankrupt|bust|burnt|burned|"
    r"demolished|sold|went (?:bust|bankrupt|under)|too (?:expensive|crowded|far|loud))\b"
)


def _in_its_place(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“Lotus closed, I'm at Shala instead”: in the one statement that names the place which is no more."""
    match = _NOW_AT.match(clause.text)
    held = [
        (one.statement, names[0])
        for one in ledger.newest()
        if match is not None
        and one.statement.subject == "user"
        and len(names := names_in(one.statement.content.partition(" ")[2])) == 1
        and re.search(rf"\b{re.escape(names[0])} {_CLOSED}", clause.evidence, re.IGNORECASE)
    ]
    if match is not None and len(held) == 1:
        changed = with_value(held[0][0], held[0][1], match["x"])
        yield from [changed] if changed is not None else []


_SIGNED = re.compile(
    rf"(?:I|we) (?:have )?(?:just |now )?(?:signed (?:for|with)|transferred to|joined|play for|moved to) "
    rf"(?P<x>(?:the )?{_NAME})(?: now)?"
    r"(?=$|[.,;!]| (?:last|this|in|since|now)\b)",
    re.IGNORECASE,
)


def _new_team(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“I signed for the Rovers this summer” of who is known to play for another team."""
    match = _SIGNED.match(clause.text)
    held = [
        (one.statement, team["x"])
        for one in ledger.newest()
        if (team := re.match(rf"User plays for (?P<x>(?:the )?{_NAME})", one.statement.content)) is not None
    ]
    if match is not None and len(held) == 1 and match["x"] not in held[0][0].content:
        changed = with_value(held[0][0], held[0][1], match["x"])
        yield from [changed] if changed is not None else []


def _other_kin(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“My brother's, not my sister's”: no sister was meant."""
    match = _KIN_SWAP.match(clause.text)
    if match is None or not {match["x"].lower(), match["wrong"].lower()} <= _KIN | PETS.keys():
        return
    wrong = match["wrong"].lower()
    for one in ledger.newest():
        if one.turn >= 0 and one.statement.predicate in (f"family_{wrong}", f"has_{wrong}"):
            yield forgotten(one.statement)
    right = match["x"].lower()
    yield fact(f"User has a {right}.", f"family_{right}", right, "user-profile/family")


def _taken_for(clause: Clause) -> Iterator[Extracted]:
    """“I've swapped the yoga for pilates”, where nothing of yoga is known."""
    match = _SWAPPED.match(clause.text)
    wrong, new = (trimmed(match[part], "short") if match is not None else None for part in ("wrong", "x"))
    if wrong is None or new is None or not terms(wrong) or not terms(new) or re.search(r"\d", new):
        return
    yield fact(
        f"User has swapped {third_person(wrong)} for {third_person(new)}.", f"swapped_{slug(wrong)}", third_person(new)
    )


def _named(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """“It's a girl! We named her Alma”."""
    match = _NAMED_HER.match(clause.text)
    if match is None or not is_name(match["x"]):
        return
    heard = frozenset[str]().union(*ledger.heard[-_NEAR:])
    who = {_BORN[word] for word in _BORN.keys() & heard}
    if len(who) == 1:
        kin = who.pop()
        yield Extracted(
            content=f"User's {kin} is named {match['x']}.",
            subject="user",
            predicate=f"has_{kin}",
            object=match["x"],
            category="user-profile/family",
            tags=("family",),
            entities=(match["x"],),
            confidence=SURE,
        )


_NEAR = 2
"""Sentences back in which it was said who was born."""

_GIVES_UP = re.compile(
    r"(?:I|we) (?:(?:do not|no longer|cannot|will not) (?P<verb>drink|eat)|(?:have )?(?:stopped|quit|gave up|given up) "
    r"(?P<doing>drink|eat)ing) (?P<x>(?![\w -]*free\b)[\w' -]{2,30}?)(?P<more> anymore| any longer)?(?=$|[.,;!?])",
    re.IGNORECASE,
)


def given_up(clause: Clause, taken_back: list[Extracted]) -> list[Extracted]:
    """“I don't drink coffee any more”, where that was known: what is not eaten or drunk from now on."""
    match = _GIVES_UP.match(clause.text)
    thing = trimmed(match["x"], "short") if match is not None else None
    if match is None or thing is None or not any(terms(thing) & terms(one.content) for one in taken_back):
        return []
    verb = (match["verb"] or match["doing"]).lower()
    if not (match["more"] or match["doing"] or "no longer" in match.group()):
        return []
    said = third_person(thing)
    return [fact(f"User no longer {verb}s {said}.", f"no_longer_{verb}_{slug(said)}", said, "user-preferences/food")]
