"""Reads a window sentence by sentence, in the order of what was said: what is taken back, put right, stated."""

import msgspec

from memproxy.core.memory import Memory
from memproxy.learn.candidates import Extracted, Grounded, Intent, Read, Rejected, Window
from memproxy.learn.guard import rejection
from memproxy.learn.rules.changes import another_value, changed, put_right
from memproxy.learn.rules.known import Ledger, same_slot
from memproxy.learn.rules.retractions import ended, ended_by_event, order
from memproxy.learn.rules.said import Clause, Sentence, sentences_said, sets_a_stage
from memproxy.learn.rules.statements import stated

_MOST_CANDIDATES = 30
"""Candidates of one turn; a message that states more was pasted."""


def read(window: Window) -> Read:
    """What the new turns of a window come to, each against all that was known when it was said."""
    ledger = Ledger(window.known)
    found = Read([], [])
    staged = False
    for place, turn in enumerate(window.turns):
        staged = staged or sets_a_stage(turn)
        for candidate in [] if staged else _of_turn(turn, ledger, place):
            if turn.id not in window.new_ids:
                continue
            reason = rejection(candidate)
            if reason is None:
                found.kept.append(Grounded(candidate, turn))
            else:
                found.rejected.append(Rejected(candidate, reason))
    return found


def _of_turn(turn: Memory, ledger: Ledger, place: int) -> list[Extracted]:
    """The candidates of one turn; the ledger has them when it is done."""
    found: list[Extracted] = []
    ledger.place = place
    for sentence in sentences_said(turn):
        for candidate in _of_sentence(sentence, ledger, place):
            evident = msgspec.structs.replace(candidate, evidence=(sentence.evidence,))
            if rejection(evident) is None:
                ledger.add(evident, place)
            found.append(evident)
        if len(found) >= _MOST_CANDIDATES:
            break
    return _settled(found)[:_MOST_CANDIDATES]


def _of_sentence(sentence: Sentence, ledger: Ledger, place: int) -> list[Extracted]:
    if orders := order(sentence.whole, ledger, place, sentence.said_at):
        return orders
    found = [one for clause in sentence.clauses for one in _of_clause(clause, sentence, ledger, place)]
    if found or sentence.asks:
        return found
    return (
        ended(sentence.whole, ledger, sentence.said_at)
        or changed(sentence.whole, ledger, place)
        or another_value(sentence.whole, ledger)
        or ended_by_event(sentence.whole, ledger)
    )


def _of_clause(clause: Clause, sentence: Sentence, ledger: Ledger, place: int) -> list[Extracted]:
    return (
        ended(clause, ledger, sentence.said_at)
        or put_right(clause, ledger, sentence.said_at)
        or (changed(clause, ledger, place) if clause.corrects or clause.text[:4].lower() == "the " else [])
        or stated(clause.text, sentence.said_at)
        or changed(clause, ledger, place)
    )


def _settled(found: list[Extracted]) -> list[Extracted]:
    """Each once; what is taken back and said anew in one turn is a change of it."""
    once = {(one.intent, one.content, one.predicate): one for one in found}
    kept = list(once.values())
    anew = [one for one in kept if one.intent is not Intent.FORGET]
    return [one for one in kept if one.intent is not Intent.FORGET or not any(same_slot(one, new) for new in anew)]
