"""Rules for languages and hobbies."""

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
    is_name,
    items,
    last_words,
    one_of,
)
from memproxy.learn.rules.words import (
    ACTIVITIES,
    INSTRUMENTS,
    LANGUAGES,
    SPORTS,
)

_HOW_WELL = re.compile(
    r"\b(?:a (?:little|bit|tiny bit)(?: bit)?(?: of)?|fluent|native|some|basic|both|good|conversational) ",
    re.IGNORECASE,
)


def speaks(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    """Languages, each by itself."""
    verb, predicate = {"learn": ("is learning", "learning")}.get(groups.get("how", ""), ("speaks", "speaks"))
    said = _HOW_WELL.sub("", groups["x"])
    for value in items(said):
        language = value or ""
        language = language.split(" ")[0] if language.split(" ")[0].lower() in LANGUAGES else language
        beside = any((one or "").lower() in LANGUAGES for one in items(said))
        if language.lower() in LANGUAGES or (beside and is_name(language) and " " not in language):
            predicate_name = f"{predicate}_{language.lower()}" if predicate == "learning" else predicate
            yield Extracted(
                content=f"User {verb} {language}.",
                subject="user",
                predicate=predicate_name,
                object=language,
                category="user-profile/languages",
                tags=("languages",),
                confidence=SURE,
                importance=0.6,
            )


def _plays(value: str) -> bool:
    plain = re.sub(r"^the ", "", value.lower())
    return plain in INSTRUMENTS or plain in SPORTS or last_words(plain, INSTRUMENTS | SPORTS) is not None


_HOBBY = "user-preferences/hobbies"


RULES: tuple[Rule, ...] = (
    i_rule(
        r"(?:speak|can speak|am fluent in|am a native speaker of|know|am bilingual in|speak fluent|am a native) "
        r"(?P<x>.+)",
        speaks,
    ),
    my_rule(
        r"(?:native language|mother tongue|first language|native tongue) is (?P<x>.+)",
        speaks,
    ),
    i_rule(
        r"(?:am|are|have been|started|have started|am trying to|took up|have taken up|switched to) "
        r"(?P<how>learn)(?:ing)? "
        r"(?P<x>.+)",
        lambda groups, clause: speaks({**groups, "how": "learn"}, clause),
    ),
    i_rule(
        r"(?P<how>study|am studying|am taking|take) (?P<x>.+?)(?= classes| lessons| courses|$)",
        lambda groups, clause: speaks({**groups, "how": "learn"}, clause),
    ),
    i_rule(
        r"(?:am learning to play|play|have been playing|am learning|have been learning|started playing|started "
        r"learning|have started playing|have played|practice|practise) (?P<x>.+)",
        Template(
            content="User plays {x}.",
            predicate="plays",
            many=True,
            check=_plays,
            category=_HOBBY,
            tags=("hobbies",),
        ),
    ),
    i_rule(
        r"(?:am learning|have started learning|started learning|am teaching myself) (?P<x>.+)",
        Template(
            content="User is learning {x}.",
            predicate="learning_{x_slug}",
            many=True,
            check=lambda value: value[0].isupper() and value.lower() not in LANGUAGES,
            category=_HOBBY,
            tags=("hobbies",),
        ),
    ),
    my_rule(
        r"(?:hobbies are|hobbies include|hobby is|main hobbies are|main hobby is|favourite hobby is|favourite "
        r"hobbies are|interests are|interests include|passions are|passion is) (?P<x>.+)",
        Template(
            content="User's hobby is {x}.",
            predicate="hobby",
            many=True,
            category=_HOBBY,
            tags=("hobbies",),
        ),
    ),
    any_rule(
        r"in my (?:free|spare) time,? I (?:like to |love to |enjoy |love |like |usually )?(?P<x>.+)",
        Template(
            content="In their free time, the user likes: {x}.",
            predicate="hobby",
            stop="long",
            category=_HOBBY,
            tags=("hobbies",),
        ),
    ),
    i_rule(
        r"(?:practice|practise|do|go|started|have started|took up|have taken up|am into|am getting into|got into) "
        r"(?P<x>.+)",
        Template(
            content="User does {x}.",
            predicate="hobby",
            check=lambda value: one_of(ACTIVITIES)(re.split(r" with ", value)[0]),
            many=True,
            category=_HOBBY,
            tags=("hobbies",),
        ),
    ),
    i_rule(
        r"(?:collect|have been collecting) (?P<x>.+)",
        Template(
            content="User collects {x}.",
            predicate="collects",
            many=True,
            check=lambda value: (
                re.search(
                    r"\b(?:average|data|logs?|metrics|feedback|information|points|the|requirements)\b",
                    value,
                )
                is None
            ),
            category=_HOBBY,
            tags=("hobbies",),
        ),
    ),
)
