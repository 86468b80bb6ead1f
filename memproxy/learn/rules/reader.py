"""Reads a window sentence by sentence, in the order of what was said: what is taken back, put right, stated."""

import re
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Memory
from memproxy.core.similar import says_changed
from memproxy.core.slots import numbers, same_value, value_name
from memproxy.learn.candidates import Extracted, Grounded, Intent, Read, Rejected, Window
from memproxy.learn.planted import rejection
from memproxy.learn.rules.corrections import (
    Known,
    Ledger,
    another_value,
    changed,
    ended,
    ended_by_event,
    is_order,
    is_plain_order,
    order,
    put_right,
    same_slot,
    speaks_of_a_change,
    speaks_of_an_end,
    terms,
    topic_of,
)
from memproxy.learn.rules.own_words import Clause, Sentence, sentences_said, sets_a_stage
from memproxy.learn.rules.statements import stated

_MOST_CANDIDATES = 30  # candidates of one turn; a message that states more was pasted


def read(window: Window) -> Read:
    """What new turns come to, each against all that was known by then: candidates with a verbatim sentence. Pure."""
    ledger = Ledger(window.related)
    result = Read([], [])
    staged = False
    for index, turn in enumerate(window.turns):
        staged = staged or sets_a_stage(turn)
        for candidate in [] if staged else _of_turn(turn, ledger, index):
            if turn.id not in window.new_ids:
                continue
            reason = rejection(candidate)
            if reason is None:
                result.grounded.append(Grounded(candidate, turn))
            else:
                result.rejected.append(Rejected(candidate, reason))
    return result


class Touched(NamedTuple):
    """What a message surely ends: by an order, by another value, or as its ``evidence`` says that it is over."""

    held: Known
    ordered: bool
    replaced: bool
    evidence: str


def may_change(turn: Memory) -> bool:
    """Whether a message is worded like one that changes or takes back something; most are not."""
    return any(_orders(sentence) or _may_change(sentence) for sentence in sentences_said(turn))


def _orders(sentence: Sentence) -> bool:
    """Whether a sentence orders to forget something and says nothing else."""
    return is_plain_order(sentence.whole) and len(sentence.clauses) <= 1


def _may_change(sentence: Sentence) -> bool:
    if sentence.asks and not sentence.clauses:
        return False
    return says_changed(sentence.evidence) or any(
        speaks_of_a_change(clause) or speaks_of_an_end(clause) for clause in (sentence.whole, *sentence.clauses)
    )


def orders_of(turn: Memory) -> list[tuple[str, frozenset[str]]]:
    """The sentences of a message that order to forget something that no statement read so far says, with its terms."""
    (nothing := Ledger(())).read(turn, 0)
    ordering = [sentence for sentence in sentences_said(turn) if _orders(sentence)]
    orders = [(sentence.evidence, candidate) for sentence in ordering for candidate in order(sentence.whole, nothing)]
    return [(evidence, terms(candidate.content)) for evidence, candidate in orders]


def words_of(turn: Memory) -> str:
    """What a message says, and what it states: by these words the earlier answers to the same are found."""
    read = [f"{statement.content} {statement.predicate or ''}" for statement in _of_turn(turn, Ledger(()), 0)]
    return " ".join((strip_blocks(turn.content), *read)).replace("_", " ")


def stated_before(turns: Sequence[tuple[int, Memory]], facts: Sequence[Memory]) -> Ledger:
    """What facts and these messages, with their indices, state."""
    ledger = Ledger(facts)
    for index, turn in turns:
        if not sets_a_stage(turn):
            _of_turn(turn, ledger, index)
    return ledger


def touched(turn: Memory, ledger: Ledger, index: int) -> list[Touched]:
    """What a message surely ends of what is known. One sentence that is no order ends answers to one question."""
    ledger.read(turn, index)
    result: list[Touched] = []
    for sentence in sentences_said(turn):
        ordered = _orders(sentence)
        if is_order(sentence.whole) and not ordered:
            continue
        of_sentence: list[Touched] = []
        for candidate in _of_sentence(sentence, ledger, plainly=True):
            evident = msgspec.structs.replace(candidate, evidence=(sentence.evidence,))
            if rejection(evident) is not None:
                continue
            old_entries = ledger.newest()
            ledger.add(evident)
            remaining = {id(entry) for entry in ledger.newest()}
            gone = [entry for entry in old_entries if id(entry) not in remaining and entry.turn != index]
            gone = [entry for entry in gone if _is_ended(candidate, entry, sentence)]
            replaced = candidate.intent is not Intent.FORGET or candidate.replaces is not None
            of_sentence += [Touched(entry, ordered, replaced, sentence.evidence) for entry in gone]
        held = [touch.held.statement for touch in of_sentence]
        questions = {(statement.subject, statement.predicate or statement.content) for statement in held}
        if ordered or len(questions) == 1:
            result += of_sentence
    return result


def _is_ended(candidate: Extracted, held: Known, sentence: Sentence) -> bool:
    """Whether what a sentence says surely ends a statement, and not another one like it."""
    marks = sentence.whole.corrects or says_changed(sentence.evidence)
    if candidate.intent is Intent.STATE and not marks:
        return False
    same = same_value(value_name(candidate.object or ""), value_name(held.statement.object or ""))
    if candidate.intent is not Intent.FORGET:
        return not same
    if candidate.predicate and candidate.object and not same:
        return False
    return not _orders(sentence) or _is_named(held.statement, topic_of(sentence.whole))


def _is_named(statement: Extracted, topic: str) -> bool:
    """Whether an order's topic names a statement: by its value, or by most of what it is about."""
    topic_terms, value = terms(topic), terms(statement.object or "")
    about = terms(statement.content) - value
    if not numbers(topic) <= numbers(statement.content):
        return False
    if _EVERYTHING.search(topic) is not None or not topic_terms or topic_terms <= value:
        return True
    return len(topic_terms & about) >= _MOST_OF_IT * len(about)


_EVERYTHING = re.compile(r"\b(?:everything|anything|all)\b", re.IGNORECASE)
_MOST_OF_IT = 0.6


def names_all_of(text: str, order_terms: frozenset[str]) -> bool:
    """Whether a sentence is about what an order names, and hardly about more."""
    if not order_terms or not order_terms <= terms(text):
        return False
    text_terms = frozenset(term for term in terms(text) if not numbers(term))
    return len(order_terms & text_terms) > _MOST_OF_IT * len(text_terms)


def covered(touches: Sequence[Touched]) -> frozenset[str]:
    """The terms of what was touched."""
    touched_terms = [touch.held.terms | terms(touch.held.statement.object or "") for touch in touches]
    return frozenset().union(*touched_terms)


def _of_turn(turn: Memory, ledger: Ledger, index: int) -> list[Extracted]:
    """The candidates of one turn; the ledger has them when it is done."""
    candidates: list[Extracted] = []
    ledger.read(turn, index)
    for sentence in sentences_said(turn):
        for candidate in _of_sentence(sentence, ledger):
            evident = msgspec.structs.replace(candidate, evidence=(sentence.evidence,))
            if rejection(evident) is None:
                ledger.add(evident)
            candidates.append(evident)
        if len(candidates) >= _MOST_CANDIDATES:
            break
    distinct = {(entry.intent, entry.content, entry.predicate): entry for entry in candidates}.values()
    # what is taken back and said anew in one turn is a change of it
    anew = [entry for entry in distinct if entry.intent is not Intent.FORGET]
    lasting = [entry for entry in distinct if entry in anew or not any(same_slot(entry, new) for new in anew)]
    return lasting[:_MOST_CANDIDATES]


def _of_sentence(sentence: Sentence, ledger: Ledger, *, plainly: bool = False) -> list[Extracted]:
    """What a sentence says; ``plainly``: without what is gathered from its words wherever they stand."""
    if orders := order(sentence.whole, ledger):
        return orders
    statements = [statement for clause in sentence.clauses for statement in _of_clause(clause, ledger, plainly=plainly)]
    if statements or sentence.asks:
        return statements
    plain = ended(sentence.whole, ledger, plainly=plainly) or changed(sentence.whole, ledger)
    if plain or plainly:
        return plain
    return another_value(sentence.whole, ledger) or ended_by_event(sentence.whole, ledger)


def _of_clause(clause: Clause, ledger: Ledger, *, plainly: bool) -> list[Extracted]:
    return (
        ended(clause, ledger, plainly=plainly)
        or put_right(clause, ledger)
        or (changed(clause, ledger) if clause.corrects or clause.text[:4].lower() == "the " else [])
        or stated(clause.text, ledger.said_at)
        or changed(clause, ledger)
    )
