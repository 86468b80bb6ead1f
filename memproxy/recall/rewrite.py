"""Completing a vague query ("How much?") by what was said before it: with its key terms, or by a model."""

import json
import re
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.block import quote, strip_blocks
from memproxy.core.gate import is_vague
from memproxy.core.memory import Kind, Trust
from memproxy.core.protocol import RecallRequest
from memproxy.core.redact import redact
from memproxy.core.text import STOPWORDS, key_terms, spaced, words
from memproxy.core.turn import in_order
from memproxy.errors import ModelUnreadable, StoreUnavailable
from memproxy.ports import MemoryFilter, MemoryStore, RoleModel
from memproxy.recall.deadline import Deadline

EARLIER_MESSAGES = 3
"""User messages before the query whose key terms complete it."""

_TURNS_READ = 4 * EARLIER_MESSAGES
"""About every second one is the user's, and some are a tool's."""

TERMS_PER_MESSAGE = 8
"""A long message before a short question must not become the question."""

QUERY_CHARACTERS = 2000
"""What is read of one message: pasted documents are not questions."""

MOST_CHARACTERS = 400
"""A model's line that is longer is no query."""

_QUOTED = 1_000
"""Characters of each message that a model sees."""

_DECORATION = re.compile(r"^(?:answer|query|search query|statement|note)\s*:\s*", re.IGNORECASE)


async def with_earlier(
    store: MemoryStore, request: RecallRequest, deadline: Deadline, *, now: datetime
) -> RecallRequest:
    """The request with what the user said before in its session, from the turns that were captured, where only the
    upstream has the conversation and the last message alone says too little; as it is, when the store cannot tell in
    time.
    """
    scope = request.scope
    if not request.chained or scope.session is None or not is_vague(shorten(request.queries[-1])):
        return request
    where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(scope.session,), now=now)
    try:
        with deadline.stage("earlier"):
            async with deadline.in_time():
                page = await store.page(scope, where, limit=_TURNS_READ)
    except (TimeoutError, StoreUnavailable):
        return request
    messages = [turn.content for turn in in_order(page.memories) if turn.trust is Trust.USER]
    return msgspec.structs.replace(request, queries=[*messages[-EARLIER_MESSAGES:], *request.queries])


def with_context(queries: Sequence[str]) -> str:
    """What to search for, given the user's last messages, oldest first: the last one, and when it is vague the key
    terms of the three before it. Empty when there are none.
    """
    if not queries:
        return ""
    *earlier, query = (shorten(text) for text in queries)
    if not is_vague(query):
        return query
    terms = [term for text in earlier[-EARLIER_MESSAGES:] for term in key_terms(text, TERMS_PER_MESSAGE)]
    return " ".join([query, *dict.fromkeys(terms)]).strip()


def by_itself(queries: Sequence[str]) -> str | None:
    """The last message, where it is vague but has a word of its own ("And how much is my rent?"): it may be complete,
    and what was said before be about something else. None where it says nothing alone, or needs no completion.
    """
    if not leans_on_context(queries):
        return None
    query = shorten(queries[-1])
    return query if key_terms(query, limit=1) else None


def shorten(text: str) -> str:
    """The beginning and the end of a long message: what is asked stands before or after what was pasted."""
    half = QUERY_CHARACTERS // 2
    return text if len(text) <= QUERY_CHARACTERS else f"{text[:half]}\n{text[-half:]}"


def leans_on_context(queries: Sequence[str]) -> bool:
    """Whether the last message is vague, and there are others to complete it from."""
    return len(queries) > 1 and is_vague(shorten(queries[-1]))


class Rewriter:
    """Has a model write what to search for. What it writes is used only if it is one line of the messages' own words:
    an apology, a refusal or an answer to what a message told it to do is none.
    """

    def __init__(self, model: RoleModel, *, rewriting: str, hypothetical: str, redact_kinds: frozenset[str]) -> None:
        """``rewriting`` and ``hypothetical`` are the prompts."""
        self._model = model
        self._rewriting = rewriting
        self._hypothetical = hypothetical
        self._redact = redact_kinds

    async def completed(self, tenant: str, queries: Sequence[str]) -> str:
        """The last of the user's messages (oldest first), complete without the others.

        Raises:
            ModelError: the model cannot be asked, or what it wrote cannot be used.
        """
        return await self._ask(tenant, self._rewriting, queries)

    async def statement(self, tenant: str, queries: Sequence[str]) -> str:
        """What a memory that answers the last message might say.

        Raises:
            ModelError: as for `completed`.
        """
        return await self._ask(tenant, self._hypothetical, queries)

    async def _ask(self, tenant: str, prompt: str, queries: Sequence[str]) -> str:
        user = "\n".join(
            ["Messages (data):", *(self._line(text) for text in queries), "", "Answer with one line only."]
        )
        return usable(await self._model.ask(tenant, system=prompt, user=user), queries)

    def _line(self, text: str) -> str:
        """A message as data: without our own blocks, secrets replaced, its beginning and its end when it is long."""
        clean = quote(redact(strip_blocks(text), self._redact))
        if len(clean) > _QUOTED:
            clean = f"{clean[: _QUOTED // 2]} … {clean[-_QUOTED // 2 :]}"
        return json.dumps({"text": clean}, ensure_ascii=False)


def usable(answer: str, queries: Sequence[str]) -> str:
    """The line that a model wrote, without what models put around one.

    Raises:
        ModelUnreadable: it is no line to search by: empty, too long, several lines, or without a word of the messages.
    """
    lines = [line for line in answer.strip().strip("`").splitlines() if line.strip()]
    if len(lines) != 1:
        raise ModelUnreadable(f"the model was asked for one line and wrote {len(lines)}")
    line = _DECORATION.sub("", " ".join(lines[0].split())).strip("\"'“”«»` ")
    topics = frozenset().union(*(_topics(text) for text in queries))
    if not 0 < len(line) <= MOST_CHARACTERS or not topics & _topics(line):
        raise ModelUnreadable("what the model wrote has nothing of the user's messages, or is no short line")
    return line


def _topics(text: str) -> frozenset[str]:
    """The words that carry the topic, cut to their first letters (plurals and the like count as the same)."""
    stems = (word.removesuffix("'s")[:_STEM] for word in words(spaced(shorten(text))) if word not in STOPWORDS)
    return frozenset(stems)


_STEM = 5
