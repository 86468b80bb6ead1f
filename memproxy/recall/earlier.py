"""What the user said before, where only the upstream has the conversation: from the turns that were captured."""

from datetime import datetime

import msgspec

from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.protocol import RecallRequest
from memproxy.core.scope import Scope
from memproxy.core.turn import in_order
from memproxy.errors import StoreUnavailable
from memproxy.ports import MemoryFilter, MemoryStore
from memproxy.recall.course import Course
from memproxy.recall.rewrite import EARLIER_MESSAGES, leans_on_context

_READ = 4 * EARLIER_MESSAGES
"""Turns that are looked through: about every second one is the user's, and some are a tool's."""


async def earlier_messages(store: MemoryStore, scope: Scope, *, now: datetime) -> list[str]:
    """The user's last messages in the scope's session, oldest first; none without a session.

    Raises:
        StoreUnavailable: the store does not answer.
    """
    if scope.session is None:
        return []
    where = MemoryFilter(kinds=(Kind.TURN,), session_ids=(scope.session,), now=now)
    page = await store.page(scope, where, limit=_READ)
    return [turn.content for turn in in_order(page.memories) if _by_user(turn)][-EARLIER_MESSAGES:]


async def with_earlier(store: MemoryStore, request: RecallRequest, course: Course, *, now: datetime) -> RecallRequest:
    """The request with what was said before, where the upstream keeps the conversation and the last message alone says
    too little; as it is, when the store cannot tell in time.
    """
    if not request.chained or not leans_on_context(["", *request.queries[-1:]]):
        return request
    try:
        with course.stage("earlier"):
            async with course.in_time():
                earlier = await earlier_messages(store, request.scope, now=now)
    except (TimeoutError, StoreUnavailable):
        return request
    return msgspec.structs.replace(request, queries=[*earlier, *request.queries])


def _by_user(turn: Memory) -> bool:
    return turn.trust is Trust.USER
