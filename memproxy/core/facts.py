"""What a new statement does to what is known: pure decisions, and the chain of supersession that they make. A slot
decides over similarity: with the same value a repetition, with another a change. Without a slot similarity nominates,
numbers, names and negation decide, and in doubt both statements live on: losing one is worse.
"""

import enum
import re
import unicodedata
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory, Relation, noted_id, without
from memproxy.core.similar import (
    LEXICAL_RELATED,
    LEXICAL_SAME,
    Neighbour,
    affirms,
    alike,
    changes,
    contains,
    is_listed,
    lexical_overlap,
    names,
    one_topic,
    same_aspect,
    same_place,
    says_the_same,
    terms,
    topic,
)
from memproxy.core.slots import (
    denies_another,
    numbers,
    predicate_name,
    same_value,
    singular,
    slot_name,
    slot_value,
    subject_name,
    value_name,
)
from memproxy.core.slots import words as name_words
from memproxy.core.text import GENERIC_WORDS, key_terms, sentences, words

SAID = "said_at"
LAST_SAID = "last_said_at"
RETRACTED_BY = "retracted_by"
RETRACTED_AT = "retracted_at"
STATED_END = "stated_end"
RECONCILED_AT = "reconciled_at"
PENDING = "pending"
"""Names in ``metadata``: when it was said first and last; by which turn and when it was taken back; until when it was
said to hold, where something closed it before; when learning held it against all that was known (two such active
statements both hold); ``pending``: rules read in a new message that it was ``superseded`` or ``retracted``.
"""


class Effects(msgspec.Struct, frozen=True):
    """What to write: the memory (None if nothing new), and changed fields of known memories by id."""

    new: Memory | None = None
    changes: dict[str, dict[str, Any]] = {}


def said_at(memory: Memory) -> datetime:
    """When it was said: noted with what was learned from a conversation, else when we came to know it."""
    return _noted(memory, SAID) or memory.created_at


def last_said_at(memory: Memory) -> datetime:
    """When it was said last."""
    return _noted(memory, LAST_SAID) or said_at(memory)


def _noted(memory: Memory, name: str) -> datetime | None:
    """A time that memproxy notes under this name; what a client wrote there and is none, or has no offset, is none."""
    try:
        at = datetime.fromisoformat(noted_id(memory.metadata, name) or "")
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def begins(memory: Memory) -> datetime:
    """From when it held, as far as known."""
    return memory.valid_from or said_at(memory)


def retracted_at(memory: Memory) -> datetime | None:
    """When it was taken back; None when it never was."""
    return _noted(memory, RETRACTED_AT)


def is_older(memory: Memory, other: Memory) -> bool:
    """Whether ``memory`` speaks of an earlier state than ``other``. Stated beginnings decide if both have one; else
    what was said later is newer, whatever time it speaks of ("I have lived in Rome since 2020" corrects). What had
    ended when it was said ("I lived in Berlin until 2023") is older than what goes on. A record (nobody said it in a
    conversation) stands at its beginning.
    """
    if memory.valid_to is not None and memory.valid_to <= said_at(memory) and other.valid_to is None:
        return True
    if states_beginning(memory) and (states_beginning(other) or not (SAID in memory.metadata or memory.turn_ids)):
        return begins(memory) < begins(other)
    return said_at(memory) < last_said_at(other)


def states_beginning(memory: Memory) -> bool:
    """Whether it says since when, and not only that it holds."""
    return memory.valid_from is not None and memory.valid_from != said_at(memory)


def position(candidate: Memory, chain: Sequence[Memory]) -> int:
    """The candidate's index in the chain: how many of it stand before the candidate in time."""
    index = len(chain)
    while index and is_older(candidate, chain[index - 1]):
        index -= 1
    return index


def segment(candidate: Memory, past: Sequence[Memory]) -> Memory | None:
    """The end of a chain that was retracted after the candidate was said: "forget it" covers late messages, too."""
    ends = [(at, memory) for memory in past if (at := retracted_at(memory)) and memory.superseded_by is None]
    later = [end for end in ends if end[0] >= said_at(candidate)]
    return min(later, key=lambda end: end[0])[1] if later else None


def place(candidate: Memory, chain: Sequence[Memory], *, now: datetime) -> Effects:
    """Put the candidate where it belongs in a chain of supersession (oldest first): the newest is active and closes
    those before it, one that comes late is stored as superseded. Where all was taken back nothing becomes active.
    """
    index = position(candidate, chain)
    predecessor = chain[index - 1] if index else None
    successor = chain[index] if index < len(chain) else None
    new = msgspec.structs.replace(candidate, supersedes=predecessor.id if predecessor else candidate.supersedes)
    changes = trimmed(chain[: index - 1] if index else [], begins(new), now=now)
    if predecessor is not None:
        changes[predecessor.id] = ended(predecessor, begins(new), now=now) | {"superseded_by": new.id}
        retracted, by = retracted_at(predecessor), str(predecessor.metadata.get(RETRACTED_BY))
        if successor is None and retracted is not None:
            if by not in new.turn_ids:  # else its own message took back what it takes the place of
                new = msgspec.structs.replace(new, **take_back(new, by, retracted, now=new.updated_at))
            changes[predecessor.id]["metadata"] = without(predecessor.metadata, RETRACTED_BY, RETRACTED_AT)
    if successor is not None:
        end = min(begins(later) for later in chain[index:])
        new = msgspec.structs.replace(new, superseded_by=successor.id, **_closed(new, end))
        changes[successor.id] = {"supersedes": new.id, "updated_at": now}
    return Effects(new, changes)


def repeat(old: Memory, repetition: Memory, chain: Sequence[Memory], *, now: datetime) -> dict[str, dict[str, Any]]:
    """The changes that a repetition makes: to the repeated statement, and, if it began earlier, to those before."""
    changes = reinforce(old, repetition, now=now)
    if not changes:
        return {}
    ids = [memory.id for memory in chain]
    index = ids.index(old.id) if old.id in ids else 0
    if "valid_from" in changes and (later := chain[index + 1 :]):
        earlier = msgspec.structs.replace(old, valid_from=changes["valid_from"])
        changes |= _closed(earlier, min(begins(memory) for memory in later))
    begin = changes.get("valid_from", begins(old))
    return trimmed(chain[:index], begin, now=now) | {old.id: changes}


def trimmed(chain: Sequence[Memory], end: datetime, *, now: datetime) -> dict[str, dict[str, Any]]:
    """The changed fields of memories that would hold beyond ``end``."""
    return {memory.id: ended(memory, end, now=now) for memory in chain if _close(memory, end) != memory.valid_to}


def _closed(memory: Memory, end: datetime) -> dict[str, Any]:
    """The fields of one that is no longer active. An end that was stated is noted, for when it is opened again."""
    at = _close(memory, end)
    relations = [
        msgspec.structs.replace(rel, valid_to=min(at, rel.valid_to) if rel.valid_to else at) for rel in memory.relations
    ]
    closed: dict[str, Any] = {"active": False, "valid_to": at, "relations": relations}
    if memory.active and memory.valid_to is not None:
        closed["metadata"] = memory.metadata | {STATED_END: memory.valid_to.isoformat()}
    return closed


REFINED = "refined"  # in ``metadata``: a model read it as it was saved; true where separate statements replace it


def ended(memory: Memory, end: datetime, *, now: datetime) -> dict[str, Any]:
    """The fields that change when a memory ends at a time (not before its own beginning)."""
    return _closed(memory, end) | {"updated_at": now}


def _close(memory: Memory, end: datetime) -> datetime:
    """The end of its validity: never before its beginning, and not later than an end it had already."""
    end = max(end, begins(memory)).astimezone(UTC)
    return min(end, memory.valid_to) if memory.valid_to else end


def take_back(memory: Memory, turn: str, at: datetime, *, now: datetime) -> dict[str, Any]:
    """The fields that change when somebody takes a statement back: it ends, nothing takes its place."""
    closed = ended(memory, at, now=now)
    noted = closed.get("metadata", memory.metadata) | {RETRACTED_BY: turn, RETRACTED_AT: at.isoformat()}
    return closed | {"metadata": noted}


def reopened(memory: Memory, *, now: datetime) -> dict[str, Any]:
    """The fields that change when what closed a memory is undone: active again, until when it was said to hold."""
    end = _noted(memory, STATED_END)
    relations = [
        msgspec.structs.replace(relation, valid_to=end) if relation.valid_to == memory.valid_to else relation
        for relation in memory.relations
    ]
    return {
        "active": True,
        "superseded_by": None,
        "valid_to": end,
        "relations": relations,
        "metadata": without(memory.metadata, RETRACTED_BY, RETRACTED_AT, STATED_END, PENDING),
        "updated_at": now,
    }


def reinforce(old: Memory, repetition: Memory, *, now: datetime) -> dict[str, Any]:
    """The fields that change when a statement is repeated; none when the same turn is read again. Confidence moves a
    quarter of the way to certainty, weighed by the repetition's own (four confident ones lift 0.5 to 0.84). A more
    trusted repetition lifts trust and ends quarantine. First and last time are noted; an earlier beginning counts.
    """
    more = [turn for turn in repetition.turn_ids if turn not in old.turn_ids]
    if not more:
        return {}
    first, last = min(said_at(old), said_at(repetition)), max(last_said_at(old), last_said_at(repetition))
    noted = old.metadata | {SAID: first.isoformat(), LAST_SAID: last.isoformat()}
    changes: dict[str, Any] = {"turn_ids": [*old.turn_ids, *more], "metadata": noted}
    if not states_beginning(old) and begins(repetition) < begins(old):
        changes["valid_from"] = begins(repetition)
    if old.active:
        changes["confidence"] = round(old.confidence + (1 - old.confidence) * 0.25 * repetition.confidence, 4)
        changes["updated_at"] = now
        if repetition.trust.level > old.trust.level:
            changes["trust"] = repetition.trust
        if old.quarantined and not repetition.quarantined:
            changes["quarantined"] = False
    return changes


_PRONOUNS = frozenset({"it", "that", "this", "he", "she", "they", "its"})
_WHOLE = 4  # words of a sentence that stands by itself ("User gets up at 7")
_NEARLY = 0.8  # share of their words (Dice) that a statement and another form of it have in common
_MOST_OF_IT = 0.67  # share of the words of a statement called wrong that a known one must hold to be it


def statement_named(replaces: str, statements: Sequence[Memory]) -> Memory | None:
    """The statement that a correction names word for word, case, blanks and end marks aside; where none is that, the
    only one that says it in nearly the same words. None where it names a value alone.
    """
    exact = [memory for memory in statements if says_exactly(memory, replaces)]
    if exact:
        return max(exact, key=last_said_at)
    named_terms = terms(replaces)
    if len(words(replaces)) < _WHOLE or not named_terms:
        return None
    near = [memory for memory in statements if _says_nearly(memory, replaces, named_terms)]
    return near[0] if len(near) == 1 else None


def says_exactly(memory: Memory, text: str) -> bool:
    """Whether a text is the memory's own sentence, case, blanks, end marks and "User" at its head aside."""
    return _plain(memory.content) == _plain(text)


def _plain(text: str) -> str:
    """A statement's words in lower case; that it is one about the user may be left out."""
    plain = " ".join(unicodedata.normalize("NFKC", text).replace("’", "'").casefold().split()).strip(" .!?…。！？\"'")
    return plain.removeprefix("the ").removeprefix("user ")


def _says_nearly(memory: Memory, text: str, text_terms: frozenset[str]) -> bool:
    return (
        2 * len(text_terms & terms(memory.content)) >= _NEARLY * (len(text_terms) + len(terms(memory.content)))
        and numbers(text) == numbers(memory.content)
        and names(text) == names(memory.content)
        and affirms(msgspec.structs.replace(memory, content=text)) == affirms(memory)
    )


def corrected_memory(candidate: Memory, replaces: str | None, near: Sequence[Neighbour]) -> Memory | None:
    """The active memory that a correction is about; None when none clearly is. What it names as wrong decides, else
    what it speaks of, else ("it's 15,000 now") what had such a value last in its conversation.
    """
    possible = [neighbour.memory for neighbour in near if _may_be_corrected(candidate, neighbour.memory)]
    if replaces:
        stated = [memory for memory in possible if _says_wrong_thing(memory, replaces)]
        return _closest(candidate, stated)
    if topic(candidate.content) - names(candidate.content):
        fitting = [memory for memory in possible if changes(candidate, memory, corrects=True)]
        return _closest(candidate, fitting)
    same_session = [memory for memory in possible if memory.session_id == candidate.session_id]
    if numbers(candidate.content):  # a number corrects a statement with one number, or a name one with a name
        same_session = [memory for memory in same_session if len(numbers(memory.content)) == 1]
    else:
        named = bool(names(candidate.content))
        same_session = [memory for memory in same_session if named and memory.object and not numbers(memory.object)]
    return max(same_session, key=last_said_at, default=None)


def _may_be_corrected(candidate: Memory, old: Memory) -> bool:
    if not old.active or old.kind in (Kind.TURN, Kind.EPISODIC) or last_said_at(old) > said_at(candidate):
        return False
    if old.place != candidate.place:
        return False
    if old.turn_ids and set(old.turn_ids) <= set(candidate.turn_ids):
        return False  # what one message says side by side holds side by side
    return not candidate.aspect or (old.aspect or "").casefold() == candidate.aspect.casefold()


def _says_wrong_thing(memory: Memory, wrong: str) -> bool:
    """Whether a memory says what the correction calls wrong: its value, or most of its words."""
    if memory.object and same_value(value_name(memory.object), value_name(wrong)):
        return True
    about = topic(wrong) | names(wrong)
    if wrong_numbers := numbers(wrong):
        held = topic(memory.content) | names(memory.content)
        return wrong_numbers <= numbers(memory.content) and len(about & held) >= _MOST_OF_IT * len(about)
    return contains(memory.content, value_name(wrong)) or (bool(about) and about <= topic(memory.content))


def _closest(candidate: Memory, fitting: Sequence[Memory]) -> Memory | None:
    """The memory that shares most of the candidate's topic; among equals the latest of the same conversation."""
    about = topic(candidate.content)

    def fit(memory: Memory) -> tuple[int, bool, float]:
        shared = len(about & topic(memory.content))
        return (shared, memory.session_id == candidate.session_id, last_said_at(memory).timestamp())

    return max(fitting, key=fit, default=None)


def stands_alone(candidate: Memory) -> bool:
    """Whether a statement can be understood by itself: it names a subject, not only a value."""
    about = topic(candidate.content) - topic(candidate.object or "")
    first = re.match(r"\W*(\w+)", candidate.content)
    return bool(about) and (first is None or first[1].casefold() not in _PRONOUNS)


def in_place_of(candidate: Memory, target: Memory) -> Memory:
    """What replaces the target: the correction, under the old names where it is a bare value ("it's 15,000 now")."""
    slot, value = slot_name(candidate), value_name(candidate.object or "")
    # it says the opposite about the same thing ("likes coffee", "hates coffee")
    turned = slot and value and (slot, value) == (slot_name(target), value_name(target.object or ""))
    if is_whole(candidate) or turned or slot_name(target) is None:
        return candidate
    if is_listed(target) and not candidate.object:
        return candidate
    named = msgspec.structs.replace(
        candidate,
        kind=target.kind,
        subject=target.subject,
        predicate=target.predicate,
        aspect=target.aspect,
        category=candidate.category or target.category,
    )
    return msgspec.structs.replace(named, slot=slot_name(named))


def is_whole(candidate: Memory) -> bool:
    """Whether a correction says by itself what it is about: it has names, and is a whole sentence."""
    content_words = words(candidate.content)
    named = candidate.subject and candidate.predicate and candidate.object
    return bool(named) and len(content_words) >= _WHOLE and content_words[0] not in _PRONOUNS


def following_edits(memory: Memory, edits: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that follow from ``edits``: no object, relation or entity keeps saying what the words do not."""
    if memory.kind is Kind.TURN:
        return {}
    fields: dict[str, Any] = {}
    content = edits.get("content", memory.content)
    if "object" not in edits and is_left_out(memory.object, memory.content, content):
        fields["object"] = _replacing_words(memory.object or "", memory.content, content)
    stated = {name: {**fields, **edits}.get(name, getattr(memory, name)) for name in ("subject", "predicate", "object")}
    if "relations" not in edits:
        relations = [restated for old in memory.relations if (restated := _restate(old, memory, stated)) is not None]
        fields |= {"relations": relations} if relations != memory.relations else {}
    if "entities" not in edits:
        entities = [name for name in memory.entities if not is_left_out(name, memory.content, content)]
        new = stated["object"]
        if new and new not in entities and memory.object in memory.entities and memory.object not in entities:
            entities.append(new)
        fields |= {"entities": entities} if entities != memory.entities else {}
    return fields


def is_left_out(value: str | None, old_text: str, new_text: str) -> bool:
    """Whether words of the sentence ``old_text`` are not in ``new_text``."""
    name = value_name(value or "")
    return bool(name) and contains(old_text, name) and not contains(new_text, name)


def _replacing_words(value: str, old_text: str, new_text: str) -> str | None:
    """The words that replace the old value; None where more than that has changed."""
    head, separator, tail = old_text.partition(value)
    new = new_text[len(head) : len(new_text) - len(tail)].strip()
    return new if separator and new_text.startswith(head) and new_text.endswith(tail) and new else None


def _restate(relation: Relation, memory: Memory, stated: Mapping[str, str | None]) -> Relation | None:
    """A relation of an edited statement, with what is stated now; None where that leaves one of its ends open."""
    changed: dict[str, str] = {}
    for name, new in stated.items():
        old = getattr(memory, name)
        if old is None or old == new or value_name(getattr(relation, name)) != value_name(old):
            continue
        if new is None:
            return None
        changed[name] = new
    return msgspec.structs.replace(relation, **changed) if changed else relation


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
"""An order to forget. "I'm not on Instagram any more" ends a statement as well, but makes one itself."""


def orders_to_forget(text: str) -> bool:
    """Whether a message orders to forget something, and does not only end a statement by saying what holds now."""
    return _ORDER.search(text.replace("’", "'")) is not None


def only_asks_to_forget(text: str, quotes: Sequence[str]) -> bool:
    """Whether a message only asks to forget, by ``quotes``; after a comma it may say more ("Forget X, I have Y")."""
    order_quotes = [_quoted(quote) for quote in quotes]
    telling = [sentence for sentence in sentences(text.replace("’", "'")) if key_terms(sentence)]
    return bool(telling) and all(
        _ORDER.search(sentence) is not None
        and any(_quoted(sentence) in quote or quote in _quoted(sentence) for quote in order_quotes if quote)
        and sum(bool(key_terms(clause)) for clause in _CLAUSE_END.split(sentence)) == 1
        for sentence in telling
    )


def _quoted(text: str) -> str:
    return " ".join(text.replace("’", "'").casefold().split()).strip(" .!?\"'")


def meant_memories(request: Memory, near: Sequence[Neighbour]) -> tuple[Memory, ...]:
    """The active memories, said before, that a request to forget means (its content names them): of the same slot,
    unless it names another value; else all that hold every term of it; else the one that holds most.
    """
    possible = [neighbour.memory for neighbour in near if _may_be_meant(request, neighbour.memory)]
    request_terms = _terms(request)
    exact = [memory for memory in possible if _same_question(request, memory, request_terms)]
    if exact:
        return tuple(exact)
    if not request_terms:
        return ()
    shares = [(len(request_terms & _words_held(memory)) / len(request_terms), memory) for memory in possible]
    if whole := [memory for share, memory in shares if share == 1]:
        return tuple(whole)
    best = sorted((pair for pair in shares if pair[0] >= _MOST_OF_IT), key=lambda pair: -pair[0])
    alone = best and (len(best) == 1 or best[0][0] > best[1][0])
    return (best[0][1],) if alone else ()


def is_specific(request: Memory) -> bool:
    """Whether a request to forget names something in particular, by its terms or by a question."""
    return bool(_terms(request) or (request.subject and request.predicate and slot_name(request)))


def clearly_means(request: Memory, memory: Memory) -> bool:
    """Whether a request to forget clearly means a statement, whatever else is known: its slot, or all of its terms."""
    if not _may_be_meant(request, memory):
        return False
    request_terms = _terms(request)
    return _same_question(request, memory, request_terms) or (
        bool(request_terms) and request_terms <= _words_held(memory)
    )


def _same_question(request: Memory, memory: Memory, request_terms: frozenset[str]) -> bool:
    """Whether the request names the slot of a memory; without an object every item that holds its other words."""
    slot = slot_name(msgspec.structs.replace(request, object=request.object or memory.object or memory.content))
    if slot is None or slot != slot_name(memory):
        return False
    return bool(request.object) or not is_listed(memory) or bool(request_terms & _words_held(memory))


def _may_be_meant(request: Memory, memory: Memory) -> bool:
    """Whether a request may mean a memory: no time, value, subject, predicate, name or number is against it."""
    if not memory.active or memory.kind is Kind.TURN or last_said_at(memory) > said_at(request):
        return False
    held, request_terms = _words_held(memory), _terms(request)
    if request.object and memory.object and slot_name(request) == slot_name(memory):
        same = same_value(value_name(request.object), value_name(memory.object))
        if affirms(request) == affirms(memory) and not same:
            return False
    if request.subject and memory.subject:
        subject, of = subject_name(request.subject), subject_name(memory.subject)
        is_other = subject != of and not set(of.split("_")) <= request_terms
        if is_other and (subject == "user" or not set(subject.split("_")) <= held):
            return False
    if predicate_name(request.predicate or "") != predicate_name(memory.predicate or ""):
        predicate, stored = set(name_words(request.predicate or "")), set(name_words(memory.predicate or ""))
        if predicate and stored and not stored & (predicate | request_terms):
            return False
    held |= {part for name in names(memory.content) for part in name.split("_")}
    named = {part for name in names(request.content) for part in name.split("_")}
    return numbers(request.content) <= numbers(_text(memory)) and named <= held


def _text(memory: Memory) -> str:
    named = (memory.subject, memory.predicate, memory.object, memory.aspect, *memory.entities)
    return " ".join([memory.content, *(part for part in named if part)])


def _words_held(memory: Memory) -> frozenset[str]:
    """The words that a memory holds, its names taken apart."""
    return frozenset(name_words(_text(memory))) | topic(_text(memory))


def _terms(request: Memory) -> frozenset[str]:
    """The terms of what the request asks to forget. Words that are in many memories count only beside others."""
    request_terms = frozenset(singular(term) for term in topic(request.content)) - _FORGETTING
    specific = request_terms - GENERIC_WORDS
    predicate = frozenset(name_words(request.predicate or ""))
    return request_terms if specific or request_terms & predicate else frozenset()


class Operation(enum.StrEnum):
    """What becomes of a candidate: a new memory, one that replaces another, a repetition, a new one beside a related
    one, the end of a retracted one; or nothing, when it is about something unknown.
    """

    ADD = "add"
    UPDATE = "update"
    DUPLICATE = "duplicate"
    COEXIST = "coexist"
    RETRACT = "retract"
    NOTHING = "nothing"


class Bands(msgspec.Struct, frozen=True):
    """Cosines from which a neighbour counts as the same statement, and as related (``dedup`` in the settings)."""

    same: float = 0.9
    related: float = 0.7


class Decision(msgspec.Struct, frozen=True):
    """The operation, and the memory it is about (None for ADD); of RETRACT all that are ``meant``."""

    operation: Operation
    target: Memory | None = None
    meant: tuple[Memory, ...] = ()


def decide(
    candidate: Memory, *, chain: Sequence[Memory], neighbours: Sequence[Neighbour], bands: Bands | None = None
) -> Decision:
    """What a statement does to what is known. ``chain``: its slot's history, oldest first, its holder (or end) last.
    ``neighbours``: near memories of the owner, best first; inactive ones tell repetitions of what ended.
    """
    if chain:
        return _in_slot(candidate, chain)
    related: Memory | None = None
    for near in neighbours:
        operation = _operation_beside(candidate, near, bands or Bands())
        if operation in (Operation.DUPLICATE, Operation.UPDATE):
            return Decision(operation, near.memory)
        if operation is Operation.COEXIST and related is None:
            related = near.memory
    return Decision(Operation.COEXIST, related) if related else Decision(Operation.ADD)


def decide_correction(
    candidate: Memory,
    replaces: str | None,
    *,
    chain: Sequence[Memory],
    neighbours: Sequence[Neighbour],
    bands: Bands | None = None,
) -> Decision:
    """What a correction does: replace what it is about, else stand as a statement where it can, else nothing."""
    if chain:
        decision = _in_slot(candidate, chain)
        # "to Galicia with Petra" after "to Galicia with mum" is no repetition, though both have one value
        if decision.target is not None and is_left_out(replaces, decision.target.content, candidate.content):
            return Decision(Operation.UPDATE, decision.target)
        return decision
    repeated = next((near.memory for near in neighbours if _is_the_same_turn(candidate, near.memory)), None)
    if repeated is not None:
        return Decision(Operation.DUPLICATE, repeated)
    target = corrected_memory(candidate, replaces, neighbours)
    if target is not None:
        same = same_value(slot_value(candidate), slot_value(target)) if candidate.object and target.object else False
        return Decision(Operation.DUPLICATE if same else Operation.UPDATE, target)
    if not stands_alone(candidate):
        return Decision(Operation.NOTHING)
    return decide(candidate, chain=chain, neighbours=neighbours, bands=bands)


def decide_replacement(candidate: Memory, target: Memory, neighbours: Sequence[Neighbour]) -> Decision:
    """A statement that names what it replaces does just that, whatever slots say; the same turn again repeats it."""
    repeated = next((near.memory for near in neighbours if _is_the_same_turn(candidate, near.memory)), None)
    if repeated is not None:
        return Decision(Operation.DUPLICATE, repeated)
    same = says_exactly(target, candidate.content)
    return Decision(Operation.DUPLICATE if same else Operation.UPDATE, target)


def decide_retraction(request: Memory, neighbours: Sequence[Neighbour]) -> Decision:
    """What a request to forget does: it ends what is meant, nothing when nothing clearly is."""
    exact = (near.memory for near in neighbours if near.memory.active and says_exactly(near.memory, request.content))
    named = [memory for memory in exact if last_said_at(memory) <= said_at(request)]
    targets = tuple(named) or meant_memories(request, neighbours)
    return Decision(Operation.RETRACT, targets[0], targets) if targets else Decision(Operation.NOTHING)


def _in_slot(candidate: Memory, chain: Sequence[Memory]) -> Decision:
    """Decide by the values of the slot's statements next to it in time, and of one that the same turn stated before."""
    index = position(candidate, chain)
    beside = [*chain[max(0, index - 1) : index][::-1], *chain[index : index + 1]]
    same_turn = [memory for memory in chain if set(candidate.turn_ids) & set(memory.turn_ids)]
    for memory in (*same_turn, *beside):
        retracted = retracted_at(memory)
        said_anew = retracted is not None and said_at(candidate) > retracted
        if same_value(slot_value(candidate), slot_value(memory)) and not said_anew:
            return Decision(Operation.DUPLICATE, memory)
    if denies_another(candidate, chain[-1]):
        return Decision(Operation.NOTHING)
    return Decision(Operation.UPDATE, chain[-1])


def stated_before(candidate: Memory, past: Sequence[Memory]) -> Memory | None:
    """Which of a slot's statements the candidate's own turn has stated before, when the turn is read again."""
    turns, value = set(candidate.turn_ids), slot_value(candidate)
    of_turn = (memory for memory in past if turns & set(memory.turn_ids))
    return next((memory for memory in of_turn if same_value(value, slot_value(memory))), None)


def _operation_beside(candidate: Memory, near: Neighbour, bands: Bands) -> Operation:
    old = near.memory
    if old.kind is not candidate.kind:
        return Operation.ADD
    if _is_the_same_turn(candidate, old) or _was_taken_back(candidate, old):
        return Operation.DUPLICATE
    if not _near(candidate, near, bands.related, LEXICAL_RELATED) and not one_topic(candidate, old):
        return Operation.ADD
    same = _near(candidate, near, bands.same, LEXICAL_SAME)
    if says_the_same(candidate, old):
        repeated = same and (old.active or said_at(candidate) <= (old.valid_to or old.updated_at))
        return Operation.DUPLICATE if repeated else Operation.COEXIST
    changed = old.active and changes(candidate, old)
    return Operation.UPDATE if changed else Operation.COEXIST


def _is_the_same_turn(candidate: Memory, old: Memory) -> bool:
    """Whether the same words of the same turn are read again (whatever became of them since)."""
    if not set(candidate.turn_ids) & set(old.turn_ids) or old.kind is Kind.TURN:
        return False
    if candidate.content == old.content:
        return True
    evidence = candidate.metadata.get("evidence")
    if evidence is None or evidence != old.metadata.get("evidence") or slot_name(candidate) != slot_name(old):
        return False
    return same_value(slot_value(candidate), slot_value(old))


def _was_taken_back(candidate: Memory, old: Memory) -> bool:
    """Whether the user retracted the statement, in these or other words, after it was said."""
    retracted = retracted_at(old)
    if retracted is None or old.active or said_at(candidate) > retracted or affirms(candidate) != affirms(old):
        return False
    if str(old.metadata.get(RETRACTED_BY)) in candidate.turn_ids:
        return False  # the turn that took it back says what holds instead ("not to dogs, to dust mites")
    return alike(terms(candidate.content), terms(old.content))


def _near(candidate: Memory, near: Neighbour, cosine: float, overlap: float) -> bool:
    if near.cosine is not None:
        return near.cosine >= cosine
    return lexical_overlap(candidate.content, near.memory.content) >= overlap


def in_gray_zone(candidate: Memory, near: Neighbour, bands: Bands) -> bool:
    """Whether rules are unsure of an active neighbour: related, not plainly the same, and one may replace the other."""
    old = near.memory
    if not old.active or not may_replace(candidate, old):
        return False
    return _near(candidate, near, bands.related, LEXICAL_RELATED) and not _near(
        candidate, near, bands.same, LEXICAL_SAME
    )


def may_replace(candidate: Memory, old: Memory) -> bool:
    """Whether it may be the known statement in another form, no matter what proposes so. Episodes, other kinds, other
    aspects and items of lists live side by side; what is less trusted or in quarantine replaces nothing that is not.
    """
    if candidate.kind is not old.kind or candidate.kind in (Kind.EPISODIC, Kind.TURN):
        return False
    if not same_aspect(candidate, old) or not same_place(candidate, old):
        return False
    if is_listed(candidate) or is_listed(old):
        return False
    return trusted_enough(candidate, old) and not is_older(candidate, old)


def trusted_enough(candidate: Memory, old: Memory) -> bool:
    """Whether the candidate is trusted enough to change the known one; one that waits to be confirmed is not."""
    if candidate.quarantined and not old.quarantined:
        return False
    return candidate.trust.level >= old.trust.level
