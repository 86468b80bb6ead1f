"""Text that gives instructions to a model, as injections do, and what is not stored because of it."""

import asyncio
import re
from collections.abc import Iterator
from itertools import pairwise

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import PLANTED, Kind, Memory, Trust
from memproxy.core.slots import subject_name
from memproxy.core.text import sentences
from memproxy.learn.candidates import Extracted, Grounded, Intent

_ORDER = r"(?:^|[.!?:;,\"'(\[>*\n-]\s?|\b(?:and|then|now|please|must|should|will|shall|just|you|so|want you to)\s)"
_RULES = (
    r"(?:instructions?|prompts?|rules?|guidelines?|directives?|programming|restrictions?|constraints?|safeguards?"
    r"|safety|polic(?:y|ies)|filters?)"
)
_MODEL = r"(?:assistant|ai|a\.i\.|model|llm|chatbot|chat ?gpt|gpt|bot)"
_EARLIER = r"(?:previous|prior|above|preceding|following|earlier|former|all|any|your|the|these|those)"
_DROP = r"(?:ignore|disregard|forget|override|bypass|discard|do not follow|don't follow)"
_WRITE = r"(?:print|say(?! the word)|output|respond|reply|answer|return|write|repeat)"

_ORDERED = (
    rf"{_DROP}\b.{{0,40}}\b{_EARLIER}\b.{{0,30}}\b{_RULES}\b",
    r"ignore (?:all|any|every|everything|the rest)\b.{0,60}\b(?:text|data|document|input|context|above)\b",
    r"pretend (?:to be|you(?:'re| are))\b",
    rf"(?:just|only|simply) {_WRITE}\b",
)
"""Orders; the words that mark them as such stand before them (`_ORDER`)."""

_DROPPED_RULES = (
    r"forget (?:everything|all) (?:that )?you(?:'ve| have| were)? (?:learned|learnt|been told|told|know)\b(?! about)",
    r"normal (?:restrictions|rules|limits) (?:don't|do not|no longer) apply\b",
    r"(?:bypass|ignores?|violat\w+|adhere to|against)\b.{0,30}\b(?:open ?a[il]|content) (?:content )?polic(?:y|ies)",
)
_ANOTHER_IDENTITY = (
    r"you are now (?:going to |free\b|unrestricted|jailbroken|in \w+ mode|dan\b)",
    rf"you are now (?:an? |the )?(?:[\w-]+ ){{0,3}}(?:{_MODEL}|character|persona)\b",
    r"you(?:'re| are) (?:going|about) to (?:act|pretend|play|immerse|simulate|role)",
    r"you will (?:now )?(?:take on|assume|play) the (?:role|persona|identity) of\b",
    r"(?:from (?:now|here) on|henceforth),? you\b",
    r"stay in character\b",
    r"break(?:ing)? character\b",
    r"(?:act|behave|answer|respond) (?:as|like) (?:an? )?(?:unrestricted|unfiltered|uncensored|jailbroken|dan\b)",
    r"role[- ]?play an example\b",
    r"do anything now\b",
    r"(?:dan|developer|god|jailbreak) mode (?:enabled|on|output)\b",
    r"dan mode\b",
    rf"jailbreak(?:ing)? (?:mode|prompt|the (?:{_MODEL}))",
    rf"jailbroken (?:{_MODEL})",
    r"(?:confines|limitations) of a[il]\b",
    r"typical a[il] (?:confines|limitations)\b",
    r"never refuse\b",
    r"(?:unfiltered|uncensored)\b.{0,30}\b(?:answers?|responses?|output)\b",
)
_ORDERED_ANSWER = (
    r"print the words?\b",
    r"repeat <[^<>]*>",
    r"stop everything\b",
    r"prefix your (?:answers|responses)\b",
    r"if (?:you are |you're )?asked\b.{0,80}\b(?:respond|reply|answer|say)\b",
    r"you may not deviate\b",
    r"note to (?:the )?(?:automated|ai|llm|language|screening|assistant|any)\b.{0,40}:",
    r"(?:ai|llm|language) (?:assistants?|models?|agents?)\s?[:,]\s?(?:remember|store|save|note|assume|you)\b",
    (
        rf"(?:the |any )?{_MODEL} (?:must|should|shall|has to|have to|needs? to|will|is to) "
        r"(?:always|never|now|immediately)\b"
    ),
    (
        rf"(?:reveal|show|print|repeat|output|leak|tell me|your|this {_MODEL}'s|new|hidden) (?:me )?(?:the |your )?"
        r"(?:system|developer) (?:prompt|message|instructions?)\b"
    ),
    (
        r"(?:send|post|forward|upload|exfiltrate)\b.{0,60}\b(?:conversation|chat history|memor(?:y|ies)|api keys?)\b"
        r".{0,40}https?://"
    ),
)
_MARKS = (
    r"[(<‹]\s?/?\s?recalled-memory\b|</?\s?(?:system|instructions?)\b|\[/?inst\]|<\|(?:im_(?:start|end)|system|user|assistant)\|>",
    r"##\s?(?:human|instructions?|system|assistant|response)\s?:",
    r"\n\s?assistant\s?:.{0,400}\n\s?(?:user|human)\s?:",
)
_WORDED = "|".join((*_DROPPED_RULES, *_ANOTHER_IDENTITY, *_ORDERED_ANSWER))
_PLANTED = re.compile(rf"\b(?:{_WORDED})|{_ORDER}(?:{'|'.join(_ORDERED)})|{'|'.join(_MARKS)}", re.DOTALL)
"""Of a text from `_fold`: where letters are compared as they are, most of the pattern is passed over by a text's
first letters, and it is looked for at the beginnings of words alone. Every turn is read for it. Nothing in it is
repeated without an end but words and what stands in one tag, so its time is linear in the text.
"""

PIECE = 16_000  # letters that are searched at once
_KEPT = 200
_LONGEST = 4_000  # more than the longest match takes, its runs shortened to twice `_KEPT`

_BLANKS = re.compile(r"\s{2,}")
_LONG_WORD = re.compile(rf"[\w-]{{{2 * _KEPT},}}")
_TAGGED = re.compile(r"\brepeat <[^<>]*>")  # what has no bound and is no word

_OTHER_LETTERS = str.maketrans({"İ": "i", "ı": "i", "ſ": "s"})
"""What is one of ASCII's letters where case does not count, and is none in lower case."""

_MADE = (
    r"(?:write|compose|generate|translate|summari[sz]e|describe|imagine|pretend|repeat|print|tell (?:me )?(?:a|an|some)"
    r"|say|rewrite|paraphrase|draw)"
)
_REQUEST = re.compile(
    rf"\W*(?:(?:please|first|now|hey|ok(?:ay)?|so)\W+)*"
    rf"(?:{_MADE}\b|(?:can|could|would|will) your? (?:please )?{_MADE}\b|how (?:would|do) you say\b)",
    re.IGNORECASE,
)
_OWN = re.compile(
    r"\b(?:my|our|mine|ours)\b"
    r"|(?<!would )(?<!should )(?<!could )(?<!can )(?<!do )(?<!if )(?<!that )\b(?:i|we)(?:['’]\w+|\s+\w{2,})",
    re.IGNORECASE,
)
_LASTING = re.compile(
    r"\b(?:always|never|from now on|prefer\w*|call me|whenever|every time|in (?:the )?future|by default|remember)\b",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"\"[^\"]*\"|“[^“”]*”")
_GIVEN = re.compile(r"[:\n]")


def plants(text: str) -> bool:
    """Whether the text gives instructions to a model, as injections do."""
    return _PLANTED.search(_fold(text)) is not None


def planting(text: str) -> Iterator[bool]:
    """`plants` of a long text, in pieces, between which others are served: a megabyte takes 0.2 seconds."""
    # a word, to which a pattern sets no bound, in a length that it has one in
    low = _LONG_WORD.sub(lambda run: f"{run[0][:_KEPT]}{run[0][-_KEPT:]}", _fold(text))
    yield _TAGGED.search(low) is not None
    for start in range(0, len(low), PIECE):
        yield _begins_in(low, start, start + PIECE)


def _begins_in(low: str, start: int, end: int) -> bool:
    """Whether what plants instructions begins between the two."""
    until = end + _LONGEST
    while (match := _PLANTED.search(low, start, until)) is not None:
        if _PLANTED.match(low, match.start()):  # where the text is cut, a word may only seem to end
            return True
        start = match.start() + 1
    return False


def _fold(text: str) -> str:
    """The text in lower case, letter by letter, with one blank or line break where it has several."""
    low = (text if text.isascii() else text.translate(_OTHER_LETTERS)).lower()
    return _BLANKS.sub(lambda run: "\n" if "\n" in run[0] else " ", low)


def is_request(quote: str) -> bool:
    """Whether it only asks for a text to be made; what is given to work on (quoted, after a colon) aside."""
    request = _GIVEN.split(unquoted(quote), maxsplit=1)[0]
    return _REQUEST.match(request) is not None and not _OWN.search(request) and not _LASTING.search(quote)


def unquoted(text: str) -> str:
    """The text without what stands in double quotation marks."""
    return _QUOTED.sub("", text)


_PASTED = 600  # characters from which a user's message that plants instructions is pasted: nothing in it is the user's
_IMPERSONAL = 300  # characters from which a message without a word about its writer says nothing about its writer

_ACTING_TAG = re.compile(r"<(?:a|img|script|iframe)\s", re.IGNORECASE)

_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)
_WRITER = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|myself)\b", re.IGNORECASE)
_TOLD = re.compile(r"\byou (?:need|have|must|should|ought|are required|will need)\b|\belect your\b", re.IGNORECASE)
_ABOUT_USER = re.compile(r"\W*(?:the )?user(?:'s|’s)?\b", re.IGNORECASE)


async def marked(turn: Memory) -> Memory:
    """The turn, or memory, noted as ``planted`` if it plants instructions; while it is read others have their turn."""
    text = strip_blocks(turn.content) if turn.kind is Kind.TURN else turn.content
    if not (plants(text) if len(text) <= PIECE else await _plants_somewhere(text)):
        return turn
    return msgspec.structs.replace(turn, metadata={**turn.metadata, PLANTED: True})


async def marked_unless_own(memory: Memory) -> Memory:
    """The memory, `marked` unless its text is the user's own: a marked one is never in a block."""
    return memory if memory.trust is Trust.USER else await marked(memory)


async def marked_anew(old: Memory, edited: Memory) -> Memory:
    """An edited memory with the mark that it should have: nobody takes it away but by another text."""
    metadata = dict(edited.metadata)
    if old.metadata.get(PLANTED) is True and edited.content == old.content:
        metadata[PLANTED] = True
    elif old.metadata.get(PLANTED) is True:
        metadata.pop(PLANTED, None)
    return await marked_unless_own(msgspec.structs.replace(edited, metadata=metadata))


async def _plants_somewhere(text: str) -> bool:
    for is_planted in planting(text):
        if is_planted:
            return True
        await asyncio.sleep(0)
    return False


def rejection(candidate: Extracted) -> str | None:
    """Why a candidate is no fact by its own words: it plants ``instructions``, holds ``markup`` (links or images that
    act where they are shown), or rests on a ``request`` for a text to be made; else None.
    """
    text = " ".join(part for part in (candidate.content, candidate.object or "", *candidate.evidence) if part)
    if candidate.intent is not Intent.FORGET and plants(text):
        return "instructions"
    if _acts(text):
        return "markup"
    if candidate.evidence and all(is_request(quote) for quote in candidate.evidence):
        return "request"
    return None


def admitted(grounded: Grounded, min_trust: Trust) -> Grounded | str:
    """A grounded candidate as its source allows it, or why it is rejected.

    ``instructions``: what plants instructions is no source of facts; of a short message of the user only the sentence
    that does. ``source``: a long text without its writer, or one that tells its reader what to do, says nothing about
    the user. What is under ``min_trust``, or said by others about the user, waits in quarantine.
    """
    text = strip_blocks(grounded.turn.content)
    by_user = grounded.turn.trust is Trust.USER
    if plants(text) and (not by_user or len(text) > _PASTED or _rests_on_planted(grounded.candidate, text)):
        return "instructions"
    about_user = is_about_user(grounded.candidate)
    impersonal = len(text) > _IMPERSONAL and _FIRST_PERSON.search(unquoted(text)) is None
    if by_user and about_user and (impersonal or _tells_somebody(grounded.candidate)):
        return "source"
    if grounded.turn.trust.level < min_trust.level or (about_user and not by_user):
        return msgspec.structs.replace(grounded, quarantined=True)
    return grounded


def _acts(text: str) -> bool:
    """Whether it holds links or images, which act where a text is shown; no fact needs them."""
    tags = ((tag, _ACTING_TAG.search(tag)) for tag in text.split(">") if "=" in tag)
    if any(begun is not None and "=" in tag[begun.end() :] for tag, begun in tags):
        return True
    labels = text.split("]")
    return any("![" in label and rest.startswith("(") for label, rest in pairwise(labels))


def is_about_user(candidate: Extracted) -> bool:
    """Whether the statement is one about the user, by its subject or its first words."""
    named = candidate.subject is not None and subject_name(candidate.subject) == "user"
    return named or _ABOUT_USER.match(candidate.content) is not None


def _tells_somebody(candidate: Extracted) -> bool:
    """Whether all that it rests on tells somebody what to do, as letters do that were pasted, and not its writer."""
    quotes = [unquoted(quote) for quote in candidate.evidence]
    return bool(quotes) and all(_TOLD.search(quote) and not _WRITER.search(quote) for quote in quotes)


def _rests_on_planted(candidate: Extracted, text: str) -> bool:
    if candidate.intent is Intent.FORGET:
        return False
    planted = [_trim(sentence) for sentence in sentences(text) if plants(sentence)] or [_trim(text)]
    quotes = [_trim(quote) for quote in candidate.evidence]
    return any(quote in sentence or sentence in quote for quote in quotes for sentence in planted)


def _trim(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" \"'.!?")
