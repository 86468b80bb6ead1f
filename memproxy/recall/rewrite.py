"""Completing a vague query ("How much?") by what was said before it."""

from collections.abc import Sequence

from memproxy.core.gate import is_vague
from memproxy.core.text import key_terms

EARLIER_MESSAGES = 3
"""User messages before the query whose key terms complete it."""

TERMS_PER_MESSAGE = 8
"""A long message before a short question must not become the question."""

QUERY_CHARACTERS = 2000
"""What is read of one message: pasted documents are not questions."""


def with_context(queries: Sequence[str]) -> str:
    """What to search for, given the user's last messages, oldest first: the last one, and when it is vague the key
    terms of the three before it. Empty when there are none.
    """
    if not queries:
        return ""
    *earlier, query = (shorten(text) for text in queries)
    if not is_vague(query):
        return query
    terms = [term for text in earlier[-EARLIER_MESSAGES:] for term in key_terms(text, TERMS_PER_MESSAGE)]
    return " ".join([query, *dict.fromkeys(terms)]).strip()


def shorten(text: str) -> str:
    """The beginning and the end of a long message: what is asked stands before or after what was pasted."""
    half = QUERY_CHARACTERS // 2
    return text if len(text) <= QUERY_CHARACTERS else f"{text[:half]}\n{text[-half:]}"
