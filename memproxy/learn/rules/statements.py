"""Lays the table of statements over a clause: the first row that fits says what the clause states (and one more, where
the row only names somebody: "My wife Aisha is a nurse").
"""

import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from functools import cache

import msgspec

from memproxy.core.entities import ABBREVIATED, is_abbreviation
from memproxy.core.slots import singular
from memproxy.core.timerange import told
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.said import MASK
from memproxy.learn.rules.table import ROWS, VALUES, Row

SURE = 0.9
_IMPORTANCE = 0.5
_MOST_WORDS = 9
_KIND = re.compile(r"\{([A-Z_]{2,20})\}")
_ARTICLE = re.compile(r"(?:an?|the|some|any)\s(?=\S)", re.IGNORECASE)
_JOIN = re.compile(r",? (?:and|or|&|as well as|plus) |, ?(?:and |or )?", re.IGNORECASE)
_SAYS_NOTHING = re.compile(
    r"\A(?:i|me|it|its|that|this|these|those|them|they|he|she|him|her|his|their|we|us|you|your|yours|one|ones|how"
    r"|what|when"
    r"|where|why|which|who|everything|nothing|something|anything|someone|anyone|some|none|there|here|more|less"
    r"|another"
    r"|both|each|such|as|than|all|like|not|no|never|too|so|very|to|being|if|the first|the second|option|options"
    r"|version"
    r"|idea|ideas|suggestion|suggestions|answer|answers|way|part|sound|look|looks|approach|solution|example"
    r"|plan|change"
    r"|changes|thing|things|stuff|bit|lot|kind|sort|feeling|tone|draft|name|result|same|rest|now|then|today|tomorrow"
    r"|tonight|yesterday|done|sure|ok|okay|well|much|sorry|afraid|glad|home|night|nights|mondays?|an? bit|ai)\b",
    re.IGNORECASE,
)
"""What a value does not begin with: it points elsewhere, or says nothing alone."""

_POINTS = re.compile(r"\b(?:i|me|you|your|it|its|this|that|these|those|he|she|him|her|his|they|them|their|us"
    r"|here|there|is|are|am|was"
                     r"|were|will|not|but|because)\b", re.IGNORECASE)  # fmt: skip
_NO_NAME = frozenset(
    """
    i i'm monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december ok okay english the a an not is and but so who which
    """.split()  # noqa: SIM905
)
_CAPITALS = re.compile(rf"(?:{ABBREVIATED})?[A-ZÀ-Þ][\w'’&+#-]{{0,30}}(?: [A-ZÀ-Þ][\w'’&+#-]{{0,30}}){{0,4}}")
_RELATIVE = re.compile(r"\b(?:mon|tues|wednes|thurs|fri|satur|sun)day\b|\btomorrow\b", re.IGNORECASE)


class _Reads(msgspec.Struct, frozen=True):
    pattern: re.Pattern[str]
    row: Row


@cache
def _table() -> tuple[_Reads, ...]:
    return tuple(_Reads(re.compile(_written_out(row.pattern), re.IGNORECASE), row) for row in ROWS)


def patterns() -> tuple[re.Pattern[str], ...]:
    """The patterns of the table, in its order."""
    return tuple(one.pattern for one in _table())


def _written_out(pattern: str) -> str:
    return r"\A(?:" + _KIND.sub(lambda kind: VALUES[kind[1]], pattern) + ")"


def stated(text: str, said_at: datetime) -> list[Extracted]:
    """What a plain clause states; nothing where no row fits, or where its value says nothing by itself."""
    found: list[Extracted] = []
    for one in _table():
        if (match := one.pattern.match(text)) is not None and (new := list(_candidates(one.row, match, said_at))):
            found += new
            if not one.row.goes_on:
                break
    return found


def _candidates(row: Row, match: re.Match[str], said_at: datetime) -> Iterator[Extracted]:
    groups = {name: text for name, text in match.groupdict("").items() if name != "x"}
    if any(_POINTS.search(text) for text in groups.values()):
        return
    if row.content.endswith(": {x}") and row.category in ("style", "procedure"):
        yield _statement(row, groups, match["x"], said_at)
        return
    value = match.groupdict().get("x") or groups.get("n", "")
    values = _JOIN.split(value) if row.many else [value]
    if row.many and not all(map(is_value, values)):
        return
    for one in values:
        if is_value(one) and _fits(row, one):
            yield _statement(row, groups, _third_person(one), said_at)


def is_value(text: str) -> bool:
    """Whether a value says something by itself: it does not point to what stands elsewhere."""
    bare = _ARTICLE.sub("", text.strip(), count=1)
    if not bare or MASK in bare or "://" in bare or len(bare.split()) > _MOST_WORDS:
        return False
    return _SAYS_NOTHING.match(bare) is None and _POINTS.search(bare) is None and any(map(str.isalnum, bare))


def _fits(row: Row, value: str) -> bool:
    """Whether what stands where a name is asked for is one; in a table of names the value begins with a capital."""
    if row.category == "preferences" and value.lower().startswith("the "):
        return False  # "the clip-path" is that of the talk
    is_name = any(kind in row.pattern for kind in ("{NAME}", "{NAMES}", "{PLACE}")) or row.predicate in (
        "{k}",
        "has_{k}",
    )
    return not is_name or value.split(maxsplit=1)[0].casefold().strip(",.") not in _NO_NAME


def _third_person(value: str) -> str:
    return re.sub(r"\b(?:my|our)\b", "their", value.strip(" ,.'\"-"), flags=re.IGNORECASE)


def _statement(row: Row, groups: Mapping[str, str], value: str, said_at: datetime) -> Extracted:
    groups = {name: singular(text) if row.many else text for name, text in groups.items()}
    words = {name: _third_person(text) for name, text in groups.items()}
    bare = {name: re.sub(r"^(?:their|the|an?) ", "", text, flags=re.IGNORECASE) for name, text in words.items()}
    value = f"{value}{_day_of(value, said_at)}" if "{DATE}" in row.pattern else value
    fields = words | {"x": value}
    slugs = {name: "_".join(text.casefold().split()) for name, text in bare.items()}
    item = row.object.format_map(fields)
    return Extracted(
        content=f"{row.content.format_map(fields)}.",
        kind=row.kind,
        subject=" ".join(row.subject.format_map(words).split()),
        predicate=row.predicate.format_map(slugs),
        object=item,
        aspect=row.aspect,
        stance=row.stance,
        category=row.category,
        entities=tuple(names_in(value)),
        confidence=SURE,
        importance=_IMPORTANCE,
    )


def _day_of(value: str, said_at: datetime) -> str:
    """The day that a weekday means when it is said."""
    if not _RELATIVE.search(value):
        return ""
    named = re.sub(r"\b(?:next |this |coming ){0,2}(\w+day)\b", r"next \1", value, count=1, flags=re.IGNORECASE)
    spans = told(named, said_at)
    return f" ({spans[0].start.date().isoformat()})" if len(spans) == 1 else ""


def names_in(text: str) -> list[str]:
    """The names in a value: runs of capitalised words, an abbreviation before them included."""
    named = (one for one in _CAPITALS.findall(text) if one.casefold() not in _NO_NAME)
    return [one for one in named if not is_abbreviation(one, stops=f"{one}." in text)]
