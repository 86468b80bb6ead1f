"""Which messages are worth a search, which are vague, and which are a chat client's own housekeeping.

Patterns over the first few hundred characters: microseconds, no model. Nothing here may cost a user a memory, so every
kind that is skipped is described narrowly, and what no pattern knows is searched.
"""

import unicodedata
from collections.abc import Sequence

import msgspec

from memproxy.core import gate_commands as commands
from memproxy.core import gate_greetings as greetings
from memproxy.core import gate_patterns as patterns
from memproxy.core import gate_smalltalk as smalltalk
from memproxy.core.gate_earlier import FOREIGN, POINTS_BACK, asks_of_the_past, last_few, leans_on_earlier
from memproxy.core.gate_leads import LEAD
from memproxy.core.gate_lower import names_in_lower_case
from memproxy.core.gate_match import Patterns, words_of
from memproxy.core.gate_names import names_somebody
from memproxy.core.gate_own import asks_of_own_life, told_to_bot
from memproxy.core.gate_tools import OfferedTool, asks_for_tool
from memproxy.core.late import AT_ONCE, LatePattern
from memproxy.core.text import STOPWORDS, is_unspaced, key_terms

GREETING_CHARACTERS = 20
"""A greeting is at most this long; anything longer says something."""

VAGUE_CHARACTERS = 20
"""Most queries up to this length lean on what was said before."""

COMMAND_CHARACTERS = 160
"""Tool commands and small talk are short; a longer message has something else in it."""

_FACT_CHARACTERS = 240
_REPLY_WORDS = 14
_GREETINGS = 3
"""Messages that may stand before a conversation's first question."""


_TOOL = Patterns(commands.TOOL)
_SMALLTALK = Patterns(smalltalk.SMALLTALK)

UNDECIDED = "default"
"""The reason of a verdict that nothing spoke for or against."""


class Verdict(msgspec.Struct, frozen=True):
    """Whether to search, and why: ``greeting``, ``smalltalk``, ``tool``, ``fact``, ``empty``, ``personal`` or
    ``default``.
    """

    searched: bool
    reason: str


def judge(
    text: str,
    skip: frozenset[str],
    *,
    offered: Sequence[OfferedTool] = (),
    tool_forced: bool = False,
    earlier: Sequence[str] = (),
) -> Verdict:
    """Whether the user's message is searched for, given the kinds that are configured to be skipped.

    Personal words and references to the past override the ``fact`` verdict: "What is the capital of France?" is
    skipped, "What is my budget?" is searched; "Set a timer for my eggs" stays a tool's business, "Set the timer as
    usual" does not. ``offered`` are the request's tools: a message without personal words that asks for one of them is
    a tool's. ``tool_forced`` says that the request makes the model call a tool, whatever is asked. ``earlier`` are the
    user's messages before this one, oldest first: a ``fact`` that leans on them ("how long does it take from there") is
    searched if the one that it leans on is.
    """
    text = text[:AT_ONCE]
    plain = _plain(text)
    if not any(character.isalnum() for character in plain):
        return Verdict(searched=False, reason="empty")
    reason = _kind(plain, text, offered, tool_forced=tool_forced)
    if reason == "fact" and earlier and leans_on_earlier(plain):
        reason = _leaned_on(earlier) or reason
    return Verdict(searched=reason not in skip, reason=reason)


def is_first_search(before: Sequence[str], skip: frozenset[str]) -> bool:
    """Whether none of what the user said ``before`` was searched for; with nothing to ``skip`` all of it was."""
    if len(before) > _GREETINGS or (before and not skip):
        return False
    return not any(judge(text, skip).searched for text in before)


def _leaned_on(earlier: Sequence[str]) -> str | None:
    """The kind of the last message that stands by itself and is no pleasantry; None if there is none."""
    for text in last_few(earlier):
        plain = _plain(text)
        kind = _kind(plain, text, (), tool_forced=False)
        if kind == "personal" or (kind in {UNDECIDED, "fact", "tool"} and not leans_on_earlier(plain)):
            return kind
    return None


def _kind(plain: str, text: str, offered: Sequence[OfferedTool], *, tool_forced: bool) -> str:
    if len(text.strip()) <= GREETING_CHARACTERS and greetings.GREETING.fullmatch(plain):
        return "greeting"
    if tool_forced:
        return "tool"
    bare = _without_lead(plain)
    if len(plain) <= COMMAND_CHARACTERS and (kind := _short_kind(plain, bare, text)):
        return kind
    if patterns.PERSONAL.search(bare) or patterns.PAST.search(bare):
        return "personal"
    if offered and len(plain) <= COMMAND_CHARACTERS and asks_for_tool(plain, text, offered):
        return "tool"
    return _question_kind(plain, bare, text)


def _question_kind(plain: str, bare: str, text: str) -> str:
    """``fact``, unless only those can answer whose life it is about, or it is no question that is known."""
    if not _is_general_fact(plain, bare, text):
        return UNDECIDED
    return "personal" if asks_of_own_life(bare, text[:_FACT_CHARACTERS]) else "fact"


def _short_kind(plain: str, bare: str, text: str) -> str | None:
    """``smalltalk`` or ``tool``, unless it speaks of what was before."""
    if patterns.PAST.search(plain):
        return None
    words = words_of(plain)
    present = frozenset(words)
    if _is_smalltalk(plain, bare, text, words):
        return "smalltalk"
    return "tool" if _matches(commands.TOOL_WHOLE, _TOOL, plain, bare, present) else None


def _is_smalltalk(plain: str, bare: str, text: str, words: list[str]) -> bool:
    whole = greetings.GREETING.fullmatch(plain) or greetings.HOW_ARE_YOU.fullmatch(plain)
    if whole or _is_reply(text, words):
        return True
    if _matches(smalltalk.SMALLTALK_WHOLE, _SMALLTALK, plain, bare, frozenset(words)):
        return True
    return _asks_about_bot(plain, bare)


def _is_reply(text: str, words: list[str]) -> bool:
    """Whether it consists of words of thanks alone, or of words of yes, no and maybe, and asks for nothing."""
    if not words or len(words) > _REPLY_WORDS or words[0] in greetings.ASKS or "?" in text or "？" in text:
        return False
    present = frozenset(words)
    if any(character.isdigit() for character in text):
        return False
    return (not greetings.THANKS.isdisjoint(present) and present <= greetings.THANKS_WORDS) or (
        not greetings.YES_NO.isdisjoint(present) and present <= greetings.YES_NO_WORDS
    )


def _asks_about_bot(plain: str, bare: str) -> bool:
    """Whether it speaks to the assistant, and of nothing but what an assistant is asked about itself."""
    words = frozenset(words_of(plain))
    if smalltalk.ADDRESSES_BOT.isdisjoint(words) or patterns.PERSONAL.search(bare) or patterns.THINGS.search(bare):
        return False
    topics = {word.removesuffix("'s") for word in words} - STOPWORDS - smalltalk.ADDRESSES_BOT
    return bool(topics) and topics <= smalltalk.ABOUT_BOT and not told_to_bot(bare)


def _is_general_fact(plain: str, bare: str, text: str) -> bool:
    """Whether it asks for something the world knows. "How much?" asks for nothing by itself: what it leans on may be
    the user's own.
    """
    if len(plain) > _FACT_CHARACTERS or not any(patterns.FACT.match(form) for form in {plain, bare}):
        return False
    if patterns.WISHES.search(bare) or patterns.LEFT_OPEN.search(bare) or POINTS_BACK.search(bare):
        return False
    if not key_terms(text, limit=1) or not FOREIGN.isdisjoint(words_of(plain)):
        return False
    head = text[:_FACT_CHARACTERS]
    return not (names_somebody(head) or names_in_lower_case(plain, head) or asks_of_the_past(plain, head))


def _without_lead(plain: str) -> str:
    """The message without what leads up to the question ("can you tell me ..."), itself if nothing is left."""
    lead = LEAD.match(plain)
    return (plain[lead.end() :] if lead else plain) or plain


def _matches(whole: LatePattern, anywhere: Patterns, plain: str, bare: str, words: frozenset[str]) -> bool:
    """Whether one of the patterns fits, also without what leads up to the question."""
    return any(whole.fullmatch(form) for form in {plain, bare}) or anywhere.found(plain, words)


def is_personal(text: str) -> bool:
    """Whether it speaks of the user (my, I, we, our), of what was said before (again, as usual, last time), or of
    something that is known between the two (the trip, the deploy).
    """
    plain = _plain(text)
    return patterns.PERSONAL.search(plain) is not None or patterns.PAST.search(plain) is not None


def is_vague(text: str) -> bool:
    """Whether the query leans on earlier messages ("How much?", "And that one?") rather than standing by itself."""
    text = text[:AT_ONCE]
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
    head = " ".join(text[: patterns.HOUSEKEEPING_CHARACTERS].lower().split())
    if not any(cue in head for cue in patterns.HOUSEKEEPING_CUES):
        return False
    return patterns.HOUSEKEEPING.search(head) is not None


def _plain(text: str) -> str:
    """Lower case, plain apostrophes, one space between words, no mark or emoji at the ends; at most a few hundred
    characters (with one more than any limit here, so that a longer text is seen to be longer).
    """
    head = text[: _FACT_CHARACTERS * 4]
    folded = unicodedata.normalize("NFKC", head).lower().replace("’", "'").replace("‘", "'")
    return _without_marks(" ".join(folded.split())[: _FACT_CHARACTERS + 1])


def _without_marks(text: str) -> str:
    start, end = 0, len(text)
    while end and _is_mark(text[end - 1]):
        end -= 1
    while start < end and _is_mark(text[start]):
        start += 1
    return text[start:end]


def _is_mark(character: str) -> bool:
    """Punctuation, symbols, emoji and their variation selectors, white space, control characters; the vowel signs of
    Indic scripts are none.
    """
    return not character.isalnum() and (character == "\ufe0f" or unicodedata.category(character)[0] in "PSZC")
