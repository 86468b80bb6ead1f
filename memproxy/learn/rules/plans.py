"""Rules for plans and their dates, for what lasts until a day, and for appointments."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.general import OFTEN_SAID
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    any_rule,
    i_rule,
)
from memproxy.learn.rules.money import topic_slug
from memproxy.learn.rules.values import (
    bare,
    names_in,
    third_person,
    trimmed,
)
from memproxy.learn.rules.words import DAY_NAMES, MONTH_NAMES

_EVENTS = re.compile(
    r"(?:(?:first|second|final|next|big|upcoming|half|full|annual|weekly|job|driving|dentist|doctor's|doctor|dental|"
    r"medical|math|maths|phd|"
    r"thesis|product|project|book|knee|eye|surgery|follow-up|\w+) )*(?:marathon|race|exam|exams|test|interview|"
    r"appointment|wedding|flight|"
    r"anniversary|graduation|presentation|deadline|surgery|operation|trip|vacation|holiday|conference|party|concert|"
    r"meeting|defense|defence|"
    r"launch|release|move|checkup|check-up|due date|due|visit|recital|tournament|match|game|audition|course|class|"
    r"retreat|reunion|festival|train|demo|"
    r"talk|dentist|optician|physio|haircut|performance|triathlon|competition|submission|viewing|hearing|booking|"
    r"reservation|start date|first day|last day|go-live|ceremony|funeral|baptism|lease|contract|visa|passport|"
    r"subscription|membership|warranty|baby|retro|retrospective|stand-?up|sprint|review|off-?site|workshop|webinar|"
    r"rehearsal|practice|delivery|photo ?shoot|gig|show|dinner|brunch|barbecue|picnic|playdate|vaccination|scan|"
    r"ultrasound|mri|biopsy|session|lesson|tour|cruise|ferry|inspection|audit|hackathon|bootcamp|camp|finals?|"
    r"midterms?|"
    r"quiz|prom|christening|shower|housewarming|open day|all-hands|town hall|keynote|premiere|exhibition|10k|5k|"
    r"swim meet|"
    r"check-in|check-out|closing|webinar|hen do|stag do)\b",
    re.IGNORECASE,
)


def event(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“My half marathon is on 13 October”: the date is the value, so that another date supersedes it."""
    what = trimmed(groups["what"], "whole")
    day = dates.find(groups["x"], clause.said_at)
    if what is None or day is None or day.place > 20 or len(what.split()) > 9 or not _EVENTS.search(what):
        return
    verb = groups.get("verb", "is").lower()
    verb = verb if verb in ("starts", "begins", "ends", "expires", "closes", "opens") else "is"
    yield dated_event(what, groups["x"][: day.place], day, _clock(groups["x"]), verb)


def dated_event(what: str, before: str, day: dates.Day, clock: str = "", verb: str = "is") -> Extracted:
    """The statement when something is."""
    joined = (
        before.strip().lower() if before.strip().lower() in ("on", "in", "at", "by", "from", "starting", "due") else ""
    )
    said = third_person(what)
    who = said if said.lower().startswith("the ") else f"User's {bare(said)}"
    return Extracted(
        content=f"{who[0].upper()}{who[1:]} {verb} {f'{joined} ' if joined else ''}{day.noted}{clock}.",
        subject="user",
        predicate=f"date_of_{topic_slug(what)}",
        object=f"{day.value}{clock}",
        category="plans/dates",
        tags=("plans", "dates"),
        entities=tuple(names_in(what)),
        confidence=SURE,
        importance=0.7,
    )


def located(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“The offsite is in Lisbon”: where something takes place."""
    what, place = trimmed(groups["what"], "whole"), trimmed(groups["x"], "place")
    if what is None or place is None or not place[:1].isupper() or len(what.split()) > 6:
        return
    if place.split()[0].lower() in _CALENDAR:
        return
    said = third_person(what)
    yield Extracted(
        content=f"The user's {bare(said)} is {groups['at'].lower()} {place}.",
        subject="user",
        predicate=f"place_of_{topic_slug(what)}"[:80],
        object=place,
        category="plans/places",
        tags=("plans", "places"),
        entities=tuple(names_in(place)),
        confidence=SURE,
        importance=0.6,
    )


_CALENDAR = DAY_NAMES | MONTH_NAMES
_GATHERING = (
    r"[\w' -]{0,30}?(?:offsite|off-site|wedding|conference|meeting|party|retreat|reunion|workshop"
    r"|interview|appointment|concert|"
    r"exam|race|marathon|tournament|festival|trip|holiday|vacation|honeymoon|office|headquarters|hq|studio|shop|school|"
    r"gym|flat|apartment|house|practice|clinic|dentist|training|course|camp|kickoff|kick-off|summit"
    r"|gig|show|exhibition|"
    r"funeral|ceremony|reception|rehearsal|hotel|airbnb|server|servers|data cent(?:er|re)|warehouse|factory)"
)


def _clock(text: str) -> str:
    found = re.search(
        r"\b(?:at|from) (\d{1,2}(?:[:.]\d\d)?\s?(?:am|pm|a\.m\.|p\.m\.)?|noon|midnight)(?=\W|$)",
        text,
        re.IGNORECASE,
    )
    return f" at {found[1]}" if found else ""


def noted_event(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“Dentist on Thursday at 9”: an event as one notes it."""
    what = groups["what"]
    day = dates.find(groups["x"], clause.said_at)
    if (
        day is None
        or day.place > 4
        or not _EVENTS.fullmatch(what)
        or re.match(r"(?:I|we|it|the|my|our|he|she|they|you|this|that)\b", what, re.IGNORECASE)
    ):
        return
    if len(groups["x"]) - len(day.text) < 25:
        yield dated_event(what[0].lower() + what[1:], "", day, _clock(groups["x"]))


def has_event(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I have a dentist appointment on Tuesday”: an event with its day."""
    day = dates.find(groups["x"], clause.said_at)
    if day is None or day.place == 0 or day.end <= clause.said_at.date():
        return
    what = trimmed(groups["x"][: day.place], "whole")
    what = re.sub(
        r"\s+(?:coming up|planned|scheduled|booked|due)$",
        "",
        what or "",
        flags=re.IGNORECASE,
    )
    if what and _EVENTS.search(what) and len(what.split()) <= 8:
        yield dated_event(bare(what), "", day, _clock(groups["x"]))


_NO_PLAN = re.compile(
    r"(?:thinking|wondering|considering|looking|trying|hoping|asking|waiting|getting|having (?:trouble|problems|"
    r"issues)|feeling|using|sitting|not|going|planning|training|preparing|saving|flying|travell?ing|driving|moving|"
    r"leaving|starting to|debugging|fixing)\b",
    re.IGNORECASE,
)

_SHORT_LIVED = re.compile(r"\b(?:today|tonight|this (?:morning|evening|afternoon))\b", re.IGNORECASE)


_OF_IT = re.compile(r"(?:\w+ (?:on |with |at )?(?:it|this|that|them|these)|leaning)\b", re.IGNORECASE)


def doing(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“We are launching the new website on Monday 10 June”."""
    said = trimmed(groups["x"], "whole")
    if said is None or _NO_PLAN.match(said) or _SHORT_LIVED.search(said) or _OF_IT.match(said):
        return
    yield from _on_day("User is {}", said, clause)


def going(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“I'm going to see the Pixies on 26 April”."""
    said = trimmed(groups["x"], "whole")
    if said is not None and not _SHORT_LIVED.search(said) and not _OF_IT.match(said):
        yield from _on_day("User is going to {}", said, clause)


def coming(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“The kitchen fitters come on the 3rd of July”."""
    said = trimmed(groups["x"], "whole")
    if said is None or _SHORT_LIVED.search(said) or "birthday" in said:
        return
    owned = re.sub(r"^(?:my|our) ", "User's ", said, flags=re.IGNORECASE)
    yield from _on_day("{}", owned[0].upper() + owned[1:], clause)


def _on_day(form: str, said: str, clause: Clause) -> Iterable[Extracted]:
    day = dates.find(said, clause.said_at)
    if day is None or day.place == 0 or dates.midnight(day.end) <= clause.said_at or (day.end - day.start).days > 40:
        return
    topic = trimmed(re.sub(r"^(?:User's|The) ", "", said[: day.place]).strip(), "whole")
    if topic is None:
        return
    noted = said[: day.place] + day.noted + said[day.place + len(day.text) :]
    yield Extracted(
        content=f"{form.format(third_person(noted))}.",
        subject="user",
        predicate=f"date_of_{topic_slug(topic)}"[:80],
        object=day.value,
        category="plans/dates",
        tags=("plans", "dates"),
        entities=tuple(names_in(said)),
        confidence=SURE,
        importance=0.6,
    )


_STARTS = (
    r"(?:start|begin|fly|leave|move|launch|cut over|migrate|arrive|depart|travel|return|graduate|retire|get|sign|open|"
    r"close|release|ship|present|submit|defend|finish|on sabbatical|on leave|on holiday|on vacation|away|"
    r"in (?-i:[A-Z])\w+)"
)


def starts(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“We cut over to the new load balancer on 24 June at 02:00”, “I start at Verdant on 1 July”."""
    said = re.split(r",? (?:not|instead of|because|so|but|since) ", groups["x"])[0].strip(" .!")
    lead = groups.get("lead", "").strip()
    day = dates.find(said, clause.said_at) or (dates.find(lead, clause.said_at) if lead else None)
    if day is None or dates.midnight(day.end) <= clause.said_at or len(said.split()) > 20 or OFTEN_SAID.search(said):
        return
    if re.match(r"(?:get|start) (?:an? )?(?:error|to \w+)|leave (?:it|that|this)\b", said):
        return
    verb = re.match(rf"{_STARTS}", said, re.IGNORECASE)
    place = said.find(day.text)
    noted = said if place < 0 else said[:place] + day.noted + said[place + len(day.text) :]
    being = "will be " if verb is not None and verb.group().split()[0] in ("on", "away", "in") else ""
    content = f"User {being}{third_person(noted if being else third_verb(noted))}"
    about = said[: max(0, place)] if place > 0 else said
    yield Extracted(
        content=f"{content}{f', {third_person(lead)}' if lead and place < 0 else ''}.",
        subject="user",
        predicate=f"date_of_{topic_slug(about)}"[:80],
        object=day.value,
        category="plans/dates",
        tags=("plans", "dates"),
        entities=tuple(names_in(said)),
        confidence=LESS_SURE,
        importance=0.6,
    )


def planned(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“Planning a trip to Japan in May”, “training for a marathon”."""
    what = trimmed(groups["x"], "whole")
    if what is None or len(what.split()) > 10:
        return
    verb = groups["verb"].lower()
    day = dates.find(what, clause.said_at)
    said = third_person(what if day is None else f"{what[: day.place]}{day.noted}{what[day.place + len(day.text) :]}")
    topic = trimmed(what[: day.place] if day and day.place else what, "long") or what
    yield Extracted(
        content=f"User is {verb} {said}.",
        subject="user",
        predicate=f"{verb.split()[0]}_{topic_slug(topic)}"[:80],
        object=bare(said),
        category="plans/plans",
        tags=("plans",),
        entities=tuple(names_in(what)),
        confidence=LESS_SURE,
        importance=0.6,
    )


def booked(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """Something booked, with what and when as said."""
    what = trimmed(groups["x"], "whole")
    if what is None or not re.match(
        r"(?:an?|the|our|my|two|three|four|flights?|tickets?|train)\b",
        what,
        re.IGNORECASE,
    ):
        return
    day = dates.find(what, clause.said_at)
    said = third_person(what if day is None else f"{what[: day.place]}{day.noted}{what[day.place + len(day.text) :]}")
    yield Extracted(
        content=f"User booked {said}.",
        subject="user",
        predicate=f"booked_{topic_slug(what)}"[:80],
        object=bare(said),
        category="plans/travel",
        tags=("plans",),
        entities=tuple(names_in(what)),
        confidence=SURE,
        importance=0.6,
    )


def wedding(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“We are getting married in June”."""
    day = dates.find(groups["x"], clause.said_at)
    if day is not None:
        yield dated_event(
            "wedding",
            "in" if day.text.lower().startswith("in ") else "on",
            _unprefixed(day),
        )


def _unprefixed(day: dates.Day) -> dates.Day:
    text = re.sub(r"^(?:in|on|by) ", "", day.text, flags=re.IGNORECASE)
    return dates.Day(day.start, day.end, text, day.place, day.is_relative)


RULES: tuple[Rule, ...] = (
    any_rule(
        r"(?:my|our) (?P<what>.+?) (?P<verb>is|are|takes place|starts|begins|ends|expires|closes|opens|is "
        r"scheduled|is planned|is set|"
        r"is due)(?: (?:scheduled|planned|set|booked|due|coming up))? (?P<x>.+)",
        event,
    ),
    any_rule(
        rf"(?:my|our|the) (?P<what>{_GATHERING}) (?:is|are|will be|takes place|is being held|is "
        rf"happening)(?: now| going to be)? (?P<at>in|at) (?P<x>.+)",
        located,
    ),
    any_rule(
        r"(?P<what>(?:go-live|launch|kick-?off|deadline|release|submission|delivery|move-in|due date"
        r"|checkout|feature freeze|code "
        r"freeze|sprint review|defen[cs]e|graduation|surgery|start)(?: (?:for|of) (?:the |our |my )?[\w' "
        r"-]{2,30}?)?) (?:is|will be) (?:now )?(?P<x>.+)",
        event,
    ),
    any_rule(
        r"(?P<x>(?:my|our|the) [\w' -]{2,40}? (?:comes?|arrives?|starts?|begins?|opens?|closes?|moves? in|visits?|"
        r"leaves?|returns?|launches|(?:is|are) (?:coming|visiting|arriving|moving|starting|leaving|getting married|"
        r"turning|having)|will (?:come|arrive|start|visit|begin)) .+)",
        coming,
    ),
    any_rule(
        r"(?P<what>[\w'-]+(?: [\w'-]+){0,2}?) (?P<x>(?:on|at|this|next|in) .+)",
        noted_event,
    ),
    i_rule(r"(?:am|are|will be) (?P<x>[a-z]+ing .+)", doing),
    any_rule(
        r"(?P<what>(?!(?:the|my|our|he|she|it|that|this|they|there|we|you) )[\w'-]+(?: [\w'-]+){0,2}?) (?:is|"
        r"are|takes place)"
        r"(?: now)? (?P<x>(?:on|at|this|next|in) .+)",
        event,
    ),
    any_rule(
        rf"(?P<lead>(?:from|on|in|until) [^,]{{3,40}}? )?(?:I|we) (?:will |will be |have to |need to |must )?"
        rf"(?P<x>{_STARTS}\b.+)",
        starts,
    ),
    any_rule(
        r"(?P<what>the .+?) (?:is|takes place|is scheduled|is due|is set)(?: (?:for|on))? (?P<x>(?:on |in |for )?.+)",
        event,
    ),
    i_rule(
        r"(?:have|have an?|am having|have booked|booked|run|am running) (?P<x>(?:an?|my|the|our) .+)",
        has_event,
    ),
    i_rule(
        r"(?:am|are) (?:to have|having|due for|due to have|getting|booked in for|booked for|scheduled for|in for) "
        r"(?P<x>(?:an?|my|the|our) .+)",
        has_event,
    ),
    i_rule(
        r"(?:(?:am|are) going to|will(?! see\b)) (?P<x>(?:see|visit|attend|watch|meet|run|host|present|speak|"
        r"perform|compete|stay|fly|"
        r"move|"
        r"start|give) .+)",
        going,
    ),
    i_rule(
        r"(?:am|are) getting (?P<x>married .+)",
        wedding,
    ),
    i_rule(
        (
            r"(?:am|are) (?P<verb>planning|training for|preparing for|saving for|saving up for|expecting(?= "
            r"(?:twins|(?:a|our|my) (?:\w+ )?(?:baby|child|son|daughter|girl|boy))\b)|organizing|"
            r"organising) (?P<x>(?:an?|our|my|the|to (?:visit|move|travel|go|attend|host|marry|run|launch|"
            r"open|retire)) .+)"
        ),
        planned,
    ),
    i_rule(r"(?:booked|have booked) (?P<x>.+)", booked),
)
