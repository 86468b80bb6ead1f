"""What a model's candidate answers, told from its sentence where its names for that vary from one call to the next.

Models call one question "wedding", "wedding_date" and "date_of_wedding", and two questions ("the roof budget", "the
garden budget") both "budget". The sentence is steadier than the names: here a predicate is made as exact as its
sentence, and two statements are told to answer one question, or two. In doubt they answer two: then both live on.
"""

import re
from typing import Protocol

import msgspec

from memproxy.core.memory import Kind, Memory
from memproxy.core.predicates import PREPOSITIONS
from memproxy.core.similar import affirms, contains, names, topic
from memproxy.core.slots import has_many, numbers, predicate_name, singular, subject_name, value_name, words
from memproxy.core.stance import FEEL_ABOUT, is_held
from memproxy.learn.candidates import Extracted
from memproxy.learn.measures import asked_alike
from memproxy.learn.verbs import by_verb


class Stated(Protocol):
    """What a candidate and a memory have in common."""

    @property
    def content(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def subject(self) -> str | None: ...
    @property
    def predicate(self) -> str | None: ...
    @property
    def object(self) -> str | None: ...
    @property
    def aspect(self) -> str | None: ...
    @property
    def stance(self) -> str | None: ...


_TIMES = frozenset("now currently current nowadays lately recently still again already anymore today".split())  # noqa: SIM905
_TIME_PHRASES = re.compile(
    r"(?:^|[\s_-])(?:these[\s_-]days|from[\s_-]now[\s_-]on|at[\s_-]the[\s_-]moment|any[\s_-]more)(?=$|[\s_-])"
)
"""Words of a predicate that say when, which the times of a memory say too."""

_MEASURES = frozenset("date day time number no address amount value size count level up in on at for of".split())  # noqa: SIM905
"""Words of a predicate that say of what sort its answer is: "wedding" and "wedding_date" ask the same."""

_NO_MORE_EXACT = _TIMES | frozenset(
    """
    own new total whole overall exact main present monthly yearly annual weekly daily usual
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_LIKED = _NO_MORE_EXACT | {"favorite", "favourite", "preferred", "chosen"}
_MOST_MORE = 3
_ATTRIBUTE = re.compile(
    r"(?:the )?user['’]s (?P<of>[^.;]{2,60}?) (?:is|are|was moved to|was changed to)\b", re.IGNORECASE
)
_SINGLE = re.compile(
    r"\b(?:lives? in|works? (?:at|for|as)|drives?|is married to|gets? up at|wakes? up at|moved to|is based in"
    r"|trains? at|studies at|banks with)\b",
    re.IGNORECASE,
)
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    rf"\b{_MONTH}\b\.? ?\d|\d(?:st|nd|rd|th)?\.?(?: of)? {_MONTH}\b|\b\d{{4}}-\d\d\b"
    r"|\b(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|january|february|april|june|july|august|september|october"
    r"|november|december)\b|\btomorrow\b|\b(?:next|this) (?:week|month|year|spring|summer|autumn|winter)\b",
    re.IGNORECASE,
)
_COUNTS = frozenset("one two three four five six seven eight nine ten eleven twelve twice once none".split())  # noqa: SIM905
_NUMBER = re.compile(rf"[$€£¥]?\d[\d.,:]{0, 20}k?\b|\b(?:{'|'.join(sorted(_COUNTS))})\b", re.IGNORECASE)
_EVENTS = frozenset(
    """
    trip vacation holiday travel visit flight appointment meeting event exam concert conference party interview
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_WHEN = re.compile(
    rf"\b(?:in|on|next|this) (?:early |mid |late )?({_MONTH}|[a-z]{{3,6}}day|spring|summer|autumn|winter)\b"
)
_MEASURED = re.compile(
    r"\b\d[\d.,]{0,20} ?"
    r"(?:(?:mg|mcg|ml|g|kg|iu) (?:of |for |on )?|(?:dollars?|euros?|hours?|minutes?|%) (?:of|for|on) )"
    r"(?!(?:every|each|daily|weekly|monthly|twice|once|before|after|with|from|when|until|this|that|them|about)\b)"
    r"(?P<of>[a-z]{4,})"
)
"""So much of a thing."""

_PAST = re.compile(r"^(?:\w+ed|ran|paid|bought|went|saw|had|was|were|spent|took|ate|met|made|got|won|lost|did)$")
_ENDING = re.compile(
    r"\b(?:cancel\w*|no longer|not .{1,40}\bany ?more|stopped|quit|gave up|given up|sold|died|dead|passed away|broke up"
    r"|split up|separated|divorced|resigned|dropped|got rid of|called off|stolen|former|ex-\w+|closed down|retired)\b",
    re.IGNORECASE,
)
_STOPPED = re.compile(r"\b(?:stopped|quit|no longer) (?P<verb>[a-z]+)", re.IGNORECASE)
"""What somebody does no more: any verb ends as well as another."""

_STEM = 6
_WORDS_OF_ENDING = frozenset(
    """
    user sell sold stolen cancel cancelled canceled stop stopped quit die died drop dropped end ended longer anymore
    take taking give gave got rid away pass passed call called own have had go going plan planned use using no not
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)


def exact(candidate: Extracted) -> Extracted:
    """The candidate with a predicate that says no time and is as exact as its sentence: "budget" of "User's roof budget
    is ..." is "roof budget", and what the user "works at" is the employer by any name.
    """
    if not candidate.predicate:
        return candidate
    predicate = timeless(candidate.predicate)
    if subject_name(candidate.subject or "user") == "user" and candidate.kind is not Kind.EPISODIC:
        predicate = by_verb(candidate, predicate) or _compound(candidate.content, predicate) or predicate
    return msgspec.structs.replace(candidate, predicate=predicate)


def timeless(predicate: str) -> str:
    """A predicate without words that only say when ("now starts at", "still_lives_in")."""
    plain = _TIME_PHRASES.sub(" ", predicate)
    parts = re.split(r"([\s_-]+)", plain)
    if plain == predicate and not any(part.casefold() in _TIMES for part in parts):
        return predicate
    kept = [part for part in parts[::2] if part and part.casefold() not in _TIMES]
    return "_".join(kept) if any(part.casefold() not in PREPOSITIONS for part in kept) else predicate


def _by_attribute(content: str, predicate: str) -> str | None:
    """What "User's X is Y" says is asked, where that names more than the predicate does."""
    of, asked = attribute(content), core(predicate)
    if of is None or not asked or has_many(predicate_name(predicate)[0]) or asked == {"name"}:
        return None
    more = core(of) - asked
    fits = asked <= core(of) and 0 < len(more) <= _MOST_MORE and not more & _NO_MORE_EXACT
    return of if fits else None


def _compound(content: str, predicate: str) -> str | None:
    """The same where what the predicate asks stands last and is one word ("roof budget", "sister's birthday"): "rent
    for the flat" may be no other than "rent".
    """
    of, asked = _by_attribute(content, predicate), core(predicate)
    return of if of is not None and len(asked) == 1 and words(of)[-1] in asked else None


def attribute(content: str) -> str | None:
    """The X of "User's X is Y"; None for other sentences."""
    found = _ATTRIBUTE.match(content)
    return found["of"] if found else None


def core(predicate: str) -> frozenset[str]:
    """The words of a predicate that say what is asked, in any order."""
    name, _ = predicate_name(predicate)
    said = frozenset(singular(word) for word in name.split("_") if word)
    return (said - _MEASURES - _ARTICLES) or said


_ARTICLES = frozenset({"a", "an", "the", "s", "user"})


def is_listed(stated: Stated) -> bool:
    """Whether several such statements may hold at once."""
    return has_many(predicate_name(stated.predicate or "")[0])


def asks_the_same(one: Stated, other: Stated) -> bool:
    """Whether two statements by different predicates clearly answer one question that has one answer at a time.

    By their predicates (the same words but for those that say of what sort the answer is), or by their sentences, which
    are the same but for a value of one sort.
    """
    if not _comparable(one, other) or not one.object or not other.object:
        return False
    if sort_of(one.object) != sort_of(other.object):
        return False
    if is_listed(one) or is_listed(other):
        return _is_single(one, other) and _same_form(one, other)
    first, second = _asked(one), _asked(other)
    if first & second and first - second and second - first:
        return False  # "dentist_appointment", "doctor_appointment"
    return (first == second and _alike(one, other)) or _same_form(one, other)


def another(one: Stated, other: Stated, *, changed: bool = False) -> str | None:
    """What the first statement is of, where a model gave two of two things one predicate: "User's roof budget is ..."
    and "User's garden budget is ...", 20 mg of one thing and 50 mg of another, two trips at two times; None where that
    is not plain. Where something is ``changed``, an amount of another thing and another trip may be what it comes to.
    """
    first, second = attribute(one.content), attribute(other.content)
    if first is not None and second is not None:
        left, right = core(first) - _LIKED, core(second) - _LIKED
        shared = words(first)[-1:] == words(second)[-1:] or core(one.predicate or "") <= core(first) & core(second)
        return first if shared and left - right and right - left else None
    if changed or "date" in (sort_of(one.object or ""), sort_of(other.object or "")):
        return None
    if _EVENTS & core(one.predicate or "") and one.object and other.object:
        dates = [_WHEN.findall(two.content.casefold()) for two in (one, other)]
        return f"{one.predicate} {one.object}" if all(dates) and not set(dates[0]) & set(dates[1]) else None
    measured = [_MEASURED.search(two.content) for two in (one, other)]
    if measured[0] is None or measured[1] is None or measured[0]["of"] == measured[1]["of"]:
        return None
    return f"{one.predicate or ''} {measured[0]['of']}".strip()


def _alike(one: Stated, other: Stated) -> bool:
    values = (one.object or "", other.object or "")
    return asked_alike((one.predicate or "", other.predicate or ""), values, sort_of(values[0]))


def _asked(stated: Stated) -> frozenset[str]:
    predicate = stated.predicate or ""
    return core(_by_attribute(stated.content, predicate) or predicate)


def _comparable(one: Stated, other: Stated) -> bool:
    if one.kind is not other.kind or one.kind is Kind.EPISODIC or not one.predicate or not other.predicate:
        return False
    if (
        subject_name(one.subject or "user") != subject_name(other.subject or "user")
        or (one.aspect or "").casefold() != (other.aspect or "").casefold()
    ):
        return False
    return not any(is_held(two.stance) or predicate_name(two.predicate or "")[0] == FEEL_ABOUT for two in (one, other))


def _same_form(one: Stated, other: Stated) -> bool:
    first, second = form(one), form(other)
    if first is None or first != second or ends(one.content) or ends(other.content):
        return False
    verb = next((word for word in first.split() if word != "user"), "")
    if _PAST.match(verb):
        return False  # what was done once is done again, and ends nothing
    if sort_of(one.object or "") != "name":
        return len(first.split()) > 1
    return _is_single(one, other)


def _is_single(one: Stated, other: Stated) -> bool:
    """Whether the verbs of both have one answer at a time, whatever their predicates are called."""
    return _SINGLE.search(one.content) is not None and _SINGLE.search(other.content) is not None


def form(stated: Stated) -> str | None:
    """A sentence with a gap in its value's place; None where the sentence does not hold its value."""
    said = re.sub(r"^(?:the )?user(['’]s)?\s+", "", stated.content.strip().rstrip("."), flags=re.IGNORECASE)
    value = (stated.object or "").strip()
    place = said.casefold().rfind(value.casefold()) if value else -1
    if place < 0 and sort_of(value) == "number":
        place, value = _number_in(said)
    if place < 0:
        return None
    plain = words(f"{said[:place]} _gap_ {said[place + len(value) :]}")
    return " ".join(word for word in plain if word not in _ARTICLES and word not in _TIMES and word != "new")


def _number_in(said: str) -> tuple[int, str]:
    """Where the only number of a sentence stands, in figures or as a word, and how; -1 where there are more or none."""
    found = list(_NUMBER.finditer(said))
    return (found[0].start(), found[0].group()) if len(found) == 1 else (-1, "")


def sort_of(value: str) -> str:
    """Of what sort a value is: what is of another sort answers another question."""
    if "@" in value or "://" in value:
        return "address"
    if _DATE.search(value):
        return "date"
    said = set(words(value))
    return "number" if numbers(value) or said & _COUNTS else "name"


def ends(content: str) -> bool:
    """Whether a sentence says that something is over ("sold the Golf", "is no longer vegan")."""
    return _ENDING.search(content) is not None


def turns(one: Memory, other: Memory) -> bool:
    """Whether of two statements of one value one says that it holds and the other that it is over, or was never so."""
    said, known = ends(one.content), ends(other.content)
    return said != known or (not said and affirms(one) != affirms(other))


def says_over(candidate: Stated, known: Stated) -> bool:
    """Whether a candidate says that what is known is over, by naming its value and nothing else of its own."""
    if candidate.kind is not known.kind and candidate.kind is not Kind.EPISODIC:
        return False
    if subject_name(candidate.subject or "user") != subject_name(known.subject or "user"):
        return False
    if not known.object or not ends(candidate.content) or ends(known.content):
        return False
    value = _value_said(candidate.content, known.object)
    if value is None:
        return False
    stopped = _STOPPED.search(candidate.content)
    if stopped is not None and _SINGLE.search(known.content) and not _does(known.content, stopped["verb"]):
        return False  # who no longer eats at Rossini may work there
    left = (
        {singular(word) for word in topic(_STOPPED.sub("stopped", candidate.content))}
        - set(words(value))
        - _WORDS_OF_ENDING
    )
    return left <= {singular(word) for word in topic(known.content)} and names(candidate.content) <= names(
        f"x {known.content}"
    ) | names(f"x {value}")


def _does(content: str, verb: str) -> bool:
    """Whether a statement has a verb, in any form."""
    stem = verb.casefold().removesuffix("ing").removesuffix("s")[:_STEM]
    return any(word.startswith(stem[:3]) for word in words(content)) if len(stem) > 2 else True


def _value_said(content: str, value: str) -> str | None:
    """The value, or its name without what describes it ("red Golf": "Golf"), as a sentence holds it."""
    if contains(content, value_name(value)):
        return value
    last = value.rsplit(maxsplit=1)[-1]
    return last if last[:1].isupper() and contains(content, value_name(last)) else None


def same_item(one: Memory, other: Memory) -> bool:
    """Whether two items of lists are one in other words: "allergic_to peanuts", "food_allergy peanut"."""
    if not _comparable(one, other) or not (is_listed(one) and is_listed(other)) or not one.object or not other.object:
        return False
    if affirms(one) != affirms(other) or numbers(one.content) != numbers(other.content):
        return False
    first, second = _stems(one.predicate or ""), _stems(other.predicate or "")
    asked = first | second
    return bool(first & second) and (left := _stems(one.object) - asked) == _stems(other.object) - asked and bool(left)


def _stems(text: str) -> frozenset[str]:
    kept = [word for word in words(text) if word not in _ARTICLES and word not in PREPOSITIONS]
    return frozenset(word[:_STEM] for word in kept)
