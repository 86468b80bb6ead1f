"""Multi-hop: "the dog's owner" is whoever a fact says owns the dog, and the question is asked again about him.

A question that names somebody by a relation ("Biscuit's owner", "my sister", "the boss of Clara") has no words in
common with the memory that answers it. So the phrase is looked up among the edges that facts are (subject, predicate,
object, relations), and replaced by what stands at the edge's other end; what is found for the new question counts
`DECAY` times less for every edge that was walked. Only questions with such a phrase cost anything. English forms only.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from memproxy.core.late import LatePattern
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.slots import subject_name
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, key_terms, words
from memproxy.recall.reading import Reading
from memproxy.recall.search import Scored

DECAY = 0.6
"""What a hop costs: the score is multiplied by it once for each."""

MOST_HOPS = 3

HOPS = "hops"
"""The signal that says how many edges lead to a memory."""

USER = "user"

_NO_RELATION = frozenset({"name", "names", "named", "called"})
"""A question that asks for nothing else asks for the edge itself."""

_KIND_OF = frozenset({"is", "is a", "is an", "isa", "species", "type", "kind", "kind of", "breed"})

_TURN = Kind.TURN
"""To look a member up in its enumeration takes longer than what is asked of it, and this runs for every candidate."""

_READ = 300
_MOST_NAME = 60
_STEM = 4

_NAME = r"(?:[A-Z][\w.-]* )*[A-Z][\w-]*|[\w-]+"
_PHRASES = (
    LatePattern(r"\b(?:my|our|the user['’]s) (?P<role>[\w-]+)", re.IGNORECASE, most=_READ),
    LatePattern(rf"\b(?:(?:the|an?) )?(?P<name>{_NAME})['’]s (?P<role>[\w-]+)", most=_READ),
    LatePattern(rf"\b[Tt]he (?P<role>[\w-]+) of (?:the )?(?P<name>{_NAME})", most=_READ),
)
_OWNERS = ("owner", "keeper")
_SIBLINGS = ("brother", "sister", "sibling", "twin")
_PARENTS = ("mother", "father", "parent", "mom", "dad")
_CHILDREN = ("son", "daughter", "child", "kid")
_SPOUSES = ("wife", "husband", "partner", "spouse", "married")
_OTHER_END = {
    **dict.fromkeys(_OWNERS, ("owns", "own", "has", "have", "adopted", "bought", "keeps", "pet")),
    **dict.fromkeys(_SIBLINGS, _SIBLINGS),
    **dict.fromkeys(_PARENTS, (*_CHILDREN, *_PARENTS)),
    **dict.fromkeys(_CHILDREN, (*_PARENTS, *_CHILDREN)),
    **dict.fromkeys(_SPOUSES, _SPOUSES),
    **dict.fromkeys(("boss", "manager"), ("boss", "manager", "report", "employ")),
}
"""By what words a fact says a relation that a question names from its other end."""

_SAID = (
    re.compile(r"^(?P<subject>.{1,60}?)['’]s (?P<predicate>.{1,60}?) (?:is|are)(?: named| called)? (?P<object>.+)$"),
    re.compile(
        r"^(?P<subject>[A-Z][\w-]*(?: [A-Z][\w-]*)*) (?P<predicate>[a-z]\S*(?: (?:a|an|in|at))?) (?P<object>.+)$"
    ),
)
"""A fact that came without a triple, as such sentences go: "User's dog is Biscuit", "User owns Biscuit"."""


class Phrase(msgspec.Struct, frozen=True):
    """A part of a question that names somebody (or something) by a relation: whose (``name``), and which (``role``)."""

    text: str
    name: str
    role: str

    @property
    def inverse(self) -> bool:
        """Whether facts say the relation from the other end, in other words ("owns", not "owner")."""
        return self.role in _OTHER_END


class Edge(msgspec.Struct, frozen=True):
    """What a fact connects, and all of its words."""

    subject: str
    predicate: str
    object: str
    said: str


def phrase_of(question: str) -> Phrase | None:
    """The first relation that the question goes by, if it asks for anything beside it."""
    for pattern in _PHRASES:
        for match in pattern.finditer(question[:_READ]):
            phrase = _phrase(match)
            rest = key_terms(question[:_READ].replace(phrase.text, " "), 24)
            if phrase.name and not _NO_RELATION.issuperset(rest) and phrase.role not in STOPWORDS | GENERIC_WORDS:
                return phrase
    return None


def _phrase(match: re.Match[str]) -> Phrase:
    """What matched, without the words of the question that a name seems to begin with ("Does Biscuit's ...")."""
    text, role = match.group(), match["role"].lower()
    name = match.groupdict().get("name")
    if name is None:
        return Phrase(text, USER, role)
    parts = name.split()
    while parts and parts[0].lower() in STOPWORDS:
        parts.pop(0)
    bare = " ".join(parts)
    return Phrase(text if bare == name else text[text.rindex(bare) :], bare, role)


def searched(phrase: Phrase) -> str:
    """By which words the edge is searched for."""
    whose = [] if phrase.name == USER else [phrase.name]
    return " ".join([*whose, phrase.role, *_OTHER_END.get(phrase.role, ())])


def edges(memories: Iterable[Memory]) -> Iterator[tuple[Memory, Edge]]:
    """The edges of facts: their triple, their relations, and where they have neither, what their sentence says."""
    for memory in memories:
        if memory.kind is _TURN or not memory.active or memory.superseded_by is not None or memory.quarantined:
            continue
        said = " ".join((memory.content[:_READ], *memory.tags, *memory.entities))
        if memory.subject and memory.object:
            yield memory, Edge(memory.subject, memory.predicate or "", memory.object, said)
        for one in memory.relations:
            if one.valid_to is None:
                yield memory, Edge(one.subject, one.predicate, one.object, said)
        if not memory.relations and not (memory.subject and memory.object):
            yield from ((memory, edge) for edge in _read(memory.content, said))


def _read(content: str, said: str) -> Iterator[Edge]:
    for pattern in _SAID:
        if match := pattern.match(content[:_READ].rstrip(". ")):
            yield Edge(match["subject"], match["predicate"], match["object"], said)
            return


def follow(phrase: Phrase, memories: Iterable[Memory]) -> tuple[Memory, str] | None:
    """The fact that says whom the phrase means, and his name (`USER` for the user); None when nothing says it, or when
    the facts say several.
    """
    found = list(memories)
    known = list(edges(_may_say(phrase, found)))
    if not known:
        return None
    ends = _ends(phrase, known)
    for kind in () if ends or phrase.name == USER else edges(found):
        if _is_one_of(kind[1], phrase.name):
            ends += _ends(msgspec.structs.replace(phrase, name=kind[1].subject), known)
    if not ends and phrase.inverse and phrase.name != USER:
        ends = [(memory, edge.subject) for memory, edge in known if _says(phrase.role, edge.predicate)]
    names = {subject_name(end) for _, end in ends}
    if len(names) != 1 or names == {subject_name(phrase.name)}:
        return None
    memory, end = ends[0]
    return memory, USER if subject_name(end) == USER else end.strip()


def _may_say(phrase: Phrase, memories: Sequence[Memory]) -> Iterable[Memory]:
    """Those that may say the phrase's relation: to take every fact apart takes longer than the ranking."""
    if phrase.role in _OWNERS:
        return memories  # by the name of what is owned
    wanted = _beginnings(phrase.role)
    return (one for one in memories if one.kind is not _TURN and (one.relations or _has_letters(one, wanted)))


def may_be_said(phrase: Phrase, found: Sequence[Scored]) -> bool:
    """Whether any of the facts may say a relation that facts have the word of; what was seen of each is kept."""
    wanted = _beginnings(phrase.role)
    facts = [one for one in found if one.memory.kind is not _TURN]
    return any(one.memory.relations or _begins(_kept_letters(one), wanted) for one in facts)


def _has_letters(memory: Memory, wanted: frozenset[str]) -> bool:
    """Whether any of its words may begin so."""
    return _begins(_letters(memory), wanted)


def _begins(low: str, wanted: frozenset[str]) -> bool:
    return not low or any(start in low for start in wanted)


def _kept_letters(one: Scored) -> str:
    made = one.notes.made
    if not isinstance(made, Reading):
        return _letters(one.memory)
    if made.relation is None:
        made.relation = _letters(one.memory)
    return made.relation


def _letters(memory: Memory) -> str:
    """Where a fact's relation may stand, in small letters; empty where these are not plain."""
    text = " ".join((memory.content[:_READ], *memory.tags, *memory.entities, memory.predicate or ""))
    return text.lower() if text.isascii() else ""


def _ends(phrase: Phrase, known: Sequence[tuple[Memory, Edge]]) -> list[tuple[Memory, str]]:
    return [(memory, end) for memory, edge in known if (end := _end(phrase, edge)) is not None]


def _is_one_of(edge: Edge, kind: str) -> bool:
    """Whether a fact says that its subject is one of a kind ("Biscuit is a dog")."""
    is_kind = subject_name(edge.object) == subject_name(kind) and subject_name(edge.subject) != USER
    return is_kind and edge.predicate.lower().replace("_", " ") in _KIND_OF


def _end(phrase: Phrase, edge: Edge) -> str | None:
    """The edge's end that the phrase means, if it says that relation of that name."""
    if phrase.role in _OWNERS and _has(edge.predicate, phrase.name):
        return edge.subject  # "User's dog is Biscuit": whose dog it is, is the dog's owner
    if not _says(phrase.role, f"{edge.predicate} {edge.said}"):
        return None
    name = subject_name(phrase.name)
    subject, target = subject_name(edge.subject), subject_name(edge.object)
    if subject == name:
        return edge.object if _is_name(edge.object) else None
    if target == name or (phrase.inverse and _has(edge.said, phrase.name)):
        return edge.subject
    return None


def _is_name(text: str) -> bool:
    return len(text) <= _MOST_NAME and len(text.split()) <= 4 and text[:1].isupper()


def _says(role: str, text: str) -> bool:
    """Whether a fact's words name the relation, from either end."""
    wanted = _beginnings(role)
    return any(word[:_STEM] in wanted or (len(word) > 2 and word[:3] in wanted) for word in _plain(text))


def _beginnings(role: str) -> frozenset[str]:
    return frozenset(word[:_STEM] for word in (role, *_OTHER_END.get(role, ())))


def _has(text: str, name: str) -> bool:
    """Whether a text has all words of a name."""
    found = {word[:_STEM] for word in _plain(text)}
    return all(word[:_STEM] in found for word in _plain(name))


def _plain(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in words(text.replace("_", " "))]


def replaced(question: str, phrase: Phrase, name: str) -> str:
    """The question about whom the phrase means."""
    return question.replace(phrase.text, "the user" if name == USER else name, 1)


def is_about(memory: Memory, name: str) -> bool:
    """Whether a memory speaks of somebody: by his name, or of the user because the user said it."""
    if name != USER:
        return _has(" ".join((memory.content, *memory.entities, memory.subject or "")), name)
    if memory.kind is Kind.TURN:
        return memory.trust is Trust.USER
    return subject_name(memory.subject or memory.content.split(" ", 1)[0]) == USER


def joined(found: Sequence[Scored], beyond: Sequence[Scored], hops: int, seeds: frozenset[str]) -> list[Scored]:
    """Both together, each memory once; what is ``beyond`` so many hops counts less (see `strength`). Seeds, the facts
    that led there, keep the score of their own.
    """
    known = {id_of(one): one for one in found}
    for one in beyond:
        before = known.get(id_of(one))
        if one.memory.id not in seeds and (before is None or strength(before) < one.score):
            signals = one.signals | {HOPS: float(hops)}
            score = one.score * DECAY**hops
            known[id_of(one)] = msgspec.structs.replace(one, score=score, signals=signals)
    return list(known.values())


def id_of(one: Scored) -> tuple[str | None, str]:
    """Clients may use one turn id in several sessions."""
    return one.memory.session_id, one.memory.id


def strength(one: Scored) -> float:
    """The score as the floor looks at it: that an edge was walked counts, how many were does not."""
    walked = one.signals.get(HOPS)
    return one.score if walked is None else one.score / float(DECAY ** (walked - 1))
