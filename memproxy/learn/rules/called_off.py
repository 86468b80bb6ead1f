"""What people say has ended in words of their own: a plan, a job, a title, a thing by its sort.

"We're not moving after all", "I was laid off", "Ann isn't my boss any more", "I don't have a car": each ends only what
is known, and nothing where more could be meant.
"""

import re
from collections.abc import Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Ledger, forgotten, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.values import names_in, trimmed

_NOT_DOING = re.compile(
    r"(?:I|we) (?:am|are) (?:not|no longer) (?P<x>(?:going|moving|flying|travel+ing|getting|buying|taking|doing|having|"
    r"visiting|coming|staying|starting|leaving|running|adopting|renting|planning|training|selling|marrying|switching) "
    r"[^,;.!?]+)",
    re.IGNORECASE,
)
_OUT_OF_WORK = re.compile(
    r"(?:I|we) (?:was|got|have been|were) (?:just |recently )?(?:laid off|fired|let go|made redundant|sacked|"
    r"dismissed)\b"
    r"|(?:I|we) (?:have )?(?:just )?lost (?:my|our) jobs?\b|(?:I|we) (?:am|are) (?:unemployed|jobless|out of "
    r"work) now\b",
    re.IGNORECASE,
)
_NO_MORE_MINE = re.compile(
    r"(?:(?:my|our) [\w-]+ )?(?P<x>(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)?) (?:is|are) (?:not|no longer) "
    r"(?:my|our) (?P<what>[\w -]{2,20}?)"
    r"(?: anymore| now)?[.!]?$",
    re.IGNORECASE,
)
_HAS_NONE = re.compile(
    r"(?:I|we) (?:do not|did not|no longer) (?:have|own|use) (?:an? |any |the |my |our )?(?P<x>[\w' -]{2,25}?)"
    r"(?: anymore| now)?[.!]?$",
    re.IGNORECASE,
)
_NOT_CALLED = re.compile(r"(?:please )?(?:do not|stop) call(?:ing)? me (?P<x>[\w'-]+)", re.IGNORECASE)
_MOVED_OUT = re.compile(r"(?:I|we) (?:have |just |finally )*moved out(?: of (?P<x>[^,;.!?]+))?", re.IGNORECASE)
_EMPTY = frozenset({"go", "get", "do", "have", "take", "com", "start", "all", "year", "summer", "place", "time", "mov"})


def called_off(clause: Clause, ledger: Ledger) -> Iterator[Extracted]:
    """The retraction of what a clause says has ended; nothing where nothing known is meant."""
    if ledger.is_empty:
        return
    for find in (_plan, _work, _title, _thing, _name, _dwelling, _never_was):
        found = list(find(clause.text, ledger))
        if found:
            yield from found
            return


def _plan(text: str, ledger: Ledger) -> Iterator[Extracted]:
    match = _NOT_DOING.match(text)
    said = trimmed(re.sub(r" (?:after all|anymore|now|in the end)$", "", match["x"]), "short") if match else None
    place = (
        re.search(r" (?:to|in|with|for) (?P<x>[\w' -]+?)(?: after all| anymore| now|$)", match["x"]) if match else None
    )
    if match is None or said is None:
        return
    wanted = terms(f"{said} {place['x'] if place else ''}") - _EMPTY
    held = [one.statement for one in ledger.newest() if wanted and wanted <= one.told]
    if not held and (named := frozenset(term for name in names_in(f"x {said}") for term in terms(name))):
        held = [
            one.statement
            for one in ledger.newest()
            if named <= one.told and _PLANNED.match(one.statement.content) is not None
        ]
    yield from (forgotten(one) for one in held if one.stance is None)


_PLANNED = re.compile(
    r"User (?:is (?:training|planning|going|running|flying|travel)|plans|booked|wants|will|has signed)"
)


_QUIT = re.compile(
    r"(?:I|we) (?:have )?(?:just |finally |recently )*(?:quit|resigned)(?: (?:(?:my|the|that) job|last \w+|"
    r"yesterday|today|"
    r"this \w+|on \w+|in \w+|two \w+ ago|a \w+ ago))*[.!]*$",
    re.IGNORECASE,
)
_HABIT = re.compile(r"smok|drink|vape|vaping|tobacco|cigarette|gambl|sugar|caffeine", re.IGNORECASE)


def _quits(text: str, ledger: Ledger) -> bool:
    """Whether "I quit last week" is said of a job: nothing of a habit was told in this conversation."""
    told = [one.statement.content for one in ledger.newest() if one.turn >= 0] + [one.text for _, one in ledger.told]
    return _QUIT.match(text) is not None and not any(_HABIT.search(one) for one in told)


def _quit_habit(ledger: Ledger) -> Extracted | None:
    """The one habit that is known of who has no job that he could have quit."""
    known = [one.statement for one in ledger.newest() if one.statement.subject == "user"]
    if any(one.predicate in ("employer", "job_title", "works_in") for one in known):
        return None
    held = [one for one in known if (one.predicate or "") in ("smokes", "vapes")]
    return held[0] if len(held) == 1 else None


def _work(text: str, ledger: Ledger) -> Iterator[Extracted]:
    if _QUIT.match(text) is not None and (habit := _quit_habit(ledger)) is not None:
        yield forgotten(habit)
    elif _OUT_OF_WORK.match(text) is not None or _quits(text, ledger):
        yield from (
            forgotten(one.statement)
            for one in ledger.newest()
            if one.statement.predicate in ("employer", "job_title", "works_in") and one.statement.subject == "user"
        )


def _title(text: str, ledger: Ledger) -> Iterator[Extracted]:
    """“Ann isn't my boss any more”."""
    match = _NO_MORE_MINE.match(text)
    if match is None:
        return
    wanted = terms(match["x"]) | (terms(match["what"]) - {"favourite", "favorite"})
    yield from (forgotten(one.statement) for one in ledger.newest() if wanted and wanted <= one.told)


def _thing(text: str, ledger: Ledger) -> Iterator[Extracted]:
    """“I don't have a car”, where "I have a VW Polo" is known: the one thing of that sort."""
    match = _HAS_NONE.match(text)
    wanted = terms(match["x"]) if match is not None else frozenset()
    held = [one.statement for one in ledger.newest() if one.is_owned and wanted and wanted <= one.told]
    if len(held) == 1:
        yield forgotten(held[0])


def _name(text: str, ledger: Ledger) -> Iterator[Extracted]:
    match = _NOT_CALLED.match(text)
    if match is not None:
        yield from (
            forgotten(one.statement)
            for one in ledger.newest()
            if one.statement.predicate == "preferred_name"
            and (one.statement.object or "").casefold() == match["x"].casefold()
        )


_NEVER = re.compile(r"(?:it|that|this) was never (?:an? |the |about )?(?P<x>[\w' -]{2,25}?)[.!]?$", re.IGNORECASE)


def _never_was(text: str, ledger: Ledger) -> Iterator[Extracted]:
    """“It was never lactose”: the one known statement that speaks of it."""
    match = _NEVER.match(text)
    wanted = terms(match["x"]) if match is not None else frozenset()
    held = [one.statement for one in ledger.newest() if wanted and wanted <= one.told and one.statement.stance is None]
    if len(held) == 1:
        yield forgotten(held[0])


def _dwelling(text: str, ledger: Ledger) -> Iterator[Extracted]:
    """“I moved out of my parents' place”: with whom the user lived."""
    match = _MOVED_OUT.match(text)
    if match is None:
        return
    wanted = terms(match["x"] or "") - _EMPTY
    yield from (
        forgotten(one.statement)
        for one in ledger.newest()
        if one.statement.predicate in ("household", "lives_in", "share_flat") and wanted and wanted <= one.told
    )
