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


_DOING = re.compile(
    r"(?:(?:me|us) )?(?:still )?(?P<verb>living|working|moving|studying|going|being|having|owning|driving|playing|"
    r"taking|dating|seeing|learning|smoking|drinking) (?:(?:in|at|to|for|with|on|as|an?|the|my) )*(?P<x>[^,;.!?]+)",
    re.IGNORECASE,
)
"""“Forget what I said about living in Bergen”: what is done there, and where."""

_VERBS_DONE = {"living": "lives", "working": "works", "moving": "moving", "studying": "studies", "driving": "drives"}
_VERBS_DONE |= {"playing": "plays", "taking": "takes", "dating": "dating", "learning": "learning", "owning": "has"}


def what_is_done(topic: str) -> str | None:
    """“Lives Bergen” for "living in Bergen", None where the topic is no doing."""
    doing = _DOING.match(topic)
    return None if doing is None else f"{_VERBS_DONE.get(doing['verb'].lower(), '')} {doing['x']}"


def from_gerund(text: str) -> str:
    """“stopped learning Spanish”: “am learning Spanish”; “quit smoking”: “smoke”."""
    return (
        f"am {text}"
        if re.match(
            r"(?:learning|working|studying|using|playing|taking|living|training)\b",
            text,
        )
        else text
    )


def topic_of(text: str) -> str:
    """What is spoken of, without who and with which verb of being."""
    return re.sub(r"^(?:I|we) (?:am |are |have )?", "", text, flags=re.IGNORECASE)
