"""The blocks that a session was given: repeated byte for byte at the same messages, so that prompt caches stay valid.

A block is kept with the user's message it stands before, which is known by the chain of digests of all the user's
messages up to it. A client that drops or edits an old message makes another chain, so nothing that came after is
repeated. Blocks are kept in the state store alone: a copy in memory could miss that a memory in them was erased.
"""

import asyncio
import functools
import hashlib
import logging
import re
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from memproxy.core.protocol import RecallAnswer
from memproxy.core.scope import Scope
from memproxy.core.turn import text_digest
from memproxy.errors import StateUnavailable
from memproxy.logs import LogLimit
from memproxy.metrics import metrics
from memproxy.ports import BlockLine, BlockStore, SessionBlocks
from memproxy.settings import Settings
from memproxy.tasks import TaskOwner
from memproxy.wire.request_body import RequestBody

log = logging.getLogger(__name__)

STATE_SHARE = 1 / 3
"""The part of recall's deadline (50 ms of 150) that the state store may take on top of it; usually it takes less than a
millisecond. After it the request goes on without the session's blocks.
"""

LOG_EVERY_S = 1.0

_TURN = "turn"
"""Stands for the latest user message of a session whose messages the upstream keeps; no digest is as short."""

REMEMBERED_NAMES = 4_096
"""Most names of messages that are cached: a conversation's messages come again with each of its requests."""

_CITED = re.compile(r"\[m:[^\[\]]*\]$")
"""How the line of a memory ends; the block's frame has no such line."""


class RequestBlocks(msgspec.Struct, frozen=True, kw_only=True):
    """What the session's blocks give to one request.

    ``blocks`` are lines by the index of the message they stand before; ``last_user`` and ``name`` are those of the last
    user message; ``turn_name`` is that of the session's latest turn, for tool loops whose requests name no message of
    the user. ``uncounted`` memories are in lines that are not known to show them. ``erasures`` None: the blocks
    could not be looked up, or their lines not told apart; a new one is not kept.
    """

    last_user: int
    name: str
    turn_name: str | None = None
    blocks: dict[int, list[BlockLine]] = {}
    uncounted: int = 0
    erasures: int | None = None

    @property
    def texts(self) -> dict[int, str]:
        return {index: _text(lines) for index, lines in self.blocks.items()}

    @property
    def memory_ids(self) -> list[str]:
        return [line.memory_id for lines in self.blocks.values() for line in lines if line.memory_id is not None]

    @property
    def memories(self) -> int:
        return len(self.memory_ids) + self.uncounted

    @property
    def tokens(self) -> int:
        return sum(_tokens(lines) for lines in self.blocks.values())

    @property
    def has_own(self) -> bool:
        """Whether the last user message has a block."""
        return self.last_user in self.blocks

    def within(self, budget: int) -> "RequestBlocks":
        """The oldest blocks that fit into this many tokens, because they keep the common beginning longest."""
        if not self.blocks:
            return self
        fitting: dict[int, list[BlockLine]] = {}
        for index in sorted(self.blocks):
            budget -= _tokens(self.blocks[index])
            if budget < 0:
                break
            fitting[index] = self.blocks[index]
        return msgspec.structs.replace(self, blocks=fitting)

    def without(self, messages: Collection[int]) -> "RequestBlocks":
        """Without the blocks of these messages, which are not sent."""
        gone = self.blocks.keys() & set(messages)
        if not gone:
            return self
        return msgspec.structs.replace(self, blocks={at: self.blocks[at] for at in self.blocks if at not in gone})

    def adding(self, answer: RecallAnswer) -> "RequestBlocks":
        """A copy with the new block before the last user message, after what stands there already."""
        new = _split(answer)
        blocks = {**self.blocks, self.last_user: [*self.blocks.get(self.last_user, []), *new]}
        cited = any(line.memory_id is not None for line in new)
        return msgspec.structs.replace(
            self,
            blocks=blocks,
            uncounted=0 if cited else len(answer.citations),
            erasures=self.erasures if cited else None,
        )


class BlockKeeper:
    """Reads and keeps the blocks of sessions."""

    def __init__(self, state: BlockStore, tasks: TaskOwner, settings: Settings) -> None:
        self._state = state
        self._tasks = tasks
        self._repeats = settings.inject.sticky
        """False: a turn's block is kept for its own tool loop only."""
        self._patience_s = settings.recall.deadline_ms / 1000 * STATE_SHARE
        self._saving: dict[tuple[str, str, str], asyncio.Task[None]] = {}
        self._late = LogLimit(LOG_EVERY_S)

    async def blocks_for(self, scope: Scope, chat: RequestBody, *, shadow: bool, begins: bool) -> RequestBlocks:
        """What the session's earlier blocks give to this request. One without a user's message, which the upstream
        has, gets what its turn was given. A session that ``begins`` has none: they are not looked for.

        The blocks of shadow mode, which no model ever saw, are kept apart.
        """
        users = list(chat.user_indexes)
        names = names_of(scope, chat.user_digests, shadow=shadow)
        turn = None if chat.sends_history else names_of(scope, [_TURN], shadow=shadow)[0]
        if not users:
            users, names = [0], [turn or ""]
        request_blocks = RequestBlocks(last_user=users[-1], name=names[-1], turn_name=turn)
        if not self._repeats:
            if not chat.has_tools and not chat.is_tool_followup:
                return request_blocks
            users, names = users[-1:], names[-1:] if chat.is_tool_followup else []
        session_blocks = await self._find(scope, [] if begins else names)
        if session_blocks is None:
            return request_blocks
        blocks = {
            index: lines
            for index, name in zip(users, names, strict=False)
            if (lines := session_blocks.blocks.get(name)) is not None
            and text_digest(_text(lines)) not in chat.digests  # some clients keep what was sent, our block with it
        }
        return msgspec.structs.replace(request_blocks, blocks=blocks, erasures=session_blocks.erasures)

    async def _find(self, scope: Scope, names: Sequence[str]) -> SessionBlocks | None:
        try:
            async with asyncio.timeout(self._patience_s):
                if (saving := self._saving.get(session_of(scope))) is not None:
                    await asyncio.wait({saving})
                return await self._state.find_blocks(scope, names)
        except TimeoutError:
            metrics().internal_errors.labels(where="relay.blocks_late").inc()
            if self._late.due("late"):  # a thousand requests at once meet it together
                log.warning("the state took over %g s: requests go on without their session's blocks", self._patience_s)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.blocks").inc()
            log.warning("a session's blocks cannot be read, its request goes on without: %s", error.message)
        return None

    def new_block(self, scope: Scope, request_blocks: RequestBlocks) -> "Save":
        """The save of the last user message's block, which is left out if a memory was erased since it was read."""
        if request_blocks.erasures is None:
            return NO_BLOCK
        return Save(partial(self._start_saving, scope, request_blocks, request_blocks.blocks[request_blocks.last_user]))

    def _start_saving(
        self, scope: Scope, request_blocks: RequestBlocks, lines: list[BlockLine]
    ) -> list[asyncio.Task[None]]:
        """In the background; the session's next request waits for it, for what it reads is not asked for in order."""
        name = session_of(scope)
        earlier = self._saving.get(name)
        saving = self._tasks.start(self._save(scope, request_blocks, lines, earlier), "save block")
        self._saving[name] = saving

        def saved(task: asyncio.Task[None]) -> None:
            if self._saving.get(name) is task:
                del self._saving[name]

        saving.add_done_callback(saved)
        return [saving]

    def take_back(self, scope: Scope, request_blocks: RequestBlocks) -> None:
        """The upstream refused the block of the last user message: it was never given."""
        if request_blocks.erasures is not None:
            self._start_saving(scope, request_blocks, [])

    async def _save(
        self, scope: Scope, request_blocks: RequestBlocks, lines: list[BlockLine], earlier: asyncio.Task[None] | None
    ) -> None:
        if earlier is not None:
            await asyncio.wait({earlier})
        now, erasures = datetime.now(UTC), request_blocks.erasures or 0
        try:
            for name in filter(None, (request_blocks.name, request_blocks.turn_name)):
                await self._state.save_block(scope, name, lines, erasures=erasures, at=now)
        except StateUnavailable as error:
            metrics().internal_errors.labels(where="relay.blocks").inc()
            log.warning("a block could not be kept, its session will not repeat it: %s", error.message)


class Save:
    """Something that is kept once, in the background: a block (after the captured turn, or else when its exchange is
    over), or the session of an exchange of which no turn is captured.
    """

    def __init__(self, start: Callable[..., list[asyncio.Task[None]]]) -> None:
        self._start = start
        self._saving: list[asyncio.Task[None]] | None = None

    def keep(self, *arguments: str | None) -> list[asyncio.Task[None]]:
        """Start saving, once, and return the tasks that do."""
        if self._saving is None:
            self._saving = self._start(*arguments)
        return self._saving

    def drop(self) -> None:
        """Forbid `keep`; what is saved already stays."""
        if self._saving is None:
            self._saving = []


NO_BLOCK = Save(list)
"""There is no block to save."""


def session_of(scope: Scope) -> tuple[str, str, str]:
    """The key of a session."""
    return (*scope.owner, scope.session or "")


def names_of(scope: Scope, digests: Sequence[str], *, shadow: bool) -> list[str]:
    """One name per user message: it stands for the place (project and agent), this message and all before it."""
    name = "\x1f".join(("shadow" if shadow else "", scope.project or "", scope.agent or ""))
    names = []
    for digest in digests:
        name = _name_after(name, digest)
        names.append(name)
    return names


@functools.lru_cache(REMEMBERED_NAMES)
def _name_after(name: str, digest: str) -> str:
    material = f"{name}/{digest}".encode("utf-8", "surrogatepass")
    return hashlib.blake2b(material, digest_size=16).hexdigest()


def _split(answer: RecallAnswer) -> list[BlockLine]:
    """A block's lines, each with the memory it shows: lines end with their citation, and citations come in order.

    Where the two do not match (a heading of one's own may look like a line), no line is known to show a memory: such a
    block is given once and never repeated, because nothing could be erased from it.
    """
    lines = answer.context.split("\n")
    cited = [index for index, line in enumerate(lines) if _CITED.search(line)]
    if len(cited) != len(answer.citations):
        return [BlockLine(text=line) for line in lines]
    memories = {index: citation.memory_id for index, citation in zip(cited, answer.citations, strict=True)}
    return [
        BlockLine(text=line, memory_id=memories.get(index), expires_at=answer.expiring.get(memories.get(index, "")))
        for index, line in enumerate(lines)
    ]


def _text(lines: Sequence[BlockLine]) -> str:
    return "\n".join(line.text for line in lines)


def _tokens(lines: Sequence[BlockLine]) -> int:
    """Four bytes of UTF-8 are about one token, in most scripts; good enough for a limit, and takes no time."""
    return len(_text(lines).encode("utf-8", "replace")) // 4
