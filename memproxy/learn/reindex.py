"""Everything in the store again, for the configured embedder and lexical encoder, into a new collection.

The first collection serves meanwhile. All memories are copied once; then what was written since, again and again until
that is little; the last of it while writes are held back, right before the switch. A memory that an earlier attempt
wrote already, and that would be written the same now, is passed over: that is how a reindex goes on after a crash.
"""

import math
from collections.abc import AsyncIterator, Sequence, Set
from time import monotonic

from memproxy.core.memory import Kind, Memory
from memproxy.core.protocol import ReindexTold
from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.turn import in_order
from memproxy.errors import EmbedderUnavailable
from memproxy.learn.memory_vectors import Around, adjacency, turn_key
from memproxy.ports import Embedder, Kept, LexicalEncoder, Passage, Point, Rebuild, SparseVector
from memproxy.recall.documents import bm25_text, dense_text

BATCH = 64  # memories that are embedded and written together
PAGE = 500  # memories that are read together
FEW = 50  # at most this many missed changes are applied while writes wait
MOST_ROUNDS = 20  # where more is written all the time than can be made up for, the last round is as long as it is
FLUSH_EVERY_S = 5.0  # what a crash may cost. A flush holds up searches (docs/decisions/0008), so not after every batch
_ANY_TEXT = "memory"  # embedded to see whether the embedder gives token vectors

_NEXT_TO_NOTHING: Around = (None, None)

_Task = tuple[Memory, Around]


class Reindexer:
    """Fills a `ports.Rebuild` and switches to it. One instance for one run."""

    def __init__(
        self,
        rebuild: Rebuild,
        *,
        embedder: Embedder,
        lexical: LexicalEncoder,
        progress: ReindexTold | None = None,
        flush_every_s: float = FLUSH_EVERY_S,
        page: int = PAGE,
        batch: int = BATCH,
    ) -> None:
        self._rebuild = rebuild
        self._embedder = embedder
        self._lexical = lexical
        self._flush_every_s = flush_every_s
        self._page = page
        self._batch = batch
        self._flushed = monotonic()
        self._late = False
        self.progress = progress or ReindexTold()
        self.progress.total = rebuild.total
        self.owners: set[OwnerKey] = set()  # whose memories there are

    async def run(self) -> None:
        """Copy, catch up, switch. Where the store or the embedder fails, what was copied is kept for the next run."""
        if self._rebuild.resumed:
            self._late = bool((await self._embed([_ANY_TEXT]))[0].tokens)
        await self._copy()
        if self._rebuild.resumed:
            await self._rebuild.remove_strays()
        changed = await self._catch_up()
        await self._rebuild.flush()
        async with self._rebuild.paused():
            await self._encode_again(changed | self._rebuild.take_changed())
            await self._rebuild.flush()
            await self._rebuild.switch()

    async def _copy(self) -> None:
        batch: list[_Task] = []
        async for task in self._tasks():
            batch.append(task)
            if len(batch) == self._batch:
                await self._copied(batch)
                batch = []
        await self._copied(batch)

    async def _copied(self, batch: Sequence[_Task]) -> None:
        await self._write_missing(batch)
        self.progress.done += len(batch)
        if monotonic() - self._flushed >= self._flush_every_s:
            await self._rebuild.flush()
            self._flushed = monotonic()

    async def _tasks(self) -> AsyncIterator[_Task]:
        """Every memory with the turns next to it: those that are no turns first, then session by session."""
        sessions: dict[Scope, None] = {}
        async for memory in self._memories():
            if memory.kind is Kind.TURN:
                sessions[Scope(tenant=memory.tenant, user=memory.user_id, session=memory.session_id)] = None
            else:
                yield memory, _NEXT_TO_NOTHING
        for scope in sessions:
            async for task in self._session(scope):
                yield task

    async def _memories(self) -> AsyncIterator[Memory]:
        after: str | None = None
        while True:
            scanned = await self._rebuild.scan(after, limit=self._page)
            self.progress.damaged += scanned.damaged
            for memory in scanned.memories:
                self.owners.add((memory.tenant, memory.user_id))
                yield memory
            if scanned.next_id is None:
                return
            after = scanned.next_id

    async def _session(self, scope: Scope) -> AsyncIterator[_Task]:
        """The turns of a session, newest first. What may have more before it in time waits for the next page."""
        waiting: list[Memory] = []
        newer: Memory | None = None
        cursor: str | None = None
        while True:
            page = await self._rebuild.turns(scope, cursor, limit=self._page)
            order = in_order(sorted([*waiting, *page.memories], key=lambda turn: turn.id))
            cursor = page.next_cursor
            first = _settled_from(order) if cursor is not None else 0
            around = adjacency([*order, *([newer] if newer is not None else [])])
            for turn in order[first:]:
                yield turn, around[turn_key(turn)]
            if cursor is None:
                return
            newer = order[first] if first < len(order) else newer
            waiting = order[:first]

    async def _catch_up(self) -> set[str]:
        """Copy what was written meanwhile, until that is little; answers what is still to be copied."""
        for _ in range(MOST_ROUNDS):
            changed = self._rebuild.take_changed()
            if len(changed) <= FEW:
                return changed
            await self._encode_again(changed)
        return set()

    async def _encode_again(self, places: Set[str]) -> None:
        """Make these points in the new collection what they are in the first one."""
        ordered = sorted(places)
        for start in range(0, len(ordered), self._batch):
            batch = ordered[start : start + self._batch]
            existing = await self._rebuild.current(batch)
            await self._rebuild.remove(set(batch) - {self._rebuild.point_id(memory) for memory in existing})
            await self._write_missing([await self._with_neighbours(memory) for memory in existing])

    async def _with_neighbours(self, memory: Memory) -> _Task:
        self.owners.add((memory.tenant, memory.user_id))
        if memory.kind is not Kind.TURN:
            return memory, _NEXT_TO_NOTHING
        near = await self._rebuild.neighbours(Scope(tenant=memory.tenant, user=memory.user_id), [memory])
        return memory, adjacency([*near, memory])[turn_key(memory)]

    async def _write_missing(self, tasks: Sequence[_Task]) -> None:
        """Write to the new collection what it does not have like this yet."""
        encoded = [(memory, self._lexical.encode_document(bm25_text(memory, *around))) for memory, around in tasks]
        if self._rebuild.resumed:
            ids = [self._rebuild.point_id(memory) for memory, _ in encoded]
            stored, all_encoded = await self._rebuild.stored(ids), encoded
            pairs = zip(ids, all_encoded, strict=True)
            encoded = [pair for name, pair in pairs if not self._is_unchanged(*pair, stored.get(name))]
            self.progress.kept += len(all_encoded) - len(encoded)
        if encoded:
            passages = await self._embed([dense_text(memory) for memory, _ in encoded])
            points = [
                Point(memory=memory, dense=passage.parts, bm25=words, tokens=passage.tokens)
                for (memory, words), passage in zip(encoded, passages, strict=True)
            ]
            await self._rebuild.write(points)

    def _is_unchanged(self, memory: Memory, words: SparseVector, stored: Kept | None) -> bool:
        if stored is None or stored.memory != memory or stored.embedded != (self._embedder.state != "off"):
            return False
        mine, theirs = (dict(zip(vector.indices, vector.values, strict=True)) for vector in (stored.bm25, words))
        # of another ``late``: an earlier version, or other settings, wrote it
        same = stored.late == self._late and mine.keys() == theirs.keys()
        # a store keeps weights in single precision
        return same and all(math.isclose(mine[key], theirs[key], rel_tol=1e-4) for key in mine)

    async def _embed(self, texts: Sequence[str]) -> list[Passage]:
        if self._embedder.state == "off":
            return [Passage(parts=[]) for _ in texts]
        try:
            return await self._embedder.embed_passages(texts)
        except EmbedderUnavailable as error:
            raise EmbedderUnavailable(
                f"The reindex ended early: {error.message}. Run `memproxy reindex` again when the embedder is there: "
                "it goes on where it was."
            ) from error


def _settled_from(order: Sequence[Memory]) -> int:
    """From which turn on all have their place, whatever older ones come: the second of a later time than the first."""
    later = (index for index, turn in enumerate(order) if turn.created_at != order[0].created_at)
    return next(later, len(order)) + 1
