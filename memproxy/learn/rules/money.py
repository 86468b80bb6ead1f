"""Rules for budgets, amounts and measures."""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.model import (
    SURE,
    Clause,
    Groups,
    Rule,
    Template,
    any_rule,
    i_rule,
    my_rule,
)
from memproxy.learn.rules.values import (
    names_in,
    slug,
    third_person,
    trimmed,
)

AMOUNT = (
    r"(?:about |around |roughly |approximately |up to |at most |max(?:imum)? |under |below |exactly |only )?"
    r"(?:(?:US|CA|AU)?[$€£¥]\s?\d[\d,.]*\d?(?:\s?(?:k|m|bn|thousand|million))?"
    r"|\d[\d,.]*\d?\s?(?:k|m|thousand|million)?\s?(?:dollars|euros?|pounds|yen|usd|eur|gbp|chf|francs|€|£|\$|bucks)?)"
    r"(?:\s?(?:per|a|an|each|/|every)\s?(?:month|year|week|day|person|night|hour|head|kid|child|guest|mo|yr))?"
    r"(?:\s?(?:-|–|to)\s?[$€£¥]?\d[\d,.]*\d?\s?(?:k|m)?\b)?"
)

_AMOUNT = re.compile(AMOUNT, re.IGNORECASE)


def budget(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """A budget, with what it is for."""
    amount = _AMOUNT.match(groups["x"])
    if amount is None:
        return
    what = trimmed(groups.get("what") or "", "long") or trimmed(groups.get("kind") or "", "long")
    if what is None and (after := re.match(r"\s*(?:for|on) (?P<what>.+)", groups["x"][amount.end() :])):
        what = trimmed(after["what"], "long")
    said = amount.group().strip().rstrip(".,")
    about = f" for {_definite(what)}" if what else ""
    yield Extracted(
        content=f"User's budget{about} is {said}.",
        subject="user",
        predicate=f"budget_for_{topic_slug(what)}" if what else "budget",
        object=said,
        category="finance/budget",
        tags=("budget",),
        entities=tuple(names_in(what or "")),
        confidence=SURE,
        importance=0.7,
    )


def spends(groups: Groups, clause: Clause) -> Iterable[Extracted]:
    """An amount that can be spent on something."""
    amount = _AMOUNT.match(groups["x"])
    rest = groups["x"][amount.end() :] if amount else ""
    money = amount is not None and re.search(
        r"[$€£]|\dk\b|\b(?:dollars|euros?|pounds|usd|eur|gbp|bucks|francs|chf|yen)\b",
        amount.group(),
        re.IGNORECASE,
    )
    if money and re.match(r"\s*(?:for|on|to spend on) (?!it\b|this\b|that\b)", rest):
        yield from budget(
            {"x": f"{amount.group() if amount else ''} {rest.replace('to spend ', '').strip()}"},
            clause,
        )


def _definite(what: str) -> str:
    said = third_person(what)
    has = re.match(r"(?:the|their|an?|this|next|my|our|[a-z]+ing)\b", said, re.IGNORECASE) or (
        said[0].isupper() and " " not in said
    )
    return (
        said
        if has
        else f"the {said}"
        if re.search(r"\b(?:trip|vacation|holiday|wedding|project|party|renovation|tour)\b", said)
        else said
    )


def topic_slug(what: str) -> str:
    """A topic as part of a predicate: a trip is a trip, whether it is called vacation or holiday."""
    plain = re.sub(r"\b(?:my|our|the|this|upcoming|next|their)\b", "", what, flags=re.IGNORECASE)
    return slug(
        re.sub(
            r"\b(?:vacation|holidays?|journey|getaway)\b",
            "trip",
            plain,
            flags=re.IGNORECASE,
        )
    )


_MEASURE = re.compile(
    r"\d[\d.,]*\s?(?:kg|kilos?|kilograms?|lbs?|pounds|stone|cm|m|meters?|metres?|feet|ft|inches)\b|\d'\s?\d{1,2}|\d "
    r"feet \d",
    re.IGNORECASE,
)


def _measured(value: str) -> bool:
    return _MEASURE.match(value) is not None


RULES: tuple[Rule, ...] = (
    my_rule(
        r"(?P<kind>(?!total budget|overall budget|max|budget)[\w' -]{2,40}?) budget is (?P<x>.+)",
        budget,
    ),
    my_rule(
        r"(?:total |overall |maximum |max )?budget (?:for|on) (?P<what>.+?) is (?:now )?(?P<x>.+)",
        budget,
    ),
    my_rule(r"(?:total |overall |maximum |max )?budget is (?:now )?(?P<x>.+)", budget),
    any_rule(
        r"(?:total |overall |max )?budget(?: (?:for|on) (?P<what>.+?))? (?:is|would be) (?:now )?(?P<x>.+)",
        budget,
    ),
    i_rule(
        r"(?:can spend|want to spend|plan to spend|am spending|have) (?P<x>[\w ]{0,9}[$€£]?\d.+)",
        spends,
    ),
    any_rule(
        r"(?:with )?(?:an? |the |our |my )?(?:max |total )?budget(?: of| around| about|:)? (?P<x>[$€£]?\d.*)", budget
    ),
    any_rule(r"the (?P<kind>[\w' -]{2,40}?) budget is (?:now )?(?P<x>.+)", budget),
    any_rule(r"the budget (?:for|on) (?P<what>.+?) is (?:now )?(?P<x>.+)", budget),
    i_rule(r"have (?:a (?:total )?budget of |budgeted |set aside )(?P<x>.+)", budget),
    i_rule(
        r"(?:earn|make|get paid) (?P<x>[$€£]?\d.+)",
        Template(
            content="User earns a salary of {x}.",
            predicate="salary",
            object="{x}",
            category="finance/income",
            tags=("income",),
            stop="long",
            importance=0.7,
        ),
    ),
    i_rule(
        r"pay (?P<x>[$€£]?\d\S*(?: \w+)??(?: (?:a|per) \w+)?) (?:in|for|of) (?P<what>.+)",
        Template(
            content="User pays {x} for {what}.",
            predicate="{what_slug}_cost",
            object="{x}",
            category="finance/amounts",
            tags=("amounts",),
            stop="long",
        ),
    ),
    my_rule(
        r"(?P<what>salary|rent|mortgage|monthly rent|monthly mortgage|income|savings|shoe size|weight|height|dress "
        r"size|ring size|commute|resting heart rate|blood type|iq|gpa|blood pressure|car payment|hourly rate|day "
        r"rate|phone number|email|email address|license plate|employee number|customer number|bedtime|deadline) is "
        r"(?P<x>.+)",
        Template(
            content="User's {what} is {x}.",
            predicate="{what_slug}",
            object="{x}",
            category="user-profile/details",
            stop="whole",
            importance=0.6,
            check=lambda value: any(map(str.isdigit, value)) or "@" in value or len(value) <= 3,
        ),
    ),
    i_rule(
        r"weigh (?P<x>\d.+)",
        Template(
            content="User weighs {x}.",
            predicate="weight",
            object="{x}",
            category="user-profile/health",
            check=_measured,
            stop="long",
        ),
    ),
    i_rule(
        r"am (?P<x>\d.+?) tall\b",
        Template(
            content="User is {x} tall.",
            predicate="height",
            object="{x}",
            category="user-profile/details",
            check=_measured,
        ),
    ),
    i_rule(
        r"wear (?:a )?size (?P<x>\d[\w.]*)(?: (?P<what>shoes?|jeans|dress|shirts?))?",
        Template(
            content="User wears size {x}.",
            predicate="clothing_size",
            object="{x}",
            category="user-profile/details",
        ),
    ),
    i_rule(
        r"(?:wear|wears) (?P<x>glasses|contact lenses|contacts|hearing aids|a hearing aid|braces)\b",
        Template(
            content="User wears {x}.",
            predicate="wears_{x_slug}",
            category="user-profile/health",
        ),
    ),
)
