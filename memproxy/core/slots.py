"""Names of slots, and values made comparable. A slot is one question, to which a scope has one active answer: project
and agent, subject, predicate, aspect, and of predicates with many answers ("has dog", "speaks") the object.
"""

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC
from decimal import Decimal
from typing import NamedTuple

from memproxy.core.memory import Kind, Memory

FEEL_ABOUT = "feel_about"  # the common name of all predicates that say somebody's opinion of a thing
REGARD = "regard"  # the same where the thing itself is the subject ("TypeScript's generics": "annoying")

_SIGNS = {"positive": "+", "negative": "-", "mixed": "~", "neutral": "0"}
_HELD = frozenset({"positive", "negative", "mixed"})  # stances that say more than that there is none

_POLARITY = {
    **dict.fromkeys(("like", "love", "enjoy", "adore", "favor", "favour", "fan", "fond", "appreciate"), True),
    **dict.fromkeys(("dislike", "hate", "loathe", "detest", "despise", "annoyed", "bothered", "irritated"), False),
    **dict.fromkeys(("frustrated",), False),
}
"""Whether predicates that begin with a word like their object, or dislike it."""

_OPEN = frozenset({("opinion",), ("feel", "about"), ("feeling", "about"), ("attitude",), ("view", "on")})
"""How predicates begin that ask for an opinion without saying which ("opinion_of", "feels about")."""

_ON_ME = {"annoy": False, "bother": False, "irritate": False, "frustrate": False, "delight": True}
"""What a thing does to somebody who holds an opinion of it ("its generics annoy me")."""


def sign(stance: str | None, *, affirms: bool) -> str:
    """One character for a stance: that of the predicate, unless a stance was noted that the predicate cannot say."""
    noted = (stance or "").casefold()
    return _SIGNS.get(noted, "+" if affirms else "-")


OFFERED_ONE = (
    *("name", "birthday", "age", "lives_in", "address", "staying_in", "comes_from", "nationality", "marital_status"),
    *("spouse", "partner", "works_at", "works_as", "salary", "university", "field_of_study", "drives", "height"),
    *("weight", "diet", "email", "phone_number", "timezone", "answer_language", "answer_style", "gets_up_at"),
    *("goes_to_bed_at", "bank", "doctor", "dentist"),
)
"""Predicates offered to an extraction model that have one answer at a time."""

OFFERED_MANY = (
    *("has_child", "has_sibling", "has_friend", "has_colleague", "has_pet", "speaks", "allergic_to", "intolerant_to"),
    *("has_condition", "takes_medication", "likes", "dislikes", "preference", "hobby", "plays_instrument", "owns"),
    *("uses_tool", "works_on", "goal", "wants", "plans_to", "routine", "requirement", "visited", "subscription"),
)
"""Predicates offered to an extraction model that may have several answers at once."""

OFFERED = frozenset((*OFFERED_ONE, *OFFERED_MANY))
OTHER = "other"  # what a model says when no predicate that is offered fits; its own name for it stands beside
_SPOUSE, _PARTNER, _HOME, _EMPLOYER, _JOB = "spouse", "partner", "live_in", "employer", "job_title"

SAME = {
    **dict.fromkeys(("work_at", "work_for", "working_at", "working_for", "employed_by", "employed_at"), _EMPLOYER),
    **dict.fromkeys(("workplace", "work_place", "started_at", "started_working_at", "started_working_for"), _EMPLOYER),
    **dict.fromkeys(("start_at", "employer_name", "company", "job_at"), _EMPLOYER),
    **dict.fromkeys(("work_as", "working_as", "occupation", "profession", "employed_as", "job_role"), _JOB),
    **dict.fromkeys(("living_in", "reside_in", "residing_in", "residence", "home_city", "city", "based_in"), _HOME),
    **dict.fromkeys(("move_to", "moved_to", "relocated_to", "city_residence", "place_residence"), _HOME),
    **dict.fromkeys(("wife", "husband", "married_to", "marry_to", "wife_name", "husband_name"), _SPOUSE),
    **dict.fromkeys(("spouse_name", "name_wife", "name_husband", "wed_to"), _SPOUSE),
    **dict.fromkeys(("girlfriend", "boyfriend", "dating", "in_relationship_with", "girlfriend_name"), _PARTNER),
    **dict.fromkeys(("boyfriend_name", "partner_name", "relationship_with", "name_girlfriend"), _PARTNER),
    **dict.fromkeys(("name_boyfriend", "name_partner"), _PARTNER),
    **dict.fromkeys(("work_from", "work_mode"), "work_arrangement"),
    **dict.fromkeys(("relationship_status", "civil_status"), "marital_status"),
    **dict.fromkeys(("time_zone",), "timezone"),
    **dict.fromkeys(("telephone", "phone_no", "telephone_number", "mobile_number", "cell_number"), "phone_number"),
}
"""Predicates that ask what another one asks, in other words."""

ENDS = {
    **dict.fromkeys(("broke_up_with", "broken_up_with", "split_up_with", "split_from", "ended_thing_with"), _PARTNER),
    **dict.fromkeys(("divorced_from", "divorced", "separated_from"), _SPOUSE),
    **dict.fromkeys(("left_job_at", "resigned_from", "laid_off_from", "laid_off_by", "fired_from"), _EMPLOYER),
}
"""Predicates that say that an answer to another one does not hold any longer."""

_PEOPLE = frozenset(
    """
    child children kid son daughter sibling brother sister friend colleague coworker parent grandparent grandchild
    grandson granddaughter grandmother grandfather uncle aunt cousin niece nephew roommate flatmate housemate neighbor
    neighbour teammate classmate mentor student client customer guest participant attendee member team_member teacher
    """.split()  # noqa: SIM905 - a list of many quoted words reads worse
)
_ANIMALS = frozenset("dog cat pet animal horse rabbit bird fish hamster parrot chicken puppy kitten".split())  # noqa: SIM905

_THINGS = frozenset(
    """
    possession language hobby interest skill allergy intolerance instrument sport tool goal medication supplement
    symptom condition disease illness diagnosis injury event experience certification award achievement publication
    subscription membership habit routine preference fear dream belief requirement constraint
    restriction dietary_restriction food_restriction food_allergy task todo problem issue question feature dependency
    ingredient step note idea responsibility duty course class project side_project trip_idea wish
    programming_language spoken_language language_spoken collection
    """.split()  # noqa: SIM905
)
DOING = frozenset(
    """
    interested know use want plan prefer need go study follow collect avoid include contain working work use_for belong
    responsible eat drink cook bake grow take take_medication teach volunteer run practice practise train subscribe
    subscribed listen support donate invest wear write paint draw build sing dance hike cycle swim knit suffer diagnosed
    treated intolerant fear afraid scared worry worried excited proud hope hoping dreaming intend considering planning
    thinking booked ordered scheduled received bought_from sold lost found built created wrote invited
    started began reading watching playing listening learning studying training practicing collecting cooking
    growing involved familiar experienced proficient certified good bad struggling dealt interact live_with spend_time
    """.split()  # noqa: SIM905
)
"""Verbs; with a thing of many behind ("uses_tool", "works_on_project") they have many answers too."""

_BARE = frozenset(
    {"is", "is_a", "is_an", "are", "am", "was", "were", "be", "has", "have", "had", "do", "does", "did", "to"}
)
"""Predicates that carry no meaning of their own, as in "is a nurse" or "has been to Rome"."""

MANY = _PEOPLE | _ANIMALS | _THINGS | DOING | _BARE | {FEEL_ABOUT}
"""Predicates that several memories may answer at once, prepositions at their end and "name" aside."""

NAMED_MANY = _PEOPLE | _ANIMALS  # those whose name ("sister_name", "name of the dog") has as many answers

MANY_ACTIONS = frozenset(
    """
    own speak visit visited attend attended read watch watched bought buy purchased went met made tried play played
    allergic traveled travelled mentioned discussed asked said learned finished completed ate cooked saw joined won ran
    collected lived worked studied used taught graduated stayed moved celebrated hosted volunteered
    """.split()  # noqa: SIM905
)
"""First words of predicates that name things done or true many times, whatever follows ("visited_in_2020")."""

PREPOSITIONS = frozenset({"to", "in", "on", "at", "for", "with", "about", "from", "by", "as", "named", "called"})


_USER = frozenset({"user", "i", "me", "my", "myself", "mine", "you", "your", "human", "speaker"})
_ARTICLES = frozenset({"a", "an", "the"})
_EMPTY = _ARTICLES | frozenset(
    {"is", "are", "was", "were", "be", "been", "am", "has", "have", "had", "having", "do", "does", "did"}
    | {"current", "currently", "new", "now", "of", "s"}
)
"""Words of a predicate that change neither what it asks nor its answer ("has_budget", "current_budget")."""

_NEGATIONS = frozenset(
    {"not", "no", "never", "without", "longer", "stopped", "quit", "cancelled", "canceled", "dont", "doesnt", "isnt"}
    | {"wasnt", "didnt", "wont", "cannot", "cant", "hasnt", "havent", "t"}
)
_MULTIPLIERS = {"k": 3, "thousand": 3, "m": 6, "mn": 6, "million": 6, "bn": 9, "billion": 9}
_CURRENCIES = {
    **dict.fromkeys(("$", "usd", "dollar", "dollars", "us$", "bucks"), "usd"),
    **dict.fromkeys(("€", "eur", "euro", "euros"), "eur"),
    **dict.fromkeys(("£", "gbp", "pound", "pounds"), "gbp"),
    **dict.fromkeys(("¥", "yen", "jpy"), "jpy"),
}
_CURRENCY_NAMES = frozenset(_CURRENCIES.values())
_DIGIT = re.compile(r"\d")
_NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?")
_TOKEN = re.compile(r"[$€£¥]|\d[\d,]*(?:\.\d+)?|[^\W\d_]+(?:\+\+|#)?")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_OF_THE_USER = re.compile(r"^(?:the )?users?['’]s? (?=\S)|^my (?=\S)| of (?:the user|me|mine)$", re.IGNORECASE)
"""Whose somebody or something is; without it "my wife", "the user's wife" and "wife" are one."""


def words(text: str, *, whole: bool = False) -> list[str]:
    """The words of a name in lower case (snake, kebab and camel case taken apart), plurals made singular. ``whole``: a
    proper name, in which capitals make no words ("TypeScript" and "Typescript" are one).
    """
    normal = unicodedata.normalize("NFKC", text)
    plain = (normal if whole else _CAMEL.sub(" ", normal)).casefold()
    plain = plain.replace("’", "'").replace("n't", " not")
    return [singular(word) for word in re.findall(r"[^\W_]+(?:\+\+|#)?", re.sub(r"'s\b|s'(?=\W|$)", "", plain))]


def singular(word: str) -> str:
    """An English plural's singular, by ending alone; other words as they are."""
    if word in _EMPTY:
        return word
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    if len(word) > 4 and word.endswith(("ches", "shes", "xes", "sses")):
        return word[:-2]
    if len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is")):
        return word[:-1]
    return word


def subject_name(subject: str) -> str:
    """The subject as a slot names it: ``user`` for the user however referred to, else its words joined."""
    name_words = [word for word in words(_OF_THE_USER.sub("", subject.strip()), whole=True) if word not in _ARTICLES]
    if not name_words or all(word in _USER for word in name_words):
        return "user"
    return "_".join(word for word in name_words if word not in {"my", "your"})


def predicate_name(predicate: str) -> tuple[str, bool]:
    """The predicate as a slot names it, and whether it affirms ("no longer has dog" -> ``dog``, False)."""
    predicate_words = words(predicate)
    affirms = not any(word in _NEGATIONS for word in predicate_words)
    asking = _asking(predicate_words)
    if (likes := _POLARITY.get(asking[0]) if asking else None) is not None:
        return FEEL_ABOUT, likes == affirms
    if any(tuple(asking[: len(start)]) == start for start in _OPEN):
        return FEEL_ABOUT, affirms
    if asking[:1] == ["own"] and has_many("_".join(asking[1:])):
        del asking[0]  # "owns dog" is "has dog"
    name = "_".join(asking or predicate_words)
    if name in ENDS:
        return ENDS[name], not affirms
    return SAME.get(name, name), affirms


def _asking(predicate_words: Sequence[str]) -> list[str]:
    """The words of a predicate that say what it asks."""
    return [word for word in predicate_words if word not in _EMPTY and word not in _NEGATIONS]


def has_many(predicate: str) -> bool:
    """Whether several memories may answer this normalised predicate at once ("dog", "speak", "allergic_to")."""
    parts = predicate.split("_")
    if parts[0] in MANY_ACTIONS or predicate in MANY or (parts[0] in DOING and parts[-1] in MANY):
        return True
    while len(parts) > 1 and parts[-1] in PREPOSITIONS:
        parts.pop()
    name = "_".join(parts)
    return name in MANY or name.removesuffix("_name").removeprefix("name_") in NAMED_MANY


def value_name(value: str) -> str:
    """A value made comparable: "$10,000", "10000 dollars", "10k USD" and "US$10,000.00" are one."""
    parts = [_number(token) or _CURRENCIES.get(token) or token for token in _value_tokens(value)]
    amounts = sorted(part for part in parts if part in _CURRENCY_NAMES)
    return "_".join([*(part for part in parts if part not in amounts and part not in _ARTICLES), *amounts])


def same_value(value: str, other: str) -> bool:
    """Whether two normalised values are one; a currency that only one of them names makes no difference."""
    if value == other:
        return True
    bare_value, bare_other = _without_currency(value), _without_currency(other)
    return bare_value == bare_other and (bare_value == value or bare_other == other)


def _without_currency(value: str) -> str:
    parts = [part for part in value.split("_") if part.lstrip("+-") not in _CURRENCY_NAMES]
    return "_".join(parts)


def numbers(text: str) -> frozenset[str]:
    """All numbers in a text, made comparable ("10,000", "10k" and "10000.0" are ``10000``)."""
    if text.isascii() and not _DIGIT.search(text):  # most texts and terms have none
        return frozenset()
    return frozenset(number for token in _value_tokens(text) if (number := _number(token)))


def _value_tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold().replace("us$", "$"))
    merged: list[str] = []
    for token in tokens:
        factor = _number(merged[-1]) if merged and token in _MULTIPLIERS else None
        if factor is not None:
            merged[-1] = f"{Decimal(factor).scaleb(_MULTIPLIERS[token]):f}"
        else:
            merged.append(token)
    return merged


def _number(token: str) -> str | None:
    if not token[:1].isdecimal() or not _NUMBER.fullmatch(token):
        return None
    try:
        return f"{Decimal(token.replace(',', '')).normalize():f}"
    except ArithmeticError:  # of more digits than any number has
        return None


class _Named(NamedTuple):
    """A triple as a slot names it."""

    subject: str
    predicate: str
    object: str
    affirms: bool


def _named(memory: Memory) -> _Named:
    """The memory's triple in normal form; an opinion is that of its holder, however it is put."""
    predicate, affirms = predicate_name(memory.predicate or "")
    subject, item = memory.subject or "", memory.object or memory.content
    pleases = _ON_ME.get(next(iter(_asking(words(memory.predicate or ""))), ""))
    if pleases is not None and memory.object and subject_name(memory.object) == "user":
        return _Named("user", FEEL_ABOUT, _without_aspect(subject, memory.aspect), pleases == affirms)
    if predicate == FEEL_ABOUT:
        return _Named(subject_name(subject), predicate, _without_aspect(item, memory.aspect), affirms)
    if memory.aspect and (memory.stance or "").casefold() in _HELD:
        held = FEEL_ABOUT if subject_name(subject) == "user" and memory.object else REGARD
        return _Named(subject_name(subject), held, _without_aspect(item, memory.aspect), True)
    return _Named(subject_name(subject), predicate, value_name(item), affirms)


def _without_aspect(item: str, aspect: str | None) -> str:
    """The thing itself: "TypeScript generics" is TypeScript where the aspect is "generics"."""
    part = frozenset(words(aspect or ""))
    item_words = [word for word in words(item, whole=True) if word not in part and word not in _ARTICLES]
    return "_".join(item_words) or value_name(item)


def stance_of(predicate: str | None) -> str | None:
    """The stance that a predicate says by itself ("likes", "hates"); None for others."""
    name, affirms = predicate_name(predicate or "")
    asking = _asking(words(predicate or ""))
    if name != FEEL_ABOUT or not asking or asking[0] not in _POLARITY:
        return None
    return "positive" if affirms else "negative"


def slot_name(memory: Memory) -> str | None:
    """The slot that a memory holds or would hold, or None. Of episodes by object and day: a second one ends nothing."""
    if memory.kind is Kind.TURN or not memory.subject or not memory.predicate:
        return None
    named = _named(memory)
    if not named.predicate:
        return None
    parts = [named.subject, named.predicate, "_".join(words(memory.aspect or ""))]
    if memory.kind is Kind.EPISODIC or has_many(named.predicate):
        parts.append(named.object)
    if memory.kind is Kind.EPISODIC:
        day = memory.valid_from or memory.created_at
        parts.append(day.astimezone(UTC).date().isoformat())
    owner = [f"project={memory.project_id}"] if memory.project_id else []
    owner += [f"agent={memory.agent_id}"] if memory.agent_id else []
    return "|".join([*owner, *parts])


def slot_value(memory: Memory) -> str:
    """What a memory says in its slot: whether it affirms (an opinion: its stance), and its object or content."""
    named = _named(memory)
    if named.predicate == REGARD:
        return sign(memory.stance, affirms=True)
    if named.predicate == FEEL_ABOUT:
        stance = None if stance_of(memory.predicate) and memory.stance != "mixed" else memory.stance
        return f"{sign(stance, affirms=named.affirms)}{named.object}"
    return f"{'+' if named.affirms else '-'}{named.object}"


def denies_another(candidate: Memory, holder: Memory) -> bool:
    """Whether a denial is of another value than the holder of its slot has ("no longer lives in Paris", "broke up with
    Tom"): it ends nothing then. A denial without a value ("has no car") is of any.
    """
    if not candidate.object or not holder.object:
        return False
    denial, held = _named(candidate), _named(holder)
    if denial.affirms or not held.affirms or denial.predicate in (FEEL_ABOUT, REGARD):
        return False
    denied = (
        set(denial.object.split("_")) - set(denial.predicate.split("_")) - _EMPTY - {"any", "all", "job", "anymore"}
    )
    return bool(denied) and not denied & set(held.object.split("_"))
