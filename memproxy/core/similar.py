"""How alike two statements are: in words, names, numbers and polarity; nothing here decides."""

import itertools
import re
from collections.abc import Set
from difflib import SequenceMatcher

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.slots import has_many, numbers, predicate_name, singular, slot_name, value_name
from memproxy.core.text import key_terms, words

LEXICAL_SAME = 0.8
LEXICAL_RELATED = 0.5
"""Bands of `lexical_overlap` for cosines of 0.9 and 0.7 where there are no vectors: "budget for the Hawaii vacation is
$10,000" and "Hawaii vacation budget: $15,000" overlap by 1.0 (values left out), a budget for another trip by 0.5.
"""

_CHANGE_TERMS = frozenset(
    {"change", "changed", "increase", "increased", "raise", "raised", "reduce", "reduced", "lowered", "update"}
    | {"updated", "switch", "switched", "moved", "instead", "longer", "anymore", "became", "become", "correction"}
)
CHANGE_WORDS = _CHANGE_TERMS | {"now", "new", "no"}
_NEGATIVE = frozenset(
    {"not", "no", "never", "longer", "stopped", "quit", "anymore", "cancelled", "canceled", "without"}
)
_SINGLE_ANSWER = (
    ("live", "in"), ("lives", "in"), ("living", "in"), ("works", "at"), ("works", "for"), ("works", "as"),
    ("moved", "to"), ("name", "is"), ("married", "to"), ("born", "in"), ("based", "in"), ("timezone", "is"),
)  # fmt: skip
"""Neighbouring words after which a person names one thing at a time."""

_USER = "user"  # what statements call the user; it is nobody's name


class Neighbour(msgspec.Struct, frozen=True):
    """A known memory near a candidate; ``cosine`` None where vectors are missing, then words decide."""

    memory: Memory
    cosine: float | None = None


def lexical_overlap(first: str, second: str) -> float:
    """Jaccard similarity of the key terms of two statements, values, names of the user and words of change left out."""
    return _jaccard(topic(first), topic(second))


def topic(text: str) -> frozenset[str]:
    """What a statement is about: its key terms without values, names of the user and words of change."""
    terms = (singular(term) for term in key_terms(text, 64))
    return frozenset(term for term in terms if term != _USER and term not in _CHANGE_TERMS and not numbers(term))


def one_topic(memory: Memory, other: Memory) -> bool:
    """The same words but for names: "User lives in Berlin", "User lives in Rome" (0.6 apart for MiniLM)."""
    named = names(memory.content) | names(other.content)
    first, second = topic(memory.content) - named, topic(other.content) - named
    return bool(first) and first == second


def says_the_same(memory: Memory, other: Memory) -> bool:
    """The same numbers, names and polarity: nothing in it that a change could be about differs."""
    if not same_place(memory, other) or affirms(memory) != affirms(other):
        return False
    return numbers(memory.content) == numbers(other.content) and names(memory.content) == names(other.content)


def same_place(memory: Memory, other: Memory) -> bool:
    """Whether both could be about one thing, as far as their slots tell (another item of a list is another thing)."""
    first, second = slot_name(memory), slot_name(other)
    if first is None or second is None or first == second or not (is_listed(memory) or is_listed(other)):
        return True
    item, other_item = value_name(memory.object or ""), value_name(other.object or "")
    return bool(item and other_item) and (contains(item, other_item) or contains(other_item, item))


def is_listed(memory: Memory) -> bool:
    """Whether it answers a question that several memories may answer at once."""
    return has_many(predicate_name(memory.predicate or "")[0])


def affirms(memory: Memory) -> bool:
    """Whether its words hold no negation."""
    spoken = set(words(memory.content))
    return not (spoken & _NEGATIVE) and not any(word.endswith("n't") for word in spoken)


def names(text: str) -> frozenset[str]:
    """Capitalised words other than a sentence's first one: people, places, days."""
    tokens = [token.strip(".,;:!?\"'()“”’") for token in text.split()]
    capitalised = (token.removesuffix("'s") for token in tokens[1:] if token[:1].isupper())
    return frozenset(singular(value_name(name)) for name in capitalised) - {_USER}


def changes(candidate: Memory, old: Memory, *, corrects: bool = False) -> bool:
    """Whether this is clearly the known statement with one value changed; episodes only accumulate. ``corrects``: it
    was said as a correction, which marks a change whatever its words.
    """
    if candidate.kind is Kind.EPISODIC or not same_place(candidate, old) or not same_aspect(candidate, old):
        return False
    if is_listed(candidate) or is_listed(old) or (not corrects and names_another(candidate.content, old.content)):
        return False
    if _of_another(candidate, old) or _of_another(old, candidate):
        return False
    marked = corrects or marks_change(candidate)
    first, second = names(candidate.content), names(old.content)
    names_differ = first != second
    first_topic = topic(candidate.content) - first - second
    second_topic = topic(old.content) - first - second
    if affirms(candidate) != affirms(old):
        return not names_differ and first_topic - _NEGATIVE == second_topic - _NEGATIVE
    if numbers(candidate.content) != numbers(old.content):
        alike = _jaccard(first_topic | first, second_topic | second) >= LEXICAL_RELATED
        return alike if marked else first_topic == second_topic and not names_differ
    pairs = [itertools.pairwise(words(memory.content)) for memory in (candidate, old)]
    single = all(any(pair in _SINGLE_ANSWER for pair in of_one) for of_one in pairs)
    return names_differ and first_topic == second_topic and (marked or single)


def names_another(statement: str, other: str) -> bool:
    """Whether two statements are of one form and have another thing in one place, beside another value: the budget
    "for roof is 500" and the one "for garden is 1001" are two, and so are a "Spanish tutor" and a "French tutor".
    """
    first, second = compared_words(statement), compared_words(other)
    form = SequenceMatcher(None, first, second, autojunk=False)
    parts = [part for part in form.get_opcodes() if part[0] != "equal"]
    if any(kind != "replace" for kind, *_ in parts):
        return False
    if numbers(statement) == numbers(other):
        owned = [_OWNED.match(text) for text in (statement, other)]
        ends = [len(compared_words(owner["x"])) if owner else 0 for owner in owned]
        parts = [part for part in parts if part[2] <= ends[0] and part[4] <= ends[1]] if len(parts) > 1 else []
    return any(_is_thing(first[a:b]) and _is_thing(second[c:d]) for _, a, b, c, d in parts)


_OWNED = re.compile(r"User's (?P<x>.+?) (?:is|are)\b")


def compared_words(text: str) -> list[str]:
    """The words of a statement as they are compared: numbers in one form, no articles, no user."""
    tokens = value_name(text.replace("’", "'")).split("_")
    return [word for word in map(singular, tokens) if word and word != _USER]


def _is_thing(part: list[str]) -> bool:
    """Whether words begin with a thing's name; a word after a number is its unit."""
    named = list(itertools.takewhile(lambda word: not numbers(word), part))
    terms = key_terms(" ".join(named), 64)
    return bool(terms) and not any(term in CHANGE_WORDS for term in terms)


def _of_another(memory: Memory, other: Memory) -> bool:
    """Whether one is of somebody, or of something of somebody's, of whom the other does not speak."""
    owner = re.match(r"User's (?P<who>[\w-]+)(?:['’]s|(?<=s)['’]) ", memory.content)
    subject = memory.subject if (memory.subject or "user") != (other.subject or "user") else None
    who = {singular(term) for term in key_terms(f"{subject or ''} {owner['who'] if owner else ''}", 64)} - {_USER}
    return bool(who) and not who & topic(other.content)


def marks_change(candidate: Memory) -> bool:
    """Whether it, or the words it was taken from, say that something changed ("it is $15,000 now")."""
    evidence = candidate.metadata.get("evidence")
    return says_changed(f"{candidate.content} {evidence if isinstance(evidence, str) else ''}")


def says_changed(text: str) -> bool:
    """Whether words say that something changed."""
    return bool(set(words(text)) & CHANGE_WORDS)


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    return len(first & second) / len(first | second) if first | second else 0.0


def same_aspect(memory: Memory, other: Memory) -> bool:
    """Whether both are about one aspect, or about none."""
    return (memory.aspect or "").casefold() == (other.aspect or "").casefold()


def repeats(text: str, old: Memory, new: Memory | None) -> bool:
    """Whether a turn states what ``old`` said and not what ``new`` says: it contains the old value, shares the topic,
    and does not contain the new value. Without ``new`` (the old one was taken back): whether it states it at all.
    """
    old_value, new_value = old.object or "", (new.object or "") if new is not None else ""
    now_said = numbers(new_value or new.content) if new is not None else frozenset[str]()
    old_said = numbers(old_value or old.content)
    turn_numbers = numbers(text)
    if turn_numbers & (now_said - old_said):
        return False
    if old_numbers := old_said - now_said:
        return old_numbers <= turn_numbers and bool((topic(old.content) - topic(old_value)) & topic(text))
    name, other = value_name(old_value), value_name(new_value)
    if not name or name == other or not contains(text, name) or (other and contains(text, other)):
        return False
    about, turn = topic(old.content) - topic(old_value), topic(text)
    return len(about & turn) * 2 >= len(about) or (bool(about & turn) and len(about) <= 2)


def contains(text: str, value: str) -> bool:
    """Whether a text holds a normalised value (`slots.value_name`)."""
    return f"_{value}_" in f"_{value_name(text)}_"


ALIKE = 0.5
"""Least share of their words (Dice) that two readings of one sentence have in common: "User has a yacht in Monaco
harbour" and "The user owns a yacht moored in Monaco" 0.57, and what else the sentence tells about the yacht less.
"""


def terms(text: str) -> frozenset[str]:
    """The words and numbers that a statement is made of."""
    return topic(text) | {f"#{number}" for number in numbers(text)}


def alike(first: Set[str], second: Set[str]) -> bool:
    """Whether two statements of these terms are readings of one."""
    return bool(first and second) and 2 * len(first & second) >= ALIKE * (len(first) + len(second))
