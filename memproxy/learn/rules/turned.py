"""A taste that turned: said anywhere in a sentence, of what is known to be liked or disliked.

"Funny, by now I love working from home", "i love sushi now??", "I've come to hate the thing": what is liked is found by
what is known, so no wording before or after it matters.
"""

import re
from collections.abc import Iterator

from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Known, Ledger, forgotten, terms
from memproxy.learn.rules.model import Clause
from memproxy.learn.rules.tastes import taste
from memproxy.learn.rules.values import trimmed

_TAKES = re.compile(
    r"\b(?:I|we)(?: have| am|['’]ve|['’]m)? (?:(?:now|really|actually|totally|absolutely|simply|do|just|finally|"
    r"kind of|quite|honestly|starting to|started to|beginning to|grown to|come to|came to|learned to|learnt to|"
    r"begun to|secretly|even|so|very|much) )*"
    r"(?P<verb>love|loving|adore|like|enjoy|enjoying|hate|hating|dislike|loathe|despise|detest|cannot stand|"
    r"do not like|do not enjoy|happy with|sick of|tired of|fed up with|over(?= my| the)) "
    r"(?P<x>[\w'. -]{2,50}?)"
    r"(?=\s*$|[,;:!?]|\.(?:\s|$)|\s(?:now|these days|since|because|so|but|and|after|by now|again|ever|lately|any ?more|"
    r"after all)\b)",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(r"hat|dislike|loathe|despise|detest|cannot|not|sick|tired|fed up|over", re.IGNORECASE)
_THE_THING = re.compile(r"(?:the|that) (?:thing|stuff)|it|them|that", re.IGNORECASE)
_UNREAL = re.compile(
    r"\b(?:if|would|could|should|used to|might|said|says|told|do I|did I|thought)\b|['’]d\b", re.IGNORECASE
)
_SAID = {
    "loving": "loves",
    "enjoying": "enjoys",
    "hating": "hates",
    "cannot stand": "can't stand",
    "do not like": "does not like",
    "do not enjoy": "does not enjoy",
    "despise": "despises",
    "happy with": "is happy with",
    "sick of": "is sick of",
    "tired of": "is tired of",
    "fed up with": "is fed up with",
    "over": "is over",
}


def turned(whole: Clause, ledger: Ledger, place: int, before: str) -> Iterator[Extracted]:
    """The end of each opposite taste that is known, and the new one, of a sentence as a whole."""
    held = [one for one in ledger.newest() if one.turn != place and one.statement.stance and not one.statement.aspect]
    if not held or _UNREAL.search(whole.text) is not None:
        return
    for match in _TAKES.finditer(whole.text):
        negative = _NEGATIVE.search(match["verb"]) is not None
        known = _known(match["x"], held, before)
        old = [one for one in known if (one.statement.stance == "negative") is not negative]
        if not old:
            continue
        yield from (forgotten(one.statement) for one in old)
        thing = old[0].statement.object if _THE_THING.fullmatch(match["x"]) else trimmed(match["x"], "long")
        if thing:
            yield taste(thing, _third(match["verb"].lower()), positive=not negative)


def _known(said: str, held: list[Known], before: str) -> list[Known]:
    """The tastes that are of this; of "the thing", the only one of what was just spoken of."""
    if _THE_THING.fullmatch(said):
        spoken_of = terms(before)
        near = [one for one in held if terms(one.statement.object or "") & spoken_of]
        return near if len({one.statement.object for one in near}) == 1 else []
    phrase = re.split(r" (?:of|for|in|at|with|from|on|about) ", said)[0]
    wanted, head = terms(said), terms(phrase.rsplit(maxsplit=1)[-1])
    return [one for one in held if head and _is_one_thing(wanted, head, terms(one.statement.object or ""))]


def _is_one_thing(wanted: frozenset[str], head: frozenset[str], known: frozenset[str]) -> bool:
    """Whether both are one thing, said more or less fully; "Kotlin's build times" are no Kotlin."""
    return bool(known) and head <= known and (wanted <= known or known <= wanted)


def _third(verb: str) -> str:
    """The verb as it is said of somebody: “loves”, “is sick of”."""
    return _SAID.get(verb, f"{verb}s")
