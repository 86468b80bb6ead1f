"""The palace: where a memory stands. Wing = subject, room = conversation, closet = topic within it, drawer = turn. The
state store allots numbers once and for ever (``W-042/R-11/D-007``: the 7th turn of the 11th room of wing 42).
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set
from urllib.parse import parse_qsl, urlencode

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import predicate_name, words
from memproxy.core.text import GENERIC_WORDS, key_terms

USER = "user"  # the wing of what is about the user; the user's own name is an alias of it (or it of the name)
DIRECT = "direct"  # the room of what was learned in no conversation
GENERAL = "general"  # the closet of what has no topic of its own
LONGEST_NAME = 64  # characters of a wing's or closet's name
_LONGEST_MENTION = 4  # words of the longest name that is looked for in a text
_MOST_SOUGHT = 50  # names that are looked for in a text one by one; with more a set of all that it may name is made
_FARTHEST_ROLE = 3  # words among which a role before a name is looked for ("John's wife Anna")
_LONGEST_LOOK = 2_000  # characters of a turn in which it is looked for what its conversation is about
_LEAST_TEXTS = 2  # texts that share a word before it is a topic

_OWNERS = frozenset({"a", "an", "the", "my", "our", "your", "his", "her", "their", "its", "this", "that"})
_SELF = frozenset({"user", "users", "i", "me", "my", "myself", "mine", "you", "your", "self", "speaker", "human"})
_ONE_PERSON = frozenset(
    """
    wife husband spouse partner fiance fiancee mother mom mum father dad boss manager landlord girlfriend boyfriend
    """.split()  # noqa: SIM905
)
_UNIQUE_ROLES = _ONE_PERSON | frozenset({"dog", "cat", "puppy", "kitten", "horse", "employer"})
"""Roles of which a person has one, as a rule: "my dog" means Biscuit from then on."""

_ROLES = _UNIQUE_ROLES | frozenset(
    {"friend", "brother", "sister", "son", "daughter", "child", "kid", "uncle", "aunt", "cousin", "colleague", "pet"}
    | {"coworker", "neighbor", "neighbour", "teacher", "doctor", "dentist", "therapist", "grandmother", "grandfather"}
    | {"project", "company", "team", "app", "client", "customer", "city", "town", "band", "product", "startup"}
)
_AFTER_NAMES = frozenset({"project", "company", "team", "app", "product", "startup", "band"})
_NAMED = frozenset({"named", "called"})
_NAMING = frozenset(
    """
    name named called call nickname alias alia aka known_as also_known_as also_called full_name real_name short_for
    short_form shorthand_for shortened_to stand_for abbreviation abbreviated_as abbreviation_for acronym_for
    another_name_for same_person_as
    """.split()  # noqa: SIM905
)
_FILLERS = frozenset({"is", "are", "was", "has", "have", "a", "an", "the"})
_NAMING_ENDS = ("_name", "_named", "_called", "_nickname")
_WORD = re.compile(r"[^\W_]+")
_POSSESSIVE = re.compile(r"['’]s\b|(?<=s)['’](?=\W|$)")
_ACCENTS = re.compile("[\u0300-\u036f]")
_POINTER = re.compile(r"W-(\d{1,9})(?:/R-(\d{1,9})(?:/D-(\d{1,9}))?)?", re.IGNORECASE)

_ROOM = re.compile(r"R-(\d{1,9})", re.IGNORECASE)


class Names(msgspec.Struct, frozen=True, kw_only=True):
    """Where a memory belongs. ``same`` are pairs of names of one subject (``("dog", "biscuit")``); with ``drawer`` it
    gets a number of its own within the room, and the room's wing is the one that its first drawer was put into, until
    one comes that ``moves`` the conversation. ``project`` and ``agent`` are the memory's: other names of its subject
    that were told in others do not hold for it (`circles`).
    """

    wing: str = USER
    room: str = DIRECT
    closet: str = GENERAL
    same: tuple[tuple[str, str], ...] = ()
    drawer: bool = False
    moves: bool = False
    project: str | None = None
    agent: str | None = None

    @property
    def circles_here(self) -> tuple[str, ...]:
        """The circles whose names hold here, the narrowest first."""
        return circles(self.project, self.agent)


def circle(project: str | None, agent: str | None) -> str:
    """The project and agent of a statement, as the state and exports write them: ``project=atlas``,
    ``project=atlas&agent=coder``; empty for what is of no project and no agent, and so holds in all of them.
    """
    parts = {"project": project, "agent": agent}
    return urlencode({part: name for part, name in parts.items() if name is not None})


def read_circle(text: str) -> tuple[str | None, str | None] | None:
    """The project and the agent that a circle names; None when it is none."""
    parts = dict(parse_qsl(text, keep_blank_values=True))
    named = parts.get("project"), parts.get("agent")
    return named if circle(*named) == text else None


def circles(project: str | None, agent: str | None) -> tuple[str, ...]:
    """The circles whose names hold for a memory of this project and agent, the narrowest first."""
    if project is None and agent is None:
        return ("",)
    return tuple(
        dict.fromkeys(circle(*pair) for pair in [(project, agent), (project, None), (None, agent), (None, None)])
    )


def is_shown_to(text: str, project: str | None, agent: str | None) -> bool:
    """Whether a request of this project and agent sees statements of the circle ``text``; one of neither sees all."""
    parts = read_circle(text)
    return parts is not None and all(
        name is None or part in {None, name} for name, part in zip((project, agent), parts, strict=True)
    )


def slug(text: str) -> str:
    """The text's words in lower case without accents, joined by hyphens, cut at `LONGEST_NAME`; may be empty."""
    if text.isascii():  # it has neither accents nor other forms
        if text.isalnum() and len(text) <= LONGEST_NAME:
            return text.lower()
    else:
        plain = _ACCENTS.sub("", unicodedata.normalize("NFD", unicodedata.normalize("NFKC", text)))
        text = unicodedata.normalize("NFC", plain)
    found_words = _WORD.findall(text.casefold())
    name = "-".join(found_words)
    return name if len(name) <= LONGEST_NAME else name[:LONGEST_NAME].rpartition("-")[0] or name[:LONGEST_NAME]


def subject_name(subject: str) -> str:
    """The subject as a wing (or an entity) is called: "My dog Biscuit", "Biscuit the dog" and "biscuit" are
    ``biscuit``, "project Atlas" and "the Atlas project" are ``atlas``, whatever means the user is ``user``.
    """
    _, name = _role_and_name(subject)
    return name or USER


def _role_and_name(subject: str) -> tuple[str | None, str]:
    """The role that stands before (or after) a name, and the name's slug; empty when it is the user."""
    name_words = _WORD.findall(_POSSESSIVE.sub("", subject))
    while name_words and (
        name_words[0].casefold() in _OWNERS or (len(name_words) > 1 and name_words[0].casefold() in _SELF)
    ):
        name_words = name_words[1:]
    if all(word.casefold() in _SELF for word in name_words):
        return None, ""
    role, name_words = _without_role(name_words)
    return role, slug(" ".join(name_words))


def _without_role(name_words: list[str]) -> tuple[str | None, list[str]]:
    last = name_words[-1].casefold()
    for index in range(min(len(name_words) - 1, _FARTHEST_ROLE)):
        role, name = name_words[index].casefold(), name_words[index + 1 :]
        if role in _ROLES and len(name) > 1 and name[0].casefold() in _NAMED:
            return role, name[1:]
        if role in _ROLES and all(_is_name(word) for word in name):
            return role, name
    if len(name_words) > 2 and name_words[-2].casefold() in _OWNERS and last in _ROLES and _is_name(name_words[0]):
        return last, name_words[:-2]
    if len(name_words) > 1 and last in _AFTER_NAMES and _is_name(name_words[0]):
        return last, name_words[:-1]
    return None, name_words


def _is_name(word: str) -> bool:
    return word[0].isupper() or word[0].isdigit()


def assign(memory: Memory) -> Names:
    """Where a memory belongs by itself. For turns see `assign_turns`."""
    subject = memory.subject or next(iter(memory.entities), USER)
    same = same_names(memory)
    if memory.project_id is not None or memory.agent_id is not None:
        # a name that a project gives the user is another name of the user's wing there, which all projects share
        same = [(second, first) if first == USER else (first, second) for first, second in same]
    return Names(
        wing=subject_name(subject),
        room=memory.session_id or DIRECT,
        closet=closet(memory),
        same=tuple(same),
        drawer=memory.kind is Kind.TURN,
        project=memory.project_id,
        agent=memory.agent_id,
    )


def closet(memory: Memory) -> str:
    """The topic: the category's first part, else the first word that carries one."""
    if memory.category and (name := slug(memory.category.split("/")[0])):
        return name
    named = {*subject_name(memory.subject or USER).split("-"), USER}
    terms = (term for term in _topics(memory.content) if term not in named)
    return next(terms, GENERAL)


def same_names(memory: Memory) -> list[tuple[str, str]]:
    """The pairs of names that a statement says are one subject's, the proper name last: "the user's name is Ana",
    "the user's dog is called Biscuit", "TS is short for TypeScript", "my wife Clara", or a subject "my dog Biscuit".
    """
    pairs = []
    role, name = _role_and_name(memory.subject or "")
    if role in _UNIQUE_ROLES and name:
        pairs.append((role, name))
    triples = [(memory.subject, memory.predicate, memory.object)]
    triples += [(relation.subject, relation.predicate, relation.object) for relation in memory.relations]
    for subject, predicate, other in triples:
        if subject and predicate and other and (pair := _naming_pair(subject, predicate, other)) is not None:
            pairs.append(pair)
    return list(dict.fromkeys((first, second) for first, second in pairs if first != second))


def is_role(name: str) -> bool:
    """Whether a name is a role that one holds at a time ("dog", "boss"): another holder may take it over."""
    return name in _UNIQUE_ROLES


def _naming_pair(subject: str, predicate: str, other: str) -> tuple[str, str] | None:
    predicate_words = words(predicate)
    if not predicate_name(predicate)[1]:
        return None
    if len(predicate_words) > 1 and predicate_words[-1] == "of":
        # "Clara is the name of my wife", "TS is an alias of TypeScript"
        subject, other, predicate_words = other, subject, predicate_words[:-1]
    name, other_name = subject_name(subject), subject_name(other)
    relation = "_".join(word for word in predicate_words if word not in _FILLERS)
    if other_name == USER or (named := _named_subject(relation, name)) is None:
        return None
    return None if relation in _ONE_PERSON and not _is_name(other.strip() or "-") else (named, other_name)


def _named_subject(predicate: str, subject: str) -> str | None:
    """Whose name a predicate gives: the subject's ("name"), or that of something of the user's ("dog_name", "wife")."""
    if predicate in _NAMING:
        return subject
    if predicate in _ONE_PERSON:
        return predicate if subject == USER else None
    for end in _NAMING_ENDS:
        if predicate.endswith(end) and subject == USER:
            role = predicate.removesuffix(end)
            return role if role in _UNIQUE_ROLES else USER if role in {"first", "full", "last"} else None
    return None


def assign_turns(turns: Sequence[Memory], wings: Mapping[str, str]) -> list[Names]:
    """Where turns of one session belong, in their order. ``wings`` maps the names of the owner's wings to wings: a
    wing that at least half of the turns name is theirs, else they are the user's.
    """
    texts = [turn.content for turn in turns]
    wing = _dominant_wing(texts, wings)
    topics = shared_topics(texts)
    return [
        Names(
            wing=wing,
            room=turn.session_id or DIRECT,
            closet=topic,
            drawer=True,
            project=turn.project_id,
            agent=turn.agent_id,
        )
        for turn, topic in zip(turns, topics, strict=True)
    ]


def moved_turns(turns: Sequence[Memory], wings: Mapping[str, str]) -> tuple[list[Memory], list[Names]]:
    """The turns of one conversation, in their order, that stand in the user's wing and belong into another one by now
    (its subject had no wing when they came), and where; none, where the conversation as a whole is about nothing known.
    """
    wing = _dominant_wing([turn.content[:_LONGEST_LOOK] for turn in turns], wings)
    user_wing = wings.get(USER, USER)
    if wing in (USER, user_wing):
        return [], []
    places = assign_turns(turns, wings)
    moving = [(turn, place) for turn, place in zip(turns, places, strict=True) if turn.wing in (None, USER, user_wing)]
    names = [msgspec.structs.replace(place, wing=wing, moves=True) for _, place in moving]
    return [turn for turn, _ in moving], names


def _dominant_wing(texts: Sequence[str], wings: Mapping[str, str]) -> str:
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update({wings[name] for name in _names_in(text, wings.keys())})
    best = max(((count, wing) for wing, count in counts.items() if wing != USER), default=(0, USER))
    return best[1] if best[0] * 2 >= len(texts) else USER


def mentions(text: str) -> set[str]:
    """The slugs of all runs of up to four words of a text: the names that it may hold."""
    plain = _slugs(text)
    runs = range(1, _LONGEST_MENTION + 1)
    return {"-".join(plain[start : start + length]) for length in runs for start in range(len(plain) - length + 1)}


def _slugs(text: str) -> list[str]:
    """The slugs of its words, in their order."""
    return [slug(word) for word in _WORD.findall(_POSSESSIVE.sub("", text[:40_000])[:20_000])]


def _names_in(text: str, names: Set[str]) -> Set[str]:
    """Those of the names that are among `mentions`."""
    if len(names) > _MOST_SOUGHT or not text.isascii():
        return mentions(text) & names
    # a slug of an ASCII word has no hyphen, so that a name's hyphens tell its words
    slugs = f"-{'-'.join(_slugs(text))}-"
    return {name for name in names if name and name.count("-") < _LONGEST_MENTION and f"-{name}-" in slugs}


def shared_topics(texts: Sequence[str]) -> list[str]:
    """For each text its topic: of its words the one that most of the texts share; without one, the topic goes on."""
    terms = [list(_topics(text)) for text in texts]
    counts = Counter(term for topic_terms in terms for term in topic_terms)
    topics, current = [], GENERAL
    for topic_terms in terms:
        best = max(topic_terms, key=lambda term: counts[term], default=None)
        if best is not None and counts[best] >= _LEAST_TEXTS:
            current = best
        topics.append(current)
    return topics


def _topics(text: str) -> Iterator[str]:
    terms = (slug(term) for term in key_terms(text[:5_000], limit=40))
    return (term for term in terms if len(term) > 2 and not term.isdigit() and term not in GENERIC_WORDS)


def pointer(wing: int, room: int | None = None, drawer: int | None = None) -> str:
    """The short name of a place: ``W-042/R-11/D-007``, without the parts that it has not."""
    parts = [f"W-{wing:03d}"]
    if room is not None:
        parts.append(f"R-{room:02d}")
        if drawer is not None:
            parts.append(f"D-{drawer:03d}")
    return "/".join(parts)


def read_room(text: str) -> int | None:
    """The number in the last part of a room's pointer (``R-11``); None when it is none."""
    match = _ROOM.fullmatch(text.strip())
    return None if match is None else int(match[1])


def read_pointer(text: str) -> tuple[int, int | None, int | None] | None:
    """The numbers in a pointer; None when it is none."""
    match = _POINTER.fullmatch(text.strip())
    if match is None:
        return None
    wing, room, drawer = match.groups()
    return int(wing), None if room is None else int(room), None if drawer is None else int(drawer)
