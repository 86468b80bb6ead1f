"""Values in a clause: where they end, whether they say anything alone, and how they read in the third person."""

import re
from collections.abc import Callable

from memproxy.core.slots import words
from memproxy.learn.rules.words import NOT_A_NAME, PLURAL_KIN

MASK = "\ufffc"
"""Stands for text that is not the user's own statement; a value that holds it is no value."""

_MOST_CHARACTERS = 120
_MOST_WORDS = 12

_CLAUSE = (
    r"[;!?()]|:(?!\d)|,(?!\d{3}\b)|(?<!\bDr)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bSt)(?<!\bProf)\.(?=\s"
    r"|$)|\s+[-–—]+\s|\s+(?:but|so|because|since|which|who|where|when|while|although|"
    r"though"
    r"|if|unless|as|even|until|till|instead|rather|whenever|after|before|ever)\b"
)
_PHRASE = r"|\s+(?:and|or|with|for|at|in|on|from|by|near|to|about|during|this|last|next|every|than|these|right|now)\b"
_STOPS = {
    "whole": re.compile(r"[;!?()]|(?<!\bDr)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bSt)(?<!\bProf)\.(?=\s|$)|\s+[-–—]+\s"),
    "long": re.compile(_CLAUSE),
    "short": re.compile(_CLAUSE + _PHRASE),
    "list": re.compile(_CLAUSE.replace(r"|,(?!\d{3}\b)", "")),
    "name": re.compile(
        _CLAUSE
        + _PHRASE
        + r"|\s+(?:is|was|are|who|has|had|will|just|not|too|btw|please|loves?|likes?|lives?|works?|got|said|here)\b"
    ),
    "place": re.compile(
        r"[;:!?()]|,(?!\s[A-Z])|(?<!\bDr)(?<!\bMr)(?<!\bMrs)(?<!\bMs)(?<!\bSt)(?<!\bProf)\.(?=\s|$)"
        r"|\s+[-–—]+\s|\s+(?:and|or|but|so|because|since|which|who|where|when|while|"
        r"although|though|if|as|until|till|with|for|now|at|on|from|by|to|about|during|this|last|next|instead|these|"
        r"right|"
        r"after|before|not|again|already|next|soon|alone|back|in|due|and)\b"
    ),
}
_TAIL = re.compile(
    r"(?:[\s,]+(?:with a passion|to bits|to death|tops|max|apparently|tbh|lol|now|too|as well|a lot"
    r"|very much|so much|so far|anymore"
    r"|any longer|though|these days|right now|already"
    r"|again|btw|haha|lol|by the way|please|at least|of course|to be honest|tbh|currently|at the moment|nowadays|"
    r"instead"
    r"|most of all|the most|most|more|the best|best|more than anything|today|tonight|here|myself|actually|really|"
    r"recently|lately"
    r"|i swear|i guess|i think|i suppose|or so|or something|yet|then|yesterday|tomorrow|last (?:week|month|year)|"
    r"this (?:week|month|year|morning)|daily|thanks|thank you|"
    r"you know|for now|for sure|these|those|though|and|or|on|with|for|in|at|to|of|from|by|xd|:\)))+$",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"(?:it|its|that|this|these|those|them|they|he|she|him|her|his|their|you|your|yours|how|what|when|where|why|which|"
    r"whether|if|everything|nothing|something|anything|someone|somebody|everyone|anyone|one|ones|some|any|not|no|"
    r"none|to|so|there|here|more|"
    r"most|less|another|both|each|several|such|because|and|or|but|very|too|as|than|all|every|like|just|"
    r"(?:the |a |an )?(?:idea|way|fact|sound|look|first|second|third|last|former|latter|one|other|answer|option|"
    r"version|"
    r"suggestion|question|thing|things|stuff|following|same|part|previous|above|below|result|output|response|"
    r"problem|issue|"
    r"explanation|example|approach|solution|feeling|bit|lot|kind|sort|change|changes|new|old|rest|latest|concept|"
    r"joke|plan|name|tone))$"
    r"|(?:it|its|her|that|this|these|those|them|he|she|him|his|their|you|your|how|what|when|where|why"
    r"|which|whether|if|not|"
    r"no|so|there|here|because|but|very|too|than|just|such|being able|everything|nothing|something|"
    r"myself|ourselves|yourself|all (?:of|those|these|that|this)|anything(?! (?:with|by|from|about|related)))\b"
    r"|the (?:idea|way|fact|sound|look|first|second|third|former|latter|one|ones|other|answer|option|version|"
    r"suggestion|thought|"
    r"question|thing|things|following|same|part|previous|result|output|response|feeling|explanation|example|"
    r"(?:new|old|latest)(?! [a-z-]+ [a-z]+(?:\W|$))|concept)\b"
    r"|(?:a|an) (?:bit|lot|few|question|problem|little|couple)\b",
    re.IGNORECASE,
)
_FILLED_ITEM = re.compile(
    r"(?:especially|mainly|particularly|such|including|even|then|also|too|etc|maybe|sometimes|hate|love|like|do not|"
    r"never"
    r"|always|can|will|would|want|need|have|am|is|are|was|were|has|just|please|usually|often|everything|for example|"
    r"e\.g"
    r"|i|we|my|you|could|should|might|trying|looking"
    r"|(?:text|leave|let|tell|call|send|give|get|put|stop|show|bring|ask|keep|write|make|note|remember|save|bear"
    r"|avoid|forget) (?:me|us|it|them|that|this))\b",
    re.IGNORECASE,
)
_ARTICLE = re.compile(r"(?:a|an|the|some|any|my|our)\s+(?=\S)", re.IGNORECASE)
_TOGETHER = re.compile(
    r"\b(?:fish and chips|mac and cheese|rock and roll|rock and roll|gin and tonic|drum and bass|rick and morty|"
    r"dungeons and dragons|tom and jerry|peanut butter and jelly|salt and vinegar|bed and breakfast|black and white|"
    r"arts and crafts|research and development|lord of the rings|war and peace|pride and prejudice|bread and butter)\b",
    re.IGNORECASE,
)
_JOIN = re.compile(r"\s*,?\s+(?:and|or|&|as well as|plus)\s+|\s*,(?!\d{3}\b)\s*(?:and\s+|or\s+)?", re.IGNORECASE)
_LAST_JOIN = re.compile(r"\s(?:and|or|&)\s", re.IGNORECASE)
_PERSON = (
    (re.compile(r"\b(?:I am|I'm|we are|we're)\b", re.IGNORECASE), "they are"),
    (re.compile(r"\bI was\b", re.IGNORECASE), "they were"),
    (re.compile(r"\b(?:my|our)\b", re.IGNORECASE), "their"),
    (re.compile(r"\b(?:mine|ours)\b", re.IGNORECASE), "theirs"),
    (re.compile(r"\b(?:myself|ourselves)\b", re.IGNORECASE), "themselves"),
    (re.compile(r"\b(?:me|us)\b"), "them"),
    (re.compile(r"\b(?:I|i|[Ww]e)\b(?![/.-])"), "they"),
    (re.compile(r"\byour\b", re.IGNORECASE), "the assistant's"),
)
_NAME_WORD = re.compile(r"[^\W\d_][\w'’.&+#-]*$")
_ALLOWED_SMALL = frozenset(
    {
        "de",
        "da",
        "di",
        "von",
        "van",
        "der",
        "den",
        "la",
        "le",
        "el",
        "al",
        "bin",
        "of",
        "the",
        "am",
        "and",
    }
)


_INNER = re.compile(r"^(?:[ ,.–—]|-(?!\d))+|[ ,.\-–—]+$")
"""What surrounds a value; the sign of a number is part of it."""


def trimmed(text: str, stop: str) -> str | None:
    """The value at the beginning of the text, up to where ``stop`` says, or None when that says nothing alone."""
    found = _STOPS[stop].search(text)
    value = text[: found.start()] if found else text
    return _said(
        _TAIL.sub("", _INNER.sub("", value)).strip(" ,.*`'\""),
        2 if stop == "whole" else 1,
    )


def _said(value: str, size: int) -> str | None:
    if not value or len(value) > _MOST_CHARACTERS * size or MASK in value or not any(map(str.isalnum, value)):
        return None
    if len(value.split()) > _MOST_WORDS * size or _VAGUE.match(value) or "://" in value:
        return None
    return value


_GERUND = re.compile(r"[a-z]+ing\b")
_ONE_DOING = re.compile(r"(?:to \w+|[a-z]+ing \w)")
"""What is done with several things ("exploring new dishes and flavors") is one item."""


def items(text: str) -> list[str | None]:
    """The items of a list ("hiking, climbing and chess"); without an "and", the first one alone."""
    found = _STOPS["list"].search(text)
    whole = text[: found.start()] if found else text
    if _TOGETHER.search(whole):
        return [trimmed(whole, "long")]
    if not _LAST_JOIN.search(whole):
        return [trimmed(whole, "long")]
    pieces = [piece for piece in _JOIN.split(whole) if piece.strip()]
    if _ONE_DOING.match(pieces[0]) and not all(_GERUND.match(piece) for piece in pieces[1:]):
        return [trimmed(whole, "list" if all(piece[:1].isupper() for piece in pieces[1:]) else "long")]
    kept = [pieces[0]]
    for piece in pieces[1:]:
        if _FILLED_ITEM.match(piece) or len(piece.split()) > 5:
            break
        kept.append(piece)
    first = trimmed(kept[0], "long")
    return [first, *(trimmed(piece, "long") for piece in kept[1:])] if first is not None else []


def bare(text: str) -> str:
    """Without its article."""
    return _ARTICLE.sub("", text, count=1) if _ARTICLE.match(text) else text


def slug(text: str) -> str:
    """As part of a predicate's name: words in lower case and singular, joined."""
    return "_".join(words(bare(text))[:6])


def third_person(text: str) -> str:
    """What the user says of "my" and "me", said of "their" and "them"."""
    for pattern, instead in _PERSON:
        text = pattern.sub(instead, text)
    return text


def is_name(text: str) -> bool:
    """Whether it reads as a proper name: one to four words, capitalised, none of them a common word."""
    parts = text.split()
    if not 1 <= len(parts) <= 4 or parts[0].lower() in NOT_A_NAME or parts[0].lower() in PLURAL_KIN:
        return False
    return all(_is_name_word(part) for part in parts) and parts[0][:1].isupper()


def _is_name_word(part: str) -> bool:
    return part in _ALLOWED_SMALL or (part[:1].isupper() and _NAME_WORD.match(part) is not None)


def is_given_name(text: str) -> bool:
    """Whether it can be a name after "my name is", where people do not always write capitals."""
    parts = text.split()
    fits = 1 <= len(parts) <= 4 and all(_NAME_WORD.match(part) for part in parts)
    return fits and parts[0].lower() not in NOT_A_NAME


def names_in(text: str) -> list[str]:
    """Proper names within a value: runs of capitalised words."""
    found = re.findall(
        r"(?<![\w'])(?:[A-ZÀ-ÖØ-Þ]|[ie](?=[A-Z]))[\w'’&+#.-]*(?:\s+(?:(?:de|da|von|van|der|la|of)\s+)?[A-Z0-9À-ÖØ-Þ][\w'’&+#.-]*)*",
        text,
    )
    return [name.rstrip(".'’-") for name in found if name.lower() not in NOT_A_NAME]


def one_of(known: frozenset[str]) -> Callable[[str], bool]:
    """A check whether the value, its article aside, is one of the known words."""
    return lambda value: bare(value).lower() in known or value.lower() in known


def last_words(value: str, known: frozenset[str]) -> str | None:
    """The known word that the value ends in ("a red sports car" -> car), its plural too."""
    said = value.lower().split()
    for count in (2, 1):
        tail = " ".join(said[-count:])
        for form in (tail, tail.removesuffix("s")):
            if len(said) >= count and form in known:
                return form
    return None
