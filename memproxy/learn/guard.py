"""What never becomes a fact, whoever said it, and what waits until the user confirms it."""

import asyncio
import re
from itertools import pairwise

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import PLANTED, Kind, Memory, Trust
from memproxy.core.slots import subject_name
from memproxy.core.text import sentences
from memproxy.learn.candidates import Extracted, Grounded, Intent
from memproxy.learn.planted import PIECE, is_request, planting, plants, unquoted

_PASTED = 600
"""Characters above which a user's message that plants instructions is taken as pasted: nothing in it is the user's."""

_IMPERSONAL = 300
"""Characters above which a user's message without a word about its writer says nothing about its writer."""

_ACTING_TAG = re.compile(r"<(?:a|img|script|iframe)\s", re.IGNORECASE)

_FIRST_PERSON = re.compile(r"\b(?:i|i'm|i've|me|my|mine|myself|we|us|our|ours)\b", re.IGNORECASE)
_WRITER = re.compile(r"\b(?:i|i'm|i've|i'd|i'll|me|my|mine|myself)\b", re.IGNORECASE)
_TOLD = re.compile(r"\byou (?:need|have|must|should|ought|are required|will need)\b|\belect your\b", re.IGNORECASE)
_ABOUT_USER = re.compile(r"\W*(?:the )?user(?:'s|’s)?\b", re.IGNORECASE)


async def marked(turn: Memory) -> Memory:
    """The turn, or other memory, with ``planted`` in its metadata when it plants instructions; injected blocks in a
    turn aside, which nothing keeps. While a long one is read others have their turn of the event loop.
    """
    text = strip_blocks(turn.content) if turn.kind is Kind.TURN else turn.content
    if not (plants(text) if len(text) <= PIECE else await _plants_somewhere(text)):
        return turn
    return msgspec.structs.replace(turn, metadata={**turn.metadata, PLANTED: True})


async def marked_unless_own(memory: Memory) -> Memory:
    """The memory as `marked` has it when it is told by anybody but the user: by whatever way it comes in, it is in no
    block then.
    """
    return memory if memory.trust is Trust.USER else await marked(memory)


async def marked_anew(before: Memory, edited: Memory) -> Memory:
    """An edited memory with the mark that it should have: nobody takes it away but by another text."""
    metadata = dict(edited.metadata)
    if before.metadata.get(PLANTED) is True and edited.content == before.content:
        metadata[PLANTED] = True
    elif before.metadata.get(PLANTED) is True:
        metadata.pop(PLANTED, None)
    return await marked_unless_own(msgspec.structs.replace(edited, metadata=metadata))


async def _plants_somewhere(text: str) -> bool:
    for found in planting(text):
        if found:
            return True
        await asyncio.sleep(0)
    return False


def rejection(candidate: Extracted) -> str | None:
    """Why a candidate is not stored as a fact by its own words, or None.

    ``instructions``: it plants some. ``markup``: it holds links or images that act where they are shown. ``request``:
    all it rests on asks for a text to be made, which says nothing that lasts.
    """
    text = " ".join(part for part in (candidate.content, candidate.object or "", *candidate.evidence) if part)
    if candidate.intent is not Intent.FORGET and plants(text):
        return "instructions"
    if _acts(text):
        return "markup"
    if candidate.evidence and all(is_request(quote) for quote in candidate.evidence):
        return "request"
    return None


def admitted(found: Grounded, min_trust: Trust) -> Grounded | str:
    """A grounded candidate as its source allows it, or why it is rejected.

    ``instructions``: what plants instructions is no source of facts; of a short message of the user only the sentence
    that does. ``source``: a long text in which the user writes nothing about himself, and one that tells its reader
    what to do, say nothing about him. What is under ``min_trust``, and what anybody else says about the user, waits in
    quarantine.
    """
    text = strip_blocks(found.turn.content)
    by_user = found.turn.trust is Trust.USER
    if plants(text) and (not by_user or len(text) > _PASTED or _rests_on_planted(found.candidate, text)):
        return "instructions"
    about_user = is_about_user(found.candidate)
    if by_user and about_user and (_is_impersonal(text) or _tells_somebody(found.candidate)):
        return "source"
    if found.turn.trust.level < min_trust.level or (about_user and not by_user):
        return msgspec.structs.replace(found, quarantined=True)
    return found


def _acts(text: str) -> bool:
    """Whether it holds links or images, which act where a text is shown; no fact needs them."""
    tags = ((tag, _ACTING_TAG.search(tag)) for tag in text.split(">") if "=" in tag)
    if any(begun is not None and "=" in tag[begun.end() :] for tag, begun in tags):
        return True
    labels = text.split("]")
    return any("![" in label and behind.startswith("(") for label, behind in pairwise(labels))


def is_about_user(candidate: Extracted) -> bool:
    """Whether the statement is one about the user, by its subject or its first words."""
    named = candidate.subject is not None and subject_name(candidate.subject) == "user"
    return named or _ABOUT_USER.match(candidate.content) is not None


def _is_impersonal(text: str) -> bool:
    return len(text) > _IMPERSONAL and _FIRST_PERSON.search(unquoted(text)) is None


def _tells_somebody(candidate: Extracted) -> bool:
    """Whether all that it rests on tells somebody what to do, as letters do that were pasted, and not its writer."""
    quotes = [unquoted(quote) for quote in candidate.evidence]
    return bool(quotes) and all(_TOLD.search(quote) and not _WRITER.search(quote) for quote in quotes)


def _rests_on_planted(candidate: Extracted, text: str) -> bool:
    if candidate.intent is Intent.FORGET:
        return False
    planted = [_folded(sentence) for sentence in sentences(text) if plants(sentence)] or [_folded(text)]
    quotes = [_folded(quote) for quote in candidate.evidence]
    return any(quote in sentence or sentence in quote for quote in quotes for sentence in planted)


def _folded(text: str) -> str:
    return " ".join(text.casefold().split()).strip(" \"'.!?")
