"""Working memory in Redis (`ports.WorkingStore`): an entry goes by itself when its time is over.

Below ``working:<owner>`` there are a hash for every entry, sorted sets of all entries by their last change, by their
ends and by their keys, one of each namespace (of a project) by their ends, which counts against its limit, and the set
of the owner's projects. A member of the sorted sets is the entry's key, its project and the names of its namespace's
set and of its hash; it may outlive the hash. Owners, entries and namespaces are named by digests. Where texts are
encrypted, so are an entry's key and text, by its owner's key.
"""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Any, Protocol

import msgspec

from memproxy.core.scope import OwnerKey, Scope
from memproxy.core.working_memory import Place, WorkingEntry, WorkingPage
from memproxy.errors import CacheUnavailable, StateUnavailable
from memproxy.ports import MetaStore
from memproxy.stores.redis_server import WORK_S, RedisServer, Script, name_of
from memproxy.stores.state_part import Columns, micros, moment
from memproxy.stores.state_working import DATA, HEAD, WORDS, Head, bounds, opened

ERASED = "redis.erased"
"""Fact of the state: what is to be erased in Redis as soon as it answers, as JSON."""

MOST_ERASED = 1_000  # erasures that wait for Redis; beyond them it is forgotten which, and everything goes
_AT_ONCE = 500
_DIGEST = 32
_EVERYTHING = ""

_CLEAN = """
local all = KEYS[1]
local ends, names, projects = all .. ':ends', all .. ':names', all .. ':projects'
local function clean(member)
    redis.call('UNLINK', all .. ':' .. string.sub(member, -32))
    local namespace = all .. ':in:' .. string.sub(member, -64, -33)
    for _, set in ipairs({all, ends, names, namespace}) do redis.call('ZREM', set, member) end
end
if redis.call('EXISTS', names) == 0 then
    for _, hash in ipairs(redis.call('ZRANGE', all, 0, -1)) do
        local entry = redis.call('HMGET', all .. ':' .. hash, 'name', 'project', 'namespace', 'updated', 'expires')
        if entry[1] then
            local member = entry[1] .. '\\0' .. entry[2] .. '\\0' .. string.sub(entry[3], -32) .. hash
            redis.call('ZADD', all, entry[4], member)
            redis.call('ZADD', ends, entry[5], member)
            redis.call('ZADD', entry[3], entry[5], member)
            redis.call('ZADD', names, 0, member)
            redis.call('ZREM', entry[3], hash)
        end
        redis.call('ZREM', all, hash)
        redis.call('ZREM', ends, hash)
    end
    redis.call('PEXPIRE', names, math.max(1, redis.call('PTTL', all)))
end
"""
"""How an entry is taken out of its owner's sets. And once: what was written before there was a set of names is put
into it, and is from then on called by its name in the others, too.
"""

_PUT = Script(
    _CLEAN
    + """
local namespace, member = ARGV[1], ARGV[2]
local entry = all .. ':' .. string.sub(member, -32)
local now, expires, ttl, most = ARGV[3], ARGV[4], tonumber(ARGV[5]), tonumber(ARGV[6])
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', ends, '-inf', now, 'LIMIT', 0, 100)) do clean(gone) end
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', namespace, '-inf', now)) do clean(gone) end
redis.call('ZREMRANGEBYSCORE', namespace, '-inf', now)
local last = redis.call('HGET', entry, 'expires')
local there = last and tonumber(last) > tonumber(now)
if not there and redis.call('ZCARD', namespace) >= most then return -1 end
local created = there and redis.call('HGET', entry, 'created') or ARGV[7]
redis.call('UNLINK', entry)
redis.call('HSET', entry, 'namespace', namespace, 'updated', now, 'expires', expires, 'created', created,
    'project', ARGV[8], 'size', ARGV[9], 'name', ARGV[10], 'head', ARGV[11], 'words', ARGV[12], 'data', ARGV[13])
redis.call('PEXPIRE', entry, ttl)
redis.call('ZADD', all, now, member)
redis.call('ZADD', ends, expires, member)
redis.call('ZADD', namespace, expires, member)
redis.call('ZADD', names, 0, member)
redis.call('SADD', projects, ARGV[8])
for _, set in ipairs({all, ends, namespace, names, projects}) do
    if redis.call('PTTL', set) < ttl then redis.call('PEXPIRE', set, ttl) end
end
return there and 1 or 0
"""
)
"""1: it takes the place of an entry; 0: it is new; -1: the namespace is full. Times are microseconds."""

_DROP = Script(
    _CLEAN
    + """
for _, member in ipairs(ARGV) do clean(member) end
return 1
"""
)

_TIDY = Script(
    _CLEAN
    + """
for _, member in ipairs(ARGV) do
    if redis.call('EXISTS', all .. ':' .. string.sub(member, -32)) == 0 then clean(member) end
end
return 1
"""
)
"""Takes entries that have gone by themselves out of their sets."""

_NAME = Script(_CLEAN + "return 1")

_FIELDS = ("name", "project", "created", "updated", "expires", "size", "head")


class Sealing(Protocol):
    """Whose entries are written how."""

    async def columns(self, owner: OwnerKey, *, make: bool) -> Columns | None:
        """The owner's; None: nothing of the owner can be read. ``make``: a key is made where there is none."""


class RedisWorking:
    """`ports.WorkingStore`. Raises `errors.CacheUnavailable` when Redis does not answer."""

    def __init__(self, server: RedisServer, state: MetaStore, sealing: Sealing) -> None:
        """``state`` keeps what is still to be erased."""
        self._server = server
        self._state = state
        self._sealing = sealing
        self._unerased: set[str] = set()
        server.on_connected(self._erase_left)

    async def put_working(self, scope: Scope, entry: WorkingEntry, *, most: int) -> bool | None:
        columns = await self._ready(scope, make=True)
        assert columns is not None  # noqa: S101 - asked to be made
        all_of, name, project = self._all(name_of(*scope.owner)), columns.name(entry.key), entry.project or ""
        namespace = columns.name(entry.namespace)
        put = await self._server.call(
            _PUT,
            [all_of],
            [
                _namespace(all_of, namespace, project),
                _member(name, project, namespace),
                micros(entry.updated_at),
                micros(entry.expires_at),
                max(1, (micros(entry.expires_at) - micros(entry.updated_at)) // 1000),
                most,
                micros(entry.created_at),
                project,
                entry.size,
                name,
                columns.seal_text(Head.of(entry), HEAD),
                columns.seal_text(entry.words, WORDS),
                columns.seal(entry.data, DATA),
            ],
            WORK_S,
        )
        return None if put < 0 else put == 0

    async def _ready(self, scope: Scope, *, make: bool = False) -> Columns | None:
        """How the owner's entries are written, once all is erased that was to be."""
        await self._erase_left()
        return await self._sealing.columns(scope.owner, make=make)

    async def working(self, scope: Scope, key: str, now: datetime) -> WorkingEntry | None:
        columns = await self._ready(scope)
        if columns is None:
            return None
        projects = [scope.project or "", *await self._projects(scope)]  # its own project's before one of none
        names = [name_of(columns.name(key), project) for project in dict.fromkeys(projects)]
        entries = await self._read(scope, columns, names, now, "data")
        return entries[0][1] if entries else None

    async def newest_working(
        self, scope: Scope, now: datetime, *, most: int, words: bool = False
    ) -> list[WorkingEntry]:
        columns = await self._ready(scope)
        if columns is None:
            return []
        all_of, start, entries = self._all(name_of(*scope.owner)), 0, dict[Place, WorkingEntry]()
        while len(entries) < most and (
            members := await self._members("ZREVRANGE", all_of, start, start + _AT_ONCE - 1)
        ):
            batch = await self._read(scope, columns, [_hash(member) for member in members], now, "words" * words)
            entries.update(
                {position: entry for position, entry in batch if position not in entries}
            )  # it may move while it is read
            start += _AT_ONCE
        return list(entries.values())[:most]

    async def working_page(
        self, scope: Scope, prefix: str, now: datetime, *, after: Place | None, most: int, words: bool = False
    ) -> WorkingPage:
        columns = await self._ready(scope)
        if columns is None:
            return WorkingPage()
        all_of = self._all(name_of(*scope.owner))
        low, high, namespace = bounds(columns, prefix, after)
        start = f"({_above(*after)}" if after is not None else "-"
        if namespace is None:
            await self._server.call(_NAME, [all_of], [], WORK_S)
            members = await self._members(
                *("ZRANGEBYLEX", f"{all_of}:names", start if after is not None and low == after[0] else f"[{low}"),
                *(f"({high}", "LIMIT", 0, most),
            )
        else:
            members = []
            for project in await self._projects(scope):
                members += await self._members("ZRANGE", _namespace(all_of, namespace, project), 0, -1)
            members = sorted(member for member in members if after is None or member > _above(*after))[:most]
        batch = await self._read(scope, columns, [_hash(member) for member in members], now, "words" * words)
        shown = [(position, entry) for position, entry in batch if entry.key.startswith(prefix)]
        last = _position(members[-1]) if len(members) == most else None
        return WorkingPage([entry for _, entry in shown], [position for position, _ in shown], last)

    async def drop_working(self, scope: Scope, key: str, now: datetime) -> bool:
        entry = await self.working(scope, key, now)
        columns = await self._sealing.columns(scope.owner, make=False)
        if entry is None or columns is None:
            return False
        member = _member(columns.name(key), entry.project or "", columns.name(entry.namespace))
        await self._server.call(_DROP, [self._all(name_of(*scope.owner))], [member], WORK_S)
        return True

    async def sweep_working(self, now: datetime) -> int:  # noqa: ARG002 - Redis does it by its own clock
        return 0

    async def forget_working(self, scope: Scope, session: str | None) -> None:
        """Erase all of the owner's entries, or the namespace of one session. While Redis does not answer that is noted
        in the state, and done before anything is read there again. Raises `StateUnavailable`: that cannot be noted.
        """
        who = name_of(*scope.owner)
        try:
            if session is None:
                await self._erase([self._all(who)], self._all(who))
            elif (columns := await self._sealing.columns(scope.owner, make=False)) is not None:
                namespace, projects = columns.name(f"session/{session}"), await self._projects(scope)
                sets = [_namespace(self._all(who), namespace, project) for project in projects]
                await self._erase(sets, self._all(who))
                await self._tidy(columns, f"session/{session}/", self._all(who))
        except CacheUnavailable:
            self._unerased.add(who)
            waiting = await self._waiting()
            waiting = [_EVERYTHING] if len(waiting) >= MOST_ERASED else [*waiting, who]
            await self._state.set_meta(ERASED, msgspec.json.encode(waiting).decode())

    async def _waiting(self) -> list[str]:
        return msgspec.json.decode(await self._state.get_meta(ERASED) or "[]", type=list[str])

    async def _erase_left(self) -> None:
        """Erase what could not be erased in its time, before anything is read; of a session, all of its owner's."""
        try:
            waiting = await self._waiting()
            for owner_name in {*waiting, *self._unerased}:
                await (
                    self._erase_everything()
                    if owner_name == _EVERYTHING
                    else self._erase([self._all(owner_name)], self._all(owner_name))
                )
            self._unerased.clear()
            if waiting and await self._waiting() == waiting:
                await self._state.set_meta(ERASED, "")
        except StateUnavailable as error:
            raise CacheUnavailable("the state does not tell what is to be erased there") from error

    async def _erase(self, sets: Sequence[str], all_of: str) -> None:
        """Drop the entries that are named in the sets, and the sets."""
        for key in sets:
            while members := await self._command("ZRANGE", key, 0, _AT_ONCE - 1):
                await self._server.call(_DROP, [all_of], members, WORK_S)
                await self._command("ZREM", key, *members)  # also of entries that have gone by themselves
            # the owner alone has the last three
            await self._command("UNLINK", key, f"{key}:ends", f"{key}:projects", f"{key}:names")

    async def _tidy(self, columns: Columns, prefix: str, all_of: str) -> None:
        """Take what has gone by itself out of the sets, which tell its key, as far as it may have had this prefix."""
        low, high, _ = bounds(columns, prefix, None)
        start = f"[{low}"
        while members := await self._members("ZRANGEBYLEX", f"{all_of}:names", start, f"({high}", "LIMIT", 0, _AT_ONCE):
            await self._server.call(_TIDY, [all_of], members, WORK_S)
            start = f"({members[-1]}"

    async def _erase_everything(self) -> None:
        cursor: Any = b"0"
        while True:
            cursor, keys = await self._command(
                "SCAN", cursor, "MATCH", f"{self._server.key('working')}:*", "COUNT", _AT_ONCE
            )
            if keys:
                await self._command("UNLINK", *keys)
            if int(cursor) == 0:
                return

    async def _projects(self, scope: Scope) -> list[str]:
        """Those whose entries the scope sees; the empty one is none."""
        if scope.project is not None:
            return [scope.project, ""]
        members = await self._command("SMEMBERS", f"{self._all(name_of(*scope.owner))}:projects")
        return sorted(member.decode() for member in members)

    async def _members(self, *words: Any) -> list[str]:
        return [member.decode() for member in await self._command(*words)]

    async def _command(self, *words: Any) -> Any:
        return await self._server.command(*words, within_s=WORK_S)

    async def _read(
        self, scope: Scope, columns: Columns, names: Sequence[str], now: datetime, field: str
    ) -> list[tuple[Place, WorkingEntry]]:
        """Those of these entries (names of hashes) that the scope sees now, with one ``field``; each with its place."""
        all_of = self._all(name_of(*scope.owner))

        async def read(client: Any, names: Sequence[str]) -> list[list[bytes | None]]:
            pipeline = client.pipeline(transaction=False)
            for name in names:
                pipeline.execute_command("HMGET", f"{all_of}:{name}", *_FIELDS, field)
            rows: list[list[bytes | None]] = await pipeline.execute()
            return rows

        read_rows: list[list[bytes | None]] = []
        for start in range(0, len(names), _AT_ONCE):
            read_rows += await self._server.ask(partial(read, names=names[start : start + _AT_ONCE]), WORK_S)
        entries = []
        for row in read_rows:
            if any(value is None for value in row[: len(_FIELDS)]):
                continue  # it has gone by itself
            texts = [(value or b"").decode() for value in row[: len(_FIELDS)]]
            (name, project), (created, updated, expires), size = texts[:2], map(int, texts[2:5]), int(texts[5])
            if moment(expires) <= now or (scope.project is not None and project not in {"", scope.project}):
                continue
            value = row[-1] or b""
            times = (moment(created), moment(updated), moment(expires))
            words, data = (value.decode(), b"") if field == "words" else ("", value)
            entries.append(((name, project), opened(columns, (name, project, *times, size, texts[6], words, data))))
        return entries

    def _all(self, who: str) -> str:
        return self._server.key("working", who)


def _namespace(all_of: str, namespace: str, project: str) -> str:
    return f"{all_of}:in:{name_of(namespace, project)}"


def _member(name: str, project: str, namespace: str) -> str:
    """An entry's name in the sorted sets."""
    return f"{name}\0{project}\0{name_of(namespace, project)}{name_of(name, project)}"


def _above(name: str, project: str) -> str:
    """An upper bound of this place's members, below all members that follow."""
    return f"{name}\0{project}\0~"


def _hash(member: str) -> str:
    return member[-_DIGEST:]


def _position(member: str) -> Place:
    name, project = member[: -2 * _DIGEST - 1].split("\0", 1)
    return name, project
