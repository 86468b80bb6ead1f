"""The last resort: a clause about the speaker that no rule reads, kept whole where it names something in particular.

Only of the present or the lasting past; never with words that point elsewhere ("it", "that one"), of wants or tasks, or
denied.
"""

import re
from collections.abc import Iterable

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.general import OFTEN_SAID, fact
from memproxy.learn.rules.habits import third_verb
from memproxy.learn.rules.lexicon import PASSING_NOUNS, PASSING_VERBS
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import MASK, names_in, slug, third_person, trimmed

_MOST_WORDS = 18
_LEAST_WORDS = 4
_SUBJECT = re.compile(r"(?:(?P<i>I|we)|(?P<my>my|our)) (?P<x>.+)", re.IGNORECASE | re.DOTALL)
_ELSEWHERE = re.compile(
    r"\b(?:it|its|this|that|these|those|them|they|he|she|him|you|your|one|ones|something|anything|someone|here|there|"
    r"how|what|why|which|whether|if|would|could|should|might|may|not|no longer|never|nothing|cannot"
    r"|anymore|today|tonight|now|"
    r"again|back|yesterday|just|error|bug|code|file|regex|script|function|\w*[Ee]rror|exception|test|tests|query|page|"
    r"screen|app crashes)\b",
    re.IGNORECASE,
)
_DOING = re.compile(
    r"(?:am|are) (?:trying|looking|getting|thinking|wondering|asking|going|having|making|doing|writing|reading|using|"
    r"working|feeling|running|seeing|sorry|sure|glad|happy|sad|tired|confused|lost|stuck|curious|late"
    r"|done|ready|back|so|"
    r"really|very|too|afraid|worried|hungry|bored|fine|ok|okay|good|a bit|a little|in (?:a hurry|trouble)|at a loss)\b",
    re.IGNORECASE,
)
_MINE_DOES = re.compile(
    r"(?P<what>[\w'-]+(?: [\w'-]+){0,4}?) (?P<does>is|are|has|have|lives?|works?|goes|go|comes?"
    r"|costs?|starts?|ends?|runs?|"
    r"plays?|speaks?|studies|teaches|moved|joined|started|owns?|makes?|sells?|buzzes|whistles?"
    r"|attends?|grew up|was born|"
    r"belongs?|keeps?|weighs?|lasts?|takes?)\b(?P<rest> .+)",
    re.IGNORECASE,
)


def kept(clause: Clause) -> Iterable[Extracted]:
    """The clause as a statement of the user."""
    match = _SUBJECT.match(clause.text)
    said = trimmed(match["x"], "long") if match is not None else None
    if match is None or said is None or not _is_kept(said):
        return
    if match["i"]:
        yield from _of_user(said)
    else:
        yield from _of_something(said)


def _is_kept(said: str) -> bool:
    size = len(said.split())
    if not _LEAST_WORDS <= size <= _MOST_WORDS or MASK in said or _ELSEWHERE.search(said):
        return False
    return bool(names_in(said) or OFTEN_SAID.search(said) or re.search(r"\d|\b(?:my|our)\b", said))


def _of_user(said: str) -> Iterable[Extracted]:
    verb = said.split(maxsplit=1)[0].lower()
    if verb in ("am", "are"):
        if (
            not _DOING.match(said)
            and not re.match(r"(?:am|are) (?!allergic|coming from)\w+ing\b", said)
            and not re.search(r"\b(?:late|early|short|over|ahead|behind)$", said)
        ):
            yield _statement(f"User is {said.split(' ', 1)[1]}", said)
    elif verb not in PASSING_VERBS and verb.isalpha() and not verb.endswith(("ly", "ing", "ed")) and verb != "have":
        yield _statement(f"User {third_verb(said)}", said)


def _of_something(said: str) -> Iterable[Extracted]:
    match = _MINE_DOES.match(said)
    if match is None or set(match["what"].lower().split()) & PASSING_NOUNS:
        return
    yield _statement(f"User's {said}", said)


def _statement(content: str, said: str) -> Extracted:
    plain = third_person(said)
    return fact(f"{third_person(content)}.", f"told_{slug(said)}", plain)
