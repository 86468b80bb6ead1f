"""What replicas share through Redis: uses (counted by each process while it is away), notices and hot memories."""

import asyncio
import math
import os
from collections import OrderedDict
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from time import monotonic
from typing import Any

import msgspec
from redis import exceptions

from memproxy.core.changes import Change, ChangeNotices
from memproxy.core.memory import Memory
from memproxy.core.scope import OwnerKey
from memproxy.errors import CacheUnavailable, StateUnavailable
from memproxy.ports import Charge, HotPlace, MetaStore, Spent, UsageStore, Use
from memproxy.stores.carried_notices import CarriedNotices
from memproxy.stores.redis_server import WORK_S, RedisServer, Script, closed_as_lost, name_of
from memproxy.stores.redis_working import Sealing

_HEARD_S = 1.0  # how long is listened at a time; a connection that is lost is noticed sooner


class RedisNotices(CarriedNotices):
    """Notices of changes by PUBLISH, beside what carries them without Redis, to every process of this installation."""

    def __init__(self, server: RedisServer, beneath: ChangeNotices) -> None:
        """``beneath`` tells of changes, too: of those that Redis misses."""
        super().__init__(self._publish, server.tasks)
        self._server = server
        self._beneath = beneath
        self._hearing: asyncio.Task[None] | None = None
        beneath.subscribe(self.tell)
        server.on_connected(self._listen)
        server.on_lost(lambda: self.tell(None))

    def publish(self, change: Change) -> None:
        self._beneath.publish(change)
        super().publish(change)

    async def _publish(self, messages: list[str]) -> None:
        channel = self._server.key("changes")

        async def send(client: Any) -> None:
            pipeline = client.pipeline(transaction=False)
            for message in messages:
                pipeline.execute_command("PUBLISH", channel, message)
            await pipeline.execute()

        await self._server.ask(send, WORK_S)

    async def _listen(self) -> None:
        """On a new connection: notices sent before it were missed."""
        if self._hearing is not None:
            self._hearing.cancel()
        heard: Any = self._server.client.pubsub(ignore_subscribe_messages=True)
        try:
            await self._server.ask(lambda _: heard.subscribe(self._server.key("changes")), WORK_S)
        except CacheUnavailable:
            await heard.aclose()
            raise
        self.tell(None)
        self._hearing = self._server.tasks.start(self._hear(heard), "hear")

    async def _hear(self, heard: Any) -> None:
        try:
            while True:
                with closed_as_lost():
                    message = await heard.get_message(timeout=_HEARD_S)
                if message is not None and message["type"] == "message":
                    self.heard(message["data"].decode("ascii", "replace"))
        except (exceptions.RedisError, OSError) as error:
            self._server.lose(error)
        finally:
            await heard.aclose()


MOST_COUNTED = 100_000  # windows that a process counts by itself; the oldest are forgotten first

_SPEND = Script("""
local given = {}
for place, key in ipairs(KEYS) do
    local amount, limit = tonumber(ARGV[3 * place - 2]), tonumber(ARGV[3 * place - 1])
    local used, left = tonumber(redis.call('GET', key) or '0'), redis.call('PTTL', key)
    if limit >= 0 and used + amount > limit then return {place, used, left} end
    given[place] = left
end
for place, key in ipairs(KEYS) do
    redis.call('INCRBY', key, ARGV[3 * place - 2])
    if given[place] < 0 then redis.call('PEXPIRE', key, ARGV[3 * place] * 1000) end
end
return {0, 0, 0}
""")
"""Counts all, or none when one would go over its limit: that one, what was used of it, and when its window ends."""


class LocalUses:
    """Counts of this process alone."""

    def __init__(self) -> None:
        self._windows: OrderedDict[str, tuple[float, int]] = OrderedDict()

    def spend(self, names: Sequence[str], charges: Sequence[Charge]) -> Spent | None:
        """As `ports.UsageStore.spend`; ``names`` are those of the charges' windows."""
        windows = [self.spent(name, charge) for name, charge in zip(names, charges, strict=True)]
        for window in windows:
            if window.charge.limit is not None and window.used + window.charge.amount > window.charge.limit:
                return window
        for name, charge in zip(names, charges, strict=True):
            ends, used = self._window(name, charge)
            self._windows[name] = (ends, used + charge.amount)
        while len(self._windows) > MOST_COUNTED:
            self._windows.popitem(last=False)
        return None

    def spent(self, name: str, charge: Charge) -> Spent:
        ends, used = self._window(name, charge)
        return Spent(charge=charge, used=used, wait_s=max(1, math.ceil(ends - monotonic())))

    def _window(self, name: str, charge: Charge) -> tuple[float, int]:
        window = self._windows.get(name)
        return window if window is not None and window[0] > monotonic() else (monotonic() + charge.seconds, 0)


class RedisUses:
    """`ports.UsageStore`: what limits count in Redis, and the rest, which is kept for longer, in the state."""

    def __init__(self, server: RedisServer, state: UsageStore) -> None:
        self._server = server
        self._state = state
        self._local = LocalUses()

    async def spend(self, charges: Sequence[Charge], now: datetime) -> Spent | None:  # noqa: ARG002 - Redis's clock
        names = [_name(charge) for charge in charges]
        values: list[int] = []
        for charge in charges:
            values += [charge.amount, -1 if charge.limit is None else charge.limit, charge.seconds]
        try:
            index, used, ttl_ms = await self._server.call(_SPEND, [self._key(name) for name in names], values)
        except CacheUnavailable:
            return self._local.spend(names, charges)
        return None if not index else _spent(charges[index - 1], used, ttl_ms)

    async def spent(self, charge: Charge, now: datetime) -> Spent:  # noqa: ARG002 - Redis's clock
        name = _name(charge)
        try:
            used, ttl_ms = await self._server.ask(lambda client: _read(client, self._key(name)))
        except CacheUnavailable:
            return self._local.spent(name, charge)
        return _spent(charge, int(used or 0), ttl_ms)

    def _key(self, name: str) -> str:
        return self._server.key("uses", name)

    async def uses(self, tenant: str, beginning: str) -> list[Use]:
        return await self._state.uses(tenant, beginning)

    async def note_tokens(
        self, tenant: str, source: str, *, input_tokens: int, output_tokens: int, at: datetime
    ) -> None:
        await self._state.note_tokens(tenant, source, input_tokens=input_tokens, output_tokens=output_tokens, at=at)

    async def tokens_spent(self, tenant: str, *, since: datetime) -> dict[str, tuple[int, int]]:
        return await self._state.tokens_spent(tenant, since=since)


async def _read(client: Any, key: str) -> tuple[bytes | None, int]:
    pipeline = client.pipeline(transaction=False)
    pipeline.execute_command("GET", key)
    pipeline.execute_command("PTTL", key)
    used, ttl_ms = await pipeline.execute()
    return used, ttl_ms


def _name(charge: Charge) -> str:
    return name_of(charge.tenant, charge.user, charge.what)


def _spent(charge: Charge, used: int, left_ms: int) -> Spent:
    wait_s = charge.seconds if left_ms < 0 else max(1, math.ceil(left_ms / 1000))
    return Spent(charge=charge, used=used, wait_s=wait_s)


EPOCH = "redis.epoch"
"""Fact of the state: hot memories that were kept under another one are not used."""

EPOCH_S = 0.02
"""How long a request lets the state be asked for it; then the one that was last known counts, for `UNASKED_S`."""

UNASKED_S = 1.0

PAYLOAD = "hot.memory"

_NAMED_FOR = 4  # how many times longer an owner's generation is kept than what is stored under it

_GENERATION = Script("""
redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
return redis.call('GET', KEYS[1])
""")
_FORGET = Script("""
local places = redis.call('SMEMBERS', KEYS[2])
for _, place in ipairs(places) do
    redis.call('UNLINK', ARGV[1] .. ':' .. place, ARGV[1] .. ':' .. place .. ':order')
end
redis.call('UNLINK', KEYS[1], KEYS[2])
return places
""")
_WRITE = Script("""
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('UNLINK', KEYS[3], KEYS[4])
for place = 4, #ARGV, 3 do
    redis.call('ZADD', KEYS[4], ARGV[place + 1], ARGV[place])
    redis.call('HSET', KEYS[3], ARGV[place], ARGV[place + 2])
end
redis.call('HSET', KEYS[3], '', ARGV[1])
redis.call('SADD', KEYS[2], ARGV[3])
for place = 2, 4 do redis.call('PEXPIRE', KEYS[place], ARGV[2]) end
return 1
""")


class RedisHot:
    """Hot memories (`ports.HotStore`): of each owner and place a sorted set of names by score, and their payloads.

    What another process may serve must not outlive a change here. A change that Redis does not take in therefore starts
    a new epoch (`EPOCH`, a fact of the state), which everybody reads before using anything that is kept. Another life
    of the server counts as a new one, too: it may have gone back to an earlier copy of its data.
    """

    def __init__(self, server: RedisServer, state: MetaStore, sealing: Sealing, *, ttl_s: float) -> None:
        self._server = server
        self._state = state
        self._sealing = sealing
        self._ttl_ms = int(ttl_s * 1000)
        self._epoch: str | None = None
        self._untold = 0
        """Changes of which neither Redis nor the state knows yet."""
        self._beginning = asyncio.Lock()
        self._ask_from = 0.0

    async def generation(self, owner: OwnerKey) -> str:
        await self._know_epoch()
        values = [os.urandom(8).hex(), _NAMED_FOR * self._ttl_ms]
        name: bytes = await self._server.call(_GENERATION, [self._key(owner, "changed")], values, WORK_S)
        return name.decode()

    async def places(self, owner: OwnerKey) -> list[HotPlace]:
        await self._know_epoch()
        return _places(await self._server.command("SMEMBERS", self._key(owner, "places"), within_s=WORK_S))

    async def forget(self, owner: OwnerKey) -> list[HotPlace]:
        try:
            await self._know_epoch(certain=True)
            keys = [self._key(owner, "changed"), self._key(owner, "places")]
            return _places(await self._server.call(_FORGET, keys, [self._key(owner)], WORK_S))
        except CacheUnavailable:
            await self._begin_anew()
            raise

    async def read(self, owner: OwnerKey, place: HotPlace) -> list[Memory] | None:
        await self._know_epoch()
        held, run = self._key(owner, _text(place)), self._server.run

        async def ask(client: Any) -> tuple[bytes | None, list[bytes], dict[bytes, bytes]]:
            pipeline = client.pipeline(transaction=False)  # a full memory refuses transactions, reading ones too
            pipeline.execute_command("INFO", "server")
            pipeline.execute_command("ZREVRANGE", f"{held}:order", 0, -1)
            pipeline.execute_command("HGETALL", held)
            pipeline.execute_command("GET", self._key(owner, "changed"))  # last: what was read before it still holds
            server, order, payloads, last = await pipeline.execute()
            if server.get("run_id") != run:  # the client has connected again by itself, to another life of the server
                raise ConnectionError("Redis was started again")
            return last, order, payloads

        last, order, payloads = await self._server.ask(ask)
        if not payloads or payloads.get(b"") != last:
            return None
        columns = await self._sealing.columns(owner, make=False)
        if columns is None:
            return None
        opened = [columns.open(payloads[name], PAYLOAD) for name in order if name in payloads]
        try:
            return [msgspec.json.decode(payload, type=Memory) for payload in opened if payload]
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None  # of a newer version, or damaged

    async def write(
        self, owner: OwnerKey, place: HotPlace, memories: Sequence[tuple[float, Memory]], generation: str
    ) -> bool:
        columns = await self._sealing.columns(owner, make=False)
        if columns is None:
            raise CacheUnavailable("The owner has no key to seal memories with.")
        held, values = self._key(owner, _text(place)), list[object]()
        for score, memory in memories:
            sealed = columns.seal(msgspec.json.encode(memory), PAYLOAD)
            values += [name_of(memory.session_id, memory.id), score, sealed]
        keys = [self._key(owner, "changed"), self._key(owner, "places"), held, f"{held}:order"]
        return bool(await self._server.call(_WRITE, keys, [generation, self._ttl_ms, _text(place), *values], WORK_S))

    async def _know_epoch(self, *, certain: bool = False) -> None:
        """Learn which epoch it is; the one last known will do, unless ``certain``. Raises `CacheUnavailable`."""
        if self._untold and not certain:
            await self._begin_anew()
        epoch = None if certain else self._epoch
        if certain or monotonic() >= self._ask_from:
            try:
                async with asyncio.timeout(WORK_S if certain else EPOCH_S):
                    epoch = self._epoch = await self._state.get_meta(EPOCH) or ""
            except (StateUnavailable, TimeoutError):
                self._ask_from = monotonic() + UNASKED_S
        if epoch is None or self._untold:
            raise CacheUnavailable("The state does not tell which hot memories are still good.")

    async def _begin_anew(self) -> None:
        """Let nothing that is kept be used any more, by whomever: a change could not be told."""
        self._untold += 1
        async with self._beginning:
            changes, epoch = self._untold, os.urandom(8).hex()
            with suppress(StateUnavailable):  # it is tried again before any of it is used
                if changes:  # else whoever came before has told of this one, too
                    await self._state.set_meta(EPOCH, epoch)
                    self._epoch, self._untold = epoch, self._untold - changes

    def _key(self, owner: OwnerKey, *parts: str) -> str:
        return self._server.key("hot", self._server.run, self._epoch or "", name_of(*owner), *parts)


def _text(place: HotPlace) -> str:
    return msgspec.json.encode(place).decode()


def _places(texts: Sequence[bytes]) -> list[HotPlace]:
    return [msgspec.json.decode(text, type=HotPlace) for text in texts]
