"""Whether a question written without capitals is about somebody by name ("how much did noor weigh at birth").

A list of names is never long enough. What tells a name is where it stands: one word, without an article, before what
only people do or are. Things that stand so too (materials, food, seasons), the famous and full names are left out.
"""

import re

from memproxy.core.gate_match import words_of
from memproxy.core.gate_names import KNOWN_PLACES
from memproxy.core.gate_words import (
    FAMOUS,
    GIVEN_NAMES,
    IRREGULAR,
    OWNERS,
    PEOPLE_DO_TOO,
    RELATIVES,
    STATES,
    THINGS,
    THINGS_DO,
    VERBS,
)
from memproxy.core.text import STOPWORDS

_CAPITAL = re.compile(r"(?<=\W)[A-Z][^\W\d_]*")
_WRITTEN = "'"
"""Stands behind a word that is written with a capital: no set of words has it so."""

_MODALS = frozenset(
    {"did", "does", "will", "would", "can", "could", "should", "might", "didn't", "doesn't", "can't", "cant", "won't"}
)
_HAS = frozenset({"has", "had", "hasn't", "hadn't"})
_IS = frozenset({"is", "was", "isn't", "wasn't", "when's", "where's", "how's", "who's", "what's", "whats", "wheres"})
_PLURAL = frozenset({"do", "have", "are", "were"})
_AUXILIARIES = _MODALS | _HAS | _IS | _PLURAL
_SINGULAR = _HAS | _IS | {"does", "doesn't"}
_ADVERBS = frozenset(
    """
    actually again already also always currently even ever finally first just last never normally now really recently
    still then usually
    """.split()  # noqa: SIM905
)
_ARTICLES = frozenset({"the", "a", "an", "every", "each", "any", "some", "no"})
_ABSTRACT = ("tion", "sion", "ism", "ness", "ment", "ics", "logy", "graphy", "osis", "itis", "ship", "hood", "ware")
_ABSTRACT_LETTERS = 6
_GERUND_NOUNS = frozenset(
    """
    banking building computing cooking engineering farming fishing gaming hacking heating housing keeping learning
    lighting making marketing mining parking poisoning printing processing programming running shopping streaming
    testing trading training using warming writing
    """.split()  # noqa: SIM905
)
"""Forms in -ing that stand behind a noun as part of its name ("machine learning")."""

_KNOWN_BY_OWNER = frozenset(
    """
    law laws theorem theory disease syndrome principle constant equation paradox razor comet rule capital population
    president flag currency government army economy history largest highest longest tallest national official
    number conjecture scale
    """.split()  # noqa: SIM905
)
"""What belongs to a name that the world knows ("avogadro's constant")."""

_NAMES_GO_ON = frozenset(
    {"and", "or", "da", "de", "del", "der", "di", "du", "el", "al", "la", "le", "van", "von", "bin"}
)
_SOMEBODYS = frozenset({"breed", "grade", "class", "size", "team", "school", "shift"})
"""What somebody is asked for that only has it ("what grade is ebba in")."""

_TO_PEOPLE = frozenset(
    """
    gave told taught motivated motivates motivate inspired inspires inspire invited hired fired annoyed scared upset
    bit adopted married persuaded convinced promised
    """.split()  # noqa: SIM905
)
_GIVES = frozenset(
    """
    gave told got bought sent made took taught lent brought met saw said asked owed showed paid found hit hurt left
    """.split()  # noqa: SIM905
)


def names_in_lower_case(plain: str, text: str) -> bool:
    """Whether the question (``plain``: in lower case) is about somebody by a single name, or about a relative without
    an article. Words that the text does write with a capital, behind the first, are left to `gate_names`.
    """
    capitals = set() if text.isupper() else {word.lower() for word in _CAPITAL.findall(text)}
    words = [f"{word}{_WRITTEN}" if word in capitals else word for word in words_of(plain)]
    return any(
        _is_owner(words, place) or _is_given_name(words, place) or _is_subject(words, place) or _is_object(words, place)
        for place in range(len(words))
    )


def _is_owner(words: list[str], place: int) -> bool:
    """Whether somebody's own is asked for ("noor's shoe size")."""
    word, following = words[place], _at(words, place + 1)
    if not word.endswith("'s") or following is None or following in _KNOWN_BY_OWNER:
        return False
    owner = word[:-2]
    if owner in RELATIVES:
        return True
    known = owner in OWNERS or owner in FAMOUS or owner in THINGS or owner in KNOWN_PLACES or owner in STOPWORDS
    return not known and len(owner) > 1 and _stands_alone(words, place)


def _is_given_name(words: list[str], place: int) -> bool:
    """Whether a common given name stands there without a family name."""
    word, following = words[place], _at(words, place + 1)
    if word not in GIVEN_NAMES or not _stands_alone(words, place):
        return False
    return following is None or following in STOPWORDS or following in STATES or _is_verb(following)


def _is_object(words: list[str], place: int) -> bool:
    """Whether behind the verb at ``place``, which only people are the object of, a name stands ("who taught zofia")."""
    name, following = _at(words, place + 1), _at(words, place + 2)
    if words[place] not in _TO_PEOPLE or name is None or name.endswith("ing"):
        return False
    return _may_be_name(name, "did") and not _is_thing(name) and (following is None or following in STOPWORDS)


def _is_subject(words: list[str], place: int) -> bool:
    """Whether behind the auxiliary verb at ``place`` a name stands, and what it does or is."""
    auxiliary, name = words[place], _at(words, place + 1)
    if auxiliary not in _AUXILIARIES or name is None or not _may_be_name(name, auxiliary):
        return False
    rest = [word for word in words[place + 2 :] if word not in _ADVERBS and (word in VERBS or not word.endswith("ly"))]
    thing = _is_thing(name)
    if auxiliary in _IS:
        return _is_state(words[:place], auxiliary, rest, thing=thing)
    if len(rest) > 2 and rest[0] == "and":
        return not thing and _may_be_name(rest[1], auxiliary) and _is_verb(rest[2])
    if not rest or auxiliary in _PLURAL:
        return False
    if auxiliary in _HAS:
        return not thing and (_is_verb(rest[0]) or rest[0].endswith("ed"))
    return _does(words[:place], auxiliary, rest, thing=thing)


def _does(before: list[str], auxiliary: str, rest: list[str], *, thing: bool) -> bool:
    verb = rest[0]
    if "mean" in rest[1:]:
        return False
    if verb in VERBS and verb not in THINGS_DO:
        return True
    if thing:
        return False
    if verb in THINGS_DO:
        explains = verb == "work" and before[-1:] == ["how"] and auxiliary != "did"
        return (auxiliary == "did" or verb in PEOPLE_DO_TOO) and not explains
    # A word that is no known verb is a family name before a verb, and a verb before anything else.
    return verb not in STOPWORDS and not (
        verb in _NAMES_GO_ON or (len(rest) > 1 and (rest[1] in _NAMES_GO_ON or _is_known_verb(rest[1])))
    )


def _is_state(before: list[str], auxiliary: str, rest: list[str], *, thing: bool) -> bool:
    if rest in ([], ["in"], ["on"]) and before[-1:] and before[-1] in _SOMEBODYS:
        return not thing
    if not rest:
        return auxiliary in {"who's", "how's"} or before[-1:] in (["old"], ["who"], ["how"], ["tall"])
    state = rest[0]
    if state in STATES:
        return True
    if not state.endswith("ing") or state in _GERUND_NOUNS:
        return False
    return _is_verb(state) or len(before) > 1 or len(rest) > 1


def _may_be_name(word: str, auxiliary: str) -> bool:
    if word in STOPWORDS or word in FAMOUS or word in KNOWN_PLACES or word in OWNERS or "'" in word or len(word) < 2:
        return False
    if word in VERBS and word not in GIVEN_NAMES and word not in THINGS:
        return False
    return auxiliary in _SINGULAR or word in GIVEN_NAMES or not word.endswith("s")


def _is_thing(word: str) -> bool:
    return word in THINGS or (len(word) > _ABSTRACT_LETTERS and word.endswith(_ABSTRACT))


def _is_known_verb(word: str) -> bool:
    return word in VERBS or word in THINGS_DO


def _is_verb(word: str) -> bool:
    if word in VERBS or word in IRREGULAR:
        return True
    for ending in ("ing", "ed", "s"):
        if word.endswith(ending):
            stem = word.removesuffix(ending)
            return stem in VERBS or f"{stem}e" in VERBS or stem[:-1] in VERBS
    return False


def _stands_alone(words: list[str], place: int) -> bool:
    """Whether nothing before it belongs to the same name."""
    if place == 0:
        return True
    before = words[place - 1]
    return before not in _ARTICLES and (before in STOPWORDS or before in _GIVES or _is_verb(before))


def _at(words: list[str], place: int) -> str | None:
    return words[place] if place < len(words) else None
