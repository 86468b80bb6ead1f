"""Which text of a memory is searched: by the embedder, and by words."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

from memproxy.core.memory import Kind, Memory
from memproxy.core.telling import only_asks
from memproxy.ports import LexicalEncoder

OWN_WEIGHT = 3
"""How often a turn's own words count against one time for its neighbours' (see docs/decisions on recall)."""

_OF_THE_USER = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        ("User's ", "My "),
        ("User is ", "I am "),
        ("User has ", "I have "),
        (r"User ((?:\w+ly|now|also|still|often|always) )?(\w+?)s ", r"I \1\2 "),
        ("User ", "I "),
    )
)
"""How the sentences of learn/prompts/extract.md and of the plain rules begin, and how their user begins them. With it
the cosine of "Where do I live?" and "User lives in Lisbon" is .46 for .33, of nine such pairs .42 for .31 on the mean.
"""

_NEIGHBOUR_CHARACTERS = 600
"""Characters of a neighbour that are indexed: a long message must not drown a short one next to it."""


_MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


def dense_text(memory: Memory) -> str:
    """What the embedder reads: the statement itself; for a turn by a named speaker the name stands before it, and a
    fact about the user is read as he would say it, for so he asks.
    """
    return _with_speaker(memory) if memory.kind is Kind.TURN else in_first_person(memory.content)


def _with_speaker(memory: Memory) -> str:
    name = memory.metadata.get("name") if memory.kind is Kind.TURN else None
    return f"{name}: {memory.content}" if isinstance(name, str) and name else memory.content


def in_first_person(fact: str) -> str:
    """A fact as extraction writes them ("User works at a museum") in the words of its user, roughly."""
    if not fact.startswith("User"):
        return fact
    for pattern, replacement in _OF_THE_USER:
        if (match := pattern.match(fact)) is not None:
            return match.expand(replacement) + fact[match.end() :]
    return fact


def bm25_text(memory: Memory, predecessor: Memory | None, successor: Memory | None) -> str:
    """What is searched by words: its own text above all, its tags and category, its date in words ("8 May 2023"), and
    for a turn the messages around it.

    A turn is often found by what stands next to it: the question before an answer, the remark after a picture. But what
    only asks for something of the user's own lends nothing: asked often, its words would be those of many turns.
    """
    near = [neighbour for neighbour in (predecessor, successor) if neighbour is not None and not only_asks(neighbour)]
    own_text = [_with_speaker(memory)] * (OWN_WEIGHT if near else 1)
    labels = [*memory.tags, *memory.entities, (memory.category or "").replace("/", " "), _date(memory)]
    around = [_with_speaker(neighbour)[:_NEIGHBOUR_CHARACTERS] for neighbour in near]
    return "\n".join(part for part in (*own_text, *labels, *around) if part)


def _date(memory: Memory) -> str:
    """When a turn was said, or a fact began to hold; a fact's date of learning says nothing about it."""
    when = memory.created_at if memory.kind is Kind.TURN else memory.valid_from
    return date_in_words(when) if when is not None else ""


def date_in_words(when: datetime) -> str:
    """A day as it is searched for: "8 May 2023"."""
    return f"{when.day} {_MONTHS[when.month - 1]} {when.year}"


def word_scores(lexical: LexicalEncoder, query: str, texts: Sequence[str]) -> list[float]:
    """BM25 of each text, its IDF counted over them: ln(1 + (n - df + .5) / (df + .5)), as the stores count it."""
    terms = set(lexical.encode_query(query).indices)
    documents = [lexical.encode_document(text) for text in texts]
    weights = [
        {term: weight for term, weight in zip(document.indices, document.values, strict=True) if term in terms}
        for document in documents
    ]
    held = Counter(term for text_weights in weights for term in text_weights)
    idf = {term: math.log(1 + (len(texts) - count + 0.5) / (count + 0.5)) for term, count in held.items()}
    return [sum(weight * idf[term] for term, weight in text_weights.items()) for text_weights in weights]
