"""Turns: verbatim messages with a name of their own that never depends on their position."""

import functools
import hashlib
import re
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from memproxy.core.memory import Kind, Memory, Source, Trust
from memproxy.core.scope import Scope
from memproxy.core.text import ABBREVIATIONS, has_key_terms

_NAMESPACE = uuid.UUID("6f0d5b0e-6a51-5c57-9d7c-1d5f6f0f3a10")  # changing it renames every turn
LONG_TEXT = 2000  # characters above which a message is taken as pasted
REMEMBERED_DIGESTS = 2048
"""A conversation's messages come again with each of its requests: as many texts of at most `LONG_TEXT` characters as
some 40 long conversations have. Looking one up takes a tenth of folding and hashing it (docs/lab/speed.md).
"""

INSTRUCTIONS = frozenset({"system", "developer"})  # roles whose messages instruct the model
QUOTING_MESSAGES = 3  # messages of the user, the last of a request, whose sentences are looked at
INSTRUCTING_MESSAGES = 4  # instructions, first and last ones of a request, whose sentences are looked at
_LOOKED_AT = 2_000  # characters at the beginning and at the end of each; with a new sentence it takes some 10 µs
_MOST_FORMS = 256
_TELLING = 2  # key terms of a sentence that tells something by itself
_HEADING = 40
_QUOTES = " \t-*•·>#_`|\"'“”„«»‹›‘’"
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»*_`)]*(?:\s+|\Z)|[。！？]")

_ROLE_TRUST = {
    "user": Trust.USER,
    "assistant": Trust.ASSISTANT,
    "tool": Trust.TOOL,
    "function": Trust.TOOL,
    "document": Trust.DOCUMENT,
}


class Message(msgspec.Struct, kw_only=True):
    """One message as it came in: the text a person (or model, or tool) wrote, and what identifies it."""

    role: str
    content: str
    id: str | None = None
    name: str | None = None
    timestamp: datetime | None = None


def turn_id(scope: Scope, message: Message, occurrence: int, said_at: datetime) -> str:
    """The turn's id: its own ``id``, else a UUIDv5 of owner, session, role, content, timestamp, its occurrence within
    the call, and the project and agent in which it was said, if any. Its position is not part of it, because clients
    trim and edit their history.
    """
    if message.id is not None:
        return message.id
    timestamp = said_at.astimezone(UTC).isoformat()
    parts = [*scope.owner, scope.session or "", message.role, message.content, timestamp, str(occurrence)]
    if scope.is_narrow:  # who stands elsewhere may not see this one
        parts += [scope.project or "", scope.agent or ""]
    return _uuid5("\x1f".join(parts))


def name_within(project: str, name: str) -> str:
    """The id for something that a project's key calls ``name``. It is different in every project, so the key neither
    overwrites nor learns of anything that another project has under the same name.
    """
    return _uuid5("\x1f".join(("project", project, name)))


def point_id_for(tenant: str, user: str, session: str | None, memory_id: str) -> str:
    """The store's own key of a memory, a UUID: a turn's id may be any string, and the same in two sessions."""
    return _uuid5("\x1f".join((tenant, user, session or "", memory_id)))


def _uuid5(name: str) -> str:
    """``str(uuid.uuid5(_NAMESPACE, name))``, in a sixth of its time: every memory that is read or written is named."""
    digest = bytearray(hashlib.sha1(_NAMESPACE.bytes + name.encode(), usedforsecurity=False).digest()[:16])
    digest[6] = digest[6] & 0x0F | 0x50  # the version
    digest[8] = digest[8] & 0x3F | 0x80  # the variant
    text = digest.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def text_digest(text: str) -> str:
    """16 hex digits that tell what a request already contains without sending it. White space does not count in short
    texts, which people retype; long ones are pasted, and folding them would cost more than all the rest.
    """
    if len(text) > LONG_TEXT:
        return _digest(text.strip())
    digests = _known_of_short((hash(text), len(text)))
    if not digests:
        digests.append(_digest(" ".join(text.split())))
    return digests[0]


@functools.lru_cache(REMEMBERED_DIGESTS)
def _known_of_short(name: tuple[int, int]) -> list[str]:  # noqa: ARG001 - what it is remembered by
    """The cached digest of a text, by its hash alone: nothing is left of a text that is erased."""
    return []


def _digest(folded: str) -> str:
    return hashlib.blake2b(folded.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def quoted_digests(instructions: Sequence[str], user_texts: Sequence[str]) -> list[str]:
    """Digests (`text_digest`) of the lines and sentences of a request's instructions, and of the last ``user_texts``
    (oldest first): a memory that stands there word for word is in the request already. Quotes, list marks, a short
    heading ("Profile: ") and the full stop make no difference. What tells nothing ("Yes.") and the middle of a long
    text are left out.
    """
    if len(instructions) > 2 * INSTRUCTING_MESSAGES:
        instructions = [*instructions[:INSTRUCTING_MESSAGES], *instructions[-INSTRUCTING_MESSAGES:]]
    texts = (*instructions, *user_texts[-QUOTING_MESSAGES:])
    return list(dict.fromkeys(digest for text in texts if text for digest in _quoted(text)))


def _quoted(text: str) -> tuple[str, ...]:
    remembered = _known_of_quoted((hash(text), len(text)))
    if not remembered:
        if len(text) <= 2 * _LOOKED_AT:
            pieces = _pieces(text)
        else:  # the pieces that are cut through are none
            pieces = [*_pieces(text[:_LOOKED_AT])[:-1], *_pieces(text[-_LOOKED_AT:])[1:]]
        distinct = dict.fromkeys(pieces)  # a line of one sentence is both
        forms = dict.fromkeys(" ".join(form.split()) for piece in distinct for form in _forms(piece))
        remembered.append(tuple(_digest(form) for form in list(forms)[:_MOST_FORMS]))
    return remembered[0]


@functools.lru_cache(REMEMBERED_DIGESTS // 16)
def _known_of_quoted(name: tuple[int, int]) -> list[tuple[str, ...]]:  # noqa: ARG001 - as `_known_of_short`
    return []


def _pieces(text: str) -> list[str]:
    return [piece for line in text.splitlines() if line for piece in (line, *_sentences(line))]


def _sentences(line: str) -> list[str]:
    """The sentences of a line that has several, without what closes a quote behind them."""
    sentences_of_line, start = [], 0
    for end in _SENTENCE_END.finditer(line):
        sentence = line[start : end.start() + 1]
        if sentence.rpartition(" ")[2] not in ABBREVIATIONS:
            sentences_of_line.append(sentence)
            start = end.end()
    return [*sentences_of_line, line[start:]] if sentences_of_line else []


def _forms(piece: str, *, headed: bool = True) -> list[str]:
    """The forms in which a memory may say the text; ``headed``: a heading may stand before it."""
    bare = piece.strip(_QUOTES)
    if not has_key_terms(bare, _TELLING):
        return []
    heading, colon, rest = bare.partition(": ")
    further = _forms(rest, headed=False) if headed and colon and len(heading) <= _HEADING else []
    if bare.endswith(("?", "？")):
        return [piece, bare, *further]
    plain = bare.rstrip(".!。！")
    return [piece, bare, plain, f"{plain}.", *further]


def make_turns(
    scope: Scope,
    messages: Sequence[Message],
    *,
    now: datetime,
    source: Source = Source.CONVERSATION,
    metadata: dict[str, Any] | None = None,
) -> list[Memory]:
    """Turn messages into verbatim memories, in order, each with its own time (or ``now``) and its source's trust.
    Their ``metadata`` has ``role``, the speaker's ``name``, and as ``seq`` the message's place within this call: by it
    messages of one time keep their order.
    """
    counts = Counter[tuple[str, str, datetime]]()
    turns = []
    for index, message in enumerate(messages):
        said_at = (message.timestamp or now).astimezone(UTC)
        key = (message.role, message.content, said_at)
        identifier = turn_id(scope, message, counts[key], said_at)
        counts[key] += 1
        named = {"name": message.name} if message.name else {}
        turns.append(
            Memory(
                id=identifier,
                tenant=scope.tenant,
                user_id=scope.user,
                project_id=scope.project,
                agent_id=scope.agent,
                session_id=scope.session,
                kind=Kind.TURN,
                content=message.content,
                trust=_ROLE_TRUST.get(message.role, Trust.DOCUMENT),
                source=source,
                turn_ids=[identifier],
                created_at=said_at,
                updated_at=said_at,
                metadata={**(metadata or {}), "role": message.role, "seq": index, **named},
            )
        )
    return turns


def in_order(turns: Iterable[Memory]) -> list[Memory]:
    """Turns of a session as they were said: by time, then by their place within the call that brought them."""
    return sorted(turns, key=lambda turn: (turn.created_at, turn.metadata.get("seq", 0)))
