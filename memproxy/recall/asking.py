"""A query as ranking sees it: what kind of answer it wants, and of whose words."""

import re

import msgspec

from memproxy.core.text import words


class Asking(msgspec.Struct, frozen=True):
    """A query as ranking sees it: what kind of answer it wants and of whose words, 1 or 0 each."""

    number: float
    name: float
    time: float
    first_person: float
    assistant_said: float
    of_self: float
    """As ``first_person``, in five languages: the weights were fitted to that of English."""


BEGINS = r"(?:\b(?=\w)|(?=[\u4e00-\u9fff]))"
"""Where a word begins, or any Chinese character stands. Before many wordings that all begin so: every other place is
passed without trying each of them, in a half to a third of the time.
"""

_HOW_MANY = re.compile(r"\bhow (many|much|long|old|often|far|big|tall)\b|\bwhat (number|amount|percentage|age)\b")
_WHO = re.compile(
    r"\b(who|whose|whom|where)\b|\b(which|what) (kind of |type of )?"
    r"(person|book|movie|film|show|series|song|album|artist|band|game|city|country|state|place|restaurant|company"
    r"|brand"
    r"|store|shop|school|university|team|name|recipe|car|dish)s?\b|\bnames?\b"
)
_WHEN = re.compile(r"\bwhen\b|\b(what|which) (date|day|month|year|time|week)\b|\bhow long\b")
_SELF = re.compile(
    r"\b(?:i|i'm|i've|ive|i'd|my|me|mine|we|our|us"
    r"|(?<!'s )(?:mum|mom|dad|mummy|mommy|daddy|grandma|grandpa|granny|grandad)"
    r"|ich|mir|mich|mein(?:e[mnrs]?)?|wir|uns|unser(?:e[mnrs]?)?"
    r"|yo|mi|mis|nosotr[oa]s|nuestr[oa]s?|soy|estoy|tengo|vivo|vivimos|trabajo|puedo|debo|tomo|hago"
    r"|como|bebo|duermo|uso|conduzco|hablo|estudio|juego|practico|leo|veo|voy|pago|gano|peso|mido|nací|fui|compré"
    r"|hice|tuve|pagué|dejé|puse|guardé|aparqué|viajé|empecé|empiezo"
    r"|je|on (?:est|habite|vit|va|fait|était|avait)|mon|ma|mes|moi|nous|notre|nos)\b"
    r"|\b[jm]'(?=\w)|-(?:je|moi)\b|我|咱|俺"
)
_ME = re.compile(r"\b(i|i'm|i've|i'd|my|me|mine|we|our)\b")
_YOU_SAID = re.compile(
    rf"{BEGINS}(?:"
    r"\b(?:you|assistant)(?:'ve| have| had)?(?: \w+)? (?:said|told|suggested|recommended|mentioned|gave|given|listed"
    r"|provided|explained|described|wrote|written|advised|shared|proposed|came up|helped)\b"
    r"|\bdid (?:you|the assistant)\b"
    r"|\byour (?:suggestion|recommendation|advice|list|answer|explanation|idea|tip|plan|proposal|recipe)s?\b"
    r"|\byour(?: [\w-]+){1,3} (?:recipe|plan|tip|suggestion|recommendation|advice|idea)s?\b"
    r"|\bour (?:previous|last|earlier) (?:conversation|chat|discussion)\b"
    r"|\b(?:du|sie)\b[^.?!]{0,60}\b(?:empfohlen|vorgeschlagen|gesagt|geraten|genannt|erklärt|geschrieben|erwähnt)\b"
    r"|\bdein(?:e[mnrs]?)? (?:vorschl[aä]ge?|tipps?|empfehlung|rat|idee|plan|antwort|rezept)\b"
    r"|\b(?:recomendaste|sugeriste|dijiste|aconsejaste|propusiste|explicaste|mencionaste|diste|escribiste)\b"
    r"|\btus? (?:recomendaci[oó]n|sugerencia|consejo|plan|idea|respuesta|receta)\w*"
    r"|\bt(?:u|u m'|u me|u nous) ?(?:m')?(?:as|avais)\b[^.?!]{0,30}\b(?:conseillé|recommandé|suggéré|dit|proposé"
    r"|donné"
    r"|expliqué|écrit|mentionné)|\bt(?:on|a|es) (?:conseil|suggestion|recommandation|idée|plan|réponse|recette)s?\b"
    r"|你(?:上次|之前|以前|昨天|刚才|当时|那时)[^。？！]{0,8}(?:推荐|建议|说|告诉|提|介绍|写|给)"
    r"|你(?:推荐|建议|说|告诉|提到|介绍|写|给)(?:过|了|给我的|我的|的那))"
)
_READ = 2000


def asking(text: str) -> Asking:
    """Read a query: whether it is for what the assistant said, and of the user himself, in English, German, Spanish,
    French and Chinese, the rest in English only.
    """
    low = text[:_READ].lower().replace("’", "'")
    return Asking(
        number=float(_HOW_MANY.search(low) is not None),
        name=float(_WHO.search(low) is not None),
        time=float(_WHEN.search(low) is not None),
        first_person=float(_ME.search(low) is not None),
        assistant_said=float(_YOU_SAID.search(low) is not None),
        of_self=float(_SELF.search(low) is not None),
    )


def names_in(text: str) -> frozenset[str]:
    """The words of a query, lower-cased, to see whose name is among them."""
    return frozenset(word.removesuffix("'s") for word in words(text[:_READ]))
