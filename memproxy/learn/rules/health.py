"""Rules for health, diet and what a person is: conditions, allergies, traits, nationality."""

import re
from collections.abc import Iterable

import msgspec

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.lexicon import DRUGS
from memproxy.learn.rules.model import (
    Clause,
    Groups,
    Rule,
    Template,
    i_rule,
    my_rule,
)
from memproxy.learn.rules.values import (
    bare,
    last_words,
    one_of,
    slug,
)
from memproxy.learn.rules.words import (
    CONDITIONS,
    DEMONYMS,
    DIETS,
)

_ILLNESS = re.compile(
    r"(?:an? )?(?:bad (?:back|knee|knees|hip|shoulder|ankle|wrist|heart)|[\w ]*(?:\w+itis|intolerance|disease|"
    r"syndrome|disorder|dementia|cancer|\w+phobia|"
    r"(?:\w+ )?(?:apn(?:o?e)a|\w+(?<!gn)osis|(?:an|leuk|glyc|lip)a?emia|\w*(?:neuro|myo|retino)pathy|\w+algia|"
    r"narcolepsy|"
    r"\w+plegia))|chronic \w+(?: \w+)?|an? \w+ allergy)$",
    re.IGNORECASE,
)


def is_condition(value: str) -> bool:
    """Whether it names an illness or a lasting complaint."""
    head = re.split(r"\s+(?:in|on|since|from|with|at|for)\b", value)[0]
    return last_words(head, CONDITIONS) is not None or _ILLNESS.match(head) is not None


_CONDITION = Template(
    content="User has {x}.",
    predicate="has_condition",
    stop="long",
    category="user-profile/health",
    tags=("health",),
    importance=0.8,
    check=is_condition,
    many=True,
)

_DIAGNOSED = Template(
    content="User was diagnosed with {x}.",
    predicate="has_condition",
    category="user-profile/health",
    tags=("health",),
    importance=0.8,
)

_ALLERGIC = Template(
    content="User is allergic to {x}.",
    predicate="allergic_to",
    category="user-profile/health",
    many=True,
    tags=("health", "allergy"),
    importance=0.95,
)

_DIET = Template(
    content="User is {x}.",
    predicate="diet",
    category="user-preferences/food",
    tags=("food", "diet"),
    importance=0.8,
    check=one_of(DIETS),
)

_NATIONALITY = Template(
    content="User is {x}.",
    predicate="nationality",
    category="user-profile/origin",
    check=one_of(DEMONYMS),
    importance=0.6,
)

_TRAITS = frozenset(
    {
        "left-handed",
        "right-handed",
        "morning person",
        "night owl",
        "early bird",
        "early riser",
        "introvert",
        "extrovert",
        "colorblind",
    }
    | {
        "colourblind",
        "color blind",
        "colour blind",
        "deaf",
        "blind",
        "pregnant",
        "night person",
        "light sleeper",
        "hard of hearing",
    }
    | {
        "dyslexic",
        "diabetic",
        "autistic",
        "color-blind",
        "dog person",
        "cat person",
        "nearsighted",
        "asthmatic",
        "teetotaler",
        "epileptic",
    }
)
_TRAIT = Template(
    content="User is {x}.",
    predicate="is_{x_slug}",
    category="user-profile/traits",
    stop="long",
    check=lambda value: bare(re.split(r" (?:in|on|since|from|with|by|and) ", value)[0]).lower() in _TRAITS,
)


def medication(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A medicine and its dose: the dose is the answer, the medicine the question."""
    name = re.search(DRUGS, groups["x"], re.IGNORECASE)
    for found in _MEDICATION({"x": groups["x"] if name is None else groups["x"].replace(" of ", " ", 1)}, _clause):
        yield found if name is None else msgspec.structs.replace(found, predicate=f"takes_{slug(name.group())}")


_MEDICATION = Template(
    content="User takes {x}.",
    predicate="takes_medication",
    category="user-profile/health",
    tags=("health",),
    importance=0.8,
    stop="short",
    check=lambda value: (
        re.search(
            r"\d\s?(?:mg|mcg|ml|units)\b|\b(?:metformin|insulin|ibuprofen|statins?|antihistamines?|levothyroxine|"
            r"beta blockers?|antidepressants?|blood thinners?)\b",
            value,
        )
        is not None
    ),
)


RULES: tuple[Rule, ...] = (
    i_rule(r"(?:am|are) allergic to (?P<x>.+)", _ALLERGIC),
    i_rule(
        r"have an? (?:severe |mild |bad |serious )?(?P<x>[\w ]{2,30}?) allergy\b",
        Template(
            content="User has a {x} allergy.",
            predicate="allergic_to",
            category="user-profile/health",
            tags=("health", "allergy"),
            importance=0.95,
        ),
    ),
    my_rule(r"(?:allergies are|allergies include|allergy is) (?:to )?(?P<x>.+)", _ALLERGIC),
    i_rule(
        r"(?:am|are) (?:an? )?(?:strict )?(?P<x>vegan|vegetarian|pescatarian|pescetarian|flexitarian|lactose[- "
        r"]intolerant|"
        r"gluten[- ]intolerant|gluten[- ]free|celiac|coeliac|keto)s?\b",
        _DIET,
    ),
    i_rule(
        r"(?:have gone|went|became|turned|go|eat|follow an?|am on an?|keep|eat only|only eat) (?:strictly "
        r")?(?P<x>vegan|vegetarian|pescatarian|keto|gluten[- ]free|kosher|halal|paleo|low[- ]carb)\b",
        Template(
            content="User is {x}.",
            predicate="diet",
            category="user-preferences/food",
            tags=("food", "diet"),
            importance=0.8,
        ),
    ),
    i_rule(r"(?:have|suffer from|live with|struggle with|have had) (?P<x>.+)", _CONDITION),
    i_rule(r"(?:was|got|have been|am) diagnosed with (?P<x>.+)", _DIAGNOSED),
    i_rule(r"(?:take|am on|am taking|have to take) (?P<x>.+)", medication),
    i_rule(r"am (?:an? )?(?P<x>[\w -]+)", _TRAIT),
    i_rule(
        r"am (?:half |originally )?(?P<x>[\w -]+?)(?=\s*$|[.,!;]| and\b| but\b| living\b| by\b)",
        _NATIONALITY,
    ),
    my_rule(r"nationality is (?P<x>.+)", _NATIONALITY),
)
