"""Names of slots, and values made comparable: what makes two statements answers to the same question.

A slot is what at most one active memory of a scope may hold: project and agent, subject, predicate, aspect, and for
predicates that have many answers at once ("has dog", "speaks") the object too.
"""

import re
import unicodedata
from datetime import UTC
from decimal import Decimal, InvalidOperation
from typing import NamedTuple

from memproxy.core import stance as stances
from memproxy.core.memory import Kind, Memory
from memproxy.core.predicates import DOING, ENDS, MANY, MANY_ACTIONS, NAMED_MANY, PREPOSITIONS, SAME
from memproxy.core.stance import FEEL_ABOUT, REGARD

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
    given = unicodedata.normalize("NFKC", text)
    plain = (given if whole else _CAMEL.sub(" ", given)).casefold()
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
    kept = [word for word in words(_OF_THE_USER.sub("", subject.strip()), whole=True) if word not in _ARTICLES]
    if not kept or all(word in _USER for word in kept):
        return "user"
    return "_".join(word for word in kept if word not in {"my", "your"})


def predicate_name(predicate: str) -> tuple[str, bool]:
    """The predicate as a slot names it, and whether it affirms ("no longer has dog" -> ``dog``, False)."""
    said = words(predicate)
    affirms = not any(word in _NEGATIONS for word in said)
    kept = [word for word in said if word not in _EMPTY and word not in _NEGATIONS]
    if (likes := stances.polarity(kept)) is not None:
        return FEEL_ABOUT, likes == affirms
    if stances.is_open_opinion(kept):
        return FEEL_ABOUT, affirms
    if kept[:1] == ["own"] and has_many("_".join(kept[1:])):
        del kept[0]  # "owns dog" is "has dog"
    name = "_".join(kept or said)
    if name in ENDS:
        return ENDS[name], not affirms
    return SAME.get(name, name), affirms


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


def same_value(one: str, other: str) -> bool:
    """Whether two normalised values are one; a currency that only one of them names makes no difference."""
    if one == other:
        return True
    bare_one, bare_other = _without_currency(one), _without_currency(other)
    return bare_one == bare_other and (bare_one == one or bare_other == other)


def _without_currency(value: str) -> str:
    kept = [part for part in value.split("_") if part.lstrip("+-") not in _CURRENCY_NAMES]
    return "_".join(kept)


def numbers(text: str) -> frozenset[str]:
    """All numbers in a text, made comparable ("10,000", "10k" and "10000.0" are ``10000``)."""
    if text.isascii() and not _DIGIT.search(text):  # most texts and terms have none
        return frozenset()
    return frozenset(found for token in _value_tokens(text) if (found := _number(token)))


def _value_tokens(text: str) -> list[str]:
    tokens = _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold().replace("us$", "$"))
    merged: list[str] = []
    for token in tokens:
        before = _number(merged[-1]) if merged and token in _MULTIPLIERS else None
        if before is not None:
            merged[-1] = f"{Decimal(before).scaleb(_MULTIPLIERS[token]):f}"
        else:
            merged.append(token)
    return merged


def _number(token: str) -> str | None:
    if not token[:1].isdecimal() or not _NUMBER.fullmatch(token):
        return None
    try:
        value = Decimal(token.replace(",", ""))
    except InvalidOperation:
        return None
    return f"{value.normalize():f}" if value.is_finite() else None


class _Named(NamedTuple):
    """A triple as a slot names it."""

    subject: str
    predicate: str
    object: str
    affirms: bool


def _named(memory: Memory) -> _Named:
    """The memory's triple in normal form; an opinion is that of its holder, however it is put."""
    said = words(memory.predicate or "")
    predicate, affirms = predicate_name(memory.predicate or "")
    subject, item = memory.subject or "", memory.object or memory.content
    pleases = stances.acts_on([word for word in said if word not in _EMPTY and word not in _NEGATIONS])
    if pleases is not None and memory.object and subject_name(memory.object) == "user":
        return _Named("user", FEEL_ABOUT, _without_aspect(subject, memory.aspect), pleases == affirms)
    if predicate == FEEL_ABOUT:
        return _Named(subject_name(subject), predicate, _without_aspect(item, memory.aspect), affirms)
    if memory.aspect and stances.is_held(memory.stance):
        held = FEEL_ABOUT if subject_name(subject) == "user" and memory.object else REGARD
        return _Named(subject_name(subject), held, _without_aspect(item, memory.aspect), True)
    return _Named(subject_name(subject), predicate, value_name(item), affirms)


def _without_aspect(item: str, aspect: str | None) -> str:
    """The thing itself: "TypeScript generics" is TypeScript where the aspect is "generics"."""
    part = frozenset(words(aspect or ""))
    kept = [word for word in words(item, whole=True) if word not in part and word not in _ARTICLES]
    return "_".join(kept) or value_name(item)


def stance_of(predicate: str | None) -> str | None:
    """The stance that a predicate says by itself ("likes", "hates"); None for others."""
    name, affirms = predicate_name(predicate or "")
    kept = [word for word in words(predicate or "") if word not in _EMPTY and word not in _NEGATIONS]
    return stances.named(likes=affirms) if name == FEEL_ABOUT and stances.polarity(kept) is not None else None


def slot_name(memory: Memory) -> str | None:
    """The slot that a memory holds or would hold; None for turns and for statements without subject and predicate.

    Episodes carry their object and day: that something happened again does not end that it happened before.
    """
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
    place = [f"project={memory.project_id}"] if memory.project_id else []
    place += [f"agent={memory.agent_id}"] if memory.agent_id else []
    return "|".join([*place, *parts])


def slot_value(memory: Memory) -> str:
    """What a memory says in its slot, made comparable: whether it affirms (for an opinion: its stance), and its object
    (or its content).
    """
    named = _named(memory)
    if named.predicate == REGARD:
        return stances.sign(memory.stance, affirms=True)
    if named.predicate == FEEL_ABOUT:
        said = None if stance_of(memory.predicate) and memory.stance != "mixed" else memory.stance
        return f"{stances.sign(said, affirms=named.affirms)}{named.object}"
    return f"{'+' if named.affirms else '-'}{named.object}"


def denies_another(candidate: Memory, holder: Memory) -> bool:
    """Whether it says that something else than what the holder of its slot says does not hold ("no longer lives in
    Paris", "broke up with Tom"): that ends nothing. What names no value of its own ("has no car") means any.
    """
    if not candidate.object or not holder.object:
        return False
    said, held = _named(candidate), _named(holder)
    if said.affirms or not held.affirms or said.predicate in (FEEL_ABOUT, REGARD):
        return False
    denied = set(said.object.split("_")) - set(said.predicate.split("_")) - _EMPTY - {"any", "all", "job", "anymore"}
    return bool(denied) and not denied & set(held.object.split("_"))
