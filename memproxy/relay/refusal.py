"""Why an upstream refused a request that we injected into, read from its answer's own words."""

import asyncio
import enum
import re

from memproxy.errors import UpstreamTimeout, UpstreamUnreachable
from memproxy.relay.upstream import UpstreamAnswer
from memproxy.wire.encoding import BodyDecoder

REFUSING = frozenset({400, 413, 422})
"""Statuses by which an upstream may refuse what we injected (role order, context length): CONTRACT section 7.5."""

MOST_READ = 64 * 1024
"""Bytes of an error that are looked at."""

PATIENCE_S = 2.0
"""Longest wait for an error's body; what came by then decides."""

_LENGTH = re.compile(
    r"context[ _](?:length|window|size)|maximum[ _]context|max_?(?:model_?len|context)"
    r"|too[ _](?:long|large|many tokens)|exceed\w{0,4} .{0,40}\b(?:tokens|context|length)|tokens?_limit"
    r"|reduce the length",
    re.IGNORECASE,
)
_ROLES = re.compile(r"role|system message|template|alternat", re.IGNORECASE)
_SYSTEM = re.compile(r"\bsystem\b", re.IGNORECASE)
_TOKENS = re.compile(r"\btokens\b", re.IGNORECASE)


class Refusal(enum.StrEnum):
    """What an error speaks of."""

    LENGTH = "length"
    ROLES = "roles"
    SYSTEM = "system"
    OTHER = "other"


def judge(body: str) -> Refusal:
    """What this error speaks of. Length comes first: such errors often say to shorten a role's messages."""
    if _LENGTH.search(body):
        return Refusal.LENGTH
    if _ROLES.search(body):
        return Refusal.ROLES
    if _TOKENS.search(body):
        return Refusal.LENGTH
    return Refusal.SYSTEM if _SYSTEM.search(body) else Refusal.OTHER


async def refusal_of(answer: UpstreamAnswer) -> Refusal | None:
    """Whether this answer refuses a request because of what may have been injected, and why; its body stays readable.

    Some servers answer 500 when a chat template fails; there the words decide.
    """
    if answer.status not in REFUSING and answer.status != 500:
        return None
    refusal = judge(await _beginning(answer))
    if answer.status == 500 and refusal not in {Refusal.ROLES, Refusal.SYSTEM}:
        return None
    return refusal


async def _beginning(answer: UpstreamAnswer) -> str:
    body = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            body = await answer.peek(MOST_READ)
    except (TimeoutError, UpstreamUnreachable, UpstreamTimeout):
        pass  # an error without its words: whoever relays the answer meets the same trouble and tells it
    encoding = answer.header("content-encoding")
    decoder = BodyDecoder(encoding.encode("latin-1", "replace") if encoding else None, MOST_READ)
    return decoder.feed(body).decode("utf-8", "replace")
