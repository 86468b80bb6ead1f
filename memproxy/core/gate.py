"""Which messages are worth a search, which are vague, and which are a chat client's own housekeeping.

Patterns over the first few hundred characters: microseconds, no model. Nothing here may cost a user a memory, so every
kind that is skipped is described narrowly, and what no pattern knows is searched.
"""

import re
import unicodedata

import msgspec

from memproxy.core import gate_patterns as patterns
from memproxy.core.text import is_unspaced, key_terms

GREETING_CHARACTERS = 20
"""A greeting is at most this long; anything longer says something."""

VAGUE_CHARACTERS = 20
"""Most queries up to this length lean on what was said before."""

_COMMAND_CHARACTERS = 160
"""Tool commands and small talk are short; a longer message has something else in it."""

_FACT_CHARACTERS = 240
_HOUSEKEEPING_CHARACTERS = 6000


class Verdict(msgspec.Struct, frozen=True):
    """Whether to search, and why: ``greeting``, ``smalltalk``, ``tool``, ``fact``, ``empty``, ``personal`` or
    ``default``.
    """

    searched: bool
    reason: str


def judge(text: str, skip: frozenset[str]) -> Verdict:
    """Whether the user's message is searched for, given the kinds that are configured to be skipped.

    Personal words and references to the past override the ``fact`` verdict only: "What is the capital of France?" is
    skipped, "What is my budget?" is searched; "Set a timer for my eggs" stays a tool's business.
    """
    plain = _plain(text)
    if not any(character.isalnum() for character in plain):
        return Verdict(searched=False, reason="empty")
    reason = _kind(plain, text)
    return Verdict(searched=reason not in skip, reason=reason)


def _kind(plain: str, text: str) -> str:
    if len(text.strip()) <= GREETING_CHARACTERS and patterns.GREETING.fullmatch(plain):
        return "greeting"
    if len(plain) <= _COMMAND_CHARACTERS:
        if _matches(patterns.SMALLTALK_WHOLE, patterns.SMALLTALK, plain) or patterns.GREETING.fullmatch(plain):
            return "smalltalk"
        if _matches(patterns.TOOL_WHOLE, patterns.TOOL, plain):
            return "tool"
    if is_personal(text):
        return "personal"
    return "fact" if _is_general_fact(plain, text) else "default"


def _is_general_fact(plain: str, text: str) -> bool:
    """Whether it asks for something the world knows. "How much?" asks for nothing by itself: what it leans on may be
    the user's own.
    """
    if len(plain) > _FACT_CHARACTERS or not patterns.FACT.match(plain):
        return False
    return bool(key_terms(text, limit=1)) and not _names_somebody(text)


def _matches(whole: re.Pattern[str], anywhere: re.Pattern[str], plain: str) -> bool:
    """Whether one of the patterns fits, also without what leads up to the question ("can you tell me ...")."""
    lead = patterns.LEAD.match(plain)
    bare = plain[lead.end() :] if lead else plain
    return any(whole.fullmatch(form) for form in {plain, bare}) or anywhere.search(plain) is not None


def is_personal(text: str) -> bool:
    """Whether it speaks of the user (my, I, we, our), of what was said before (again, as usual, last time), or of
    something that is known between the two (the trip, the deploy).
    """
    return patterns.PERSONAL.search(_plain(text)) is not None


def _names_somebody(text: str) -> bool:
    """Whether it asks about a person or thing by a single name ("Where does Sarah live?", "Biscuit's food"): that may
    be somebody the user told about, while full names and titles are known to the world.
    """
    return patterns.SINGLE_NAME.search(" ".join(text.split())) is not None


def is_vague(text: str) -> bool:
    """Whether the query leans on earlier messages ("How much?", "And that one?") rather than standing by itself."""
    plain = _plain(text)
    weight = sum(_term_weight(term) for term in key_terms(text, limit=4))
    if weight == 0:
        return True
    if len(plain) <= VAGUE_CHARACTERS:
        return weight < 2 and not is_personal(text)
    return weight < 2 and len(plain) <= 80 and patterns.POINTING.search(plain) is not None


def _term_weight(term: str) -> int:
    """An unspaced run is a clause, not a word: every four of its characters count as one term."""
    return max(1, len(term) // 4) if is_unspaced(term[0]) else 1


def is_housekeeping(text: str) -> bool:
    """Whether a chat client wrote this for itself: titles, tags, follow-up suggestions, search queries, summaries.

    Recognised by how such prompts are made (about "the conversation", with demands on the form of the answer), not by
    the word alone: "Suggest a title for my essay" is a user's request.
    """
    head = " ".join(text[:_HOUSEKEEPING_CHARACTERS].lower().split())
    return patterns.HOUSEKEEPING.search(head) is not None


def _plain(text: str) -> str:
    """Lower case, plain apostrophes, one space between words, no mark at the ends; at most a few hundred characters
    (with one more than any limit here, so that a longer text is seen to be longer).
    """
    head = text[: _FACT_CHARACTERS * 4]
    folded = unicodedata.normalize("NFKC", head).lower().replace("’", "'").replace("‘", "'")
    return " ".join(folded.split())[: _FACT_CHARACTERS + 1].strip(" \t.,!?…;:-~*\"'()👋🙏😊")
