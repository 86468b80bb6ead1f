"""Entities: the people (named animals too), places, events, items and times that memories name, found by rules alone. A
type is a guess: mentions vote, and what is said ("lives in …") counts more than how a name looks.
"""

import enum
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from memproxy.core.bounded_regex import BoundedPattern
from memproxy.core.memory import Kind, Memory, Relation
from memproxy.core.palace import USER, slug, subject_name
from memproxy.core.slots import predicate_name
from memproxy.core.text import ABBREVIATIONS, STOPWORDS

LONGEST_ENTITY = 80  # characters of a name; what is longer is a sentence
_MOST_WORDS = 5
_MOST_READ = 5_000  # characters of a turn that names are looked for in


class EntityType(enum.StrEnum):
    """What an entity is taken for."""

    PERSON = "person"
    PLACE = "place"
    EVENT = "event"
    ITEM = "item"
    TIME = "time"


class Mention(msgspec.Struct, frozen=True):
    """A name in a memory, and how strongly this mention speaks for its type (1 to 3). ``first``: the word before it
    that begins a sentence, which is the name's ("Anna Smith called") only where another mention says so ("Visit Rome").
    """

    name: str
    type: EntityType
    weight: int = 1
    first: str = ""


class Entity(msgspec.Struct, kw_only=True):
    """An entity over all memories: how it is written most, its guessed type, in how many memories, and when last."""

    name: str
    type: EntityType
    count: int
    last_seen: datetime


_PEOPLE_WORDS = frozenset(
    """
    dog cat pet puppy kitten wife husband partner fiance fiancee friend brother sister son daughter mother mom mum
    father dad uncle aunt cousin colleague coworker neighbor neighbour boss manager teacher doctor dentist therapist
    grandmother grandfather girlfriend boyfriend roommate child kid baby nephew niece married met mr mrs ms dr
    """.split()  # noqa: SIM905
)
_KIN = _PEOPLE_WORDS - {"met", "married"}
_PLACE_WORDS = frozenset(
    """
    live lives lived move moved born visit visited travel traveled travelled located location city country town hometown
    residence based fly flew stay stayed vacation
    """.split()  # noqa: SIM905
)
_PLACE_ENDS = frozenset(
    """
    street avenue road park beach airport university college school hospital hotel lake river mountain island city
    county station museum restaurant cafe valley
    """.split()  # noqa: SIM905
)
_EVENT_WORDS = frozenset(
    """
    wedding birthday conference meeting trip vacation party festival marathon exam interview concert anniversary holiday
    holidays graduation funeral race tournament appointment workshop christmas easter halloween thanksgiving ramadan
    hackathon summit retreat reunion
    """.split()  # noqa: SIM905
)
_MONTHS = "january february march april may june july august september october november december".split()  # noqa: SIM905
_DAYS = "monday tuesday wednesday thursday friday saturday sunday".split()  # noqa: SIM905
_TIME_WORDS = frozenset([*_MONTHS, *_DAYS, "today", "tomorrow", "yesterday", "tonight", "weekend"])
_TIME = re.compile(r"(?:19|20)\d\d|\d{4}-\d\d(?:-\d\d)?|\d{1,2}(?:st|nd|rd|th)?|\d{1,2}:\d\d|am|pm|of|the|next|last|on")
_BEFORE_PLACES = frozenset({"in", "near", "to", "from"})
_NOT_NAMES = frozenset(
    """
    ok okay yes no thanks thank hi hello hey please sure great sorry wow cool nice congratulations congrats absolutely
    certainly sounds glad happy good well also then maybe perhaps however yeah oh
    """.split()  # noqa: SIM905
)
_TITLES = frozenset(name.removesuffix(".") for name in ABBREVIATIONS if name[0].isupper())
_NO_VOWELS = "[A-Z][b-df-hj-np-tv-xz]{1,3}"
ABBREVIATED = rf"(?<!\w)(?:{'|'.join(sorted(_TITLES))}|{_NO_VOWELS})\.[ ]"
"""An abbreviation whose full stop stands within a name (``St. Louis``), as a regular expression."""

_NAME = re.compile(
    rf"(?:{ABBREVIATED})?(?<!\w)[A-Z][\w’'-]*(?:[ ](?:of[ ]|de[ ]|van[ ]|von[ ])?[A-Z0-9][\w’'-]*){{0,3}}"
)
_POSSESSIVE = re.compile(r"['’]s?$")
_BEFORE = 30  # characters before a name that are looked at

_SHORTENED = re.compile(_NO_VOWELS)
_LEAD = 8  # characters before a name that tell whether it begins a sentence, or an item of a list

_SENTENCE = BoundedPattern(
    r"(?:(?:^|[.!?:;…\n])[\s*_#>•|“”\"'(\[–—-]*(?:\d{1,3}[.)]\s*)?[*_\"“]*|[\"“(]\s*)$", most=_BEFORE
)
_WORD_BEFORE = BoundedPattern(r"([^\W\d_]+)\W*$", most=_BEFORE)


def mentions(memory: Memory) -> list[Mention]:
    """The entities that a memory names, each once: those it lists, its subject and object and those of its relations;
    of a verbatim turn the names written with capitals. The user is none.
    """
    named = list(
        _capitalised_mentions(memory.content[:_MOST_READ]) if memory.kind is Kind.TURN else _stated_mentions(memory)
    )
    best: dict[str, Mention] = {}
    for mention in named:
        key = subject_name(mention.name)
        is_short = len(mention.name) <= LONGEST_ENTITY and len(mention.name.split()) <= _MOST_WORDS
        if key == USER or not slug(mention.name) or not is_short:
            continue
        if key not in best or (not best[key].first, best[key].weight) < (not mention.first, mention.weight):
            best[key] = mention
    return list(best.values())


def _stated_mentions(memory: Memory) -> Iterator[Mention]:
    text = memory.content[:_MOST_READ]
    stated = [(name, "") for name in memory.entities]
    for edge in edges(memory):
        stated.append((edge.subject, ""))
        if _is_thing(edge.object):
            stated.append((edge.object, edge.predicate))
    if memory.subject and not memory.object:
        stated.append((memory.subject, ""))
    for name, context in stated:
        if (bare := name.strip()) and not is_abbreviation(bare, stops=f"{bare}." in text):
            yield _typed_mention(bare, context)


def is_abbreviation(name: str, *, stops: bool) -> bool:
    """Whether it is an abbreviation alone, which names nobody and nothing. ``stops``: a full stop follows."""
    bare = name.removesuffix(".")
    return bare in _TITLES or ((stops or bare != name) and _SHORTENED.fullmatch(bare) is not None)


def _is_thing(value: str) -> bool:
    """Whether a relation's object is a thing with a name, not a quality or an amount ("blue", "10,000 dollars")."""
    return value[:1].isupper() or _is_time(value) or bool(_words(value) & (_EVENT_WORDS | _PEOPLE_WORDS))


def _capitalised_mentions(text: str) -> Iterator[Mention]:
    """Names written with capitals. The first word of a sentence has one whatever it is: it is a name, or belongs to the
    one that follows it, only if it is written so elsewhere in the text too.
    """
    begins: list[list[str]] = []
    inside: set[str] = set()
    for match in _NAME.finditer(text):
        words_of_name = _name_words(match.group())
        if not words_of_name or (
            len(words_of_name) == 1 and is_abbreviation(words_of_name[0], stops=text.startswith(".", match.end()))
        ):
            continue
        name = " ".join(words_of_name)
        lead = text[max(0, match.start() - _LEAD) : match.start()]
        if match.group().startswith(words_of_name[0]) and not _begins_a_name(words_of_name) and _SENTENCE.search(lead):
            begins.append(words_of_name)
            continue
        inside.add(words_of_name[0])
        preceding = _WORD_BEFORE.search(text[max(0, match.start() - _BEFORE) : match.start()])
        yield _typed_mention(name, preceding.group(1) if preceding else "")
    for words_of_name in begins:
        if words_of_name[0] in inside:
            yield _typed_mention(" ".join(words_of_name), "")
        elif rest := _after_number(words_of_name[1:]):
            yield msgspec.structs.replace(_typed_mention(" ".join(rest), words_of_name[0]), first=words_of_name[0])


def _begins_a_name(name_words: list[str]) -> bool:
    """Whether the first of several words can be told to belong to a name, also where it begins a sentence."""
    if _is_time(" ".join(name_words)):
        return True
    if len(name_words) == 1 or not _after_number(name_words[1:]):
        return False
    first = name_words[0].lower()
    certain = _KIN | _PLACE_ENDS | _EVENT_WORDS | {"new"}
    return first in certain or is_abbreviation(name_words[0], stops=False)


def _after_number(name_words: list[str]) -> list[str]:
    """The words without numbers at their beginning: "Suggest 3" has no more of a name than "Suggest"."""
    while name_words and name_words[0][0].isdigit():
        name_words = name_words[1:]
    return name_words


def _name_words(name: str) -> list[str]:
    """The words of a run of capitals without those at its ends that begin a sentence ("Yes Anna's" is ``Anna``)."""
    name_words = [_POSSESSIVE.sub("", word) for word in name.split()]
    while name_words and (_begins_a_sentence(name_words[0]) or (len(name_words) > 1 and name_words[0].endswith("ing"))):
        name_words = name_words[1:]
    while name_words and name_words[-1].lower() in STOPWORDS:
        name_words = name_words[:-1]
    return name_words


def _begins_a_sentence(word: str) -> bool:
    plain = word.lower()
    return len(plain) == 1 or (plain in STOPWORDS | _NOT_NAMES and plain not in _TIME_WORDS | {"new"})


def _typed_mention(name: str, context: str) -> Mention:
    """The mention with its type: what the context says, then how the name looks."""
    name = name.strip()
    if _is_time(name):
        return Mention(name, EntityType.TIME, 3)
    name_words = _words(name)
    if name_words & _EVENT_WORDS:
        return Mention(name, EntityType.EVENT, 3)
    if name_words & _PLACE_ENDS:
        return Mention(name, EntityType.PLACE, 3)
    return _by_context(name, name_words, _words(context))


def _by_context(name: str, name_words: set[str], around: set[str]) -> Mention:
    if (around | name_words) & _PEOPLE_WORDS:
        return Mention(name, EntityType.PERSON, 3)
    if around & _PLACE_WORDS and name[:1].isupper():
        return Mention(name, EntityType.PLACE, 2)
    if around & _BEFORE_PLACES and name[:1].isupper():
        return Mention(name, EntityType.PLACE, 1)
    if around & {"with", "named", "called", "name"}:
        return Mention(name, EntityType.PERSON, 2)
    return Mention(name, EntityType.ITEM, 1)


def _is_time(name: str) -> bool:
    parts = [word.strip(",.").lower() for word in name.split()]
    if not parts or not all(word in _TIME_WORDS or _TIME.fullmatch(word) for word in parts):
        return False
    return any(word in _TIME_WORDS or (len(word) >= 4 and _TIME.fullmatch(word) is not None) for word in parts)


def _words(text: str) -> set[str]:
    return set(slug(text.replace("_", " ")).split("-"))


def edges(memory: Memory) -> list[Relation]:
    """What a memory states as relations, with their validity: its own triple, then those it lists, each once."""
    stated = list(memory.relations)
    if memory.subject and memory.predicate and memory.object:
        own_edge = Relation(subject=memory.subject, predicate=memory.predicate, object=memory.object)
        # Listed as well, it may have a validity of its own.
        own_edge = next((edge for edge in stated if _triple(edge) == _triple(own_edge)), own_edge)
        stated = [own_edge, *(edge for edge in stated if _triple(edge) != _triple(own_edge))]
    return [
        msgspec.structs.replace(
            edge, valid_from=edge.valid_from or memory.valid_from, valid_to=edge.valid_to or memory.valid_to
        )
        for edge in stated
    ]


def _triple(edge: Relation) -> tuple[str, str, str]:
    return (subject_name(edge.subject), predicate_name(edge.predicate)[0], slug(edge.object))


class Census:
    """Counts entities over memories, given one after the other. ``same`` maps names to the one they stand for."""

    def __init__(self, same: Mapping[str, str]) -> None:
        self._same = same
        self._spelled: dict[str, Counter[str]] = {}
        self._typed: dict[str, Counter[EntityType]] = {}
        self._counts: Counter[str] = Counter()
        self._last_seen: dict[str, datetime] = {}
        self._firsts: set[str] = set()
        self._unsure: list[tuple[Mention, datetime]] = []

    def add(self, memory: Memory) -> None:
        """Count what one memory names."""
        for mention in mentions(memory):
            if mention.first:
                self._unsure.append((mention, memory.created_at))
            else:
                self._firsts.add(mention.name.split(" ", 1)[0])
                self._count(mention, memory.created_at)

    def _count(self, mention: Mention, at: datetime) -> None:
        key = self._same.get(subject_name(mention.name), subject_name(mention.name))
        if key == self._same.get(USER, USER):
            return
        self._counts[key] += 1
        self._spelled.setdefault(key, Counter())[mention.name] += 1
        self._typed.setdefault(key, Counter())[mention.type] += mention.weight
        self._last_seen[key] = max(at, self._last_seen.get(key, at))

    def entities(self) -> dict[str, Entity]:
        """The entities, by key. A sentence's first word is counted to a name if any memory begins a name with it."""
        unsure, self._unsure = self._unsure, []
        for mention, at in unsure:
            whole = f"{mention.first} {mention.name}"
            self._count(_typed_mention(whole, "") if mention.first in self._firsts else mention, at)
        return {
            key: Entity(
                name=self._spelled[key].most_common(1)[0][0],
                type=self._typed[key].most_common(1)[0][0],
                count=count,
                last_seen=self._last_seen[key],
            )
            for key, count in self._counts.items()
        }
