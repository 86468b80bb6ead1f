"""`GET /v1/memory/export` and `POST /v1/memory/import`: a user's memories as JSON Lines (`core.transfer_lines`)."""

import asyncio
import io
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack
from itertools import islice
from typing import Annotated, Any, Literal, NamedTuple

import msgspec
from pydantic import FailFast, Field, ValidationError
from starlette.responses import StreamingResponse

from memproxy.api.calls import Call, Reply, operation
from memproxy.api.context import QUEUED, Backends
from memproxy.api.fields import (
    AnyKind,
    Content,
    Id,
    Label,
    Labels,
    Limit,
    Metadata,
    Name,
    OptionalTime,
    Phrase,
    ReachableId,
    Time,
)
from memproxy.api.http import MOST_JSON_BYTES, OFF_LOOP_BYTES, check_names, read_lines_body, validate
from memproxy.api.memories import DescribedFields, RelationBody
from memproxy.api.models import Body, Cursor, Shown
from memproxy.api.turns import JournaledConversation, NewTurns, check_ids, conflicting, journal_conversation
from memproxy.auth.identity import resolve_scope
from memproxy.core.block import strip_blocks
from memproxy.core.memory import Kind, Memory, to_public
from memproxy.core.protocol import PlanBody
from memproxy.core.redact import redact, redact_memory
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import (
    FORMAT,
    MEDIA_TYPE,
    MOST_TOKEN_BYTES,
    VERSION,
    GivenVectors,
    Header,
    PalaceRow,
    line,
    vector_key,
)
from memproxy.core.turn import name_within
from memproxy.core.vectors import checked, length_of, packed
from memproxy.errors import RequestError
from memproxy.learn.planted import marked_unless_own
from memproxy.ports import JournalKind, MemoryFilter, PointPage, every

MemoryWithVectors = tuple[Memory, GivenVectors | None]
"""A memory of a file with its vectors."""

Count = Annotated[int, Field(ge=0, lt=2**53)]


class MemoryLine(DescribedFields):
    """A memory as an export holds it."""

    # a list that is made costs a fifth of one that is copied, and each line needs four
    tags: Annotated[Labels, Field(default_factory=list)]
    entities: Annotated[Labels, Field(default_factory=list)]
    relations: Annotated[list[RelationBody], FailFast(), Field(max_length=100, default_factory=list)]
    metadata: Annotated[Metadata, Field(default_factory=dict)]
    id: ReachableId
    kind: AnyKind = "semantic"
    content: Content
    created_at: Time
    updated_at: OptionalTime = None
    active: bool = True
    supersedes: Id | None = None
    superseded_by: Id | None = None
    quarantined: bool = False
    source: Literal["conversation", "api", "tool", "dream", "import"] = "import"
    turn_ids: Annotated[list[Id], FailFast(), Field(max_length=10_000, default_factory=list)]
    access_count: Count = 0
    last_accessed_at: OptionalTime = None
    wing: Phrase | None = None
    room: Phrase | None = None
    closet: Phrase | None = None
    pointer: Label | None = None


class PlaceLine(Body):
    """A number of the palace."""

    user_id: Name | None = None
    kind: Literal["wing", "alias", "home", "room", "closet", "last"]
    parent: Annotated[str, Field(max_length=8_000)]
    name: Annotated[str, Field(max_length=1_000)]
    number: Annotated[int, Field(ge=0, lt=2**31)]

    def row(self, redacted: frozenset[str]) -> PalaceRow:
        """As the state keeps it; a room's name is its session's id."""
        name = self.name if self.kind == "room" else redact(self.name, redacted)
        return PalaceRow(kind=self.kind, parent=self.parent, name=name, number=self.number)


class Line(NamedTuple):
    """One line read: its number, and what it holds, or what is wrong with it."""

    number: int
    part: MemoryLine | PlaceLine | NewTurns | Header | RequestError
    vectors: GivenVectors | None = None


_PARTS: dict[str, type[MemoryLine | PlaceLine | NewTurns]] = {
    "memory": MemoryLine,
    "place": PlaceLine,
    "turns": NewTurns,
}


def read_lines(body: bytes) -> Iterator[Line]:
    """The lines of a file or a part of it; empty ones are passed over."""
    for number, raw in enumerate(io.BytesIO(body), start=1):
        if raw.strip():
            try:
                yield _line(number, raw)
            except RequestError as error:
                yield Line(number, error)


def _line(number: int, raw: bytes) -> Line:
    if len(raw) > MOST_JSON_BYTES:
        raise RequestError(f"is longer than {MOST_JSON_BYTES} bytes: send a conversation in parts")
    if len(raw) > OFF_LOOP_BYTES:
        check_names(raw)
    try:
        value = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RequestError(f"not JSON that can be read: {error}") from error
    if not isinstance(value, dict):
        raise RequestError("must be a JSON object")
    if "format" in value:
        return Line(number, _read_header(value))
    raw_vectors = value.pop("vectors", None)
    if len(value) != 1 or not value.keys() <= _PARTS.keys():
        raise RequestError('must hold one of "memory", "place", "turns", or be the header')
    name, part = value.popitem()
    if not isinstance(part, dict):
        raise RequestError("must hold a JSON object")
    vectors = _vectors(raw_vectors) if raw_vectors is not None and name == "memory" else None
    return Line(number, validate(_PARTS[name], part), vectors)


def _read_header(value: dict[str, Any]) -> Header:
    try:
        header = msgspec.convert(value, Header)
    except msgspec.ValidationError as error:
        raise RequestError(f"the header cannot be read: {error}") from error
    if header.format != FORMAT:
        raise RequestError(f"the format is {header.format[:50]!r}; memproxy import --format converts others")
    if header.version > VERSION:
        raise RequestError(f"the file has version {header.version}; this memproxy reads up to {VERSION}")
    return header


def _vectors(value: object) -> GivenVectors:
    try:
        vectors = msgspec.convert(value, GivenVectors)
        for part in vectors.dense:
            checked(part)
    except ValueError as error:  # msgspec's are, too
        raise RequestError(f"vectors: {'must be base64' if 'base64' in str(error) else error}") from error
    if len(vectors.tokens) > MOST_TOKEN_BYTES:
        raise RequestError(f"vectors: tokens must be at most {MOST_TOKEN_BYTES} bytes")
    within = not vectors.indices or (min(vectors.indices) >= 0 and max(vectors.indices) < 2**32)
    if len(vectors.indices) != len(vectors.values) or not within:
        raise RequestError("vectors: indices must be 32-bit numbers, as many as values")
    return vectors


def memory_of(line: MemoryLine, tenant: str, user: str, redacted: frozenset[str]) -> Memory:
    """The memory of a line, as its owner's; texts redacted as everywhere before the journal.

    Raises:
        RequestError: a field does not fit.
    """
    fields = redact_memory(vars(line) | {"relations": [vars(relation) for relation in line.relations]}, redacted)
    if line.kind == Kind.TURN.value:
        fields["content"] = strip_blocks(fields["content"])
    if (fields["subject"], fields["category"]) != (line.subject, line.category):
        fields |= dict.fromkeys(("wing", "room", "closet", "pointer"))  # named after what is not kept: placed anew
    fields |= {"tenant": tenant, "user_id": user, "updated_at": line.updated_at or line.created_at}
    try:
        return msgspec.convert(fields, Memory, from_attributes=True)
    except (msgspec.ValidationError, ValidationError) as error:
        raise RequestError(str(error)) from error


def is_another_turn(memory: Memory, stored: Memory) -> bool:
    """Whether it is a turn with another text (or role) than the one stored under its id, which stays."""
    statements = [(turn.metadata.get("role"), turn.content) for turn in (memory, stored)]
    return memory.kind is Kind.TURN and statements[0] != statements[1]


EXPORT_PAGE = 200
ROW = 250
"""Memories in one row of the journal."""

APPLY_TIMEOUT_S = 55.0
"""Longest that a call waits: for what its owners' journal held before, and for its own rows."""

SETTLE_S = 30.0
"""Longest of that for what the journal held before; after it the import goes on all the same."""

MOST_ERRORS = 100
"""Wrong lines that are told one by one; all are counted."""

_MOST_NAMED = 5
_VERBATIM = "Other messages are stored under ids of the file: turns are verbatim, and these stay."


class ExportQuery(Shown):
    """`GET /v1/memory/export`: whose memories, and whether with their vectors (which saves embedding them again).

    With ``limit``, so many memories at a time: the header ``x-memproxy-next-cursor`` is the next call's ``cursor``.
    """

    user_id: Name | None = None
    vectors: bool = False
    limit: Limit | None = None
    cursor: Cursor | None = None


@operation("GET", "/v1/memory/export", "memory:read")
async def export(api: Backends, call: Call, query: ExportQuery) -> StreamingResponse:
    """Everything of a user as JSON Lines: memories with their history, turns, the palace's numbers.

    What is the same is written the same. A caller who stands in a project or agent (by its key or by header) gets
    what that one sees, without the palace's numbers: its names are of all projects.
    """
    scope = msgspec.structs.replace(call.scope(), session=None)
    total = await api.store.count(scope, MemoryFilter())
    headers = {"x-memproxy-total": str(total)}
    first = await api.store.point_page(scope, limit=query.limit or EXPORT_PAGE, cursor=query.cursor)
    if query.limit is not None and first.next_cursor is not None:
        headers["x-memproxy-next-cursor"] = first.next_cursor
        first.next_cursor = None
    begin: list[bytes] = []
    if query.cursor is None:
        begin = [line(_header(api))]
        if not scope.is_narrow:
            rows = await api.state.palace_rows(scope.whole)
            begin += [line({"place": {"user_id": scope.user, **msgspec.to_builtins(row)}}) for row in rows]
        await api.audit(call.identity, "user.export", {"memories": total}, user_id=scope.user)
    body = _lines(api, scope, b"".join(begin), first, dense=query.vectors, nulls=call.nulls)
    return StreamingResponse(body, media_type=MEDIA_TYPE, headers=headers)


async def _lines(
    api: Backends, scope: Scope, begin: bytes, page: PointPage, *, dense: bool, nulls: bool
) -> AsyncIterator[bytes]:
    yield begin
    while True:
        lines = []
        for point in page.points:
            vectors = GivenVectors(
                dense=[packed(part) for part in point.dense] if dense else [],
                indices=point.bm25.indices,
                values=point.bm25.values,
                tokens=point.tokens if dense else b"",
            )
            lines.append(line({"memory": to_public(point.memory, nulls=nulls), "vectors": vectors}))
        yield b"".join(lines)
        if page.next_cursor is None:
            return
        page = await api.store.point_page(scope, limit=EXPORT_PAGE, cursor=page.next_cursor)


def _header(api: Backends) -> Header:
    return Header(embedder=api.parts.embedder.name, lexical=api.parts.lexical_version)


class ImportQuery(Body):
    """`POST /v1/memory/import`. ``user_id``: whose all of it becomes (default: as each line says). ``dry_run`` checks
    and counts, and writes nothing.
    """

    user_id: Name | None = None
    dry_run: bool = False


class WrongLine(msgspec.Struct):
    """A line that was not taken, and why."""

    line: int
    message: str


class Imported(msgspec.Struct):
    """What became of the lines of an import. ``unchanged`` were there already, ``replaced`` were there in an older
    form; ``errors`` tells of wrong lines, ``rejected`` counts them.
    """

    dry_run: bool
    imported: int
    replaced: int
    unchanged: int
    turns: int
    rejected: int
    errors: list[WrongLine]
    notes: list[str]

    def refuse(self, number: int, message: str) -> None:
        self.rejected += 1
        if len(self.errors) < MOST_ERRORS:
            self.errors.append(WrongLine(number, message))

    def note(self, text: str) -> None:
        """Something that concerns many lines, told once."""
        if text not in self.notes:
            self.notes.append(text)


@operation(
    "POST", "/v1/memory/import", "memory:write", statuses=(200, 202), errors=(429,), takes_lines=True, repeatable=False
)
async def import_lines(api: Backends, call: Call, query: ImportQuery) -> Reply[Imported]:
    """Take over an export, or a part of one; the same lines twice change nothing.

    202: it is in the journal and not applied yet (the store is away). Over a quota (429) what came before stays: the
    same lines again go on from there when there is room.
    """
    until = asyncio.get_running_loop().time() + APPLY_TIMEOUT_S
    importing, max_bytes = _Import(api, call, query), api.parts.settings.server.max_body_bytes
    # what was read goes before its rows are waited for
    numbers, conversations = await importing.journal(await read_lines_body(call.request, max_bytes))
    applied = True
    for number in numbers:
        seconds = until - asyncio.get_running_loop().time()
        applied = applied and await api.parts.worker.applied(number, max(0.0, seconds))
    for conversation in conversations if applied else ():
        if conflicts := await conflicting(api, conversation.scope, conversation.named):
            ids = ", ".join(conflicts[:_MOST_NAMED]) + (" and others" if len(conflicts) > _MOST_NAMED else "")
            session = conversation.scope.session
            importing.done.note(f"The conversation {session} has other messages by these ids here, which stay: {ids}.")
    if not query.dry_run:
        counts = {name: getattr(importing.done, name) for name in ("imported", "replaced", "turns")}
        await api.audit(call.identity, "user.import", counts, user_id=query.user_id)
    return Reply(importing.done) if applied else Reply(importing.done, 202, QUEUED)


class _Import:
    """One import while it is read and journal_conversation."""

    def __init__(self, api: Backends, call: Call, query: ImportQuery) -> None:
        self._api = api
        self._identity = call.identity
        self._query = query
        self.done = Imported(query.dry_run, 0, 0, 0, 0, 0, [], [])

    async def journal(self, body: bytes) -> tuple[list[int], list[JournaledConversation]]:
        """Journal what the lines of a body hold; the numbers of the rows, and the conversations."""
        header: Header | None = None
        places: list[tuple[int, PlaceLine]] = []
        memories: list[tuple[int, MemoryLine, GivenVectors | None]] = []
        turns: list[tuple[int, NewTurns]] = []
        rest = read_lines(body)
        # in a thread, for what one line holds may take long to read
        while batch := await asyncio.to_thread(lambda: list(islice(rest, ROW))):
            for number, part, vectors in batch:
                match part:
                    case RequestError():
                        self.done.refuse(number, part.message)
                    case Header():
                        header = header or part
                    case PlaceLine():
                        places.append((number, part))
                    case MemoryLine():
                        memories.append((number, part, vectors))
                    case NewTurns():
                        turns.append((number, part))
        await self._adopt_places(places)
        numbers = await self._journal_memories(await self._by_owner(memories, header))
        conversations = await self._journal_turns(turns)
        return numbers + [sent.number for sent in conversations if sent.number is not None], conversations

    def _owner(self, named: str | None, number: int) -> Scope | None:
        """Whose a line becomes; None, and refused, when the caller may not write for that user."""
        try:
            scope = resolve_scope(self._identity, user=self._query.user_id or named)
        except RequestError as error:
            self.done.refuse(number, error.message)
            return None
        return scope.whole

    async def _adopt_places(self, lines: Sequence[tuple[int, PlaceLine]]) -> None:
        """Take over the palace's numbers; where they mean something else here, memories are placed anew. A key of one
        project may write there alone, and the palace is the user's: its places are passed over.
        """
        if lines and self._identity.bound_project:
            self.done.note("This key is for one project: the file's places are passed over, memories get new pointers.")
            return
        rows: dict[Scope, list[PalaceRow]] = {}
        for number, place in lines:
            if (scope := self._owner(place.user_id, number)) is not None:
                rows.setdefault(scope, []).append(place.row(self._api.redacted))
        for scope, places in rows.items():
            if not self._query.dry_run and not await self._api.state.adopt_palace(scope, places):
                self.done.note("The palace has other places by these numbers here: memories get new pointers.")

    async def _by_owner(
        self, lines: Sequence[tuple[int, MemoryLine, GivenVectors | None]], header: Header | None
    ) -> dict[Scope, list[MemoryWithVectors]]:
        """The memories with their usable vectors, by owner."""
        groups: dict[Scope, list[MemoryWithVectors]] = {}
        scopes: dict[str | None, Scope] = {}
        only, own_header = self._identity.only_project, _header(self._api)
        for count, (number, parsed, vectors) in enumerate(lines, start=1):
            if count % ROW == 0:
                await asyncio.sleep(0)
            named = parsed.user_id
            scope = scopes.get(named) or self._owner(named, number)
            if scope is None:
                continue
            scopes[named] = scope
            try:
                if only not in {None, parsed.project_id}:
                    raise RequestError("project_id: this key is for another project")
                memory = memory_of(parsed, scope.tenant, scope.user, self._api.redacted)
            except RequestError as error:
                self.done.refuse(number, error.message)
                continue
            # whether a place is there by this name is not for a key of one project to know
            memory = await marked_unless_own(memory if only is None else _placeless(memory))
            groups.setdefault(scope, []).append((memory, self._usable(vectors, header, own_header)))
        return groups

    def _usable(self, vectors: GivenVectors | None, header: Header | None, own_header: Header) -> GivenVectors | None:
        """A line's vectors, as far as they fit the embedder of this installation."""
        if vectors is None or header is None:
            return None
        if header.lexical != own_header.lexical:
            self.done.note("Words are encoded anew: the file's are of another version.")
            return None
        fits = all(length_of(part) == self._api.store.dimension for part in vectors.dense)
        if vectors.dense and (header.embedder != own_header.embedder or not fits):
            self.done.note(
                f"Vectors of {header.embedder or 'an unnamed embedder'} do not fit here: texts are embedded anew."
            )
            return msgspec.structs.replace(vectors, dense=[], tokens=b"")
        return vectors

    async def _journal_memories(self, groups: dict[Scope, list[MemoryWithVectors]]) -> list[int]:
        """Journal the memories that are new or newer; the numbers of the rows.

        First what came for these owners before is waited for, and no other import plans for them meanwhile: a memory
        that still waits in the journal (an import was broken off, or runs twice) would else be taken for one that is
        not there, and written and counted again.
        """
        api, loop = self._api, asyncio.get_running_loop()
        if groups:
            api.require("store")
        until = loop.time() + SETTLE_S
        plans: list[tuple[Scope, PlanBody]] = []
        async with AsyncExitStack() as held:
            for scope in sorted(groups, key=lambda scope: scope.owner):  # one order, or two could wait for each other
                await held.enter_async_context(api.import_locks.of(*scope.owner))
                await api.parts.worker.indexed(scope, max(0.0, until - loop.time()))
            try:
                for owner, pairs in groups.items():
                    place, rest, earlier = owner.at(self._identity.only_project, None), iter(pairs), dict[str, Memory]()
                    while batch := list(islice(rest, ROW)):
                        mine = batch if place.project is None else await self._under_own_names(place, batch)
                        plans += await self._plans_for(place, mine, earlier)
            finally:  # over a quota what came before is written
                # together: one commit has all rows, and so has one flush of the store, which takes longer than the rest
                numbers = await asyncio.gather(*(api.append(scope, JournalKind.PLAN, plan) for scope, plan in plans))
        return numbers

    async def _plans_for(
        self, scope: Scope, pairs: Sequence[MemoryWithVectors], earlier: dict[str, Memory]
    ) -> list[tuple[Scope, PlanBody]]:
        """The plan for these; none where all of them are there. ``earlier`` are the memories that the same request
        brought for that user; these are added to it.
        """
        existing = await self._existing(scope, [memory for memory, _ in pairs])
        due: list[tuple[str, Memory, GivenVectors | None]] = []
        replaced = 0
        for memory, vectors_given in pairs:
            key = vector_key(memory)
            stored = earlier.get(key) or existing.get(key)
            if stored is not None and is_another_turn(memory, stored):
                self.done.note(_VERBATIM)
            elif stored is None or memory.updated_at > stored.updated_at:
                due.append((key, memory, vectors_given))
                replaced += stored is not None
                earlier[key] = memory
        self.done.unchanged += len(pairs) - len(due)
        self.done.replaced += replaced
        self.done.imported += len(due) - replaced
        if self._query.dry_run or not due:
            return []
        await self._api.quotas.admit_memories(scope, len(due) - replaced)
        # those whose place means something else here go without it, to be placed anew
        named = [(memory.wing or "", memory.room or "", memory.pointer or "") for _, memory, _ in due]
        places = list(dict.fromkeys(named))
        stands = dict(zip(places, await self._api.state.stand(scope, places), strict=True))
        memories = [
            memory if stands[place] else _placeless(memory) for (_, memory, _), place in zip(due, named, strict=True)
        ]
        vectors = {key: vectors_given for key, _, vectors_given in due if vectors_given is not None}
        return [(scope, PlanBody(upserts=memories, vectors=vectors))]

    async def _under_own_names(self, scope: Scope, pairs: Sequence[MemoryWithVectors]) -> Sequence[MemoryWithVectors]:
        """What comes by a key of one project, under the project's own names (`name_within`): by no id of the file can
        what another has be replaced, referred to, or told from what is not there. What the project has by an id of the
        file keeps it.
        """
        project = scope.project or ""
        links = {name for memory, _ in pairs for name in (memory.supersedes, memory.superseded_by, *memory.turn_ids)}
        names = [*{memory.id for memory, _ in pairs}.union(name for name in links if name is not None)]
        keys, ids = set[str](), set[str]()
        for begin in range(0, len(names), ROW):
            where = MemoryFilter(ids=tuple(names[begin : begin + ROW]), project_ids=(project,))
            async for memory in every(self._api.store, scope, where):
                keys.add(vector_key(memory))
                ids.add(memory.id)

        def named(name: str) -> str:
            return name if name in ids else name_within(project, name)

        def renamed(memory: Memory) -> Memory:
            return msgspec.structs.replace(
                memory,
                id=memory.id if vector_key(memory) in keys else name_within(project, memory.id),
                supersedes=named(memory.supersedes) if memory.supersedes is not None else None,
                superseded_by=named(memory.superseded_by) if memory.superseded_by is not None else None,
                turn_ids=[named(name) for name in memory.turn_ids],
            )

        return [(renamed(memory), vectors) for memory, vectors in pairs]

    async def _existing(self, scope: Scope, memories: Sequence[Memory]) -> dict[str, Memory]:
        """Those of these memories that are there already, in the form that is there."""
        turns = [given for given in memories if given.kind is Kind.TURN and given.session_id is not None]
        other_ids = [given.id for given in memories if given.kind is not Kind.TURN or given.session_id is None]
        stored = list((await self._api.store.get(scope, other_ids)).values()) if other_ids else []
        if turns:
            where = MemoryFilter(
                kinds=(Kind.TURN,),
                ids=tuple({given.id for given in turns}),
                session_ids=tuple({given.session_id for given in turns if given.session_id is not None}),
            )
            stored += [given async for given in every(self._api.store, scope, where)]
        return {vector_key(memory): memory for memory in stored}

    async def _journal_turns(self, lines: Sequence[tuple[int, NewTurns]]) -> list[JournaledConversation]:
        """Journal conversations; learning reads them behind, as it does those of `POST /v1/memory/turns`."""
        conversations, only = [], self._identity.only_project
        for number, turns in lines:
            if (scope := self._owner(turns.user_id, number)) is None:
                continue
            try:
                check_ids(turns)
            except RequestError as error:
                self.done.refuse(number, error.message)
                continue
            self.done.turns += len(turns.messages)
            if not self._query.dry_run:
                await self._api.quotas.admit_turns(scope, len(turns.messages))
                conversations.append(await journal_conversation(self._api, scope, turns, only_project=only))
        return conversations


def _placeless(memory: Memory) -> Memory:
    return msgspec.structs.replace(memory, wing=None, room=None, closet=None, pointer=None)
