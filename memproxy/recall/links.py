"""Multi-hop: "Biscuit's owner" is the person that a fact names as such, and the question is asked again about them.

A question that names somebody by a relation ("Biscuit's owner", "my sister", "the boss of Clara") has no words in
common with the memory that answers it. So the phrase is looked up among the edges that facts hold (subject, predicate,
object, relations), and replaced by the name at the edge's other end; results of the new question count
`DECAY` times less for every edge walked. English forms only (docs/decisions/0010).
"""

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

import msgspec

from memproxy.core.bounded_regex import BoundedPattern
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.slots import subject_name
from memproxy.core.text import GENERIC_WORDS, STOPWORDS, key_terms, words
from memproxy.recall.ranking import Scored, best_first

DECAY = 0.6
"""What a hop costs: the score is multiplied by it once for each."""

MOST_HOPS = 3

HOPS = "hops"
"""The signal that says how many edges lead to a memory."""

USER = "user"

_NO_RELATION = frozenset({"name", "names", "named", "called"})
"""A question that asks for nothing else asks for the edge itself."""

_READ = 300
_SHORTEST_STEM = 3
_MOST_TERMS = 24
_MOST_WORDS = 4
_NAME = r"(?:[A-Z][\w.-]* )*[A-Z][\w-]*|[\w-]+"
_PHRASES = (
    BoundedPattern(r"\b(?:my|our|the user['’]s) (?P<role>[\w-]+)", re.IGNORECASE, most=_READ),
    BoundedPattern(rf"\b(?:(?:the|an?) )?(?P<name>{_NAME})['’]s (?P<role>[\w-]+)", most=_READ),
    BoundedPattern(rf"\b[Tt]he (?P<role>[\w-]+) of (?:the )?(?P<name>{_NAME})", most=_READ),
)


class Phrase(msgspec.Struct, frozen=True):
    """A part of a question that names somebody (or something) by a relation: whose (``name``), and which (``role``)."""

    text: str
    name: str
    role: str


class Edge(msgspec.Struct, frozen=True):
    """What a fact connects."""

    subject: str
    predicate: str
    object: str


def phrase_of(question: str) -> Phrase | None:
    """The first relation that the question goes by, if it asks for anything beside it."""
    for pattern in _PHRASES:
        for match in pattern.finditer(question[:_READ]):
            phrase = _phrase(match)
            rest = key_terms(question[:_READ].replace(phrase.text, " "), _MOST_TERMS)
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


async def search_linked(
    question: str, scored: Sequence[Scored], search: Callable[[str], Awaitable[Sequence[Scored]]]
) -> list[Scored]:
    """Everything ``scored`` for a question, and what ``search`` finds for it with its relations resolved by stored
    facts.
    """
    facts = [candidate.memory for candidate in scored if candidate.memory.kind is not Kind.TURN]
    seeds: list[Memory] = []
    name = ""
    while len(seeds) < MOST_HOPS and (phrase := phrase_of(question)) is not None:
        step = resolve(phrase, facts)
        if step is None:
            break
        seed, name = step
        seeds.append(seed)
        question = question_about(question, phrase, name)
    if not seeds:
        return list(scored)
    beyond = [candidate for candidate in await search(question) if _is_about(candidate.memory, name)]
    return _joined(scored, beyond, len(seeds), frozenset(seed.id for seed in seeds))


def resolve(phrase: Phrase, facts: Iterable[Memory]) -> tuple[Memory, str] | None:
    """The fact that resolves the phrase, and the name in it (`USER` for the user); None when there is no such fact, or
    several that disagree.
    """
    relations = list(_edges(facts))
    named = subject_name(phrase.name)
    # "the dog" is Biscuit where a fact says that Biscuit is a dog
    names = {named, *(subject_name(edge.subject) for _, edge in relations if _is_one_of(edge, named))} - {USER}
    if named == USER:
        names = {USER}
    ends: dict[str, tuple[Memory, str]] = {}
    for memory, edge in relations:
        subject, target = subject_name(edge.subject), subject_name(edge.object)
        if not _says(phrase.role, edge.predicate):
            continue
        if subject in names and _is_name(edge.object):
            ends.setdefault(target, (memory, edge.object))
        elif target in names:
            ends.setdefault(subject, (memory, edge.subject))
    if len(ends) != 1 or named in ends:
        return None
    name, (memory, end) = ends.popitem()
    return memory, USER if name == USER else end.strip()


def _edges(facts: Iterable[Memory]) -> Iterator[tuple[Memory, Edge]]:
    """The triples and relations of the facts that hold."""
    for fact in facts:
        if fact.kind is Kind.TURN or not fact.active or fact.superseded_by is not None or fact.quarantined:
            continue
        if fact.subject and fact.object:
            yield fact, Edge(fact.subject, fact.predicate or "", fact.object)
        yield from ((fact, Edge(rel.subject, rel.predicate, rel.object)) for rel in fact.relations if not rel.valid_to)


def _is_one_of(edge: Edge, kind: str) -> bool:
    """Whether a fact says that its subject is one of a kind ("Biscuit is a dog")."""
    return subject_name(edge.object) == kind and not set(_words(edge.predicate)) - STOPWORDS


def _says(role: str, predicate: str) -> bool:
    """Whether a predicate has the role's word, or another form of it ("owns" for "owner")."""
    return any(word[: (stem := _stem(word, role))] == role[:stem] for word in _words(predicate))


def _stem(word: str, role: str) -> int:
    return max(_SHORTEST_STEM, min(len(word), len(role)) - 1)


def _is_name(text: str) -> bool:
    return text[:1].isupper() and len(text.split()) <= _MOST_WORDS


def _words(text: str) -> list[str]:
    return [word.removesuffix("'s") for word in words(text.replace("_", " "))]


def question_about(question: str, phrase: Phrase, name: str) -> str:
    """The question about whom the phrase means."""
    return question.replace(phrase.text, "the user" if name == USER else name, 1)


def _is_about(memory: Memory, name: str) -> bool:
    """Whether a memory is about somebody: by name, or about the user because the user said it."""
    if name != USER:
        memory_words = set(_words(" ".join((memory.content, *memory.entities, memory.subject or ""))))
        return memory_words.issuperset(_words(name))
    if memory.kind is Kind.TURN:
        return memory.trust is Trust.USER
    return subject_name(memory.subject or memory.content.split(" ", 1)[0]) == USER


def _joined(scored: Sequence[Scored], beyond: Sequence[Scored], hops: int, seeds: frozenset[str]) -> list[Scored]:
    """Merge both, each memory once, best first; what was found ``beyond`` that many hops counts less (see `strength`).
    Seeds, the facts that led there, keep their own score.
    """
    by_key = {candidate.key: candidate for candidate in scored}
    for hit in beyond:
        existing = by_key.get(hit.key)
        if hit.memory.id not in seeds and (existing is None or strength(existing) < hit.score):
            signals = hit.signals | {HOPS: float(hops)}
            by_key[hit.key] = msgspec.structs.replace(hit, score=hit.score * DECAY**hops, signals=signals)
    return best_first(list(by_key.values()))


def strength(scored: Scored) -> float:
    """The score that is compared with the floor: one walked edge lowers it, further ones do not."""
    walked = scored.signals.get(HOPS)
    return scored.score if walked is None else scored.score / float(DECAY ** (walked - 1))
