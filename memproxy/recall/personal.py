"""What counts beside the weights where the user asks about himself (or for what the assistant told him): a lower floor,
and whether a candidate tells of the matter that he asks for, or was told at the time.
"""

import math
import re

import numpy as np

from memproxy.core.memory import Kind
from memproxy.core.text import key_terms
from memproxy.recall import matters
from memproxy.recall.batch import NOBODY as NO_PLACE
from memproxy.recall.batch import Array, Batch
from memproxy.recall.each import Each

OF_HIMSELF = 0.9
"""Log odds for every candidate where the user asks about himself: a missing answer costs more than a line too many
(decision 0017 has what it brings and costs).
"""

OF_ADVICE = 0.3
"""The same where the form is that of a question anybody may ask ("Can I swap oil for butter?")."""

OF_ANSWERS = 0.8
"""On top of it where he asks for what the assistant said."""

TOLD = 3.5
"""Log odds of a candidate that tells of all that is asked for."""

TOLD_PART = 2.0

SHARED = -1.34
"""By the logarithm of how many tell of it, and one: of many that do each is less likely the one that is meant."""

UNTOLD = -0.3
"""Of what tells nothing of it where something else does."""

SILENT_FACT = -1.2
"""The same of a fact, on top of it: it says one thing, and that is another."""

ONLY_WHOSE = -0.5
"""Of what names whose the matter is, and not the matter: "my husband eats fish" for "What's my husband's job?"."""

WHOSE = 3.0
"""The same where nothing but the person, or the animal, is known of what is asked for."""

NAMED, BEGUN = 2.0, 1.0
"""On top of it of a fact that is of the matter by what it names ("User's rent is"), or that begins with it ("User pays
rent"), which is more than a word of it.
"""

BESIDE = -1.5
"""Of a fact that has a word of the matter where another fact names it: "User's rent book" beside "User's rent"."""

STEPS = 1.0
"""Of a procedure where the user asks how he does something: its day or its tool has the same words."""

LACKING = -2.5
"""Of what has no word of a matter that nobody tells of without one ("What's my wifi password?")."""

NOBODY_TELLS = -3.5
"""Where no candidate has one."""

OF_ANOTHER = -4.0
"""Of what tells it of somebody else ("my sister works at the library" for "Where do I work?")."""

UNKNOWN = -3.2
"""Where no candidate names the person, or the animal, that is asked about: what is found is about another."""

LEARNED = -0.6
"""Of a fact whose message is among the candidates, where it has a vector: short as it is, it lies nearer to any
question than the message that it is a part of.
"""

ON_TIME, MOST_ON_TIME = 0.8, 2.5
"""For what was said on the day, or in the month, that is asked for, the more the fewer others were: by the logarithm of
how many candidates there are to one of them, and at most so much.
"""

LIKELY, BEYOND = 1.5, 0.2
"""Log odds up to which what tells of the matter is lifted in full, and the part of it that counts beyond: the elbow
would take what stands beside it.
"""

LOOKED_AT = 24
"""Candidates, best first, whose words are read."""

_READ = 600
_GOES_ON = re.compile(r"(?:and|also|plus|und|auch|y|también|et|aussi|pareil)\b|还有|也", re.IGNORECASE)
_OWN = re.compile(r"\b(?:my|mine|our|ours|am i|i'm|im|do i have|did i|have i|was i|did we|i've)\b", re.IGNORECASE)
_NAME_OF = re.compile(r"User's [^.]{1,60} (?:is|are|was) (?:named|called) [^.]{1,60}\.?")
_ASKED_FOR = r"can|could|should|shall|would|will|must|may|might|to|if|need|want|help|give|tell|let|show|please"
_HOW = re.compile(r"\b(?:how (?:do|did|can|should|must) (?:i|we)|steps?|wie (?:\w+) (?:ich|wir))\b|怎么", re.IGNORECASE)
_MAY_I = r"can|could|should|need|want|would|will|may|get"
_GENERIC = re.compile(rf"\b(?:{_ASKED_FOR}) (?:i|we|me|us|you)\b|\bi (?:{_MAY_I})\b", re.IGNORECASE)


def personal(batch: Batch, odds: Array) -> Array:
    """The log odds of the candidates with what is said above; a question about a named speaker of some of the turns, or
    for what the assistant said, has the lower floor alone.
    """
    asking = batch.asking
    if batch.asks_of_speaker:
        return odds + OF_HIMSELF * asking.of_self
    found, of_self = odds, bool(asking.of_self or asking.assistant_said)
    if of_self:
        found = odds + batch.each.of_text(_floor) + OF_ANSWERS * asking.assistant_said
        for given in (_on_time(batch), _learned(batch), _steps(batch)):
            found = found if given is None else found + given
    asked = batch.each.asked_about
    if not asked.names or asking.assistant_said:
        return found
    order = np.argsort(-odds, kind="stable")
    counted = order if batch.counted is None else order[batch.counted[order]]
    told = _told(batch, counted[:LOOKED_AT].tolist())
    found = found + _lacking(asked, told, len(odds), of_self=of_self)
    if not of_self:
        return found
    telling = _telling(batch, told)
    changed = found + telling + _silent_facts(batch, asked, told) + _of_others(batch, told)
    bent = LIKELY + BEYOND * (changed - LIKELY)
    result: Array = np.where((changed > found) & (changed > LIKELY), np.maximum(found, bent), changed)
    return result


def _floor(text: str) -> float:
    """Lower where he asks of his own, and not what anybody may ask in this form."""
    read = text[:_READ]
    return OF_ADVICE if _GENERIC.search(read) and not _OWN.search(read) else OF_HIMSELF


def _lacking(asked: matters.AskedMatters, told: dict[int, frozenset[str]], count: int, *, of_self: bool) -> Array:
    """What is taken from candidates that cannot be the answer."""
    known = frozenset[str]().union(*told.values())
    if asked.in_each - known:
        return np.full(count, NOBODY_TELLS)
    if of_self and asked.somewhere - known:
        return np.full(count, UNKNOWN)
    found = np.zeros(count)
    found[[place for place, names in told.items() if asked.in_each - names]] = LACKING
    return found


def _telling(batch: Batch, told: dict[int, frozenset[str]]) -> Array:
    """What is given to those that tell of what is asked for, and taken from the others. Where a fact is of it, one that
    only has a word of it tells of something else.
    """
    asked = batch.each.asked_about
    core = asked.names - asked.somewhere
    own, begun = _named(batch, told)
    beside = {place for place in told if (own or begun) and place not in (own or begun) and not batch.is_turn[place]}
    telling = sum(bool(names & core if core else names) for place, names in told.items() if place not in beside)
    shared = SHARED * math.log1p(telling)
    found = np.full(len(batch.memories), UNTOLD if telling and core else 0.0)
    for place, names in told.items():
        if own and place in beside:
            found[place] = BESIDE if names else found[place]
        elif names & core:
            found[place] = (TOLD if names >= core and place not in beside else TOLD_PART) + shared
        elif names:
            found[place] = found[place] + ONLY_WHOSE if core else WHOSE + shared
    found[list(begun)] += BEGUN
    found[list(own)] += NAMED
    return found


def _named(batch: Batch, told: dict[int, frozenset[str]]) -> tuple[frozenset[int], frozenset[int]]:
    """The places of the facts that are of what is asked for, by what they are said to be of, and by their beginning;
    none where more is asked than that, nor those of a message that tells it itself.
    """
    each = batch.each
    if each.asks_more:
        return frozenset(), frozenset()
    meant = (each.asked_about.names - each.asked_about.somewhere) or each.asked_about.names
    telling = [place for place, names in told.items() if names & meant]
    facts = {place: whole for place in telling if not _is_told_by_its_message(each, whole := batch.whole[place], meant)}
    own = frozenset(place for place, whole in facts.items() if each.named_by(whole) & meant)
    return own, frozenset(place for place, whole in facts.items() if each.begins(whole) & meant) - own


def _is_told_by_its_message(each: Each, place: int, meant: frozenset[str]) -> bool:
    source = each.sources[place]
    return source != place and bool(each.told(source) & meant)


def _steps(batch: Batch) -> Array | None:
    """What is given to procedures where it is asked how something is done."""
    if not batch.each.of_text(_asks_how):
        return None
    found = np.zeros(len(batch.memories))
    found[[place for place, memory in enumerate(batch.memories) if memory.kind is Kind.PROCEDURAL]] = STEPS
    return found


def _asks_how(text: str) -> bool:
    return _HOW.search(text[:_READ]) is not None


def _silent_facts(batch: Batch, asked: matters.AskedMatters, told: dict[int, frozenset[str]]) -> Array:
    """What is taken from facts that tell nothing of it where something else does: a fact says one thing."""
    core = asked.names - asked.somewhere
    telling = [place for place, names in told.items() if names & core]
    found = np.where(batch.is_turn > 0, 0.0, SILENT_FACT) if telling else np.zeros(len(batch.memories))
    found[telling] = 0.0
    return found


def _of_others(batch: Batch, told: dict[int, frozenset[str]]) -> Array:
    """What is taken from those that tell of what is asked for, but of somebody else; not where they have another word
    of the query, which may name whom it is about.
    """
    found = np.zeros(len(batch.memories))
    found[[place for place, names in told.items() if not names and batch.of_memory(_is_of_another, place)]] = OF_ANOTHER
    return found


def _is_of_another(each: Each, place: int) -> bool:
    """Whether a candidate tells of what is asked for of somebody else, and has no other word of the query."""
    text, said = each.memories[place].content[:_READ], each.said(place)
    other = (said.having and each.asked_about.told_of_others(said, each.bearers)) or _names_somebody(text)
    return bool(other) and each.naming.isdisjoint(key_terms(text))


def _names_somebody(fact: str) -> bool:
    """Whether it tells a name and nothing else ("User's aunt is named Rosie.")."""
    return fact.startswith("User's ") and _NAME_OF.fullmatch(fact) is not None


def _told(batch: Batch, places: list[int]) -> dict[int, frozenset[str]]:
    """What the candidates at these places tell of what is asked for; one that goes on with what the user said before
    ("and Byte, the loud one") tells of the same.
    """
    each, whole, before = batch.each, batch.whole, batch.around[0].tolist()
    of_model: list[float] = batch.by_assistant.tolist()

    def told(place: int) -> frozenset[str]:
        return frozenset() if of_model[place] else each.told(whole[place])

    found = {place: told(place) for place in places}
    for place in [place for place, names in found.items() if not names and not of_model[place]]:
        if _GOES_ON.match(batch.memories[place].content):
            earlier = before[place]
            if earlier != NO_PLACE and of_model[earlier]:
                earlier = before[earlier]
            found[place] = frozenset() if earlier == NO_PLACE else told(earlier)
    return found


def _learned(batch: Batch) -> Array | None:
    """What is taken from facts that stand beside the message that they were learned from."""
    learned = batch.is_learned & ~batch.without_vector
    return np.where(learned, LEARNED, 0.0) if np.logical_or.reduce(learned) else None


def _on_time(batch: Batch) -> Array | None:
    """What is given to those that were said at the time that is asked for."""
    spans = batch.each.spans
    if not spans:
        return None
    moments = [memory.valid_from or memory.created_at for memory in batch.memories]
    inside = np.array([float(any(span.days_away(moment) == 0 for span in spans)) for moment in moments])
    counted = inside if batch.counted is None else inside[batch.counted]
    worth = ON_TIME * math.log((len(counted) + 1) / (float(counted.sum()) + 0.5))
    result: Array = inside * min(MOST_ON_TIME, worth)
    return result
