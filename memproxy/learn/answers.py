"""What the candidates of one answer are to each other and to what the model was shown: echoes, and who has the last
word where two of one message answer one question.
"""

import re
from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory
from memproxy.core.similar import affirms, contains, names, topic
from memproxy.core.slots import has_many, numbers, predicate_name, same_value, slot_value, subject_name, value_name
from memproxy.learn.candidates import Extracted, Grounded, Intent, Window

_LEAST_SAID = 0.3
"""Share of a repeated statement's words that its message must hold, beside its value. To take a repetition for an echo
loses no more than that it was said once more.
"""

_REPLY = 3
"""Words of a message that may do no more than agree to what it was asked."""

_LEFT = re.compile(
    r"\b(?:from|instead of|rather than|not|no longer|never|left|quit|leaving|used to \w+(?: \w+)?|over|than|was|were"
    r"|formerly|previously)\s{1,9}(?:in |at |for |the |my |our |a |an ){0,6}$"
)
"""Before a value: it is what the message leaves behind ("from Berlin", "instead of Vim")."""

_BEFORE = 80
"""Characters before a value that are read for it."""

_RETURNS = re.compile(
    r"\b(?:back|again|return\w*|revert\w*|undo|undone|after all|as (?:it was|before|planned)|once more|still|old"
    r"|previous|former|original|earlier|before|first|second|other|initial|wieder|zur(?:ü|ue)ck|doch|vuelv\w*|volv\w*|vuelto"
    r"|de nuevo|otra vez|revenu\w*|retour\w*|de nouveau|encore|finalement)\b",
    re.IGNORECASE,
)
"""What speaks of something that was so, or was spoken of, before: its value need not be said again."""


_ENDING = re.compile(
    r"\b(?:cancel\w*|no longer|not .{1,40}\bany ?more|stopped|quit|gave up|given up|sold|died|dead|passed away|broke up"
    r"|split up|separated|divorced|resigned|dropped|got rid of|called off|stolen|former|ex-\w+|closed down|retired)\b",
    re.IGNORECASE,
)


def ends(content: str) -> bool:
    """Whether a sentence says that something is over ("sold the Golf", "is no longer vegan")."""
    return _ENDING.search(content) is not None


def turns(one: Memory, other: Memory) -> bool:
    """Whether of two statements of one value one says that it holds and the other that it is over, or was never so."""
    said, known = ends(one.content), ends(other.content)
    return said != known or (not said and affirms(one) != affirms(other))


def is_echo(candidate: Extracted, turn: Memory, window: Window) -> bool:
    """Whether a candidate only repeats a known memory that the model was shown: its message does not hold its value.

    A repetition makes the statement the latest, which would undo a change that the same message tells. What waits in
    quarantine is confirmed by a "yes" that holds nothing of it.
    """
    if candidate.intent is Intent.FORGET or not any(
        _repeats(candidate, known) for known in window.known if not known.quarantined
    ):
        return False
    said = strip_blocks(turn.content)
    if candidate.object and not holds(said, candidate.object):
        return _RETURNS.search(said) is None
    if ends(said) and not ends(candidate.content):
        return True
    told = topic(candidate.content) | names(candidate.content)
    return bool(told) and len(told & (topic(said) | names(f"x {said}"))) < _LEAST_SAID * len(told)


def goes_back_unsaid(candidate: Memory, found: Grounded, chain: Sequence[Memory]) -> bool:
    """Whether a candidate would go back to what its chain held before, while its message says nothing of that. A
    correction says that something changes, and need not name to what ("the first one, after all").
    """
    turns, value = set(candidate.turn_ids), slot_value(candidate)
    if found.candidate.intent is Intent.CORRECT:
        return False
    if not candidate.object or not chain or not chain[-1].active or same_value(value, slot_value(chain[-1])):
        return False
    if any(turns & set(one.turn_ids) for one in chain):
        return False
    said = strip_blocks(found.turn.content)
    held = any(same_value(value, slot_value(one)) for one in chain[:-1])
    return held and len(said.split()) > _REPLY and not holds(said, candidate.object) and not _RETURNS.search(said)


def _repeats(candidate: Extracted, known: Memory) -> bool:
    if _bare(candidate.content) == _bare(known.content):
        return True
    if (
        not candidate.object
        or not known.object
        or subject_name(candidate.subject or "user") != subject_name(known.subject or "user")
    ):
        return False
    asks = predicate_name(candidate.predicate or "")[0] == predicate_name(known.predicate or "")[0]
    same = same_value(value_name(candidate.object), value_name(known.object))
    return asks and same and ends(candidate.content) == ends(known.content)


def _bare(content: str) -> str:
    return re.sub(r"^(?:the )?user(?:'s|’s)?\s+", "", content.strip().casefold().rstrip(" ."))


def holds(said: str, value: str) -> bool:
    """Whether a text holds a value, or a number, a name or a word of it."""
    if contains(said, value_name(value)):
        return True
    wanted = numbers(value) or (topic(value) | names(f"x {value}"))
    return bool(wanted) and bool(wanted & (numbers(said) | topic(said) | names(f"x {said}")))


def in_order(kept: Sequence[Grounded]) -> list[Grounded]:
    """The candidates, of those of one message that answer one question the one that has the last word behind the
    others: what is known already before what is new, what the message leaves before what it comes to, what it says
    first before what it says last ("at 9, no wait, at 11").
    """
    ordered = list(kept)
    for place in range(len(ordered)):
        rivals = [
            later for later in range(place, len(ordered)) if later == place or _rival(ordered[place], ordered[later])
        ]
        settled = sorted((ordered[rival] for rival in rivals), key=_last_word)
        for rival, one in zip(rivals, settled, strict=True):
            ordered[rival] = one
    return ordered


def _rival(one: Grounded, other: Grounded) -> bool:
    first, second = one.candidate, other.candidate
    if one.turn.id != other.turn.id or one.turn.session_id != other.turn.session_id:
        return False
    if Intent.STATE not in (first.intent, second.intent) or Intent.FORGET in (first.intent, second.intent):
        return False
    asked = predicate_name(first.predicate or "")[0]
    if not first.object or not second.object or not asked or has_many(asked):
        return False
    same = asked == predicate_name(second.predicate or "")[0]
    return same and subject_name(first.subject or "user") == subject_name(second.subject or "user")


def _last_word(found: Grounded) -> tuple[bool, bool, int]:
    said, value = strip_blocks(found.turn.content).casefold(), (found.candidate.object or "").casefold()
    return (found.candidate.intent is Intent.CORRECT, not _is_left(said, value), said.rfind(value) if value else -1)


def _is_left(said: str, value: str) -> bool:
    """Whether a message leaves a value behind, wherever it names it."""
    place = said.find(value) if value else -1
    while place >= 0:
        if _LEFT.search(said, max(0, place - _BEFORE), place) is not None:
            return True
        place = said.find(value, place + 1)
    return False
