"""Statements that answer what a known one answers: which known statement a new one takes the place of.

With a word of change half of the words suffice; without one all words but a value of the same sort must agree.
"""

import re

import msgspec

from memproxy.core.similar import names_another
from memproxy.core.slots import has_many, predicate_name, value_name
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules import dates
from memproxy.learn.rules.frames import NUMBER_WORDS, same_question
from memproxy.learn.rules.ledger import Ledger, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import names_in
from memproxy.learn.rules.words import INSTRUMENTS

_SAME_MOST = 0.5
_STATED_CHANGE = re.compile(
    r"\b(?:now|these days|nowadays|any ?more|instead|since|new|currently|changed|switched|moved|started|just)\b",
    re.IGNORECASE,
)


def succeeded(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """The known statement that answers what this one answers, with another value; None when none clearly does.

    With a word of change: the same subject, and at least half of the words that are no values. Without one: all words
    the same but for one value of the same sort.
    """
    if not stated.predicate or stated.stance is not None or stated.predicate.startswith("did_"):
        return None
    told = clause.is_correction or _SAYS_NOW.search(clause.text) is not None
    if told and (only := _one_word_apart(stated, ledger) or _same_verb(stated, ledger)) is not None:
        return only
    only = _of_one_kind(stated, clause, ledger) or _other_answer(stated, clause, ledger)
    if only is not None or (only := _other_work(stated, clause, ledger)) is not None:
        return only
    if _listed(stated):
        return _from_then_on(stated, clause, ledger)
    marked = clause.is_correction or _STATED_CHANGE.search(clause.evidence) is not None
    for one in ledger.newest():
        known = one.statement
        if known.subject != stated.subject or known.kind is not stated.kind or known.stance is not None:
            continue
        if _listed(known) or known.content == stated.content or not known.predicate:
            continue
        if _same_question(stated, known, clause, marked=marked) and (
            clause.is_correction or not names_another(stated.content, known.content)
        ):
            return known
    return None


_FROM_THEN = re.compile(
    r"\b(?:from|as of|starting|since) (?:next \w+|now on|this \w+|january|february|march|april|may|june|july|august|"
    r"september|october|november|december|(?:mon|tues|wednes|thurs|fri|satur|sun)day)\b|\bnow\b",
    re.IGNORECASE,
)


def _from_then_on(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """“From September I teach year 2” after "I teach year 5": one of many, but of which only the number differs."""
    if _FROM_THEN.search(clause.evidence) is None or ADDS.search(clause.evidence) is not None:
        return None
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.subject == stated.subject
        and one.statement.predicate == stated.predicate
        and _values(one.statement)
        and _values(stated)
        and _values(one.statement) != _values(stated)
        and _frame(one.statement, clause) == _frame(stated, clause)
    ]
    return held[0] if len(held) == 1 else None


ADDS = re.compile(
    r"\b(?:also|too|as well|either|additionally|another|besides|second|both|sometimes|in addition|(?<!aime "
    r")(?<!suis )(?<!vis )(?<!habite )plus)\b",
    re.IGNORECASE,
)
"""Words that put a statement beside what is known, not in its place."""


def _other_answer(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """The only statement to whose question this one is another answer by its form."""
    if ADDS.search(clause.evidence) is not None:
        return None
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.stance is None
        and one.statement.subject == stated.subject
        and same_question(stated.content, one.statement.content)
    ]
    return held[0] if len(held) == 1 else _in_one_place(stated, clause, ledger)


def _in_one_place(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """“I play drums in Peat since August” after “I play bass in Peat”: the same verb, within the same named thing."""
    names, verb = frozenset(names_in(stated.content.partition(" ")[2])), stated.content.split()[1:2]
    names -= {stated.subject or ""}  # of whom it is told is no place
    if _STATED_CHANGE.search(clause.evidence) is None or not names:
        return None
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.subject == stated.subject
        and one.statement.stance is None
        and one.statement.content.split()[1:2] == verb
        and names & frozenset(names_in(one.statement.content.partition(" ")[2]))
        and one.statement.content != stated.content
    ]
    return held[0] if len(held) == 1 else None


_WORK = frozenset({"job_title", "employer", "teaches", "works_in", "works"})
_LEFT_WORK = re.compile(
    r"\b(?:quit|left|gave up|resigned|retrained|changed jobs|switched jobs|was (?:fired|laid off|let go))\b",
    re.IGNORECASE,
)


def _other_work(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """“Jonas quit the kitchen, he teaches now”: of somebody near, the only work that is known."""
    if stated.subject == "user" or stated.predicate not in _WORK or _SAYS_NOW.search(clause.evidence) is None:
        return None
    if _LEFT_WORK.search(clause.evidence) is None:
        return None
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.subject == stated.subject and one.statement.predicate in _WORK
    ]
    return held[0] if len(held) == 1 and held[0].content != stated.content else None


_SAYS_NOW = re.compile(r"\b(?:now|these days|nowadays|instead|from now on)\b", re.IGNORECASE)


def _one_word_apart(stated: Extracted, ledger: Ledger, *, alike: bool = False) -> Extracted | None:
    """The only statement that says the same but for one word ("plays clarinet in band", "plays sax in band");
    ``alike``: both words must be of one kind.
    """
    new = terms(stated.content)
    held = [
        one.statement
        for one in ledger.newest()
        if one.statement.subject == stated.subject
        and len(new & (old := terms(one.statement.content))) > 1
        and len(new - old) == len(old - new) == 1
        and (not alike or (new - old <= _PLAYED and old - new <= _PLAYED))
    ]
    return held[0] if len(held) == 1 else None


_PLAYED = frozenset(term for name in INSTRUMENTS for term in terms(name)) | {"sax"}


def _of_one_kind(stated: Extracted, clause: Clause, ledger: Ledger) -> Extracted | None:
    """“I'm in 10th grade now and I play sax in band”: another instrument, in a sentence that says "now" elsewhere."""
    return _one_word_apart(stated, ledger, alike=True) if _SAYS_NOW.search(clause.evidence) is not None else None


_ONE_AT_A_TIME = frozenset(
    {"training", "trip", "renting", "rent", "preference", "studying", "studies", "writing", "gym"}
)
"""First words of predicates of what people do one of at a time; the rest of the predicate names which."""


def _same_verb(stated: Extracted, ledger: Ledger) -> Extracted | None:
    """The only statement of the same verb, of what is done one at a time ("is training for a 10k")."""
    verb = (stated.predicate or "").partition("_")[0]
    if stated.content.startswith("User is in "):
        verb = "lives"
    elif verb == "prefers":
        value = value_name(stated.object or "?")
        held = [
            one.statement for one in ledger.newest() if (one.statement.predicate or "").startswith("preference_betw")
        ]
        held = [one for one in held if f"_{value}_" in f"_{one.predicate}_"]
        return held[0] if len(held) == 1 else None
    elif verb not in _ONE_AT_A_TIME:
        return None
    held = [
        one.statement
        for one in ledger.newest()
        if (one.statement.predicate or "").partition("_")[0] == verb and one.statement.subject == stated.subject
    ]
    return held[0] if len(held) == 1 and held[0].content != stated.content else None


def in_its_place(stated: Extracted, known: Extracted) -> Extracted:
    """The statement as the next answer to what the known one answers; its value is all that it says where both name the
    same ("every morning" of "runs 5k every morning").
    """
    same = value_name(stated.object or "") == value_name(known.object or "")
    said = stated.content.removeprefix("User ").rstrip(".")
    value = (said.partition(" ")[2] or said) if same else stated.object
    return msgspec.structs.replace(stated, predicate=known.predicate, object=value)


def _same_question(stated: Extracted, known: Extracted, clause: Clause, *, marked: bool) -> bool:
    new, old = _frame(stated, clause), _frame(known, clause)
    said, held = _values(stated), _values(known)
    if not new & old or (said and said == held):
        return False
    if not marked:
        return bool(said and held) and new == old
    share = len(new & old) / max(len(new), len(old))
    return share >= _SAME_MOST if said and held else share > _SAME_MOST or (share == _SAME_MOST and len(new) == 2)


def _listed(statement: Extracted) -> bool:
    return has_many(predicate_name(statement.predicate or "")[0])


_TYPED = re.compile(
    rf"[$€£¥]?\d[\w.,:%]*|\b(?:{NUMBER_WORDS})\b|\b(?:mon|tues|wednes|thurs|fri|satur|sun)days?\b|\b(?:january|"
    rf"february|march|april|june|july|"
    r"august|september|october|november|december)\b",
    re.IGNORECASE,
)


def _values(statement: Extracted) -> frozenset[str]:
    return frozenset(found.casefold() for found in _TYPED.findall(statement.content))


def _frame(statement: Extracted, clause: Clause) -> frozenset[str]:
    """The words of a statement that are no values: what it answers."""
    text = statement.content
    day = dates.find(text, clause.said_at)
    if day is not None:
        text = text.replace(day.text, " ")
    return terms(_TYPED.sub(" ", text))
