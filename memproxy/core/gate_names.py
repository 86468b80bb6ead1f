"""Whether a question is about a person or thing called by a single name, whom the user may have told about.

"What is Joanna allergic to?" and "Biscuit's food" may be about the user's own circle; full names ("Neil Armstrong"),
titles ("the Milky Way"), places and nationalities are known to the world.
"""

import re

from memproxy.core.text import STOPWORDS

_PLACES = """
    Afghanistan Africa Alabama Alaska Algeria America Antarctica Argentina Arizona Arkansas Asia Australia Austria
    Bangladesh Belgium Bolivia Brazil Britain Bulgaria California Cambodia Canada Chile China Colombia Colorado
    Connecticut Croatia Cuba Delaware Denmark Earth Ecuador Egypt England Estonia Ethiopia Europe Finland Florida
    France Germany Ghana Greece Greenland Haiti Hawaii Hungary Iceland Idaho Illinois India Indiana Indonesia Iowa
    Iran Iraq Ireland Italy Jamaica Japan Kansas Kentucky Kenya Korea Kuwait Laos Latvia Lebanon Libya Lithuania
    Louisiana Luxembourg Maine Malaysia Mars Maryland Massachusetts Mexico Michigan Minnesota Mississippi Missouri
    Montana Morocco Nebraska Nepal Neptune Netherlands Nevada Nicaragua Nigeria Norway Ohio Oklahoma Oregon Pakistan
    Panama Pennsylvania Peru Philippines Pluto Poland Portugal Romania Russia Saturn Scotland Singapore Slovakia
    Slovenia Somalia Spain Sudan Sweden Switzerland Syria Taiwan Tennessee Texas Thailand Tunisia Turkey Uganda
    Ukraine Uranus Uruguay Utah Uzbekistan Venezuela Vermont Vietnam Wales Wisconsin Wyoming Yemen Zimbabwe
    Amsterdam Athens Atlanta Baghdad Baltimore Bangkok Barcelona Beijing Berlin Boston Brussels Budapest Cairo
    Chicago Cleveland Copenhagen Delhi Denver Detroit Dubai Dublin Edinburgh Hamburg Helsinki Istanbul Jakarta
    Jerusalem Lisbon London Madrid Manila Melbourne Miami Milwaukee Montreal Moscow Mumbai Munich Naples Oslo
    Perth Philadelphia Prague Rome Seattle Seoul Shanghai Stockholm Tokyo Toronto Vancouver Venice Versailles Warsaw
    Zurich Hollywood
""".split()  # noqa: SIM905
"""Countries, states of the US, continents, planets and large cities whose names are no given names."""

KNOWN_PLACES = frozenset(
    name.lower() for name in _PLACES if name not in {"Mars", "Neptune", "Pluto", "Saturn", "Uranus"}
)
"""Those of them that one can live in or travel to, in lower case."""

_STATES = frozenset({*_PLACES, "New", "North", "South", "West", "Ontario", "Quebec"})

_KNOWN = frozenset(
    [
        *_PLACES,
        *"""
        January February March April May June July August September October November December Monday Tuesday
        Wednesday Thursday Friday Saturday Sunday Christmas Easter Halloween Thanksgiving Ramadan God Jesus Bible
        Koran Internet Web Olympics Congress Parliament Pope English Dutch French Greek Swiss Welsh Arab Arabic
        Hindi Latin Nobel President King Queen Prime Minister World War Mr Mrs Ms Dr Sir Lord Saint
        """.split(),  # noqa: SIM905
    ]
)

_PEOPLES = re.compile(
    r"(?!(?:Adr|Bast|Br|Christ|Cyr|Dam|Dor|Fab|Flor|Gill|Hadr|Ind|Jul|Krist|Lill|Mar|Maximil|Sebast|Til|Viv)ian\b"
    r"|Duncan\b|Trish\b).{2,}(?:ese|ish|eans?|ians?|cans?|ism|ists?|ites?)"
)
"""Nationalities and the like, by their endings; given names that end so are excepted."""

_ARTICLES = frozenset({"the", "a", "an"})
_BEFORE_PLACES = frozenset({"in", "at", "near"})
_BEFORE_WORKS = frozenset(
    """
    wrote painted invented discovered composed directed founded designed built sang sings created developed
    """.split()  # noqa: SIM905
)
"""What stands before places, and before works and inventions, rather than before somebody's name."""

_OF_PLACES = frozenset(
    [
        "capital",
        "city",
        "population",
        "state",
        "town",
        "country",
        "region",
        "province",
        "president",
        "king",
        "queen",
        "history",
        "area",
        "flag",
        "currency",
    ]
)
_TOKEN = re.compile(r"[^\W\d_]+")
_NAME = re.compile(r"[A-Z][a-z]+")
_APART = re.compile(r"[,;:?!()]")
_POSSESSIVE = re.compile(r" ?['’]s [a-z]")
_TITLED = re.compile(r"\b[A-Z][a-z]+ ?['’]s (?:Day|Eve|Ferry|Island|Creek|Theorem|Law)\b")
"""A feast, a place or a law that is called after somebody ("Father's Day")."""

_DEFINITION = re.compile(r"\s*(?:[Ww]hat (?:is|are|was|were)|[Dd]efine|[Dd]escribe|[Ee]xplain) [A-Z][a-z]+\W*")


def names_somebody(text: str, *, behind: frozenset[str] = frozenset()) -> bool:
    """Whether the text has a single name that is written with a capital; for others see `gate_lower`.

    Names that stand behind one of the words ``behind`` do not count.
    """
    if _DEFINITION.fullmatch(text):
        return False
    if "'s " in text:
        text = _TITLED.sub("", text)
    tokens = list(_TOKEN.finditer(text))
    return any(_is_single_name(text, tokens, place, _BEFORE_PLACES | behind) for place in range(len(tokens)))


def _is_single_name(text: str, tokens: list[re.Match[str]], place: int, known: frozenset[str]) -> bool:
    word = tokens[place].group()
    if not _is_name(word) or word in _KNOWN or _PEOPLES.fullmatch(word):
        return False
    owns = _POSSESSIVE.match(text, tokens[place].end()) is not None
    if place == 0:
        return owns
    if _joined(text, tokens, place - 1) or _joined(text, tokens, place) or text[tokens[place].start() - 2] in '`"':
        return False
    before = tokens[place - 1].group().lower()
    if before == "of" and "of" not in known:
        return place < 2 or not _is_of_known(tokens[place - 2].group(), begins=place == 2)
    return before not in _ARTICLES and (owns or before not in known | _BEFORE_WORKS)


def _is_of_known(word: str, *, begins: bool) -> bool:
    """Whether what belongs to a name after it is a place's, or part of a title ("the Battle of ...")."""
    return (word[0].isupper() and not begins) or word.lower() in _OF_PLACES


def _is_name(word: str) -> bool:
    return _NAME.fullmatch(word) is not None and word.lower() not in STOPWORDS


def _joined(text: str, tokens: list[re.Match[str]], place: int) -> bool:
    """Whether the word at ``place`` and the next make one name: both begin with capitals, nothing stands between."""
    if place + 1 >= len(tokens):
        return False
    first, second = tokens[place], tokens[place + 1]
    between = text[first.end() : second.start()]
    if "," in between:  # Phoenix, AZ
        return second.group() in _STATES or (second.group().isupper() and len(second.group()) == 2)
    capitals = first.group()[0].isupper() and second.group()[0].isupper() and first.group() != "I"
    return capitals and _APART.search(between) is None and (place > 0 or _is_name(first.group()))
