"""Rules for what the user does not eat, gave up and aims at."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.model import (
    LESS_SURE,
    SURE,
    Clause,
    Groups,
    Rule,
    Template,
    any_rule,
    i_rule,
)
from memproxy.learn.rules.values import (
    bare,
    items,
    third_person,
)
from memproxy.learn.rules.words import (
    DIETS,
    FOOD,
)

_DOES_NOT_EAT = re.compile(
    r"(?:much|enough|out|at|breakfast|lunch|dinner|late|well|a lot|drive|healthy|properly|before|after|too|here|"
    r"there|and "
    r"drive)\b",
    re.IGNORECASE,
)


def avoids(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """What the user does not eat, drink or smoke."""
    verb = groups["verb"].lower()
    third = {"eat": "eat", "drink": "drink", "have": "have"}.get(verb, verb)
    for value in items(groups["x"]) if groups.get("x") else [None]:
        if value is None and verb in ("drink", "smoke") and not groups.get("x"):
            what = "alcohol" if verb == "drink" else "tobacco"
            yield _avoided(
                f"User does not {verb}" + (" alcohol." if verb == "drink" else "."),
                what,
            )
        elif value is not None and verb != "smoke" and not _DOES_NOT_EAT.match(value):
            what = re.sub(r"\s+(?:in|since|on|at) .*$", "", value)
            yield _avoided(f"User does not {third} {third_person(what)}.", bare(what))


def _avoided(content: str, what: str) -> Extracted:
    return Extracted(
        content=content,
        subject="user",
        predicate="avoids",
        object=what,
        stance="negative",
        category="user-preferences/food",
        tags=("food", "diet"),
        confidence=SURE,
        importance=0.8,
    )


_DRINKS = Template(
    content="User takes their {what} {x}.",
    predicate="takes_{what_slug}",
    object="{x}",
    category="user-preferences/food",
    tags=("food",),
    stop="long",
)

_GOAL = Template(
    content="User wants to {x}.",
    predicate="wants",
    object="{x}",
    category="plans/goals",
    tags=("goals",),
    stop="long",
    confidence=LESS_SURE,
    check=lambda value: (
        re.match(
            r"(?:learn (?:(?-i:[A-Z])|to (?:swim|drive|sail|surf|ski|dance|code|cook|play|ride))|become an? |move to |"
            r"run an? |visit (?-i:[A-Z])|travel to |lose weight|lose \d|save for|retire |write an? (?:book|"
            r"novel)|climb |"
            r"open an? |quit (?:my|smoking|drinking)|adopt |get married|have (?:kids|children))",
            value,
        )
        is not None
    ),
)


RULES: tuple[Rule, ...] = (
    i_rule(r"(?:do not|cannot|never|will not) (?P<verb>eat|drink) (?P<x>.+)", avoids),
    i_rule(r"no longer (?P<verb>eat|drink) (?P<x>.+)", avoids),
    i_rule(
        r"(?:stopped|quit|gave up|have stopped|have given up) (?P<verb>eat|drink)ing (?P<x>.+)",
        avoids,
    ),
    i_rule(r"(?:do not|never) (?P<verb>drink|smoke)(?=\s*$|[.,!;]| and (?!drive)| or\b)", avoids),
    i_rule(
        r"(?P<verb>avoid) (?P<x>.+)",
        Template(
            content="User avoids {x}.",
            predicate="avoids",
            many=True,
            category="user-preferences/food",
            tags=("food",),
            check=lambda value: (
                bare(value).lower() in FOOD | DIETS | {"sugar", "caffeine", "alcohol", "red meat", "lactose", "carbs"}
            ),
        ),
    ),
    i_rule(
        r"(?:take|drink|have|like) my (?P<what>coffee|tea|steak|eggs|espresso) (?P<x>.+)",
        _DRINKS,
    ),
    i_rule(
        r"(?:want|hope|am hoping|dream of|aim) to (?P<x>.+)",
        _GOAL,
    ),
    i_rule(
        r"(?:quit|stopped|gave up|have quit|have stopped|have given up) (?P<x>smoking|drinking|alcohol|coffee|"
        r"caffeine|sugar|meat|gluten|dairy|social media|vaping)\b",
        Template(
            content="User quit {x}.",
            predicate="quit_{x_slug}",
            category="user-profile/health",
            tags=("health",),
        ),
    ),
    i_rule(
        r"(?:do not|never) want to (?P<x>(?:use|eat|buy|own|move|fly|drive|travel|have (?:kids|children)|live|work|"
        r"get (?:a|another)|kill|go back)\b.+)",
        Template(
            content="User does not want to {x}.",
            predicate="does_not_want",
            object="{x}",
            category="user-preferences/general",
            tags=("dislikes",),
            stop="whole",
            confidence=LESS_SURE,
            check=lambda value: not re.match(r"\w+ (?:it|this|that|them)\b", value),
        ),
    ),
    any_rule(
        r"(?:my|our) (?:main |big |biggest |next |fitness |long-term )?(?:goal|dream|resolution|new year's "
        r"resolution|ambition|aim)(?: (?:for|this) [\w ]+?)? is to (?P<x>.+)",
        Template(
            content="User's goal is to {x}.",
            predicate="goal",
            object="{x}",
            category="plans/goals",
            tags=("goals",),
            stop="long",
            importance=0.6,
        ),
    ),
)
