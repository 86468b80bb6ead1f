"""Taking back: which memories "forget what I told you about X" means.

Nothing is meant by a word alone that many memories share; in doubt nothing is forgotten (over-invalidation loses more
than a forgetting that has to be said more clearly).
"""

import re
from collections.abc import Sequence

import msgspec

from memproxy.core.chain import last_said_at, said_at
from memproxy.core.memory import Kind, Memory
from memproxy.core.similar import Neighbour, affirms, names, topic
from memproxy.core.slots import (
    has_many,
    numbers,
    predicate_name,
    same_value,
    singular,
    slot_name,
    subject_name,
    value_name,
    words,
)
from memproxy.core.text import GENERIC_WORDS, key_terms, sentences

_MOST_OF_IT = 0.67
"""Share of a request's terms that one memory must hold, where none holds all of them."""

_FORGETTING = frozenset(
    """
    forget forgot forgotten delete remove erase drop scratch discard ignore disregard remember store stored memory
    memories told tell said mention mentioned saying everything anything all info fact facts statement earlier before
    previous previously longer anymore want wanted asked ask request requested keep kept record note noted stop
    """.split()  # noqa: SIM905 - a list of forty quoted words reads worse
)
"""Words of the request itself, not of what is to be forgotten."""

_CLAUSE_END = re.compile(r"[,;:–—]|\s-\s")


_ORDER = re.compile(
    r"(?<!\bi )\b(?:forget|delete|remove|erase|wipe|clear|purge|drop|scratch|strike|disregard|ignore|discard|unlearn"
    r"|(?:don't|do not|no need to|stop) (?:\w+ )?(?:remember|stor|keep|sav|record|not(?:e|ing)\b|mention)\w*"
    r"|vergiss|vergessen sie|l(?:ö|o|oe)sche?|entfernen?|streiche?|olv[ií]d(?:a|e|ar)\w*|borr(?:a|e|ar)\w*"
    r"|elim[ií]n(?:a|e|ar)\w*|oublie[rsz]?|efface[rsz]?|supprime[rsz]?)\b|忘掉|忘记|忘了|删",
    re.IGNORECASE,
)
"""An order to forget. "I'm not on Instagram any more" ends what was told as well, but tells something itself."""


def orders(text: str) -> bool:
    """Whether a message orders to forget something; one that does not and ends what was told says what is so now."""
    return _ORDER.search(text.replace("’", "'")) is not None


def only_asks(text: str, quotes: Sequence[str]) -> bool:
    """Whether a message does nothing but ask to forget, in these of its words: it tells nothing else. One that goes on
    behind a comma may ("Forget the budget, money is no object").
    """
    asked = [_plain(quote) for quote in quotes]
    said = [sentence for sentence in sentences(text.replace("’", "'")) if key_terms(sentence)]
    return bool(said) and all(
        _ORDER.search(sentence) is not None
        and any(_plain(sentence) in quote or quote in _plain(sentence) for quote in asked if quote)
        and sum(bool(key_terms(clause)) for clause in _CLAUSE_END.split(sentence)) == 1
        for sentence in said
    )


def _plain(text: str) -> str:
    return " ".join(text.replace("’", "'").casefold().split()).strip(" .!?\"'")


def meant(request: Memory, near: Sequence[Neighbour]) -> tuple[Memory, ...]:
    """The active memories that a request to forget (as a memory: its content names what is meant) is about.

    The same slot decides, unless another value is named. Else all memories that hold every term of the request; else
    the one that holds most of them. What was said after the request is never meant.
    """
    known = [one.memory for one in near if _may_be_meant(request, one.memory)]
    wanted = _terms(request)
    exact = [memory for memory in known if _same_question(request, memory, wanted)]
    if exact:
        return tuple(exact)
    if not wanted:
        return ()
    shares = [(len(wanted & _told(memory)) / len(wanted), memory) for memory in known]
    if whole := [memory for share, memory in shares if share == 1]:
        return tuple(whole)
    best = sorted((one for one in shares if one[0] >= _MOST_OF_IT), key=lambda one: -one[0])
    alone = best and (len(best) == 1 or best[0][0] > best[1][0])
    return (best[0][1],) if alone else ()


def is_specific(request: Memory) -> bool:
    """Whether a request to forget names something in particular, by its terms or by a question."""
    return bool(_terms(request) or (request.subject and request.predicate and slot_name(request)))


def means(request: Memory, told: Memory) -> bool:
    """Whether a request to forget clearly means a statement, whatever else is known: its slot, or all of its terms."""
    if not _may_be_meant(request, told):
        return False
    wanted = _terms(request)
    return _same_question(request, told, wanted) or (bool(wanted) and wanted <= _told(told))


def _same_question(request: Memory, known: Memory, wanted: frozenset[str]) -> bool:
    """Whether the request names the slot of a memory; without an object it means every item of a list that holds its
    other words.
    """
    slot = slot_name(msgspec.structs.replace(request, object=request.object or known.object or known.content))
    if slot is None or slot != slot_name(known):
        return False
    return bool(request.object) or not has_many(predicate_name(known.predicate or "")[0]) or bool(wanted & _told(known))


def _may_be_meant(request: Memory, known: Memory) -> bool:
    """Whether nothing speaks against it: its time, another value, another subject, another name or number."""
    if not known.active or known.kind is Kind.TURN or last_said_at(known) > said_at(request):
        return False
    if _other_value(request, known) or _other_subject(request, known) or _other_question(request, known):
        return False
    told = _told(known) | {part for name in names(known.content) for part in name.split("_")}
    named = {part for name in names(request.content) for part in name.split("_")}
    return numbers(request.content) <= numbers(_text(known)) and named <= told


def _other_value(request: Memory, known: Memory) -> bool:
    """Whether both name a value for one slot, and not the same."""
    if not request.object or not known.object or slot_name(request) != slot_name(known):
        return False
    return affirms(request) == affirms(known) and not same_value(value_name(request.object), value_name(known.object))


def _other_subject(request: Memory, known: Memory) -> bool:
    if not request.subject or not known.subject:
        return False
    asked, of = subject_name(request.subject), subject_name(known.subject)
    if asked == of or set(of.split("_")) <= _terms(request):
        return False
    return asked == "user" or not set(asked.split("_")) <= _told(known)


def _other_question(request: Memory, known: Memory) -> bool:
    """Whether both name predicates, and nothing in the request speaks of the known one's."""
    if predicate_name(request.predicate or "") == predicate_name(known.predicate or ""):
        return False
    asked, of = words(request.predicate or ""), words(known.predicate or "")
    return bool(asked and of) and not set(of) & (set(asked) | _terms(request))


def _text(memory: Memory) -> str:
    named = (memory.subject, memory.predicate, memory.object, memory.aspect, *memory.entities)
    return " ".join([memory.content, *(part for part in named if part)])


def _told(memory: Memory) -> frozenset[str]:
    """The words that a memory holds, its names taken apart."""
    return frozenset(words(_text(memory))) | topic(_text(memory))


def _terms(request: Memory) -> frozenset[str]:
    """What the request asks to forget. Words that are in many memories whatever they are about count beside others."""
    found = frozenset(singular(term) for term in topic(request.content)) - _FORGETTING
    specific = found - GENERIC_WORDS
    predicate = frozenset(words(request.predicate or ""))
    return found if specific or found & predicate else frozenset()
