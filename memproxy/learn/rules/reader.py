"""Reads a window clause by clause: the rules state, correct and take back, in the order in which things were said."""

import re
from collections.abc import Iterator, Sequence

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.learn.candidates import Extracted, Grounded, Intent, Read, Rejected, Window
from memproxy.learn.guard import rejection
from memproxy.learn.rules import (
    arrangements,
    counts,
    diet,
    everyday,
    foreign,
    fragments,
    general,
    habits,
    health,
    home,
    jottings,
    journeys,
    lasting,
    money,
    named,
    opinions,
    others,
    pastimes,
    people,
    pets,
    plans,
    procedures,
    projects,
    style,
    tastes,
    things,
    work,
)
from memproxy.learn.rules import states as states_rules
from memproxy.learn.rules.admissible import is_admissible, is_real
from memproxy.learn.rules.antecedents import resolved
from memproxy.learn.rules.apart import of_known
from memproxy.learn.rules.aspects import aspects
from memproxy.learn.rules.bounded import bounded
from memproxy.learn.rules.called_off import called_off
from memproxy.learn.rules.clauses import is_asked, without_leads
from memproxy.learn.rules.continued import continued, given_up, told_anew
from memproxy.learn.rules.contrasts import contrasted
from memproxy.learn.rules.corrections import corrections
from memproxy.learn.rules.counts import with_birth
from memproxy.learn.rules.declared import declared
from memproxy.learn.rules.dispatch import Rules
from memproxy.learn.rules.endings import endings
from memproxy.learn.rules.gainsaid import gainsaid
from memproxy.learn.rules.kept import kept
from memproxy.learn.rules.ledger import Ledger, slot_of, terms, unique
from memproxy.learn.rules.meant import judged, meant, respelled_elsewhere, switched
from memproxy.learn.rules.mentions import mentions
from memproxy.learn.rules.model import Clause, Rule
from memproxy.learn.rules.opposed import opposed
from memproxy.learn.rules.partings import parted
from memproxy.learn.rules.placed import as_correction
from memproxy.learn.rules.possessed import possessed
from memproxy.learn.rules.recovered import gone_over, recounted, recovered, swapped
from memproxy.learn.rules.respelled import plainly, respelled
from memproxy.learn.rules.restated import CHANGE, restated
from memproxy.learn.rules.retractions import is_retraction, retractions
from memproxy.learn.rules.revisions import exchanged_kind, revised
from memproxy.learn.rules.said import Sentence, sentences_said, sets_a_stage
from memproxy.learn.rules.sound import sound
from memproxy.learn.rules.turned import turned
from memproxy.learn.rules.turnover import turned_over
from memproxy.learn.rules.values import names_in
from memproxy.learn.rules.whereabouts import at_home, at_work, is_for_now, is_passing_through, settled
from memproxy.learn.rules.withdrawn import withdrawn

_CONTEXT = 300
"""Characters before a clause in which it is looked for whom "she" means."""

_EXCHANGE = 2
"""Turns back to the user's last message, in which it is looked for whom "she" means too."""

_MOST_SEARCHED = 4_000
"""Characters of a turn in which it is looked for words of change."""

_MOST_CANDIDATES = 50
"""Candidates of one turn; a message that states more was pasted."""

_BOOKS = (
    style.CLAUSE_RULES,
    everyday.RULES,
    jottings.RULES,
    counts.RULES,
    people.RULES,
    pets.RULES,
    health.RULES,
    others.RULES,
    home.RULES,
    work.RULES,
    pastimes.RULES,
    plans.RULES,
    journeys.RULES,
    arrangements.RULES,
    habits.RULES,
    tastes.RULES,
    opinions.RULES,
    diet.RULES,
    money.RULES,
    things.SPECIFIC_RULES,
    projects.RULES,
    things.RULES,
    foreign.RULES,
)
"""In the order in which they are asked: of rules that find the same in a clause the first counts."""

_RULES: tuple[Rule, ...] = tuple(rule for book in _BOOKS for rule in book)
_ENDS = re.compile(
    r"\b(?:died|passed away|no longer|anymore|forget|delete|remove|erase|ex|late|if|said|says|told|wrote)\b",
    re.IGNORECASE,
)
_YOU = re.compile(r"\b(?:you|the assistant)\b", re.IGNORECASE)


_LAST_RULES: tuple[Rule, ...] = (
    *others.LAST_RULES,
    *states_rules.FIRST_RULES,
    *states_rules.IDENTITY_RULES,
    *lasting.RULES,
    *named.RULES,
    *general.RULES,
    *fragments.RULES,
)
"""Asked when no other rule found anything."""

_FIRST_ASKED = Rules(_RULES)
_LAST_ASKED = Rules(_LAST_RULES)


def read(window: Window) -> Read:
    """What the new turns of a window come to, each against all that was known when it was said."""
    ledger = Ledger(window.known)
    found = Read([], [])
    staged = False
    for place, turn in enumerate(window.turns):
        staged = staged or sets_a_stage(turn)
        if turn.trust is Trust.ASSISTANT:
            ledger.answered = turn.content[:_MOST_SEARCHED]
        for candidate in () if staged else _of_turn(turn, ledger, place):
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
    before = " ".join(clause.text for at, clause in ledger.told[-2:] if place - at <= _EXCHANGE)
    changed = CHANGE.search(turn.content[:_MOST_SEARCHED]) is not None
    for sentence in sentences_said(turn):
        for candidate in _of_sentence(sentence, ledger, place, before, changed=changed):
            if rejection(candidate) is None:
                ledger.add(candidate, place)
            found.append(candidate)
        ledger.heard.append(terms(sentence.whole.text))
        before = f"{before} {sentence.whole.text}"[-_CONTEXT:]
        if len(found) >= _MOST_CANDIDATES:
            break
    found = found or withdrawn(turn, turn.content[:_MOST_SEARCHED], ledger)
    return _settled(unique(found))[:_MOST_CANDIDATES]


_BORN = re.compile(r"\b(?:was|were|is|are) born\b", re.IGNORECASE)
_STEP = re.compile(r"(?:I|we) (?:have )?(?:just |finally )?(?:bought|joined|adopted)\b", re.IGNORECASE)
"""What ends something by what it begins: both are told."""


def _of_sentence(sentence: Sentence, ledger: Ledger, place: int, before: str, *, changed: bool) -> Iterator[Extracted]:
    whole = [one for stated in _of_whole(sentence) if (one := sound(stated)) is not None]
    yield from (
        *whole,
        *(_evident(one, sentence.whole) for one in parted(sentence.whole, ledger)),
    )
    takes_back = _ENDS.search(sentence.whole.text) is not None
    told = before
    for said in () if whole else (*at_home(sentence.whole), *sentence.clauses):
        clause = _in_context(said, sentence, ledger, told)
        for_now = is_for_now(clause, told) or is_passing_through(settled(clause, told), ledger.home)
        clause = at_work(settled(clause, told), told)
        told = f"{told} {clause.text}"
        if for_now or not is_real(clause, sentence.whole.text):
            continue
        for candidate in _of_clause(clause, ledger, place, changed=changed):
            if not is_admissible(candidate, clause, sentence.whole.text):
                continue
            takes_back = takes_back or candidate.intent is Intent.FORGET or is_retraction(clause)
            if (evident := sound(_evident(candidate, clause))) is not None:
                ledger.add(evident, place)
                yield evident
        ledger.told.append((place, clause))
    if not is_asked(sentence.whole):
        for one in turned(sentence.whole, ledger, place, before):
            yield _noted(_evident(one, sentence.whole), ledger, place)
    if not takes_back:
        yield from _in_passing(sentence.whole, ledger, place)


def _in_passing(whole: Clause, ledger: Ledger, place: int) -> Iterator[Extracted]:
    """What a sentence tells of whom and what it mentions, whatever it asks."""
    for one in pets.mentioned(whole.text):
        yield from (_evident(ended, whole) for ended in opposed(one, ledger))
        yield _evident(one, whole)
    for one in (*fragments.listed(whole.text), *possessed(whole.text, ledger), *mentions(whole.text, ledger)):
        if _is_vaguer(one, ledger):
            continue
        for noted in (*opposed(one, ledger), one):
            if (kept_one := sound(_evident(noted, whole))) is not None:
                yield _noted(kept_one, ledger, place)


def _is_vaguer(mentioned: Extracted, ledger: Ledger) -> bool:
    """Whether something mentioned in passing says less of what is known ("my lisinopril": 20 mg of it)."""
    known = ledger.same_slot(mentioned)
    return known is not None and terms(mentioned.content) < terms(known.content)


def _noted(candidate: Extracted, ledger: Ledger, place: int) -> Extracted:
    ledger.add(candidate, place)
    return candidate


def _in_context(clause: Clause, sentence: Sentence, ledger: Ledger, before: str) -> Clause:
    """The clause with whom it speaks of named."""
    whole = sentence.whole.text
    begin = whole.find(clause.text[:20])
    begin = begin if begin >= 0 else max(0, whole.find(clause.text[-15:]))
    text = resolved(clause.text, f"{before} {whole[:begin]}", ledger)
    return clause if text == clause.text else msgspec.structs.replace(clause, text=text)


def _of_whole(sentence: Sentence) -> list[Extracted]:
    """What a sentence says as a whole: a procedure, a standing wish."""
    if not sentence.clauses:
        return []
    plain, _ = without_leads(sentence.whole.text)
    _, _, after = sentence.whole.text.partition(": ")
    wholes = dict.fromkeys((sentence.whole.text, plain, *([after] if after else [])))
    found = [
        one
        for text in wholes
        for one in _stated(msgspec.structs.replace(sentence.whole, text=text), style.SENTENCE_RULES)
    ]
    found = unique(found) or procedures.convention(sentence.whole)
    steps = [one for one in found if one.kind is Kind.PROCEDURAL]
    return [_evident(one, sentence.whole) for one in found if one not in steps[1:]]


def _evident(candidate: Extracted, clause: Clause) -> Extracted:
    return msgspec.structs.replace(candidate, evidence=(clause.evidence,))


def _of_clause(clause: Clause, ledger: Ledger, place: int, *, changed: bool) -> list[Extracted]:
    put_right = contrasted(clause, ledger) or (switched(clause, ledger) if " and " in clause.text else [])
    if put_right and not ledger.is_empty:
        return put_right
    taken_back = unique([*retractions(clause, ledger, states), *called_off(clause, ledger), *endings(clause, ledger)])
    taken_back = taken_back or list(jottings.departed(clause, ledger))
    taken_back = of_known(taken_back or list(gainsaid(clause, ledger, place)), clause, ledger)
    if taken_back or is_retraction(clause):
        step = states(clause) if taken_back and _STEP.match(clause.text) else []
        return [*taken_back, *given_up(clause, taken_back), *step]
    if anew := respelled(clause, ledger):
        return anew
    clause = plainly(clause)
    corrected = with_birth(clause, ledger) or (
        list(corrections(clause, ledger, place))
        if ledger.is_empty
        else of_known(_corrected(clause, ledger, place), clause, ledger)
    )
    if corrected:
        is_born = _BORN.search(clause.text) is not None and all(one.intent is Intent.FORGET for one in corrected)
        return [*corrected, *(states(clause) if is_born else respelled_elsewhere(corrected, ledger))]
    stated = [as_correction(one, clause, ledger) for one in states(clause)]
    if not stated:
        return (
            of_known(restated(clause, ledger, place, changed=changed), clause, ledger)
            or recovered(clause, ledger, place)
            or told_anew(clause, ledger)
            or [as_correction(one, clause, ledger) for one in declared(clause, ledger)]
        )
    return [*(ended for one in stated for ended in opposed(one, ledger)), *stated]


def _corrected(clause: Clause, ledger: Ledger, place: int) -> list[Extracted]:
    """What a clause changes of what is known, by the first reading that finds something."""
    return (
        continued(clause, ledger)
        or turned_over(clause, ledger)
        or exchanged_kind(clause, ledger)
        or switched(clause, ledger)
        or judged(clause, ledger)
        or list(corrections(clause, ledger, place))
        or list(aspects(clause, ledger))
        or revised(clause, ledger, place)
        or swapped(clause, ledger)
        or recounted(clause, ledger)
        or gone_over(clause, ledger)
        or meant(clause, ledger, place)
    )


def states(clause: Clause) -> list[Extracted]:
    """What the rules find in a clause. Of rules that say the same of one thing the first counts."""
    asked = _stated(clause, _FIRST_ASKED.that_fit(clause.text))
    found = asked or _stated(clause, _LAST_ASKED.that_fit(clause.text)) or kept(clause)
    return [_about(one, clause) for one in bounded(found, clause)]


def _about(stated: Extracted, clause: Clause) -> Extracted:
    """The statement with what the whole sentence is about ("Decision for project X: ...")."""
    if not clause.about or clause.about.casefold() in stated.content.casefold():
        return stated
    content = f"{stated.content.rstrip('.')} ({clause.about})."
    return msgspec.structs.replace(stated, content=content, entities=(*stated.entities, *names_in(clause.about)))


def _stated(clause: Clause, rules: Sequence[Rule]) -> list[Extracted]:
    found: list[Extracted] = []
    objects: set[str] = set()
    for rule in rules:
        match = rule.pattern.match(clause.text)
        if match is None:
            continue
        groups = {name: text for name, text in match.groupdict().items() if text is not None}
        built = [one for one in rule.build(groups, clause) if not _is_of_assistant(one)]
        made = [one for one in built if one.aspect or (one.object or "").casefold() not in objects]
        objects |= {(one.object or "").casefold() for one in made}
        found += made
    return found


_OF_THE_TALK = re.compile(
    r"User (?:does not like|likes|loves|dislikes|hates|prefers|is a fan of) (?:the (?!(?:outdoors|beach|sea|ocean|"
    r"mountains|cold|heat|rain|dark|snow|sun|gym|theat(?:re|er)|opera|office|countryside|city|arts|wind|water|desert|"
    r"forest|"
    r"winter|summer|autumn|spring|fall|guitar|piano|violin|beatles|cure|who|simpsons|wire)\b)[\w-]+|big|huge)\.$"
)
"""What is liked of a draft that both have before them ("I don't like the anchors"), not in general."""


_DANGLES = re.compile(r"^User (?:(?!says|wants).)* (?:it|this|that|them|these|those)\.$")
"""What it speaks of stands elsewhere."""


def _is_of_assistant(stated: Extracted) -> bool:
    """Whether it speaks to whom it is said ("our goal is to grow your business" was not written by the user), or of
    what lies before both.
    """
    if _OF_THE_TALK.match(stated.content) or _DANGLES.search(stated.content):
        return True
    return not (stated.predicate or "").startswith("answer_") and _YOU.search(stated.content) is not None


def _settled(found: list[Extracted]) -> list[Extracted]:
    """Without “a brother” where he is named beside; and what is taken back and said anew in one turn is a correction
    ("I no longer live in Berlin, I'm in Rome now").
    """
    kept: list[Extracted] = []
    named = {(one.predicate or "").removeprefix("has_") for one in found if one.entities}
    found = [one for one in found if (one.predicate or "").removeprefix("number_of_") not in named or one.object != "1"]
    for place, one in enumerate(found):
        later = [after for after in found[place + 1 :] if one.intent is Intent.FORGET and _answers(after, one)]
        if not later:
            kept.append(one)
            continue
        spot = found.index(later[0])
        found[spot] = msgspec.structs.replace(later[0], intent=Intent.CORRECT, replaces=one.object or later[0].replaces)
    return kept


def _answers(after: Extracted, one: Extracted) -> bool:
    return after.intent is not Intent.FORGET and slot_of(after) is not None and slot_of(after) == slot_of(one)
