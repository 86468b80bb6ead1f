"""Preferences: a question for advice ("recommend a dessert") is answered by what is known of the user's tastes, needs
and possessions in that matter, though it shares no word with them.
"""

from collections.abc import Sequence

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.topics import TOPICS, asks_advice, states_preference, topics_of
from memproxy.ports import Beside, LexicalEncoder
from memproxy.recall import matters
from memproxy.recall.query import Query

MOST_FOUND = 20
"""So many are searched for beside the usual candidates, by each search."""


def beside(query: Query, kinds: Sequence[Kind], lexical: LexicalEncoder) -> tuple[Beside, ...]:
    """What to search for beside a query among memories of these kinds, because what answers it seldom has its words:
    what is told of its matter and, when advice is asked for, what is known of its topics.
    """
    found: list[Beside] = []
    if words := matters.beside(query):
        found.append(Beside(bm25=lexical.encode_query(words), limit=MOST_FOUND))
    if any(kind is not Kind.TURN for kind in kinds) and (words := wanted_words(query.text)):
        found.append(Beside(bm25=lexical.encode_query(words), limit=MOST_FOUND, facts_only=True))
    return tuple(found)


def wanted_words(query: str) -> str:
    """What to search for beside the query: the words of its topics; empty when it asks for no advice or has none."""
    topics = topics_of(query) if asks_advice(query) else frozenset()
    return " ".join(word for topic in sorted(topics) for word in sorted(TOPICS[topic]))


def is_preference(memory: Memory, topics: frozenset[str]) -> bool:
    """Whether a memory tells of the user's own tastes, needs or possessions in one of these matters."""
    if memory.trust is not Trust.USER or memory.kind is Kind.EPISODIC:
        return False
    about = " ".join((memory.content, memory.category or "", *memory.tags))
    if topics.isdisjoint(topics_of(about)):
        return False
    if memory.kind is Kind.TURN:
        return states_preference(memory.content) and not memory.content.rstrip().endswith("?")
    return memory.stance is not None or states_preference(memory.content)
