"""A few sure forms in German, Spanish and French: name, residence, work, likes, allergies, pets.

The statement is written in English like the others, so that one slot holds one answer in whatever language it is given.
"""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.model import Build, Clause, Groups, Rule, Template, any_rule
from memproxy.learn.rules.pets import named_pet
from memproxy.learn.rules.values import is_given_name, is_name

_END = re.compile(
    r"[,;:!?()]|\.(?=\s|$)|\s+(?:und|y|et|aber|pero|mais|mit|con|avec|weil|porque|parce|seit|desde|depuis|sehr|mucho|"
    r"beaucoup|nicht|jetzt|ahora|maintenant|als|wo|où|donde|bei|en|für|para|pour|si|wenn|que|ist|es|est)\b",
    re.IGNORECASE,
)
_NOTHING = re.compile(
    r"(?:es|das|dich|dir|dies|diese[rnms]?|ihn|sie|nicht|kein\w*|wie|wenn|lo|la idea|eso|esto|te|que|ça|cela|tout|"
    r"l'idée|no|pas|ton|ta|tes|dein\w*|tu|mucho|beaucoup|den gedanken|die idee)\b",
    re.IGNORECASE,
)


def _cut(template: Template) -> Build:
    """The template with its value ended as these languages end it."""

    def build(groups: Groups, clause: Clause) -> Iterable[Extracted]:
        found = _END.search(groups["x"])
        value = (groups["x"][: found.start()] if found else groups["x"]).strip(" .!,")
        if value and len(value.split()) <= 4 and not _NOTHING.match(value):
            yield from template({"x": value}, clause)

    return build


def _pet(groups: Groups, _clause: Clause) -> Iterable[Extracted]:
    name = groups["x"].strip(" .!,")
    if is_name(name):
        kind = "dog" if groups["pet"].lower() in ("hund", "hündin", "perro", "perra", "chien", "chienne") else "cat"
        yield named_pet(kind, kind, name)


_NAME = _cut(
    Template(
        content="User's name is {x}.",
        predicate="name",
        object="{x}",
        category="user-profile/name",
        tags=("name",),
        importance=0.9,
        check=is_given_name,
    )
)
_LIVES = _cut(
    Template(
        content="User lives in {x}.",
        predicate="lives_in",
        object="{x}",
        category="user-profile/residence",
        tags=("residence",),
        importance=0.8,
        check=lambda value: value[0].isupper(),
    )
)
_FROM = _cut(
    Template(
        content="User is from {x}.",
        predicate="from",
        object="{x}",
        category="user-profile/origin",
        importance=0.6,
        check=lambda value: value[0].isupper(),
    )
)
_JOB = _cut(
    Template(
        content="User works as {x}.",
        predicate="job_title",
        object="{x}",
        category="user-profile/work",
        tags=("work",),
        importance=0.8,
    )
)
_LIKES = _cut(
    Template(
        content="User likes {x}.",
        predicate="likes",
        object="{x}",
        stance="positive",
        category="user-preferences/general",
        tags=("likes",),
    )
)
_DISLIKES = _cut(
    Template(
        content="User does not like {x}.",
        predicate="dislikes",
        object="{x}",
        stance="negative",
        category="user-preferences/general",
        tags=("dislikes",),
    )
)
_ALLERGIC = _cut(
    Template(
        content="User is allergic to {x}.",
        predicate="allergic_to",
        object="{x}",
        category="user-profile/health",
        tags=("health",),
        importance=0.95,
    )
)

RULES: tuple[Rule, ...] = (
    any_rule(
        r"(?:mein name ist|ich heiße|ich heisse|me llamo|mi nombre es|je m'appelle|mon nom est) (?P<x>.+)",
        _NAME,
    ),
    any_rule(r"(?:ich )?(?:wohne|lebe) (?:jetzt |seit \w+ |zurzeit )?in (?P<x>.+)", _LIVES),
    any_rule(r"(?:yo )?(?:ahora )?(?:vivo|resido) en (?P<x>.+)", _LIVES),
    any_rule(r"(?:j'habite|je vis|j'habite maintenant) (?:à|en|au) (?P<x>.+)", _LIVES),
    any_rule(
        r"(?:ich bin nach|me mudé a|j'ai déménagé à) (?P<x>.+?)(?: gezogen| umgezogen)?(?=$|[.,!])",
        _LIVES,
    ),
    any_rule(r"(?:ich komme aus|soy de|je viens de) (?P<x>.+)", _FROM),
    any_rule(
        r"(?:(?:ich )?arbeite als|trabajo como|trabajo de|je travaille comme) (?P<x>.+)",
        _JOB,
    ),
    any_rule(
        r"(?:ich mag keine?n?|ich hasse|odio|no me gustan?|je déteste|je n'aime pas) (?:la |le |les |el |los |las |"
        r"l'|die |den |das )?(?P<x>.+)",
        _DISLIKES,
    ),
    any_rule(
        r"(?:ich liebe|ich mag|me gustan?|me encantan?|j'aime|j'adore) (?:la |le |les |el |los |las |l'|die |den |"
        r"das )?(?P<x>.+)",
        _LIKES,
    ),
    any_rule(
        r"(?:ich bin allergisch gegen|soy alérgic[oa] a|je suis allergique (?:à|aux|au)) (?:la |le |les |el |los |"
        r"las |l')?(?P<x>.+)",
        _ALLERGIC,
    ),
    any_rule(
        r"(?:mein|unser|meine|unsere|mi|mon|ma) (?P<pet>hund|hündin|katze|kater|perro|perra|gato|gata|chien|chienne|"
        r"chat) (?:heißt|heisst|se llama|s'appelle) (?P<x>\w+)",
        _pet,
    ),
)
