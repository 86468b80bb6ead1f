"""Notes without a verb of their own: "cats: Bean, Toast and Gravy", "interview tomorrow with Zalando"."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.general import fact
from memproxy.learn.rules.model import LESS_SURE, Clause, Groups, Rule, any_rule
from memproxy.learn.rules.people import named_person, names_of
from memproxy.learn.rules.pets import named_pet
from memproxy.learn.rules.values import items, names_in, slug, third_person, trimmed
from memproxy.learn.rules.words import KIN, PETS, PLURAL_KIN

_KINDS = "|".join(
    sorted(
        map(re.escape, {*PLURAL_KIN, *(f"{one}s" for one in PETS), "kids", "children", "boys", "girls"}),
        key=len,
        reverse=True,
    )
)


def named_list(groups: Groups, _clause: Clause | None) -> Iterable[Extracted]:
    """“Cats: Bean, Toast and Gravy”."""
    who = groups["who"].lower()
    names = names_of(re.sub(r"\s*\([^)]*\)", "", re.split(r"[.;?!]", groups["x"])[0]))
    if not names:
        return
    if (pet := who.removesuffix("s")) in PETS:
        yield from (named_pet(PETS[pet], pet, name) for name in names)
    else:
        kind = PLURAL_KIN.get(who, who.removesuffix("s"))
        kind = {"boy": "son", "girl": "daughter"}.get(kind, kind)
        yield from (named_person(kind, name) for name in names if kind in KIN or kind == "child")


_LISTED = re.compile(
    rf"\b(?:(?:my|our|two|three|four|five|six|\d) )+(?P<who>{_KINDS}):\s+(?P<x>(?-i:[A-Z]).+)", re.IGNORECASE
)


_KEPT = re.compile(
    r"(?:my|our) (?P<what>[\w -]{0,20}?(?:gear|kit|setup|tools|instruments|bikes|cameras|lenses|collection|"
    r"devices|plants|"
    r"pets|equipment|rig|wardrobe|library|subscriptions)): (?P<x>(?:an?|the|one|two|three|\d+) [^.?!]+)",
    re.IGNORECASE,
)
_THE_AND = re.compile(r",? and (?=(?:an?|the|one|two) )", re.IGNORECASE)


def listed(text: str) -> Iterable[Extracted]:
    """“Rainy Saturday, three kids: Ana, Beto and Clara”, anywhere in a sentence."""
    if ": " not in text:
        return
    if (kept := _KEPT.match(text)) is not None and len(found := items(_THE_AND.sub(" and ", kept["x"]))) > 2:
        what = kept["what"].lower()
        for value in found if None not in found else ():
            yield fact(f"User's {what}: {third_person(value or '')}.", f"{slug(what)}_{slug(value or '')}", value or "")
    for match in _LISTED.finditer(text):
        yield from named_list({"who": match["who"], "x": match["x"]}, None)


def labelled(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“My balcony: tomatoes, a fig in a pot, and basil”: what there is of something of the user's."""
    what = trimmed(groups["what"], "long")
    said = items(re.sub(r",? and (?:some |a )?", " and ", groups["x"]))
    found = [one for one in said if one is not None]
    if what is None or len(found) < 2 or len(what.split()) > 4:
        return
    for value in found:
        yield fact(
            f"User's {third_person(what)}: {third_person(value)}.", f"{slug(what)}_{slug(value)}", third_person(value)
        )


_WHAT = (
    r"(?:(?:job |final |first |second |phone |driving |dentist'?s? |doctor'?s? |dental |eye |blood "
    r"|medical |piano |math |maths |"
    r"bar |visa |embassy |thesis |phd |half |full |open |board |team |parent[- ]teacher "
    r"|naturali[sz]ation |physio |knee |"
    r"vet |hospital |citizenship |theory |oral |written |mock |[a-z]+ )?"
    r"(?:interview|test|exam|appointment|surgery|operation|marathon|defen[cs]e|wedding|flight"
    r"|presentation|audition|recital|"
    r"viewing|check-?up|scan|mri|demo|concert|gig|tournament|race|triathlon|hearing|graduation|move"
    r"|deadline|party|ceremony|"
    r"dentist|physio|optician|trial shift|first day|due date))"
)


def dated(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“Interview tomorrow with Zalando”, “got my driving test next Tuesday at 8:14”."""
    what, rest = groups["what"].strip().lower(), groups["x"]
    day = dates.find(rest, clause.said_at)
    if (
        day is None
        or day.end <= clause.said_at.date()
        or day.place > 30
        or re.match(r"(?:how|what|is|do)\b", rest, re.IGNORECASE)
    ):
        return
    said = trimmed(rest, "whole") or ""
    said = re.split(r",\s|\s+who\b", said)[0] if len(said) > 60 else said
    noted = said.replace(day.text, day.noted, 1) if day.text in said else f"{said} {day.noted}"
    yield Extracted(
        content=f"User's {what} is {third_person(noted)}.",
        subject="user",
        predicate=f"date_of_{slug(what)}",
        object=day.value,
        category="plans/dates",
        tags=("plans", "dates"),
        entities=tuple(names_in(said)),
        confidence=LESS_SURE,
        importance=0.7,
    )


def as_always(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Aisle seat as always”, “nothing spicy for me”."""
    said = trimmed(groups["x"], "long")
    if (
        said is not None
        and len(said.split()) <= 5
        and not re.match(r"(?:thanks|great|you|good|same|sorry|perfect|me|I|we|he|she|they|it)\b", said, re.IGNORECASE)
    ):
        yield fact(
            f"User always wants {third_person(said)}.",
            f"always_{slug(said)}",
            third_person(said),
            "user-preferences/general",
        )


def nothing_of(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Nothing spicy for me”, “no mushrooms for me”."""
    said = trimmed(groups["x"], "short")
    if (
        said is not None
        and len(said.split()) <= 4
        and not re.match(r"(?:problem|worries|idea|else|clue|more|new|special|thanks|fancy|like)\b", said)
    ):
        yield fact(
            f"User wants {groups['no'].lower()} {third_person(said)}.",
            f"avoids_{slug(said)}",
            third_person(said),
            "user-preferences/food",
        )


def student(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“2nd year civil engineering at TU Delft here”."""
    said = trimmed(groups["x"], "long")
    if said is not None and len(said.split()) <= 9:
        said = re.sub(r"\s+here$", "", said)
        yield fact(
            f"User is a {said} student." if "student" not in said and " at " not in said else f"User is a {said}.",
            "studies",
            said,
            "user-profile/education",
        )


_FOR_ME = r"(?:for me|for us|please|pls|in (?:my|our) (?:food|life|house)|ever)"

_LABELS = (
    r"allerg(?:y|ies)|diet|languages?|instruments?|hobbies|interests|pets|stack|tech stack|setup|gear"
    r"|kit|devices|meds|medication|medications|conditions|sizes?|"
    r"job|occupation|location|city|age|height|weight|home|team|subscriptions|tools|dislikes|likes"
    r"|no-gos|restrictions|intolerances|experience|level|household|family"
)


def noted(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Allergies: penicillin, latex”: a note under a heading."""
    what = groups["what"].lower()
    said = trimmed(groups["x"], "list")
    if said is None or len(said.split()) > 14:
        return
    yield fact(f"User's {what}: {third_person(said)}.", slug(what), third_person(said))


def best_way(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“No dairy please”, “nothing with coriander”."""
    said = trimmed(groups["x"], "long")
    if said is not None and len(said.split()) <= 4:
        yield fact(
            f"User wants nothing with {third_person(said)}.",
            f"avoids_{slug(said)}",
            third_person(said),
            "user-preferences/food",
        )


_NO_TASTE = re.compile(
    r"(?:why|sure|ok|maybe|probably|certainly|definitely|it|that|this|he|she|they|and|but|or|so|good"
    r"|great|bad|nice|more|less|better|worse|just|only|if|what|"
    r"should|would|could|can|will|do|does|did|is|are|was|were|have|has|had|option|i|we|you|yes|no"
    r"|shorter|longer|a|the|one|two|all)\b",
    re.IGNORECASE,
)


def rather(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Tabs not spaces”, “pathlib over os.path”: a preference without a verb."""
    one, other = groups["x"], trimmed(groups["over"], "short")
    if (
        re.search(r"\b(?:is|are|was|were|am|do|does|has|have)$", one)
        or (other or "").startswith(("my ", "our "))
        or one.lower().startswith(("its ", "it is ", "that is "))
    ):
        return  # a denial ("sushi is not my favourite")
    if other is None or _NO_TASTE.match(one) or _NO_TASTE.match(other) or one[:1].isupper() or one[:1].isdigit():
        return
    yield fact(
        f"User wants {one} rather than {other}.",
        f"preference_between_{'_and_'.join(sorted((slug(one), slug(other))))}",
        one,
        "user-preferences/general",
    )


def never_any(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Never semicolons in js”."""
    said = trimmed(groups["x"], "long")
    if said is not None and len(said.split()) <= 5 and re.match(r"[a-z-]+s\b(?! (?:it|this|that|me)\b)", said):
        yield fact(f"User never wants {said}.", f"never_{slug(said)}", said, "user-preferences/general")


RULES: tuple[Rule, ...] = (
    any_rule(
        r"(?P<x>[\w.+#-]+(?: [\w.+#-]+)?),? (?:not|over|instead of|rather than) (?P<over>[\w.+# "
        r"-]{2,30}?)(?=$|[.,;!])",
        rather,
    ),
    any_rule(r"never (?P<x>[a-z-]+s\b.*)", never_any),
    any_rule(rf"(?:(?:my|our) )?(?P<what>{_LABELS}):\s+(?P<x>.+)", noted),
    any_rule(r"(?:and |but )?nothing (?:with|containing) (?P<x>.+)", best_way),
    any_rule(
        rf"(?:my |our |the )?(?:(?:two|three|four|five|six|\d) )?(?P<who>{_KINDS})(?: are)?(?: called| "
        rf"named)?:\s+(?P<x>.+)",
        named_list,
    ),
    any_rule(
        r"(?:my|our) (?P<what>(?!question|problem|code|plan|idea|draft|text|answer|prompt|message|email"
        r"|list|error|setup is|first|address)[\w' -]{3,30}):\s+(?P<x>(?!I\b|how|what|why|is|can)[^\n]+)",
        labelled,
    ),
    any_rule(
        rf"(?:it is my |(?:I )?(?:have |got )?(?:my|an?|the|our) )?(?P<what>{_WHAT}|anniversary"
        rf"|birthday)(?: coming up| booked| scheduled)?(?= (?:on|at|in|next|this|tomorrow|with|for|is"
        rf"|tonight|monday|tuesday|wednesday|thursday|friday|saturday|sunday)\b)(?: is)? (?P<x>.+)",
        dated,
    ),
    any_rule(
        r"(?:with |in )?(?:an? |the )?(?P<x>[\w' -]{3,40}?),? (?:as always|as usual|like always|every "
        r"time|always)(?=[.,;!]|$)",
        as_always,
    ),
    any_rule(rf"(?P<no>nothing|no) (?P<x>[\w' -]{{3,40}}?) (?:{_FOR_ME})(?=[.,;!]|$)", nothing_of),
    any_rule(
        r"(?P<x>(?:1st|2nd|3rd|4th|first|second|third|fourth|final)[- ]year (?:[\w ]+ )?(?:at|in) .+?)(?: "
        r"here\b|$)",
        student,
    ),
)
