"""Which changes are of another thing than the known one that they would be put onto.

"The dog is at 22 kilos now" is no change of what the cat weighs, nor "my wife's salary is 5000" of one's own: what a
clause names in the place of what it is about, and what the known statement does not speak of, is another thing. A
clause that names nothing ("it is 22 now"), the known thing by another word ("the car" of a Golf) or the value that it
replaces is about what is known.
"""

import re
from collections.abc import Iterable, Iterator

import msgspec

from memproxy.core.text import STOPWORDS
from memproxy.learn.candidates import Extracted, Intent
from memproxy.learn.rules.kinds import product
from memproxy.learn.rules.ledger import NAMES_NOTHING, Known, Ledger, slot_of, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.spheres import is_of, spheres_of
from memproxy.learn.rules.values import names_in
from memproxy.learn.rules.words import PEOPLE, PETS, PLURAL_KIN

_DETERMINERS = frozenset("my our the that this his her their your".split())  # noqa: SIM905 - reads better so
_VERBS = frozenset(
    """
    is are was were am be been has have had will would can could should must does do did goes go went gone got get gets
    starts start started begins begin began ends end ended opens open closes close runs run leaves leave left lands
    land departs depart arrives arrive costs cost pays pay paid takes take took plays play lives live lived works work
    worked weighs weigh weighed sleeps eats drinks wears attends teaches meets meet trains studies speaks uses drives
    needs need comes come came sits lasts last stays stay belongs measures says say said wants asked asks holds hold
    changed moved pushed postponed rescheduled increased raised cut reduced lowered dropped shifted bumped upped updated
    delayed extended upgraded renamed switched migrated converted slipped rebooked promoted swapped grew grown shrank
    expanded rose fell jumped climbed set relocated downgraded halved doubled tripled slashed hiked trimmed adjusted
    knocked brought put turned became become turns charges charge charged bump change move push delay grow raise lower
    increase extend postpone reschedule shift update rename switch swap called named spelled spelt
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_LIGHT = frozenset(
    """
    new old next last first second third final latest current actual total whole own same other right correct real
    monthly weekly daily yearly annual regular usual big little small good great main entire original
    thing one number amount date day time price name value figure answer cost size total version count deadline spelling
    address place way end start beginning plan idea weekend week month year spring summer autumn winter term season
    morning evening afternoon night hour
    max maximum minimum limit rate fee bill
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
"""Words that name no thing, or what is asked of any thing."""

_POINTS = re.compile(r"\b(?:it|them|(?:that|this|these|those)(?= (?:is|are|was|to|from|up|down)\b)|mine|ours)\b", re.I)
_OWNER = re.compile(r"(?P<who>[\w-]+)(?:['’]s|(?<=s)['’])(?= \w)")
_NO_OWNER = frozenset(
    "it that this there here what who he she let today tomorrow yesterday tonight year month week".split()  # noqa: SIM905
)
_IN_ADDITION = re.compile(r"\b(?:too|as well|in addition|on top of (?:that|it))(?=$|[,.;!])", re.IGNORECASE)
_ALIKE = 4
"""Letters from which on two words with the same beginning are forms of one ("dental", "dentist")."""

_MOST_WORDS = 5
_MOST_BESIDE = 3
"""Words behind an owner that can name what is owned."""

_SEVERAL = tuple(
    terms(group) | frozenset(group.split())
    for group in (
        "electricity gas heating water internet",
        "flight train ferry bus",
        "phone internet insurance",
    )
)
"""Things of one kind of which people have several, each with its own price or time."""

_BEINGS = (
    PEOPLE | frozenset(PETS) | frozenset(PLURAL_KIN) | {"parents", "grandparents", "in-laws", "folks", "gran", "granny"}
)


class _Phrase(msgspec.Struct, frozen=True):
    """A thing that a clause names: its noun, and the words before it."""

    head: str
    before: tuple[str, ...]


def of_known(found: list[Extracted], clause: Clause, ledger: Ledger) -> list[Extracted]:
    """What a clause changes or ends, without the changes of statements that are about something else."""
    return [one for one in found if not _is_of_another(one, clause, ledger)]


def _is_of_another(found: Extracted, clause: Clause, ledger: Ledger) -> bool:
    if found.intent is Intent.FORGET:
        ended = Known.of(found, -1)
        return any(
            match["who"].lower() in _BEINGS
            and not _is_known(match["who"], ended, ledger)
            and terms(" ".join(clause.text[match.end() :].split()[:_MOST_BESIDE])) & ended.told
            for match in _OWNER.finditer(clause.text)
        )
    known = _target(found, ledger) if found.intent is Intent.CORRECT else None
    return known is not None and is_apart(found, known, clause, ledger)


def is_apart(changed: Extracted, statement: Extracted, clause: Clause, ledger: Ledger) -> bool:
    """Whether a clause that would change a known statement is about something else than that."""
    known = Known.of(statement, -1)
    text = clause.text.strip(" .!,")
    if _IN_ADDITION.search(text) is not None:
        return True
    said = terms(text)
    if said & (terms(statement.content) - terms(changed.content)):
        return False
    if any(not _is_known(who, known, ledger) for who in _owners(text)):
        return True
    if _POINTS.search(text) is not None or _names_of(changed.object or "") & known.told:
        return False
    value = terms(changed.object or "") - known.told
    phrases = [one for one in _phrases(text) if not terms(one.head) <= value]
    return bool(phrases) and _names_another(
        phrases, known, ledger, is_implied=is_of(known, spheres_of(clause.evidence))
    )


def _names_of(value: str) -> frozenset[str]:
    """The names in a value, days aside: "Python" of "Python 3.12" says itself what is changed."""
    return frozenset(term for name in names_in(value) for term in terms(name)) - NAMES_NOTHING


def _names_another(phrases: list[_Phrase], known: Known, ledger: Ledger, *, is_implied: bool) -> bool:
    """Whether none of what a clause names is what the known statement is of; ``is_implied``: its words bring it up."""
    if any(_is_one_of_several(one.head, known) for one in phrases):
        return True
    otherwise = [_is_qualified_otherwise(one, known) for one in phrases]
    if is_implied or any(_is_known(one.head, known, ledger) for one in phrases):
        return all(
            apart for one, apart in zip(phrases, otherwise, strict=True) if apart or _is_known(one.head, known, ledger)
        ) and any(otherwise)
    told = (word for one in phrases for word in one.before if word.lower() not in _LIGHT)
    return not any(_is_known(word, known, ledger) for word in told)


def _is_one_of_several(head: str, known: Known) -> bool:
    """Whether a thing has its own kind of what the known statement tells of another one of a group."""
    said = terms(head)
    return any(said & group and known.told & group and not said & known.told for group in _SEVERAL)


def _target(changed: Extracted, ledger: Ledger) -> Extracted | None:
    """The known statement that a change is put onto."""
    slot = slot_of(changed)
    for one in ledger.newest():
        if one.statement.content != changed.content and slot is not None and one.slot == slot:
            return one.statement
    wrong = changed.replaces or ""
    return next((one.statement for one in ledger.newest() if wrong and wrong in one.statement.content), None)


def _owners(text: str) -> Iterator[str]:
    """Whose a thing is said to be, where that is somebody."""
    for match in _OWNER.finditer(text):
        who = match["who"]
        if who.lower() in _BEINGS or (who[:1].isupper() and match.start() and who.lower() not in _NO_OWNER):
            yield who


def _phrases(text: str) -> Iterator[_Phrase]:
    """The things that a clause names: what stands behind "my" or "the", and what it begins with before its verb."""
    words = [word.rstrip(".:") for word in re.findall(r"[\w$€£¥'’:.-]+|[,;]", text)]
    first = words[0].lower() if words else ""
    if first not in _DETERMINERS and first not in STOPWORDS | _VERBS and (one := _phrase(words, needs_verb=True)):
        yield one
    for place, word in enumerate(words):
        if word.lower() in _DETERMINERS and (one := _phrase(words[place + 1 :], needs_verb=False)) is not None:
            yield one


def _phrase(words: list[str], *, needs_verb: bool) -> _Phrase | None:
    held: list[str] = []
    for word in words[:_MOST_WORDS]:
        plain = word.lower()
        if (plain in STOPWORDS | _VERBS and plain not in _LIGHT) or not plain[:1].isalpha():
            break
        held.append(re.sub(r"['’]s?$", "", word))
    end = words[len(held)].lower() if len(held) < len(words) else ""
    if not held or (needs_verb and end not in _VERBS and end != "now"):
        return None
    while held and held[-1].lower() in _LIGHT:
        held.pop()  # "the report deadline" is of the report
    return _Phrase(held[-1], tuple(held[:-1])) if held else None


def _is_known(word: str, known: Known, ledger: Ledger) -> bool:
    """Whether a word speaks of what a known statement does: by itself, by its sort, or by a name that was told."""
    wanted = terms(word)
    if not wanted or _shares(wanted, known.told):
        return True
    if product(known.statement.object or "") in wanted or any(product(part) in wanted for part in known.told):
        return True
    kind = PETS.get(word.lower())
    if kind is not None and any(PETS.get(part) == kind for part in known.told):
        return True
    names = {part for part in terms(known.statement.subject or "") if part != "user"} | {
        term for name in known.statement.entities for term in terms(name)
    }
    return any(wanted & one.told and names & one.told for one in ledger.newest() if one.statement.entities)


def _shares(wanted: Iterable[str], told: Iterable[str]) -> bool:
    held = frozenset(told)
    stems = {term[:_ALIKE] for term in held if len(term) >= _ALIKE}
    return any(term in held or (len(term) >= _ALIKE and term[:_ALIKE] in stems) for term in wanted)


def _is_qualified_otherwise(named: _Phrase, known: Known) -> bool:
    """Whether both name a thing by one noun, each with a word of its own beside it: "home" and "car insurance"."""
    said = {term for word in named.before if word.lower() not in _LIGHT for term in terms(word)}
    if not said or _shares(said, known.told):
        return False
    head = re.escape(named.head.removesuffix("s"))
    beside = re.search(
        rf"(?P<before>(?:[\w'’-]+ ){{0,3}}){head}s?\b(?: (?:for|of) (?P<of>[\w' -]+?)(?= is\b| are\b|\.?$)"
        r"| at (?P<at>work|school|home|university))?",
        known.statement.content,
        re.IGNORECASE,
    )
    if beside is None:
        return False
    own = " ".join(part for part in (re.sub(r"^.*['’]s? ", "", beside["before"]), beside["of"], beside["at"]) if part)
    return any(term.isalpha() and term not in _LIGHT for term in terms(own))
