"""Which of the nominated candidates may become facts: those that rest on a message and that their source may state."""

import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.facts import is_left_out
from memproxy.core.gate import judge
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.similar import affirms, contains, names, topic
from memproxy.core.slots import (
    has_many,
    numbers,
    predicate_name,
    same_value,
    singular,
    slot_value,
    subject_name,
    value_name,
    words,
)
from memproxy.core.telling import telling
from memproxy.core.text import QUESTION_MARKS, key_terms, sentences
from memproxy.core.timerange import spans_in_statement
from memproxy.learn.candidates import Extracted, Grounded, Intent, Read, Rejected, Window
from memproxy.learn.planted import admitted, is_about_user, rejection
from memproxy.metrics import metrics

_KINDS = frozenset({"greeting", "smalltalk"})

_TELLS = -2.5  # log odds from which a message may tell something: 0.2 % of parts that do lie below, of questions 27 %
_ANSWERS = -3.55  # the same behind a question: "yes" and "around five" tell something there, "thanks" does not


def hold_nothing(turns: Sequence[Memory], new_ids: frozenset[str]) -> bool:
    """Whether the new turns of a conversation hold nothing to learn from."""
    question_open = False
    for turn in turns:
        text = strip_blocks(turn.content).strip()
        if turn.trust is Trust.ASSISTANT:
            question_open = _asks(text)
            continue
        is_answer = question_open and turn.trust is Trust.USER and not _asks(text)
        idle = turn.trust is Trust.USER and telling(text) < (_ANSWERS if is_answer else _TELLS)
        if turn.id in new_ids and text and not idle:
            return False
    return True


def _answers_question(turns: Sequence[Memory], turn: Memory) -> bool:
    """Whether a turn of a conversation follows one of the assistant's that asks something."""
    index = next((index for index, other in enumerate(turns) if other.id == turn.id), 0)
    previous = turns[index - 1] if index else None
    return previous is not None and previous.trust is Trust.ASSISTANT and _asks(strip_blocks(previous.content))


def _asks(text: str) -> bool:
    return any(mark in text for mark in QUESTION_MARKS)


_LEAST_QUOTE = 3  # letters of a quote; a shorter one could be from anywhere and counts as none
_SMALL = 31  # numbers up to this may be counts, days or hours that the extractor worked out ("two dogs", "tomorrow")

_NOT_ABOUT = frozenset({"user", "assistant", "people", "person", "speaker"})
_MARKS = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-", "‹": "<"})


class Heard:
    """A window prepared for checking candidates: read once, because a long one takes tens of milliseconds."""

    def __init__(self, window: Window) -> None:
        texts = [strip_blocks(turn.content) for turn in window.turns]
        whole = " ".join([*texts, *(memory.content for memory in window.related)])
        self._turns = [(turn, _plain(text)) for turn, text in zip(window.turns, texts, strict=True)]
        self.terms = _terms(whole)
        self.numbers = numbers(whole)
        self.known_statements = frozenset(_bare(memory.content) for memory in window.related)

    def holders(self, plain: str) -> list[Memory]:
        """The turns that hold a quote; its pieces in order when it leaves words out by an ellipsis."""
        pieces = [piece for part in re.split(r"\.\.\.|…", plain) if (piece := part.strip())]
        return [turn for turn, text in self._turns if pieces and _holds(text, pieces)]


def ground(candidate: Extracted, heard: Heard) -> Grounded | str:
    """The candidate with its turn, or why it is rejected.

    ``evidence``: it quotes nothing, or words that no message of the window holds. ``ungrounded``: it quotes, but shares
    no term with what was said, or states a number that is neither in the conversation nor known (a quote must not carry
    an invention).
    """
    quotes = [plain for text in candidate.evidence if len(plain := _plain(text)) >= _LEAST_QUOTE]
    holders = [heard.holders(text) for text in quotes]
    if not quotes or not all(holders):
        return "evidence"
    if not _is_carried(candidate, heard):
        return "ungrounded"
    newest_first = reversed([turn for holding in holders for turn in holding])
    return Grounded(candidate, max(newest_first, key=lambda turn: turn.trust.level))


def _is_carried(candidate: Extracted, heard: Heard) -> bool:
    """Whether the statement is about what was said: a shared term, or a known statement that it replaces ("User is
    vegetarian" by "User is pescatarian", said as "I eat fish again"); and no number of its own.
    """
    if candidate.intent is Intent.FORGET:
        return True  # it names what is to go and states nothing
    # a year, or a small number, may be derived: dates are worked out from the message's own ("last week")
    its_numbers = {number for number in numbers(candidate.content) if not (_is_year(number) or float(number) <= _SMALL)}
    replaces = candidate.intent is Intent.CORRECT and _bare(candidate.replaces or "") in heard.known_statements
    return (replaces or bool(_terms(candidate.content) & heard.terms)) and its_numbers <= heard.numbers


def _is_year(number: str) -> bool:
    return re.fullmatch(r"(?:19|20)\d\d", number) is not None


def _plain(text: str) -> str:
    """Text to compare quotes by: case, kinds of quotation marks and dashes, white space and marks at the ends aside."""
    folded = unicodedata.normalize("NFKC", text).translate(_MARKS).casefold()
    return " ".join(folded.split()).strip(" \"'`.,;:!?…*_")


def _holds(text: str, pieces: Sequence[str]) -> bool:
    offset = 0
    for piece in pieces:
        start = text.find(piece, offset)
        if start < 0:
            return False
        offset = start + len(piece)
    return True


def _terms(text: str) -> frozenset[str]:
    terms = frozenset(singular(term) for term in key_terms(text, 500))
    return (terms | numbers(text)) - _NOT_ABOUT


_LEAD = re.compile(r"^(?:until|till|til|by|through|end of|up to)\s+", re.IGNORECASE)
_DAY = re.compile(r"^(?:this |coming )?(mon|tues|wednes|thurs|fri|satur|sun)day\b", re.IGNORECASE)
_STAYS = re.compile(
    r"\b(?:is|are|am|stay\w*|living|lives?|working|works?|visit\w*|travel\w*)\b.{0,80}?\b(?:until|till|through) "
    r"(?P<end>[^.;]{3,40})",
    re.IGNORECASE,
)

_RECURS = re.compile(
    r"\b(?:from|between|every|each|always|usually|normally|seasons?|weekdays?|daily|weekly|monthly|yearly|annually)\b",
    re.IGNORECASE,
)
"""A sentence with one of these names days that come again ("from Monday until Friday"), and no end."""


def with_end(candidate: Extracted, said_at: datetime) -> Extracted:
    """The candidate with its end as a time, counted from ``said_at``; as it is without one, or one that was over."""
    if candidate.valid_to is not None or candidate.kind is Kind.EPISODIC or candidate.intent is not Intent.STATE:
        return candidate
    stays = None if _RECURS.search(candidate.content) else _STAYS.search(candidate.content)
    for text in (candidate.until, stays["end"] if stays else None):
        end = moment_of(text, said_at) if text else None
        if end is not None and end > max(said_at, candidate.valid_from or said_at):
            return msgspec.structs.replace(candidate, valid_to=end)
    return candidate


def moment_of(text: str, said_at: datetime) -> datetime | None:
    """The end of the day (week, month, year) that words name, against when they were said; None for other words."""
    plain = _LEAD.sub("", text.strip())
    spans = spans_in_statement(_DAY.sub(r"next \1day", plain), said_at)
    return spans[0].end if spans else None


_LEAST_SAID = 0.3  # share of a repeated statement's words that its message must hold; else it is an echo
_REPLY = 3  # words of a message that may do no more than agree to what it was asked

_LEFT = re.compile(
    r"\b(?:from|instead of|rather than|not|no longer|never|left|quit|leaving|used to \w+(?: \w+)?|over|than|was|were"
    r"|formerly|previously)\s{1,9}(?:in |at |for |the |my |our |a |an ){0,6}$"
)
"""Before a value: it is what the message leaves behind ("from Berlin", "instead of Vim")."""

_BEFORE = 80  # characters before a value that are read for it

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


def contradict(statement: Memory, other: Memory) -> bool:
    """Whether two statements of one value contradict: one says that it holds, the other that it ended or never did."""
    ended, other_ended = ends(statement.content), ends(other.content)
    return ended != other_ended or (not ended and affirms(statement) != affirms(other))


def is_echo(candidate: Extracted, turn: Memory, window: Window) -> bool:
    """Whether a candidate only repeats a known memory: its message does not hold its value. A repetition makes the
    statement the latest, which would undo a change that the same message tells; a "yes" confirms what waits in
    quarantine.
    """
    trusted = [memory for memory in window.related if not memory.quarantined]
    if candidate.intent is Intent.FORGET or not any(_repeats(candidate, memory) for memory in trusted):
        return False
    text = strip_blocks(turn.content)
    if candidate.object and not holds(text, candidate.object):
        return _RETURNS.search(text) is None
    if ends(text) and not ends(candidate.content):
        return True
    stated = topic(candidate.content) | names(candidate.content)
    return bool(stated) and len(stated & (topic(text) | names(f"x {text}"))) < _LEAST_SAID * len(stated)


def goes_back_unsaid(candidate: Memory, grounded: Grounded, chain: Sequence[Memory]) -> bool:
    """Whether a candidate would return to a former value of its chain although its message does not say so. A
    correction says that something changes, and need not name to what ("the first one, after all").
    """
    value = slot_value(candidate)
    if grounded.candidate.intent is Intent.CORRECT:
        return False
    if not candidate.object or not chain or not chain[-1].active or same_value(value, slot_value(chain[-1])):
        return False
    if not all(set(candidate.turn_ids).isdisjoint(earlier.turn_ids) for earlier in chain):
        return False
    text = strip_blocks(grounded.turn.content)
    held = any(same_value(value, slot_value(earlier)) for earlier in chain[:-1])
    return held and len(text.split()) > _REPLY and not holds(text, candidate.object) and not _RETURNS.search(text)


def _repeats(candidate: Extracted, memory: Memory) -> bool:
    if _bare(candidate.content) == _bare(memory.content):
        return True
    if candidate.intent is Intent.CORRECT and is_left_out(candidate.replaces, memory.content, candidate.content):
        return False
    if not candidate.object or not memory.object or not _same_question(candidate, memory):
        return False
    same = same_value(value_name(candidate.object), value_name(memory.object))
    return same and ends(candidate.content) == ends(memory.content)


def _same_question(statement: Extracted | Memory, other: Extracted | Memory) -> bool:
    first, second = ((side.predicate or "", side.subject or "user") for side in (statement, other))
    same = predicate_name(first[0])[0] == predicate_name(second[0])[0]
    return same and subject_name(first[1]) == subject_name(second[1])


def _bare(content: str) -> str:
    return re.sub(r"^(?:the )?user(?:'s|’s)?\s+", "", content.strip().casefold().rstrip(" ."))


def holds(text: str, value: str) -> bool:
    """Whether a text holds a value, or a number, a name or a word of it."""
    if contains(text, value_name(value)):
        return True
    parts = {number for number in numbers(value) if not _is_year(number)} or (topic(value) | names(f"x {value}"))
    return bool(parts) and bool(parts & (numbers(text) | topic(text) | names(f"x {text}")))


def in_order(candidates: Sequence[Grounded]) -> list[Grounded]:
    """Reorder candidates of one message that answer one question, so that the one that holds is last: what is known
    already before what is new, what the message moves away from before what it moves to, its earlier words before its
    later ones ("at 9, no wait, at 11").
    """

    def last_word(grounded: Grounded) -> tuple[bool, bool, int]:
        text, value = strip_blocks(grounded.turn.content).casefold(), (grounded.candidate.object or "").casefold()
        last = text.rfind(value) if value else -1
        return (grounded.candidate.intent is Intent.CORRECT, not _is_left(text, value), last)

    ordered = list(candidates)
    for index in range(len(ordered)):
        rivals = [
            later for later in range(index, len(ordered)) if later == index or _rival(ordered[index], ordered[later])
        ]
        settled = sorted((ordered[rival] for rival in rivals), key=last_word)
        for rival, candidate in zip(rivals, settled, strict=True):
            ordered[rival] = candidate
    return ordered


def _rival(grounded: Grounded, other: Grounded) -> bool:
    first, second = grounded.candidate, other.candidate
    if grounded.turn.id != other.turn.id or grounded.turn.session_id != other.turn.session_id:
        return False
    if Intent.STATE not in (first.intent, second.intent) or Intent.FORGET in (first.intent, second.intent):
        return False
    predicate = predicate_name(first.predicate or "")[0]
    if not first.object or not second.object or not predicate or has_many(predicate):
        return False
    return _same_question(first, second)


def _is_left(text: str, value: str) -> bool:
    """Whether a message leaves a value behind, wherever it names it."""
    index = text.find(value) if value else -1
    while index >= 0:
        if _LEFT.search(text, max(0, index - _BEFORE), index) is not None:
            return True
        index = text.find(value, index + 1)
    return False


_OTHERS = (
    r"(?:grand)?(?:mother|father|mom|mum|dad|parent|son|daughter|child)s?|kids?|children|sister|brother|sibling|friend"
    r"|colleague|coworker|co-worker|boss|manager|neighbou?r|husband|wife|partner|girlfriend|boyfriend|fianc[eé]e?"
    r"|cousin|uncle|aunt|niece|nephew|roommate|flatmate|housemate|landlord|in-law|teammate|classmate|ex"
)
_OTHER = re.compile(rf"\b(?:{_OTHERS})s?\b", re.IGNORECASE)
_OTHER_DOES = re.compile(
    rf"\b(?:my|our)\s+(?:[\w-]+\s+){{0,2}}?(?:{_OTHERS})s?\b(?:\s+(?-i:[A-Z])[\w-]+)?(?!\s*(?:,|and)\s+(?:me|I)\b)"
    r"(?P<does>(?:\s+(?!(?:i|we|me|us|my|our)\b)[\w'’]+){1,8})",
    re.IGNORECASE,
)
_OF_OTHERS = re.compile(
    rf"\b(?:my|our)\s+(?:[\w-]+\s+){{0,2}}?(?:{_OTHERS})s?(?:\s+(?-i:[A-Z])[\w-]+)?['’]s\s+(?P<of>[\w -]{{2,60}})",
    re.IGNORECASE,
)
"""What is somebody of the user's ("my wife's favorite film")."""

_HELPERS = frozenset({"is", "are", "was", "were", "has", "have", "had", "been", "got", "gets", "get"})
_PASSED_OVER = frozenset(
    {"also", "just", "now", "currently", "still", "really", "always", "often", "usually", "recently"}
)
_WHO = re.compile(r"(?:(?:the )?user(?:['’]s)?|i|my)\s+", re.IGNORECASE)
_SPOKE = re.compile(
    r"(?:the )?user (?:(?:has |is )?(?:greet\w*|thank\w*|ask(?:s|ed|ing)?|inquir\w+|wonder\w*)\b"
    r"|(?:has )?sa(?:id|ys?) (?:hi|hello|hey|good \w+|thanks|thank you|goodbye|bye)\b"
    r"|(?:wants?|would like) to (?:know|learn about)\b|request(?:s|ed) (?:information|help|advice|a list)\b)",
    re.IGNORECASE,
)
_ASKS = re.compile(
    r"\W*(?:(?:and|so|ok(?:ay)?|please|hey|hi)\W+)*(?:what|how|why|when|where|who|which|can|could|would|will|should|is|are"
    r"|do|does|did|any|tell me|explain|show me|give me|help me|list|hi|hello|hey|good|thank\w*)\b",
    re.IGNORECASE,
)
_STANDING = re.compile(
    r"\b(?:always|never|whenever|(?:every|each) time|from now on|in future|before|after|when|if|any ?time)\b",
    re.IGNORECASE,
)
"""A request with one of these, and no question mark, is how the user wants it each time."""

_SHARED = re.compile(
    r"\b(?:too|also|as well|both|all of us|(?:i|we) all|same|alike|likewise|neither|nor|either|together|mine|ours"
    r"|i and (?:my|our)|so (?:do|am|are|have|did|can|will|would|was|were) (?:i|we)|(?:like|as|with) (?:me|us)"
    r"|(?:just|much) like|i (?:have|do|am|did) (?:it|that|so))\b",
    re.IGNORECASE,
)
"""What says that something is true of the user as well as of somebody of the user's."""

_FIRST_PERSON = re.compile(r"\b(?:i|me|we|us|my|our)\b", re.IGNORECASE)
_TELLS_SPEAKING = re.compile(r"\b(?:ask|said|say|thank|greet|wonder|inquir|request)\w*", re.IGNORECASE)
_CLAUSE = re.compile(r"[.!?;,]\s+|\n", re.IGNORECASE)
_ATTRIBUTE = re.compile(
    r"(?:the )?user['’]s (?P<of>[^.;]{2,60}?) (?:is|are|was moved to|was changed to)\b", re.IGNORECASE
)
"""X in "User's X is Y"."""


def mistaken(grounded: Grounded, *, is_answer: bool = False) -> str | None:
    """Why a grounded candidate is no fact of the user's, or None.

    ``is_answer``: its message answers a question, so that a mere "yes" says something.
    ``pleasantry``: it rests on greetings and thanks alone. ``question``: it tells no more than that the user said or
    asked something. ``other``: it says of the user what the message says of somebody of the user's.
    """
    candidate = grounded.candidate
    if candidate.intent in (Intent.FORGET, Intent.FORGET_ALL) or grounded.turn.trust is not Trust.USER:
        return None
    reasons = [judge(quote, _KINDS).reason for quote in candidate.evidence] if not is_answer else []
    if reasons and all(reason in {*_KINDS, "empty"} for reason in reasons):
        return "pleasantry"
    if _SPOKE.match(candidate.content) and all(_only_speaks(quote) for quote in candidate.evidence):
        return "question"
    return "other" if _is_of_another(grounded) else None


def _only_speaks(quote: str) -> bool:
    if _TELLS_SPEAKING.search(quote) is not None or _ASKS.match(quote) is None:
        return False
    return "?" in quote or _STANDING.search(quote) is None


def _is_of_another(grounded: Grounded) -> bool:
    candidate = grounded.candidate
    if not is_about_user(candidate) or _OTHER.search(f"{candidate.content} {candidate.predicate or ''}"):
        return False
    value = (candidate.object or "").casefold()
    lines = sentences(strip_blocks(grounded.turn.content))
    naming = [index for index, line in enumerate(lines) if value in line.casefold()]
    if any(_SHARED.search(part) for index in naming for part in lines[index : index + 2]):
        return False
    clauses = [part for sentence in lines for part in _CLAUSE.split(sentence)]
    holding = [clause for clause in clauses if value and value in clause.casefold()]
    verbs = _verbs(candidate.content)
    named = _ATTRIBUTE.match(candidate.content)
    of = frozenset(words(named["of"])) if named else frozenset[str]()
    return bool(holding) and all(_does(clause, value, verbs) or _has(clause, value, of) for clause in holding)


def _verbs(content: str) -> frozenset[str]:
    """The verb of a statement about the user, with the one that it helps."""
    spoken = [word for word in words(_WHO.sub("", content, count=1)) if word not in _PASSED_OVER]
    is_helped = spoken[:1] and spoken[0] in _HELPERS and spoken[1:2] not in (["a"], ["an"])
    return frozenset(spoken[:2] if is_helped else spoken[:1])


def _does(clause: str, value: str, verbs: frozenset[str]) -> bool:
    """Whether a clause says that somebody of the user's does just that."""
    match = _OTHER_DOES.search(clause)
    return match is not None and value in match["does"].casefold() and bool(verbs & set(words(match["does"])))


def _has(clause: str, value: str, of: frozenset[str]) -> bool:
    """Whether a clause says of another's possession what is said of the user's, before it comes to the user."""
    match = _OF_OTHERS.search(clause)
    if match is None or not of:
        return False
    person = _FIRST_PERSON.search(clause, match.start("of"))
    described = clause[match.start("of") : min(person.start() if person else match.end(), match.end())]
    return of <= set(words(described)) and (person is None or clause.casefold().find(value) < person.start())


def admitted_of_model(candidates: Sequence[Extracted], window: Window, min_trust: Trust) -> Read:
    """What of a model's candidates may be stored, each checked against the messages that the model was shown.
    ``min_trust`` is ``learn.min_trust``: what comes from a less trusted source waits in quarantine.
    """
    heard = Heard(window)
    checked = [(candidate, rejection(candidate) or _of_message(candidate, heard, window)) for candidate in candidates]
    read = _admitted_read(checked, min_trust)
    return Read(in_order(read.grounded), read.rejected)


def admitted_of_rules(read: Read, min_trust: Trust) -> Read:
    """The same of what the rules found: they name the turn themselves."""
    judged = [(grounded.candidate, rejection(grounded.candidate) or grounded) for grounded in read.grounded]
    checked = _admitted_read(judged, min_trust)
    return Read(checked.grounded, [*read.rejected, *checked.rejected])


def _admitted_read(checked: Sequence[tuple[Extracted, Grounded | str]], min_trust: Trust) -> Read:
    """What is grounded and its source may state; what is rejected is counted by reason."""
    read = Read([], [])
    for candidate, result in checked:
        allowed = result if isinstance(result, str) else admitted(result, min_trust)
        if isinstance(allowed, str):
            metrics().candidates_rejected.labels(reason=allowed).inc()
            read.rejected.append(Rejected(candidate, allowed))
        else:
            read.grounded.append(allowed)
    return read


def _of_message(candidate: Extracted, heard: Heard, window: Window) -> Grounded | str:
    """The candidate with its message, or why it is no fact of that."""
    grounded = ground(candidate, heard)
    if isinstance(grounded, str):
        return grounded
    turn = grounded.turn
    if is_echo(candidate, turn, window):
        return "echo"
    if (reason := mistaken(grounded, is_answer=_answers_question(window.turns, turn))) is not None:
        return reason
    return msgspec.structs.replace(grounded, candidate=with_end(candidate, turn.created_at))
