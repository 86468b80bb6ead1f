"""`GET /v1/memory/export` and `POST /v1/memory/import`: a user's memories as JSON Lines (`core.transfer`)."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack
from itertools import islice

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from memproxy.api.audit import Audit
from memproxy.api.context import QUEUED, Backends, OwnerLocks, Writer
from memproxy.api.http import answer, caller, read_lines_body, read_query
from memproxy.api.queries import ExportQuery, ImportQuery
from memproxy.api.schemas import NewTurns
from memproxy.api.transfer_lines import Carried, Line, memory_of, named_within, read_lines, references, says_else
from memproxy.api.transfer_told import Told
from memproxy.api.turns import Said, Turns, check_ids
from memproxy.auth import resolve_scope
from memproxy.core.memory import Kind, Memory, Source, to_public
from memproxy.core.packing import length_of, packed
from memproxy.core.protocol import Identity, PlanBody
from memproxy.core.scope import Scope
from memproxy.core.transfer import MEDIA_TYPE, GivenVectors, Header, PalaceRow, line, vector_key
from memproxy.errors import RequestError
from memproxy.learn.guard import marked_unless_own
from memproxy.ports import JournalKind, MemoryFilter, Point, PointPage

EXPORT_PAGE = 200
ROW = 250
"""Memories in one row of the journal."""

APPLY_TIMEOUT_S = 55.0
"""Longest that a call waits: for what its owners' journal held before, and for its own rows."""

SETTLE_S = 30.0
"""Longest of that for what was there before; then it is gone on with beside it."""

MOST_NAMED = 5
_VERBATIM = "Other messages are stored under ids of the file: turns are verbatim, and these stay."

_Groups = dict[Scope, list[Carried]]
"""Memories by whose they become."""


class Transfer:
    """The calls."""

    def __init__(self, backends: Backends, writer: Writer, turns: Turns, audit: Audit) -> None:
        self._backends = backends
        self._audit = audit
        self._writer = writer
        self._turns = turns
        self._max_bytes = backends.settings.server.max_body_bytes
        self._redact = frozenset[str](backends.settings.privacy.redact)
        self._locks = OwnerLocks()

    async def export(self, request: Request) -> Response:
        """Everything of a user: history, turns, the palace's numbers; what is the same is written the same.

        A caller who stands in a project or agent (by its key or by header) gets what that one sees, without the
        palace's numbers: its names are of all projects.
        """
        identity = caller(request, "memory:read")
        query = read_query(request, ExportQuery)
        scope = resolve_scope(identity, user=query.user_id)
        scope = msgspec.structs.replace(scope, session=None)
        self._backends.require_store()
        headers = {"x-memproxy-total": str(await self._backends.store.count(scope, MemoryFilter()))}
        limit = query.limit or EXPORT_PAGE
        first = await self._backends.store.point_page(scope, limit=limit, cursor=query.cursor)
        if query.limit is not None and first.next_cursor is not None:
            headers["x-memproxy-next-cursor"] = first.next_cursor
            first.next_cursor = None
        begin = b"" if query.cursor is not None else await self._beginning(scope)
        if query.cursor is None:
            counts = {"memories": int(headers["x-memproxy-total"])}
            await self._audit.note(identity, "user.export", counts=counts, user_id=scope.user)
        body = self._lines(scope, begin, first, vectors=query.vectors, nulls=query.nulls)
        return StreamingResponse(body, media_type=MEDIA_TYPE, headers=headers)

    async def _beginning(self, scope: Scope) -> bytes:
        """The header, and the palace for who sees all of it."""
        if scope.project is not None or scope.agent is not None:
            return line(self._header())
        rows = await self._backends.state.palace_rows(Scope(tenant=scope.tenant, user=scope.user))
        places = [line({"place": {"user_id": scope.user, **msgspec.to_builtins(row)}}) for row in rows]
        return b"".join([line(self._header()), *places])

    async def _lines(
        self, scope: Scope, begin: bytes, page: PointPage, *, vectors: bool, nulls: bool
    ) -> AsyncIterator[bytes]:
        yield begin
        while True:
            yield b"".join(_memory_line(point, dense=vectors, nulls=nulls) for point in page.points)
            if page.next_cursor is None:
                return
            page = await self._backends.store.point_page(scope, limit=EXPORT_PAGE, cursor=page.next_cursor)

    def _header(self) -> Header:
        return Header(embedder=self._backends.embedder.name, lexical=self._backends.lexical_version)

    async def import_lines(self, request: Request) -> Response:
        """Take over the lines of a file or of a part of it; the same lines twice change nothing.

        202: it is in the journal and not applied yet (the store is away). Over a quota (429) what came before stays:
        the same lines again go on from there when there is room.
        """
        identity = caller(request, "memory:write")
        query = read_query(request, ImportQuery)
        told = Told(dry_run=query.dry_run)
        # what was read goes before it is waited for
        numbers, said, until = await self._accepted(
            identity, query, await read_lines_body(request, self._max_bytes), told
        )
        applied = await self._applied(numbers, until)
        for one in said if applied else ():
            if conflicts := await self._turns.conflicts(one.scope, one.named):
                told.note(_differing(one.scope, conflicts))
        if not query.dry_run:
            counts = {"imported": told.imported, "replaced": told.replaced, "turns": told.turns}
            await self._audit.note(identity, "user.import", counts=counts, user_id=query.user_id)
        return answer(told) if applied else answer(told, 202, QUEUED)

    async def _accepted(
        self, identity: Identity, query: ImportQuery, body: bytes, told: Told
    ) -> tuple[list[int], list[Said], float]:
        """Journal what the lines of a body hold; the numbers of the rows, the conversations, and until when (of the
        event loop's clock) they are waited for.
        """
        until = asyncio.get_running_loop().time() + APPLY_TIMEOUT_S
        lines: list[Line] = []
        rest = read_lines(body)
        # in a thread, for what one line holds may take long to read
        while some := await asyncio.to_thread(lambda: list(islice(rest, ROW))):
            lines += [one for one in some if not _is_wrong(one, told)]
        header = next((one.header for one in lines if one.header is not None), None)
        await self._adopt(identity, query, [one for one in lines if one.place is not None], told)
        numbers = await self._take(identity, query, lines, header, told)
        said = await self._say(identity, query, [one for one in lines if one.turns is not None], told)
        return numbers + [one.number for one in said if one.number is not None], said, until

    async def _adopt(self, identity: Identity, query: ImportQuery, lines: Sequence[Line], told: Told) -> None:
        """Take over the palace's numbers; where they mean something else here, memories are placed anew. A key of one
        project may write there alone, and the palace is the user's: its places are passed over.
        """
        rows: dict[Scope, list[PalaceRow]] = {}
        if lines and identity.bound_project:
            told.note("This key is for one project: the file's places are passed over, memories get new pointers.")
            return
        for one in lines:
            scope = self._owner(identity, query, one.place.user_id if one.place else None, one.number, told)
            if scope is not None and one.place is not None:
                rows.setdefault(scope, []).append(one.place.row(self._redact))
        for scope, places in rows.items():
            if not query.dry_run and not await self._backends.state.adopt_palace(scope, places):
                told.note("The palace has other places by these numbers here: memories get new pointers.")

    def _owner(
        self, identity: Identity, query: ImportQuery, named: str | None, number: int, told: Told
    ) -> Scope | None:
        """Whose a line becomes; None, and told, when the caller may not write for that user."""
        try:
            scope = resolve_scope(identity, user=query.user_id or named)
        except RequestError as error:
            told.refuse(number, error.message)
            return None
        return Scope(tenant=scope.tenant, user=scope.user)

    async def _take(
        self, identity: Identity, query: ImportQuery, lines: Iterable[Line], header: Header | None, told: Told
    ) -> list[int]:
        """Journal the memories that are new or newer; the numbers of the rows."""
        groups = await self._by_owner(identity, query, lines, header, told)
        plans: list[tuple[Scope, PlanBody]] = []
        async with AsyncExitStack() as held:
            await self._settled(groups, held)
            try:
                for owner, taken in groups.items():
                    place, rest, earlier = owner.at(identity.only_project, None), iter(taken), dict[str, Memory]()
                    while some := list(islice(rest, ROW)):
                        mine = some if place.project is None else await self._own(place, some)
                        plans += await self._planned(place, mine, earlier, query, told)
            finally:  # over a quota what came before is written
                numbers = await self._journalled(plans)
        return numbers

    async def _by_owner(
        self, identity: Identity, query: ImportQuery, lines: Iterable[Line], header: Header | None, told: Told
    ) -> _Groups:
        """The memories with the vectors that fit, by whose they become."""
        groups: _Groups = {}
        scopes: dict[str | None, Scope] = {}
        here = self._header()
        for count, one in enumerate(lines, start=1):
            if one.memory is None:
                continue
            named = one.memory.user_id
            scope = scopes.get(named) or self._owner(identity, query, named, one.number, told)
            if scope is None:
                continue
            scopes[named] = scope
            if (memory := self._memory(identity, one, scope, told)) is not None:
                memory = await marked_unless_own(memory)
                groups.setdefault(scope, []).append((memory, self._vectors(one, header, here, told)))
            if count % ROW == 0:
                await asyncio.sleep(0)
        return groups

    async def _settled(self, groups: _Groups, held: AsyncExitStack) -> None:
        """Returns when what came for these owners before is applied, or was waited for long enough; no other import
        plans for them until ``held`` is left. A memory that still waits in the journal (an import was broken off, or
        runs twice) would else be taken for one that is not there, and written and counted again.
        """
        if groups:
            self._backends.require_store()
        until = asyncio.get_running_loop().time() + SETTLE_S
        for scope in sorted(groups, key=lambda scope: scope.owner):  # one order, or two could wait for each other
            await held.enter_async_context(self._locks.of(scope))
            await self._backends.worker.indexed(scope, max(0.0, until - asyncio.get_running_loop().time()))

    async def _journalled(self, plans: Sequence[tuple[Scope, PlanBody]]) -> list[int]:
        """Append rows in their order, together: one commit has them all, and so has one flush of the store, which takes
        longer than all else that a row needs.
        """
        return await asyncio.gather(*(self._writer.append(scope, JournalKind.PLAN, plan) for scope, plan in plans))

    def _memory(self, identity: Identity, one: Line, scope: Scope, told: Told) -> Memory | None:
        if one.memory is None:
            return None
        try:
            if identity.only_project not in {None, one.memory.project_id}:
                raise RequestError("project_id: this key is for another project")
            memory = memory_of(one.memory, scope.tenant, scope.user, self._redact)
            if identity.only_project is not None:  # whether a place is there by this name is not its to know
                memory = msgspec.structs.replace(memory, wing=None, room=None, closet=None, pointer=None)
            return memory
        except RequestError as error:
            told.refuse(one.number, error.message)
            return None

    def _vectors(self, one: Line, header: Header | None, here: Header, told: Told) -> GivenVectors | None:
        """The vectors that came along, as far as they fit what is made here."""
        given = one.vectors
        if given is None or header is None:
            return None
        if header.lexical != here.lexical:
            told.note("Words are encoded anew: the file's are of another version.")
            return None
        if given.dense and (header.embedder != here.embedder or not self._fits(given)):
            told.note(
                f"Vectors of {header.embedder or 'an unnamed embedder'} do not fit here: texts are embedded anew."
            )
            return msgspec.structs.replace(given, dense=[], tokens=b"")
        return given

    def _fits(self, given: GivenVectors) -> bool:
        return all(length_of(part) == self._backends.store.dimension for part in given.dense)

    async def _planned(
        self,
        scope: Scope,
        taken: Sequence[Carried],
        earlier: dict[str, Memory],
        query: ImportQuery,
        told: Told,
    ) -> list[tuple[Scope, PlanBody]]:
        """What is to be written of these, and for whom; nothing where all of it is there. ``earlier`` is what the same
        request brought for that user; these are added to it.
        """
        self._backends.require_store()
        there = await self._there(scope, [memory for memory, _ in taken])
        due, replaced = [], 0
        for memory, given in taken:
            key = vector_key(memory)
            before = earlier.get(key) or there.get(key)
            if before is not None and says_else(memory, before):
                told.note(_VERBATIM)
            elif _is_newer(memory, before):
                due.append((key, memory, given))
                replaced += before is not None
                earlier[key] = memory
        told.unchanged += len(taken) - len(due)
        told.replaced += replaced
        told.imported += len(due) - replaced
        if query.dry_run or not due:
            return []
        await self._backends.quotas.admit_memories(scope, len(due) - replaced)
        memories = await self._placed(scope, [memory for _, memory, _ in due])
        vectors = {key: given for key, _, given in due if given is not None}
        return [(scope, PlanBody(upserts=memories, vectors=vectors))]

    async def _own(self, place: Scope, taken: Sequence[Carried]) -> Sequence[Carried]:
        """What comes by a key of one project, under the project's own names (`name_within`): by no id of the file can
        what another has be replaced, referred to, or told from what is not there. What the project has by an id of the
        file keeps it.
        """
        names = list({name for memory, _ in taken for name in (memory.id, *references(memory))})
        own: list[Memory] = []
        for begin in range(0, len(names), ROW):
            where = MemoryFilter(ids=tuple(names[begin : begin + ROW]), project_ids=(place.project or "",))
            own += await self._all(place, where)
        return named_within(place.project or "", taken, own)

    async def _there(self, scope: Scope, memories: Sequence[Memory]) -> dict[str, Memory]:
        """Those of these memories that are there already, in the form that is there."""
        turns = [one for one in memories if one.kind is Kind.TURN and one.session_id is not None]
        others = [one.id for one in memories if one.kind is not Kind.TURN or one.session_id is None]
        stored = list((await self._backends.store.get(scope, others)).values()) if others else []
        if turns:
            where = MemoryFilter(
                kinds=(Kind.TURN,),
                ids=tuple({one.id for one in turns}),
                session_ids=tuple({one.session_id for one in turns if one.session_id is not None}),
            )
            stored += await self._all(scope, where)
        return {vector_key(memory): memory for memory in stored}

    async def _all(self, scope: Scope, where: MemoryFilter) -> list[Memory]:
        found: list[Memory] = []
        cursor = None
        while True:
            page = await self._backends.store.page(scope, where, limit=EXPORT_PAGE, cursor=cursor)
            found += page.memories
            if (cursor := page.next_cursor) is None:
                return found

    async def _placed(self, scope: Scope, memories: Sequence[Memory]) -> list[Memory]:
        """The memories; those whose place means something else here without it, to be placed anew."""
        named = [(memory.wing or "", memory.room or "", memory.pointer or "") for memory in memories]
        kept = dict(zip(distinct := list(dict.fromkeys(named)), await self._stand(scope, distinct), strict=True))
        return [
            memory if kept[place] else msgspec.structs.replace(memory, wing=None, room=None, closet=None, pointer=None)
            for memory, place in zip(memories, named, strict=True)
        ]

    async def _stand(self, scope: Scope, places: Sequence[tuple[str, str, str]]) -> list[bool]:
        return await self._backends.state.stand(scope, places)

    async def _say(self, identity: Identity, query: ImportQuery, lines: Sequence[Line], told: Told) -> list[Said]:
        """Journal conversations; learning reads them behind, as it does those of `POST /v1/memory/turns`."""
        said = []
        for one in lines:
            if one.turns is None:
                continue
            scope = self._owner(identity, query, one.turns.user_id, one.number, told)
            if scope is None or not _has_clear_ids(one.number, one.turns, told):
                continue
            told.turns += len(one.turns.messages)
            if not query.dry_run:
                await self._backends.quotas.admit_turns(scope, len(one.turns.messages))
                only = identity.only_project
                said.append(await self._turns.journalled(scope, one.turns, source=Source.IMPORT, only_project=only))
        return said

    async def _applied(self, numbers: Sequence[int], until: float) -> bool:
        """Whether all of these rows are applied by then, of the event loop's clock."""
        for number in numbers:
            left = until - asyncio.get_running_loop().time()
            if not await self._backends.worker.applied(number, max(0.0, left)):
                return False
        return True


def _is_wrong(one: Line, told: Told) -> bool:
    if one.error is not None:
        told.refuse(one.number, one.error)
    return one.error is not None


def _has_clear_ids(number: int, turns: NewTurns, told: Told) -> bool:
    """Whether each id of a conversation names one message; a line of another one is refused."""
    try:
        check_ids(turns)
    except RequestError as error:
        told.refuse(number, error.message)
        return False
    return True


def _differing(scope: Scope, ids: Sequence[str]) -> str:
    some = ", ".join(ids[:MOST_NAMED]) + (" and others" if len(ids) > MOST_NAMED else "")
    return f"The conversation {scope.session} has other messages by these ids here, which stay: {some}."


def _is_newer(memory: Memory, there: Memory | None) -> bool:
    """Whether what comes is to be written: what is there stays, unless it is an older form."""
    return there is None or (memory.updated_at > there.updated_at)


def _memory_line(point: Point, *, dense: bool, nulls: bool) -> bytes:
    given = GivenVectors(
        dense=[packed(part) for part in point.dense] if dense else [],
        indices=point.bm25.indices,
        values=point.bm25.values,
        tokens=point.tokens if dense else b"",
    )
    return line({"memory": to_public(point.memory, nulls=nulls), "vectors": given})
