"""What a dream does without a model: pure decisions about entries and those near them.

A merge leaves one of the entries as it is and sets the others aside. Two entries say the same when their words are the
same (articles, case, marks, the form of numbers and the order of the halves aside), when they fill one slot with one
value, or when only a slip of the pen tells them apart and their vectors agree. Likeness alone only nominates.

A newer statement ends an older one outside of slots only if it says that something changed and repeats the older one
but for one place that is known to hold a value: a number, or what entries near them name as an object.
"""

import enum
import functools
from collections.abc import Mapping, Sequence
from datetime import datetime
from difflib import SequenceMatcher

from memproxy.core.dream import COMPATIBLE_WITH, Action, Change, category_name
from memproxy.core.facts import RETRACTED_BY, Bands, begins, is_older, said_at, states_beginning
from memproxy.core.memory import Kind, Memory, noted_ids
from memproxy.core.memory_feedback import feedback_of
from memproxy.core.retention import is_expired
from memproxy.core.similar import (
    CHANGE_WORDS,
    LEXICAL_RELATED,
    Neighbour,
    affirms,
    changes,
    compared_words,
    lexical_overlap,
    marks_change,
    names,
    same_aspect,
)
from memproxy.core.slots import has_many, numbers, predicate_name, same_value, slot_name, slot_value, subject_name
from memproxy.learn.outdated import PREDICATE as SUMMARY

_SLIP = 6  # letters of a word in which two that change places, or one that is missing, may be a slip of the pen
_SHOWN = 2
_MOST_APART = 12  # most words of a statement that are compared one by one for a slip


Near = Mapping[str, Sequence[Neighbour]]  # what is near each of some entries, by their ids


class Verdict(enum.StrEnum):
    """How two entries relate, as the reason that a dream's record gives: they are one statement (`_SAME`); a newer one
    replaces an older one; or they contradict each other and nothing says which is newer. Most pairs are none of these.
    """

    SAME_WORDS = "same_words"
    SAME_STATEMENT = "same_statement"
    NEAR = "near"
    CHANGED = "changed"
    CONFLICT = "same_time"


_SAME = (Verdict.SAME_WORDS, Verdict.SAME_STATEMENT, Verdict.NEAR)


def _compare(fact: Memory, other: Memory, cosine: float | None, bands: Bands, near: Sequence[Memory]) -> Verdict | None:
    """What ``fact`` is to an ``other`` fact; ``cosine`` None: by words. ``near``: what else is said of such things."""
    if not may_be_compared(fact, other):
        return None
    # that something happened again does not mean that it happened once
    same_day = fact.kind is not Kind.EPISODIC or begins(fact).date() == begins(other).date()
    if same_day and is_worded_alike(fact.content, other.content):
        return Verdict.SAME_WORDS
    slot = slot_name(fact)
    if slot is not None and slot == slot_name(other):
        return _in_one_slot(fact, other)
    if fact.kind is Kind.EPISODIC or _named_apart(fact, other):
        return None
    if cosine is not None and cosine >= bands.same and _is_a_slip(fact, other):
        return Verdict.NEAR
    overlap = lexical_overlap(fact.content, other.content)
    related = cosine >= bands.related if cosine is not None else overlap >= LEXICAL_RELATED
    older, newer = in_order(fact, other)
    # what was stored side by side holds side by side, unless the newer one says that something changed
    return _by_time(fact, other) if related and marks_change(newer) and _is_restated(older, newer, near) else None


def _is_restated(older: Memory, newer: Memory, near: Sequence[Memory]) -> bool:
    """Whether the newer one is the older one with another value, or with the opposite."""
    if affirms(older) != affirms(newer):
        return changes(newer, older)
    old, new = (
        [word for word in compared_words(entry.content) if word not in CHANGE_WORDS] for entry in (older, newer)
    )
    parts = [part for part in SequenceMatcher(None, old, new, autojunk=False).get_opcodes() if part[0] != "equal"]
    if [kind for kind, *_ in parts] != ["replace"]:
        return False
    _, start, end, start_after, end_after = parts[0]
    if _holds_several(old[:start], old[end:], [*near, older, newer]):
        return False
    if all(numbers(word) for word in (*old[start:end], *new[start_after:end_after])):
        return True
    subjects = {tuple(compared_words(entry.subject)) for entry in near if entry.subject}
    for entry in (older, newer, *near):
        if not entry.object or has_many(predicate_name(entry.predicate or "")[0]):
            continue
        value = tuple(compared_words(entry.object))
        for words, first, last in ((old, start, end), (new, start_after, end_after)):
            starts = range(max(0, last - len(value)), first + 1)
            if value not in subjects and any(tuple(words[at : at + len(value)]) == value for at in starts):
                return True
    return False


def _holds_several(head: list[str], tail: list[str], entries: Sequence[Memory]) -> bool:
    """Whether statements that differ here alone stand side by side, without a change: it is one of many answers."""
    middles = set()
    for entry in entries:
        words = compared_words(entry.content)
        begin, end = len(head), len(words) - len(tail)
        if begin < end and words[:begin] == head and words[end:] == tail and not marks_change(entry):
            middles.add(tuple(words[begin:end]))
    return len(middles) > 1


def _in_one_slot(entry: Memory, other: Memory) -> Verdict | None:
    if same_value(slot_value(entry), slot_value(other)):
        return Verdict.SAME_STATEMENT
    # one of them may only say that something does not hold
    denies = slot_value(entry)[:1] != slot_value(other)[:1] and affirms(entry) != affirms(other)
    return None if denies else _by_time(entry, other)


def in_order(entry: Memory, other: Memory) -> tuple[Memory, Memory]:
    """The older and the newer one."""
    return (entry, other) if is_older(entry, other) or not is_older(other, entry) else (other, entry)


def may_be_compared(one: Memory, other: Memory) -> bool:
    """Whether two entries of one owner may be one statement at all, by kind, place, and what a person said of them."""
    if one.id == other.id or one.kind is not other.kind or one.kind is Kind.TURN:
        return False
    if one.place != other.place or SUMMARY in (one.predicate, other.predicate) or one.quarantined != other.quarantined:
        return False
    beside = [noted_ids(memory.metadata, COMPATIBLE_WITH) for memory in (one, other)]
    return other.id not in beside[0] and one.id not in beside[1]


def _by_time(entry: Memory, other: Memory) -> Verdict:
    """The newer one holds; a conflict when neither is newer."""
    when = {begins(memory) if states_beginning(memory) else said_at(memory) for memory in (entry, other)}
    return Verdict.CONFLICT if len(when) == 1 else Verdict.CHANGED


def _named_apart(entry: Memory, other: Memory) -> bool:
    """Whether their own names say that they are about different things, or are items of a list."""
    if entry.subject and other.subject and subject_name(entry.subject) != subject_name(other.subject):
        return True
    if entry.predicate and other.predicate:
        predicate = predicate_name(entry.predicate)
        if predicate != predicate_name(other.predicate) or has_many(predicate[0]):
            return True
    return not same_aspect(entry, other)


def is_worded_alike(text: str, other: str) -> bool:
    """The same words in the same order, or with the sentence's two parts the other way round."""
    first, second = compared_words(text), compared_words(other)
    if len(first) != len(second) or not first:
        return False
    return any(first[shift:] + first[:shift] == second for shift in range(len(first)))


def _is_a_slip(entry: Memory, other: Memory) -> bool:
    """Whether they differ by one typing error only, in a word that is neither a name nor a number."""
    first, second = compared_words(entry.content), compared_words(other.content)
    if len(first) != len(second) or len(first) > _MOST_APART or numbers(entry.content) != numbers(other.content):
        return False
    apart = [pair for pair in zip(first, second, strict=True) if pair[0] != pair[1]]
    if len(apart) != 1 or names(entry.content) != names(other.content):
        return False
    return _is_misspelt(*apart[0]) and affirms(entry) == affirms(other)


def _is_misspelt(word: str, other: str) -> bool:
    """Whether two letters changed places in a long word, or one is missing."""
    if min(len(word), len(other)) < _SLIP or not (word.isalpha() and other.isalpha()):
        return False
    differing = (index for index, (a, b) in enumerate(zip(word, other, strict=False)) if a != b)
    at = next(differing, min(len(word), len(other)))
    if len(word) == len(other):
        return word[at : at + 2] == other[at : at + 2][::-1] and word[at + 2 :] == other[at + 2 :]
    longer, shorter = sorted((word, other), key=len, reverse=True)
    return len(longer) == len(shorter) + 1 and longer[at + 1 :] == shorter[at:]


def likest(entry: Memory, near: Sequence[Neighbour], bands: Bands) -> list[Memory]:
    """What a model is shown beside an entry: the `_SHOWN` likest of those that it is related to."""
    related: list[tuple[float, Memory]] = []
    for neighbour in near:
        memory, cosine = neighbour.memory, neighbour.cosine
        likeness = cosine if cosine is not None else lexical_overlap(entry.content, memory.content)
        least = bands.related if cosine is not None else LEXICAL_RELATED
        if likeness >= least and may_be_compared(entry, memory):
            related.append((likeness, memory))
    return [memory for _, memory in sorted(related, key=lambda pair: -pair[0])[:_SHOWN]]


def _by_itself(memory: Memory, now: datetime) -> Change | None:
    """What becomes of an entry by itself: its time is over, or nobody was given it and people call it wrong."""
    if is_expired(memory, now):
        return Change(action=Action.END, reason="expired", memory_id=memory.id)
    if memory.valid_to is not None and memory.valid_to <= now:
        return Change(action=Action.END, reason="validity", memory_id=memory.id)
    opinion = feedback_of(memory)
    if memory.access_count == 0 and opinion.wrong + opinion.correction > opinion.helpful:
        return Change(action=Action.DELETE, reason="feedback", memory_id=memory.id)
    return None


def _by_label(memory: Memory) -> Change | None:
    """The category in the form of the conventions, and each tag once."""
    labels: dict[str, object] = {}
    if memory.category and (name := category_name(memory.category)) and name != memory.category:
        labels["category"] = name
    tags = list({" ".join(tag.casefold().split()): tag for tag in reversed(memory.tags)}.values())[::-1]
    if len(tags) < len(memory.tags):
        labels["tags"] = tags
    return Change(action=Action.CATEGORISE, reason="form", memory_id=memory.id, labels=labels) if labels else None


def _survivor(entries: Sequence[Memory]) -> Memory:
    """Which of entries that say the same stays: the one with names, the more trusted, the surer, the first."""

    def rank(entry: Memory) -> tuple[object, ...]:
        is_nameless = slot_name(entry) is None
        doubt = (entry.quarantined, -entry.trust.level, is_nameless, -len(entry.relations), -entry.confidence)
        return *doubt, entry.created_at, entry.id

    return min(entries, key=rank)


def consolidated(
    entries: Sequence[Memory], near: Near, bands: Bands, now: datetime
) -> tuple[list[Change], list[tuple[str, str, str]]]:
    """The changes for these entries, every memory in one at most; and conflicts for a person, two ids and a reason."""
    handled: set[str] = set()
    decided: list[Change] = []
    conflicts: dict[tuple[str, str], str] = {}
    for entry in entries:
        if entry.id in handled:
            continue
        change = _by_itself(entry, now)
        if change is None:
            if entry.quarantined or RETRACTED_BY in entry.metadata:
                continue
            neighbours = near.get(entry.id, ())
            beside = [neighbour.memory for neighbour in neighbours]
            pairs: list[tuple[Memory, Verdict]] = []
            for neighbour in neighbours:
                if neighbour.memory.id not in handled and _by_itself(neighbour.memory, now) is None:
                    verdict = _compare(entry, neighbour.memory, neighbour.cosine, bands, beside)
                    pairs += [(neighbour.memory, verdict)] if verdict is not None else []
            change = _by_pairs(entry, pairs)
            if change is None:
                for memory, verdict in pairs:
                    conflicts[min(entry.id, memory.id), max(entry.id, memory.id)] = verdict.value
                change = _by_label(entry)
        if change is not None:
            decided.append(change)
            handled |= {change.memory_id, *change.sources}
    return decided, [(first, other, reason) for (first, other), reason in conflicts.items()]


def _by_pairs(entry: Memory, pairs: Sequence[tuple[Memory, Verdict]]) -> Change | None:
    """What an entry and those that say the same come to; if there are none, it and those that say what changed."""
    same, changed = (_SAME, Action.MERGE, _survivor), ((Verdict.CHANGED,), Action.SUPERSEDE, newest)
    for verdicts, action, keeper_of in (same, changed):
        fitting = [(memory, verdict) for memory, verdict in pairs if verdict in verdicts]
        if fitting:
            entries = [entry, *(memory for memory, _ in fitting)]
            keeper = keeper_of(entries)
            sources = tuple(memory.id for memory in entries if memory.id != keeper.id)
            return Change(action=action, reason=fitting[0][1].value, memory_id=keeper.id, sources=sources)
    return None


def newest(entries: Sequence[Memory]) -> Memory:
    """Of statements about the same thing, the newest."""
    return functools.reduce(lambda entry, other: in_order(entry, other)[1], entries)
