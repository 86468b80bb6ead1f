"""Products by their names: what of a kind somebody has one of ("charge my iPhone 17", "how do I do that in Zed?").

Who speaks of "my iPhone 17" has one, and no longer the Pixel that was his phone. A second one is said to be one.
"""

import re
from collections.abc import Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.exchange import exchange
from memproxy.learn.rules.kinds import kind_of, named_of
from memproxy.learn.rules.ledger import Ledger
from memproxy.learn.rules.model import LESS_SURE
from memproxy.learn.rules.values import slug

_CARS = (
    r"(?:volkswagen|vw|audi|bmw|mercedes|ford|opel|skoda|seat|toyota|honda|nissan|mazda|hyundai|kia|renault|peugeot|"
    r"citro[eë]n|fiat|volvo|tesla|porsche|dacia|subaru|suzuki|chevrolet|jeep|mini|lexus|polestar|cupra|byd|golf|polo|"
    r"passat|tiguan|corolla|yaris|civic|focus|fiesta|octavia|fabia|clio|astra|corsa|id\.?\d|ioniq|prius|leaf|zoe|"
    r"model [3sxy]|outback|forester|panda|punto|twingo|duster|rav4|cr-v|kona|niro|enyaq|e-?208|e-?golf)"
)
_CAR = re.compile(rf"\b{_CARS}\b(?:[ -][A-Z]?[\w.-]*\d[\w.-]*| (?-i:[A-Z])[\w.-]+)?", re.IGNORECASE)
_MINE = re.compile(
    r"\b(?:my|our) (?:(?:new|old|trusty|beloved|good|own|shiny|used|second-hand|leased|diesel|electric) )*"
    r"(?P<x>(?-i:[A-Z]|i(?=P))[\w.+-]*(?: (?:(?-i:[A-Z])[\w.+-]*|\d[\w.]*)){0,3})",
    re.IGNORECASE,
)
_GOT = re.compile(
    r"\b(?:(?:got|bought|treated|picked up for|ordered) (?:myself|ourselves)(?: to)?|upgraded (?:\w+ )?to|(?:now "
    r")?it is(?: now)?|"
    r"I now (?:have|use|drive)) (?:an? |the )(?:(?:new|used|second-hand|refurbished|leased|brand new) )*"
    r"(?P<x>(?-i:[A-Z]|i(?=P))[\w.+-]*(?: (?:(?-i:[A-Z])[\w.+-]*|\d[\w.]*)){0,3})(?! (?:for|as a (?:gift|present)) )",
    re.IGNORECASE,
)
_NOW = re.compile(r"\bnow\b", re.IGNORECASE)
_SECOND = re.compile(
    r"\b(?:work|second|other|old|spare|backup|company|wife|husband|mum|mom|dad|partner|both|also|too|ex|first|sold|"
    r"lost|broke|traded|test|former)\b",
    re.IGNORECASE,
)
_ASKS_MEMORY = re.compile(
    r"\b(?:what|which)(?: is|'s| was)? (?:my|our)\b|\b(?:if|would|imagine|suppose)\b", re.IGNORECASE
)
_OWNED = {"phone": "phone", "computer": "laptop", "car": "car"}


def possessed(text: str, ledger: Ledger) -> Iterator[Extracted]:
    """The phone, computer or car that a sentence calls the speaker's own by its product name."""
    if _ASKS_MEMORY.search(text) is not None:
        return
    acquired = [one for one in _GOT.finditer(text) if "it is" not in one.group() or _NOW.search(text)]
    for match in (*_MINE.finditer(text), *acquired):
        name = match["x"].rstrip(".-")
        kind = _kind(name)
        if kind is None or _SECOND.search(text[max(0, match.start() - 20) : match.end()]):
            continue
        held = _known(kind, ledger)
        if held is None:
            yield _has(kind, name)
        elif name.casefold() not in held[0].content.casefold() and (new := _instead(*held, name)) is not None:
            yield new
        return


def _kind(name: str) -> str | None:
    kind = kind_of(name)
    if kind in _OWNED:
        return kind
    return "car" if _CAR.match(name) else None


def _known(kind: str, ledger: Ledger) -> tuple[Extracted, str] | None:
    """The statement that names the user's product of this kind, and the name in it."""
    for one in ledger.newest():
        content = one.statement.content
        if one.statement.stance is not None or not re.match(r"User(?:'s| has| owns| drives| uses)\b", content):
            continue
        if kind == "car":
            found = _CAR.search(content)
            names = [found.group()] if found else []
        else:
            names = list(named_of(kind, content))
        if names:
            return one.statement, names[0]
    return None


def _instead(known: Extracted, old: str, name: str) -> Extracted | None:
    phrase = re.search(rf"(?:(?:an?|the|\d{{4}}) )?(?:[a-z]+ )?{re.escape(old)}(?= |\.|$)", known.content)
    whole = phrase.group() if phrase is not None and re.match(r"an? |the ", phrase.group()) else old
    article = f"{'an' if name[:1] in 'aeiouAEIO' else 'a'} " if whole != old else ""
    return exchange(known, whole, f"{article}{name}", name)


def _has(kind: str, name: str) -> Extracted:
    what = _OWNED[kind]
    return Extracted(
        content=f"User's {what} is {'an' if name[:1] in 'aeiouAEIO' else 'a'} {name}.",
        subject="user",
        predicate=what,
        object=name,
        category="possessions/things",
        tags=("possessions", slug(what)),
        entities=(name,),
        confidence=LESS_SURE,
        importance=0.5,
    )
