"""Preferences: a question for advice ("recommend a dessert") is answered by what is known of the user's tastes, needs
and possessions in that matter, though it shares no word with them.
"""

from collections.abc import Sequence

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.topics import TOPICS, asks_advice, states_preference, topics_of
from memproxy.ports import Candidate

MOST_FOUND = 20
"""Preferences that are searched for beside the usual candidates."""


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


def joined(found: Sequence[Candidate], more: Sequence[Candidate]) -> list[Candidate]:
    """The candidates of a query with those that were searched for by its topics' words, which say nothing of how well
    they match the query itself.
    """
    known = {(one.memory.session_id, one.memory.id) for one in found}
    by_words = any(one.bm25 is not None for one in found)
    others = (one for one in more if (one.memory.session_id, one.memory.id) not in known)
    return [*found, *(msgspec.structs.replace(one, bm25=0.0 if by_words else None) for one in others)]
