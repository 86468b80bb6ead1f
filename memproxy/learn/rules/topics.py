"""What a request to forget is about, where it is said as a question ("what I said about how much I make")."""

import re

_QUESTIONS = (
    (re.compile(r"how much (?:I|we) (?:make|earn|get paid)\b", re.IGNORECASE), "salary"),
    (re.compile(r"(?:where|who|whom) (?:I|we) (?:work|work for|am working|am employed)\b", re.IGNORECASE), "employer"),
    (re.compile(r"where (?:I|we) (?:live|am living|are living|stay)\b", re.IGNORECASE), "lives in"),
    (re.compile(r"what (?:I|we) do(?: for (?:a living|work))?(?=$|[,.])", re.IGNORECASE), "job"),
    (re.compile(r"how old (?:I|we) (?:am|are)\b", re.IGNORECASE), "age"),
    (re.compile(r"(?:who|whom) (?:I|we) (?:am|are) (?:dating|seeing|married to|with)\b", re.IGNORECASE), "partner"),
    (re.compile(r"when (?:I was|we were) born\b", re.IGNORECASE), "birthday"),
    (re.compile(r"what (?:I|we) (?:drive|am driving)\b", re.IGNORECASE), "drives"),
    (re.compile(r"what I am called\b", re.IGNORECASE), "name"),
)
"""What is asked with a word of asking, by the name of its answer."""


def plain_topic(said: str) -> str:
    """The topic by its name where it is said as a question, else as it is said."""
    for pattern, name in _QUESTIONS:
        if pattern.match(said) is not None:
            return name
    return said
