"""Rules for what the user has, uses, spends and decided, and for attributes ("my shoe size is 42")."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    Template,
    i_rule,
    my_rule,
)
from memproxy.learn.rules.money import topic_slug
from memproxy.learn.rules.values import (
    bare,
    items,
    last_words,
    names_in,
    slug,
    third_person,
    trimmed,
)
from memproxy.learn.rules.words import (
    PASSING_PURCHASES,
    PEOPLE,
    PETS,
    PLURAL_KIN,
    POSSESSIONS,
    VEHICLES,
)

_PASSING = re.compile(
    r"(?:question|problem|issue|error|headline|title|subject|topic|code|function|bug|query|point"
    r"|guess|idea|concern|understanding|assumption|"
    r"suggestion|first|"
    r"last|next|previous|second|only|main|request|prompt|answer|task|homework|file|data|dataset|script|program|"
    r"output|input|"
    r"feeling|opinion|thought|thoughts|situation|apologies|bad|advice|table|class|test|screen|text|essay|head|day|"
    r"mood|hair|"
    r"string|list|array|variable|repo|branch|page|english|spelling|mistake|favou?rite|turn|choice|preference|plan|"
    r"plans|approach|name|"
    r"life|week|weekend|morning|mind|heart|money|time|internet|connection|battery|stomach|back|throat|question is|"
    r"understanding is|memory|wish)\b",
    re.IGNORECASE,
)

_STATES = re.compile(
    r"(?:not|so|too|very|really|getting|being|going|on fire|down|broken|working|failing|slow|slower|stuck|ok|okay|"
    r"fine|great|good|bad|awful|terrible|"
    r"amazing|nice|lovely|tired|sick|ill|late|here|there|ready|done|over|full|empty|that|this|it|how|what|why|"
    r"whether|to|if|like|as|about|"
    r"always|never|still|also|just|quite|now|asking|telling|coming|driving|making|all|in|at|on|an? (?:mess|bit|lot|"
    r"disaster|problem|issue|nightmare|pain))\b",
    re.IGNORECASE,
)


def attribute(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """“My X is Y” where Y is a value: a number, a name, a date."""
    what, value = trimmed(groups["what"], "long"), trimmed(groups["x"], "long")
    plain = re.sub(
        r"^(?:main|only|last|next|first|second) (?=(?:editor|ide|language|programming language|browser"
        r"|car|job|bank|machine|instrument|laptop|phone|camera|sport|gym|email|distro|shell|framework"
        r"|client|project)\b)",
        "",
        what or "",
    )
    if what is None or value is None or _PASSING.match(plain) or _STATES.match(value) or len(what.split()) > 5:
        return
    if not _is_value(value) or any(
        word in PEOPLE or word in PETS or word in PLURAL_KIN for word in what.lower().split()
    ):
        return
    value = re.sub(r"^(?:called|named) ", "", value)
    yield Extracted(
        content=f"User's {third_person(what)} is {third_person(value)}.",
        subject="user",
        predicate=topic_slug(what),
        object=bare(third_person(value)),
        category="user-profile/details",
        tags=(slug(what),),
        entities=tuple(names_in(value)),
        confidence=LESS_SURE,
        valid_to=dates.until(groups["x"], clause.said_at),
    )


def _is_value(value: str) -> bool:
    plain = re.sub(r"^(?:an? |the |called |named )", "", value)
    if (
        re.match(
            r"(?:an?|from|made|born|based|built) (?!bit|mess|lot|little|problem|disaster|nightmare|pain|issue"
            r"|total|huge|great|good|bad|real)\w",
            value,
        )
        and len(value.split()) <= 9
    ):
        return True
    return re.fullmatch(r"\S+@\S+\.\w+", plain) is not None or (
        plain[0].isdigit() or plain[0] in "$€£¥" or (plain[0].isupper() and plain.split()[0] not in ("I", "The", "It"))
    )


def owned(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """Things that somebody has for long; passing purchases left out."""
    for value in items(groups["x"]) if re.search(r"\b(?:and|,) (?:an?|two|three) ", groups["x"]) else [groups["x"]]:
        yield from _owned(groups["verb"].lower(), value or "")


def _owned(verb: str, value: str) -> Iterable[Extracted]:
    what = trimmed(value, "short")
    if what is None or not re.match(
        r"(?:an?|my first|my own|\d+|two|three|our first|some new) ",
        what,
        re.IGNORECASE,
    ):
        return
    plain = re.sub(
        r"^(?:an?|my first|my own|our first) (?:(?:brand )?new |used |second-hand |old )?",
        "",
        what,
        flags=re.IGNORECASE,
    )
    if last_words(plain, frozenset(PETS)) or last_words(plain, PASSING_PURCHASES):
        return
    if verb in ("have", "got", "ordered") and not _is_possession(plain):
        return
    third = {
        "own": "owns",
        "have": "has",
        "bought": "bought",
        "got": "has",
        "purchased": "bought",
        "ordered": "ordered",
    }.get(verb, verb)
    yield Extracted(
        content=f"User {third} {third_person(what)}.",
        subject="user",
        predicate="owns",
        object=plain,
        category="possessions/vehicles" if last_words(plain, VEHICLES) else "possessions/things",
        tags=("possessions",),
        entities=tuple(names_in(plain)),
        confidence=SURE,
        importance=0.6,
    )


def _is_possession(plain: str) -> bool:
    return last_words(plain, POSSESSIONS) is not None or any(word in POSSESSIONS for word in plain.lower().split()[:2])


_DRIVES = Template(
    content="User drives {x}.",
    predicate="drives",
    category="possessions/vehicles",
    tags=("possessions", "car"),
    importance=0.6,
    check=lambda value: (
        re.match(r"(?:an? |my )", value, re.IGNORECASE) is not None
        and not re.search(r"\b(?:lot|hour|hard|bargain)\b", value)
    ),
)


SPECIFIC_RULES: tuple[Rule, ...] = (
    i_rule(
        r"(?P<verb>own|bought|have bought|purchased|have|got|ordered) (?P<x>.+)",
        lambda groups, clause: owned({**groups, "verb": groups["verb"].split()[-1]}, clause),
    ),
    i_rule(
        r"(?:drive|am driving|have been driving|ride(?! (?:my|our|an?) (?:[\w-]+ )?(?:bike|bicycle|horse|"
        r"pony|scooter)\b)) (?P<x>.+)",
        _DRIVES,
    ),
    my_rule(
        r"(?P<what>car|bike|phone|laptop|camera|motorcycle|computer|guitar|piano|printer|boat|watch|tv|telescope|"
        r"keyboard|monitor|work laptop|tent) is (?P<x>an? .+)",
        Template(
            content="User's {what} is {x}.",
            predicate="{what_slug}",
            category="possessions/things",
            tags=("possessions",),
            importance=0.6,
            check=lambda value: (
                re.match(
                    r"an? (?:bit|mess|problem|little|disaster|nightmare|lot|pain|total)",
                    value,
                )
                is None
            ),
        ),
    ),
)

RULES: tuple[Rule, ...] = (
    my_rule(
        r"(?P<what>editor|ide|shell|database|operating system|os|main language|programming language|framework|stack|"
        r"tech stack|ci|cloud provider|cloud|frontend|backend|browser|terminal|search engine|message queue|package "
        r"manager|issue tracker|db|linter|email client|note app|note-taking app|bank|gym|phone provider|airline|"
        r"team|manager|company|startup|project|side project|school|university|church|club|band|website|blog|podcast|"
        r"codebase|repo|server|app|api|production database) (?:is|are|is called|is named) (?:called |named "
        r")?(?P<x>[^\W_].*)",
        attribute,
    ),
    my_rule(r"(?P<what>[\w' -]{2,40}?) (?:is|are) (?P<x>.+)", attribute),
)
"""The rules for any attribute, asked when no other rule found its value."""
