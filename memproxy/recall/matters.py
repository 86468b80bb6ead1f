"""Everyday matters, by their words: what somebody asks of himself and what he told of it often share no word.

"What's my address?" and "found a place, Garner Street 12" lie far apart by words, and not near by meaning; so do "which
tablets do I take" and "the doctor gave me ramipril 5 mg". A matter has words by which it is asked for, and words by
which it is told (`recall.matter_people`, `recall.matter_things`), in English, German, Spanish, French and Chinese. What
tells of the matter that is asked for is looked at more kindly (`recall.personal`), the last of what was told of it
holds (`recall.newer`), and it can be searched for by its words (`beside`).
"""

import re
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

import msgspec

from memproxy.core.late import LatePattern
from memproxy.core.memory import Kind, Memory
from memproxy.core.text import STOPWORDS
from memproxy.recall import constraints, learned
from memproxy.recall.matter_people import PEOPLE
from memproxy.recall.matter_things import THINGS

if TYPE_CHECKING:
    from memproxy.recall.query import Query

_READ = 300
"""Characters of a text that are read: who asks or tells of himself says it near the beginning."""

_IN_EACH, _SOMEWHERE, _ONE, _DOES = "!", "+", "=", "-"
_CHINESE = 0x2E80
_WORD = re.compile(r"[a-zà-ÿœ]{4,}$")
_TOKEN = re.compile(r"\w+")
_BEGINNINGS = (3, 4)
"""Letters by which a word's beginning is looked for: of a shorter one before a ``*`` it is not known what follows."""

_PLAIN = re.compile(r"(?<![\w*])(?:\w{3,}|\w+(?![\w*]))")
"""Words of a wording that are in every text that has it, with the same beginning: not what follows a ``*``."""

_ASKING = """
    what which where when whose does have welche welcher welches wann wohin heißt habe meine mein dónde cuándo cuánto
    cuál cómo quel quelle combien quand comment dans avec
"""
_SAY_LITTLE = STOPWORDS | frozenset(_ASKING.split())
_ANYTHING = ""
"""The anchor of a wording that has no such word."""

_NOT_PLAIN = re.compile(r"[][(){}|\\.+?^$]")
_SOMEBODY = frozenset({"them"})
_NONE: frozenset[str] = frozenset()
_TURN = Kind.TURN
_HIS = re.compile(r"\b(?:my|our|meine?|unsere?|mi|mis|mon|ma|mes)\s+$")


class _Matter(msgspec.Struct, frozen=True):
    asked: LatePattern
    anchors: frozenset[str]
    """One of them is in whatever asks for it: how a word begins, a Chinese character, or ``_ANYTHING``."""
    told: LatePattern
    searched: str
    flags: str


class Said(msgspec.Struct, frozen=True, gc=False):
    """The beginning of a text as its user would say it, the same in lower case, and of which of the matters that are
    asked for it has words.
    """

    text: str
    low: str
    having: tuple[str, ...]


class AskedMatters(msgspec.Struct, frozen=True):
    """The matters that a query asks for."""

    names: frozenset[str]

    def read(self, text: str) -> Said:
        """A text, as far as it may tell of these matters."""
        said = learned.in_first_person(text[:_READ].replace("’", "'"))
        if not self.names.isdisjoint(_COUNTED):
            said = in_digits(said)
        low = said.lower()
        return Said(said, low, tuple([name for name in self.names if _MATTERS[name].told.search(low)]))

    def told(self, text: str | Said, bearers: frozenset[str] = frozenset()) -> frozenset[str]:
        """Those that a text tells of, by its words and of one of the ``bearers`` (none: the user, as in
        `constraints.whose`).
        """
        said = self.read(text) if isinstance(text, str) else text
        if not said.having:
            return _NONE
        return frozenset([name for name in said.having if _is_told(_MATTERS[name], said, bearers)])

    def named_by(self, fact: Memory, bearers: frozenset[str] = frozenset()) -> frozenset[str]:
        """Those that a fact of one of the ``bearers`` (none: the user) says it is of, by its predicate or its subject:
        it tells of them whatever its words.
        """
        if fact.kind is _TURN:  # as most are: a message names nothing
            return _NONE
        about = "\n".join(learned.labels(fact))
        found = frozenset([name for name in self.names if _is_label(_MATTERS[name], about)]) if about else _NONE
        if not found:
            return _NONE
        owners = constraints.whose(f"{learned.of_whom(fact)} {about}")
        is_meant = not bearers.isdisjoint(owners) if bearers else not owners and learned.is_about_user(fact)
        return found if is_meant else frozenset()

    def begins(self, fact: Memory, bearers: frozenset[str] = frozenset()) -> frozenset[str]:
        """Those that a fact of the user tells of at its beginning, with what he is, has or does."""
        head = "" if bearers else learned.head(fact)
        return self.told(head) if head else frozenset()

    def rest(self, query: str) -> str:
        """The query without what it asks for these matters by."""
        low = _lower(query)
        for name in self.names:
            low = _MATTERS[name].asked.sub(" ", low)
        return low

    def told_of_others(self, text: str | Said, bearers: frozenset[str] = frozenset()) -> frozenset[str]:
        """Those that a text has words of, but tells neither of the ``bearers`` nor, where that may be the matter itself
        ("my boss"), of the user.
        """
        said = self.read(text) if isinstance(text, str) else text
        if not said.having:
            return _NONE
        meant = {bearers, bearers - constraints.NO_KIN}
        return frozenset(
            [name for name in said.having if not any(_is_told(_MATTERS[name], said, one) for one in meant)]
        )

    @property
    def in_each(self) -> frozenset[str]:
        """Those of which hardly anybody tells without one of their words in the same message (a hotel, a rent)."""
        return self._with(_IN_EACH)

    @property
    def somewhere(self) -> frozenset[str]:
        """Those whose words are there once, and then a name stands for them (a son, a dog)."""
        return self._with(_SOMEWHERE)

    @property
    def one_at_a_time(self) -> frozenset[str]:
        """Those of which one thing holds at a time (a home, a job): what was told last is what is meant."""
        return self._with(_ONE)

    @property
    def searched(self) -> str:
        """What to search for beside the query: single words by which these matters are told."""
        return " ".join(_MATTERS[name].searched for name in sorted(self.names))

    def _with(self, flag: str) -> frozenset[str]:
        return self.names & _FLAGGED[flag]


def asked_about(query: str) -> AskedMatters:
    """The matters that a query asks for, by their words, whoever it asks of."""
    low = _lower(query)
    # most matters have no anchor here: to look for these takes a fraction of the time of all searches
    words = _TOKEN.findall(low)
    begun = {word[:letters] for letters in _BEGINNINGS for word in words}.union("" if low.isascii() else low)
    near = _NEAR[_ANYTHING].union(*(_NEAR[anchor] for anchor in begun & _NEAR.keys()))
    return AskedMatters(frozenset(name for name in near if _MATTERS[name].asked.search(low)))


def beside(query: "Query") -> str:
    """Words to search for beside a query, because what answers it seldom has the query's: of what the user must avoid
    where he asks advice, and of the matters that he asks of himself. Empty: nothing.
    """
    words = [constraints.SEARCHED[name] for name in sorted(query.advice_fields)]
    if query.asking.of_self and not query.asking.assistant_said:
        words.append(query.asked_about.searched)
    return " ".join(words).strip()


def _lower(query: str) -> str:
    return query[:_READ].lower().replace("’", "'").replace("whats ", "what's ")


def _is_told(matter: _Matter, said: Said, bearers: frozenset[str]) -> bool:
    """Whether a text that has words of a matter tells it of one of the bearers; of kin it is told whosever they are."""
    if _SOMEWHERE in matter.flags:
        return True
    found: Iterable[re.Match[str]] = matter.told.finditer(said.low)
    meant = bearers | _SOMEBODY if bearers else bearers
    if _DOES in matter.flags:
        found = (match for match in found if not _HIS.search(said.text[: match.start()].lower()))
    return any(constraints.is_of(said.text, match.start(), match.end(), meant) for match in found)


def _is_label(matter: _Matter, labels: str) -> bool:
    """Whether it is a matter that one of the labels names, a line each: of a "car insurance" it is none of the car."""
    return any(labels[match.end() : match.end() + 1] in ("", "\n") for match in matter.asked.finditer(labels))


def in_digits(text: str) -> str:
    """With the smaller numbers in digits ("is seven" as "is 7"); English, German, Spanish and French."""
    return _NUMBER_WORD.sub(lambda match: _NUMBER_WORDS[match[0].lower()], text)


def _read(tables: str) -> Mapping[str, _Matter]:
    found: dict[str, dict[str, list[str]]] = {}
    name = ""
    for line in filter(None, tables.splitlines()):
        if line[:2] in ("? ", "! "):
            found[name][line[0]] += line[2:].split("; ")
        else:
            name = line
            found[name] = {"?": [], "!": []}
    return MappingProxyType({name.split()[0]: _matter(lists, name.partition(" ")[2]) for name, lists in found.items()})


def _matter(lists: Mapping[str, list[str]], flags: str) -> _Matter:
    return _Matter(_pattern(lists["?"]), _anchors(lists["?"]), _pattern(lists["!"]), _words(lists["!"]), flags)


def _pattern(parts: list[str]) -> LatePattern:
    """``*`` stands for any letters, ``~`` for up to three words; Chinese has no bounds of words."""
    spaced = [part for part in parts if ord(max(part)) < _CHINESE]
    other = [re.escape(part) for part in parts if part not in spaced]
    made = [part.replace("*", r"\w*").replace("~ ", r"(?: \S+){0,3} ") for part in spaced]
    if not all(part[0].isalnum() for part in made):
        return LatePattern("|".join([rf"\b(?:{'|'.join(made)})\b", *other]))
    # by the first letter: where none of these stands nothing is tried, which takes two thirds of the time
    begun: dict[str, list[str]] = {}
    for part in made:
        begun.setdefault(part[0], []).append(part[1:])
    return LatePattern("|".join([*[rf"{one}(?<!\w\w)(?:{'|'.join(rest)})\b" for one, rest in begun.items()], *other]))


def _anchors(parts: list[str]) -> frozenset[str]:
    """How the longest word of each part begins that says something, and the first character of a Chinese one."""
    found: set[str] = set()
    for part in parts:
        if ord(max(part)) >= _CHINESE:
            found.add(part[0])
            continue
        plain = [] if _NOT_PLAIN.search(part) else _PLAIN.findall(part)
        found.add(max(plain, key=_says, default=_ANYTHING)[: max(_BEGINNINGS)])
    return frozenset(found)


def _says(word: str) -> tuple[bool, int]:
    """By how much a word says of what is asked for."""
    return word not in _SAY_LITTLE, len(word)


def _words(parts: list[str]) -> str:
    """Single words, and those of phrases that are long enough to say something."""
    plain = [word for part in parts for word in part.split()]
    return " ".join(dict.fromkeys(word for word in plain if _WORD.match(word) or ord(word[0]) > _CHINESE))


_NUMBERS = """
    two zwei dos deux, three drei tres trois, four vier cuatro quatre, five fünf cinco cinq, six sechs seis,
    seven sieben siete sept, eight acht ocho huit, nine neun nueve neuf, ten zehn diez dix, eleven elf onze,
    twelve zwölf doce douze, thirteen dreizehn trece treize, fourteen vierzehn catorce quatorze,
    fifteen fünfzehn quince quinze, sixteen sechzehn dieciséis seize, seventeen siebzehn diecisiete dix-sept,
    eighteen achtzehn dieciocho dix-huit, nineteen neunzehn diecinueve dix-neuf, twenty zwanzig veinte vingt
"""
_NUMBER_WORDS: Mapping[str, str] = MappingProxyType(
    {word: str(number) for number, line in enumerate(_NUMBERS.split(","), 2) for word in line.split()}
)
_NUMBER_WORD = re.compile(rf"\b(?:{'|'.join(sorted(_NUMBER_WORDS, key=len, reverse=True))})\b(?!-)", re.IGNORECASE)

_MATTERS = _read(PEOPLE + THINGS)
_FLAGGED: Mapping[str, frozenset[str]] = MappingProxyType(
    {
        flag: frozenset(name for name, one in _MATTERS.items() if flag in one.flags)
        for flag in (_IN_EACH, _SOMEWHERE, _ONE, _DOES)
    }
)
"""The matters with each flag."""
_COUNTED = frozenset(name for name, one in _MATTERS.items() if r"is \d" in one.told.pattern)
"""The matters that are told by a small number, in digits or words."""
_ANCHORS = {_ANYTHING}.union(*(matter.anchors for matter in _MATTERS.values()))
_NEAR: Mapping[str, frozenset[str]] = MappingProxyType(
    {anchor: frozenset(name for name, one in _MATTERS.items() if anchor in one.anchors) for anchor in _ANCHORS}
)
"""The matters that have each anchor."""
