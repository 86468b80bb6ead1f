"""What a message takes back that puts nothing in its place: "scratch that", "I was wrong about e-bikes"."""

import re

import msgspec

from memproxy.core.memory import Memory
from memproxy.learn.candidates import Extracted
from memproxy.learn.rules.ledger import Ledger, forgotten, terms

_SCRATCHED = re.compile(
    r"(?:^|[.,!?] ?|\b(?:ok|okay|haha|lol|oh|no|actually|wait) )(?:scratch|strike|undo|cancel|forget) (?:all (?:of "
    r")?)?that(?=$|[.,!])",
    re.IGNORECASE,
)
_WRONG_ABOUT = re.compile(
    r"\bI(?:['’]?ve| have)? (?:was (?:so |totally |completely )?wrong about|(?:have )?changed my mind (?:about|on)|"
    r"take back (?:what|everything|all) I (?:said|told you) about) (?P<x>[\w' -]{2,40}?)"
    r"(?=$|[.,;!?]|\s(?:and|but|so|she|he|it|they)\b)",
    re.IGNORECASE,
)


def withdrawn(turn: Memory, text: str, ledger: Ledger) -> list[Extracted]:
    """What a message of which nothing else was read takes back; ``text`` is what of it is looked at."""
    found: list[Extracted] = []
    if _SCRATCHED.search(text) is not None:
        found = _last_told(ledger)
    elif not ledger.is_empty and (wrong := _WRONG_ABOUT.search(text)) is not None:
        found = _no_longer_held(wrong["x"], ledger)
    return [msgspec.structs.replace(forgotten(one), evidence=(turn.content[:200],)) for one in found]


def _last_told(ledger: Ledger) -> list[Extracted]:
    """What the conversation stated last."""
    said = [one for one in ledger.newest() if one.turn >= 0]
    last = [one.statement for one in said if one.turn == said[0].turn]
    return [one for one in last if one.evidence == last[0].evidence]


def _no_longer_held(about: str, ledger: Ledger) -> list[Extracted]:
    """What was thought of something."""
    wanted = terms(about)
    return [one.statement for one in ledger.newest() if one.statement.stance and wanted and wanted <= one.told]
