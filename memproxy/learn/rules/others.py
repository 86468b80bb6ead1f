"""Rules for what the user says of people near: where they live, what they do, how old they are, what they like.

Only of people that "my" binds to the user, and only what is stated, never what they are said to say or think.
"""

import re
from collections.abc import Callable, Iterable

from memproxy.core.memory import Relation
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.home import is_named_place
from memproxy.learn.rules.model import SURE, Clause, Groups, Rule, any_rule
from memproxy.learn.rules.values import (
    bare,
    is_name,
    items,
    names_in,
    slug,
    third_person,
    trimmed,
)
from memproxy.learn.rules.words import PEOPLE, PETS, PLURAL_KIN
from memproxy.learn.rules.work import is_occupation

_SIZE = r"(?:(?:older|younger|little|big|twin|eldest|youngest|oldest|new|best)\s+)?"
_WHO = (
    rf"(?:my|our) "
    rf"(?P<who>{_SIZE}(?:{'|'.join(sorted(map(re.escape, PEOPLE), key=len, reverse=True))}))(?:,? "
    rf"(?P<name>(?!is\b|was\b)[^\W\d_][\w'-]+),?)?"
)


def _about(
    verb: str, predicate: str, stop: str, check: Callable[[str], bool] | None = None
) -> Callable[[Groups, Clause], Iterable[Extracted]]:
    """A builder for what a person does; ``verb`` as it stands in the statement."""

    def build(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
        name = groups.get("name")
        if name and not is_name(name):
            return
        who = groups["who"].lower()
        for value in items(groups["x"]) if stop == "items" else [trimmed(groups["x"], stop)]:
            if value is None or (check is not None and not check(value)):
                continue
            yield _fact(
                who,
                name,
                f"{verb} {third_person(value)}",
                predicate,
                bare(third_person(value)),
            )

    return build


def _fact(who: str, name: str | None, said: str, predicate: str, value: str) -> Extracted:
    subject = name if name else f"user's {who}"
    return Extracted(
        content=f"User's {who}{f' {name}' if name else ''} {said}.",
        subject=subject,
        predicate=predicate,
        object=value,
        category="user-profile/people",
        tags=("people", who),
        entities=tuple(dict.fromkeys([*([name] if name else []), *names_in(value)])),
        relations=(Relation(subject=subject, predicate=predicate, object=value),),
        confidence=SURE,
        importance=0.5,
    )


_IN_PLACE = re.compile(
    r"[\w\s-]+? (?P<where>(?:in|at|from|near|for) (?-i:[A-Z])[\w-]+(?: (?-i:[A-Z])[\w-]+)*)",
    re.IGNORECASE,
)


def _works(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A person's trade, and where."""
    value, where, name = (
        trimmed(groups["x"], "short"),
        _IN_PLACE.match(groups["x"]),
        groups.get("name"),
    )
    if value is not None and is_occupation(value) and (not name or is_name(name)):
        said = f"is {value} {where['where']}" if where else f"is {value}"
        yield _fact(groups["who"].lower(), name, said, "job_title", bare(value))


def _aged(value: str) -> bool:
    return (
        re.fullmatch(
            r"\d{1,3}(?: (?:years?|months?)(?: old)?)?|(?:one|two|three|four|five|six|seven|eight|nine|ten)(?: "
            r"years? old)?",
            value,
        )
        is not None
    )


def _lives_there(value: str) -> bool:
    return is_named_place(value)


_SEVERAL = (
    rf"(?:my|our) (?P<who>{_SIZE}(?:parents|grandparents|in-laws|"
    rf"{'|'.join(sorted(map(re.escape, PLURAL_KIN), key=len, reverse=True))}))"
)
_PET = (
    rf"(?:my|our) (?P<who>{'|'.join(sorted(map(re.escape, PETS), key=len, reverse=True))})(?:,? "
    rf"(?P<name>(?!is\b|was\b|has\b)[^\W\d_][\w'-]+),?)?"
)
_DOES = (
    r"(?P<x>(?:has|needs|takes|goes to|lives with|owns|drives|runs|teaches|coaches|eats|only eats|"
    r"sleeps|cannot (?:eat|do|have|drink|digest|tolerate|stand)|does not (?:eat|drink|touch)|does not speak|is "
    r"scared of|is afraid of|is into|is obsessed "
    r"with|works from home|works in|is retired|is a vegan|is a vegetarian|collects|rides|sings|"
    r"paints|graduated|retired) ?.*)"
)
_PASSING = re.compile(
    r"has (?:left|gone|moved|quit|retired|resigned|died|got|become|started|stopped|finished|broken|lost|taken|"
    r"sold|bought|come|run|\w{2,}ed)\b|(?:has|needs) (?:an? (?:question|problem|point|meeting|cold|idea|fever|lot|"
    r"headache|bit|issue)|to|been|asked|"
    r"just|the|no|help|some|your|more)\b|takes (?:a |the )?(?:while|time|bus|long)|\w+ (?:it|this|that|him|her|"
    r"them)\b",
    re.IGNORECASE,
)


def does(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What else somebody near does, has or needs, as it was said."""
    said, name = trimmed(groups["x"], "long"), groups.get("name")
    if (
        said is None
        or re.fullmatch(r"has (?:one|two|three|four|some|none|it|them)", said)
        or _PASSING.match(said)
        or (name and not is_name(name))
    ):
        return
    verb, _, rest = said.partition(" ")
    yield _fact(
        groups["who"].lower(),
        name,
        third_person(said),
        verb.lower() if rest else "does",
        third_person(rest or said),
    )


def several(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What several people near do ("my parents live in Porto", "my kids are 4 and 7")."""
    said = trimmed(groups["x"], "long")
    if said is None or not re.match(
        r"(?:live|work|moved|own|run|have (?:a|an|two|three)|come) |are (?:\d{1,2}\b|from |vegan|vegetarian|"
        r"divorced|married|retired|allergic|deaf|blind|both )|love |hate |go to ",
        said,
    ):
        return
    yield _fact(
        groups["who"].lower(),
        None,
        third_person(said),
        slug(" ".join(said.split()[:2])),
        third_person(said),
    )


_EATING = re.compile(
    r"(?P<said>(?:does not|cannot|will not|never) (?:eat|eats|drink|drinks|have|tolerate|do)\b.*|is "
    r"(?:an? )?(?:strict )?(?:vegan|vegetarian|pescatarian|"
    r"coeliac|celiac|lactose[- ]intolerant|gluten[- ]free|allergic to .+|halal|kosher|diabetic|teetotal|pregnant)\b.*)",
    re.IGNORECASE,
)


def diet_of(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """“Jo doesn't eat pork, Malik doesn't drink”: what guests do not eat."""
    name, said = groups["name"], trimmed(groups["x"], "long")
    if said is None or not is_name(name) or (match := _EATING.match(said)) is None:
        return
    yield Extracted(
        content=f"{name} {match['said']}.",
        subject=name,
        predicate=f"diet_{slug(match['said'])}"[:60],
        object=match["said"],
        category="user-profile/people",
        tags=("people", "diet"),
        entities=(name,),
        confidence=SURE,
    )


_TRAIT = (
    r"(?:(?:an? )?(?:vegan|vegetarian|pescatarian|diabetic|deaf|blind|autistic|dyslexic|pregnant"
    r"|retired|left-handed|asthmatic|colou?r[- ]?blind|lactose[- ]intolerant|"
    r"gluten[- ]intolerant|gluten[- ]free|coeliac|celiac|teething|nonverbal|non-verbal|bilingual"
    r"|adopted|neurodivergent|disabled|epileptic)\b.*|"
    r"(?:allergic to|afraid of|scared of|terrified of|into|obsessed with|named|called|in (?:year"
    r"|grade|kindergarten|high school|primary|nursery|college|hospital|a "
    r"wheelchair)|on (?:insulin|the spectrum|a \w+ diet)|due (?:in|on)|(?:almost |nearly |about "
    r")?\d{1,2}(?:\.5)? (?:weeks|months|years)|turning \d+|expecting|"
    r"from (?-i:[A-Z])|half (?-i:[A-Z])|(?-i:[A-Z])[a-z]+(?:ish|an|ese)\b|(?-i:Welsh|French|Dutch|Greek|Swiss|Czech|"
    r"Thai)\b)\b.*)"
)
_NO_VERB = re.compile(
    r"(?:is|was|has|does|says|said|thinks|wants|keeps|asks|asked|told|tells|needs|gets|got|just|says"
    r"|wrote|sent|gave|made|vetoed|will|would|can|could|should|"
    r"might|did|had|hugs|called|calls|showed|looks|feels|seems|sounds|goes|comes|came|went|took|takes"
    r"|suggests?|suggested|believes|claims|means|knows|loves|likes|hates|s)\b|\w+(?:ed|ing|ly)\b",
    re.IGNORECASE,
)


def trait(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What somebody near is ("my husband is diabetic", "our baby is 5 months")."""
    said, name = trimmed(groups["x"], "long"), groups.get("name")
    if said is not None and (not name or is_name(name)):
        yield _fact(
            groups["who"].lower(), name, f"is {third_person(said)}", f"is_{slug(said)}"[:60], third_person(said)
        )


def habit_of(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What somebody near does in general ("my son fences", "our dog pulls on the leash")."""
    said, name = trimmed(groups["x"], "long"), groups.get("name")
    if said is None or _NO_VERB.match(said) or (name and not is_name(name)) or len(said.split()) < 2:
        return
    verb, _, rest = said.partition(" ")
    if verb.endswith("s") and len(verb) > 3 and not re.match(r"(?:it|this|that|him|her|them|me|you)\b", rest):
        yield _fact(
            groups["who"].lower(), name, third_person(said), f"{verb.lower()}_{slug(rest)}"[:60], third_person(rest)
        )


_SOMEBODY = (
    rf"(?:my|our) "
    rf"(?P<who>{_SIZE}(?:{'|'.join(sorted(map(re.escape, PEOPLE | PETS.keys()), key=len, reverse=True))}))(?:,? "
    rf"(?P<name>(?-i:[A-Z])[\w'-]+),?)?"
)

_STEP = (
    r"(?:got (?:engaged|married|divorced|promoted|fired|laid off|an? (?:new )?(?:job|dog|cat|baby)|into (?-i:[A-Z]).*)|"
    r"had (?:a|her|his|their) (?:\w+ )?(?:baby|operation|surgery|stroke|son|daughter)|graduated|moved in(?:to| "
    r"with).*|moved out.*|"
    r"became an? .+|won .+|got (?:his|her|their) own .+|(?:went|moved|has gone) (?:in)?to (?:an? )?(?:care|nursing|"
    r"retirement) home.*|started (?:school|university|college|kindergarten|nursery|at (?-i:[A-Z]).*)|bought an? .+)"
)


def stepped(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A step in the life of somebody near ("my brother Finn got engaged")."""
    said, name = trimmed(groups["x"], "long"), groups.get("name")
    if said is not None and (not name or is_name(name)) and _SAID_AGO.search(said) is None:
        yield _fact(groups["who"].lower(), name, third_person(said), f"did_{slug(said)}"[:60], third_person(said))


_SAID_AGO = re.compile(
    r"\b(?:me|us|you|it|this|that|early|late|today|tonight|(?:went|came|got) home|the (?:room|house|table|office))\b",
    re.IGNORECASE,
)

LAST_RULES: tuple[Rule, ...] = (
    any_rule(rf"{_SOMEBODY} is (?P<x>{_TRAIT})", trait),
    any_rule(rf"{_SOMEBODY} (?P<x>[a-z].+)", habit_of),
)
"""Asked when no other rule found anything."""

RULES: tuple[Rule, ...] = (
    any_rule(r"(?:(?:guests|kids|people|friends|attendees): )?(?P<name>(?-i:[A-Z])[a-z]+) (?P<x>.+)", diet_of),
    any_rule(
        rf"{_WHO} (?:lives|is living|moved|is based)(?: \w+)?? (?:in|to) (?P<x>.+)",
        _about("lives in", "lives_in", "place", _lives_there),
    ),
    any_rule(
        rf"{_WHO} (?:works|is working) (?:at|for) (?P<x>.+)",
        _about("works at", "employer", "short", lambda value: value[:1].isupper()),
    ),
    any_rule(rf"{_WHO} works as (?P<x>.+)", _about("works as", "job_title", "short")),
    any_rule(rf"{_WHO} is (?P<x>an? .+)", _works),
    any_rule(
        rf"{_WHO} is allergic to (?P<x>.+)",
        _about("is allergic to", "allergic_to", "items"),
    ),
    any_rule(
        rf"{_WHO} is (?P<x>vegan|vegetarian|pescatarian|lactose intolerant|gluten-free|celiac|pregnant|left-handed|"
        rf"diabetic)\b",
        _about("is", "is", "long"),
    ),
    any_rule(
        rf"{_WHO} (?:loves|likes|enjoys|adores) (?P<x>.+)",
        _about("likes", "likes", "items"),
    ),
    any_rule(
        rf"{_WHO} (?:hates|dislikes|cannot stand|does not like) (?P<x>.+)",
        _about("dislikes", "dislikes", "items"),
    ),
    any_rule(
        rf"{_WHO} (?:is|turned|just turned|turns) (?P<x>\d{{1,3}}\b.*)",
        _about("is", "age", "short", _aged),
    ),
    any_rule(
        rf"{_WHO} (?:studies|is studying) (?P<x>.+)",
        _about("studies", "studies", "short"),
    ),
    any_rule(
        rf"{_WHO} speaks (?P<x>.+)",
        _about("speaks", "speaks", "items", lambda value: value[:1].isupper()),
    ),
    any_rule(rf"{_WHO} plays (?P<x>.+)", _about("plays", "plays", "short")),
    any_rule(rf"{_WHO} is learning (?!to\b|how\b)(?P<x>.+)", _about("is learning", "learns", "short")),
    any_rule(
        rf"{_WHO} (?:is|comes) from (?P<x>.+)",
        _about("is from", "from", "place", is_named_place),
    ),
    any_rule(
        rf"{_WHO}'s favou?rite (?P<what>[\w ]{{2,30}}?) is (?P<x>.+)",
        lambda groups, _clause: _favourite(groups),
    ),
    any_rule(rf"{_WHO} {_DOES}", does),
    any_rule(rf"{_PET} {_DOES}", does),
    any_rule(rf"{_SEVERAL} (?P<x>.+)", several),
    any_rule(
        rf"{_SOMEBODY} (?:has |have |just |finally |recently )*(?P<x>{_STEP})(?=$|[.,;!]| (?:last|this|in|yesterday|"
        rf"and)\b)",
        stepped,
    ),
)


def _favourite(groups: Groups) -> Iterable[Extracted]:
    value = trimmed(groups["x"], "long")
    if value is not None:
        what = groups["what"]
        who, name = groups["who"].lower(), groups.get("name")
        yield Extracted(
            content=f"User's {who}{f' {name}' if name else ''}'s favorite {what} is {third_person(value)}.",
            subject=name or f"user's {who}",
            predicate=f"favorite_{what.replace(' ', '_')}",
            object=bare(value),
            category="user-profile/people",
            tags=("people", who),
            confidence=SURE,
        )
