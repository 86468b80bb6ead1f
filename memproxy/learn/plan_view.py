"""An owner's memories and slots as the plan so far leaves them."""

import hashlib
from collections.abc import Callable, Hashable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from memproxy.core.facts import REFINED, begins, ended, position
from memproxy.core.memory import Kind, Memory
from memproxy.core.palace import USER, is_role, same_names, subject_name
from memproxy.core.protocol import Deletion, PlanBody
from memproxy.core.scope import Scope
from memproxy.core.similar import alike, terms
from memproxy.core.slots import slot_name, slot_value, value_name
from memproxy.learn.memory_vectors import merged
from memproxy.learn.parts import Parts
from memproxy.ports import Candidate, HybridQuery, MemoryFilter, Page, SlotChange

Vector = list[float] | None

_MOST_VARIANTS = 8


class Aliases:
    """The owner's names that hold in a scope, made anew for every attempt at a plan."""

    def __init__(self, names: dict[str, str]) -> None:
        """``names`` maps every name and alias of a wing to the wing's own."""
        self._names = dict(names)

    def resolved(self, memory: Memory) -> Memory:
        """The statement with the main names of its subject and object; a statement about names stays as it is."""
        pairs = same_names(memory)
        for name, other in pairs:
            main_name = self._names.get(other) or (None if is_role(name) else self._names.get(name)) or other
            self._names |= {name: main_name if is_role(name) else self._names.get(name, main_name), other: main_name}
        if pairs:
            return memory
        subject, thing = self._main_name(memory.subject), self._main_name(memory.object, thing=True)
        changed = msgspec.structs.replace(memory, subject=subject, object=thing)
        return msgspec.structs.replace(changed, slot=slot_name(changed)) if changed != memory else memory

    def _main_name(self, text: str | None, *, thing: bool = False) -> str | None:
        """The main name of a subject or an object; values that are no names stay as they are."""
        name = subject_name(text or "")
        main_name = self._names.get(name, name)
        if not text or main_name == name or self._is_user(name):
            return text
        if thing and len(text.split()) > len(name.split("-")) + 2:  # the name is not all of it
            return text
        words = main_name.replace("-", " ")
        return words.title() if text[:1].isupper() or " " in text else words

    def _is_user(self, name: str) -> bool:
        return self._names.get(name) == self._names.get(USER, USER)

    def slots(self, memory: Memory) -> list[str]:
        """Slots of the statement under other names, where it may stand from before these names were known."""
        variants: list[str] = []
        for field in ("subject", "object"):
            for other in self._other_names(getattr(memory, field)):
                slot = slot_name(msgspec.structs.replace(memory, **{field: other.replace("-", " ")}))
                variants += [slot] if slot is not None and slot != memory.slot else []
        return list(dict.fromkeys(variants))[:_MOST_VARIANTS]

    def _other_names(self, text: str | None) -> list[str]:
        name = subject_name(text or "")
        main_name = self._names.get(name)
        if main_name is None or self._is_user(name):
            return []
        return [other for other, wing in self._names.items() if wing == main_name and other != name]


_PREFIX = "forgotten"
_WORDS = "about"
_NEXT = ";"
_MOST_OF_A_TURN = 50  # statements of one turn whose words are kept, the latest; a turn makes a handful
_SHORT = 8


def _marks(memory: Memory, sessions: Mapping[str, str | None]) -> tuple[list[str], list[str]]:
    """The register's entries for a statement, for each turn that states it, of these sessions: those by its words and
    by slot and value; and those that hold the words of what was forgotten of the turn.
    """
    if memory.kind is Kind.TURN:
        return [], []
    stated = {f"words|{value_name(memory.content)}"}
    if memory.object and (slot := slot_name(memory)) is not None:
        stated.add(f"slot|{slot}|{slot_value(memory)}")
    turns = [of_turn(sessions.get(turn, memory.session_id), turn) for turn in memory.turn_ids]
    return [f"{turn}{_hash(key)}" for turn in turns for key in sorted(stated)], [f"{turn}{_WORDS}" for turn in turns]


def _with_words(held: str | None, memory: Memory) -> str:
    """The entry's words with those of this statement added."""
    entries = [*(held.split(_NEXT) if held else ()), ".".join(sorted(_hashed_terms(memory)))]
    return _NEXT.join(list(dict.fromkeys(entries))[-_MOST_OF_A_TURN:])


def _is_about(held: str, memory: Memory) -> bool:
    """Whether a statement says what an entry of words holds, in other words."""
    memory_terms = _hashed_terms(memory)
    return any(alike(memory_terms, frozenset(words.split("."))) for words in held.split(_NEXT) if words)


def _hashed_terms(memory: Memory) -> frozenset[str]:
    return frozenset(_hash(term)[:_SHORT] for term in terms(memory.content))


def of_session(session: str) -> str:
    """How the entries of a session's turns begin."""
    return f"{_PREFIX}|{_hash(session)}|"


def of_turn(session: str | None, turn: str) -> str:
    """How the entries of a turn begin."""
    return f"{of_session(session or '')}{_hash(turn)}|"


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=12).hexdigest()


_LONGEST_CHAIN = 100
_GONE = "gone"
MOST_PAST = 100  # how many entries of a slot's history are read at once
_GONE_PREFIX = f"{_GONE}|"  # how the register's entries for deleted memories begin


def tombstone(name: str) -> str:
    """The register's entry for a deleted memory, which a plan that was saved before must not bring back."""
    return f"{_GONE_PREFIX}{name}"


def matching(gone: Deletion) -> MemoryFilter:
    """What a deletion by scope covers."""
    sessions, projects, agents = tuple(gone.session_ids), tuple(gone.project_ids), tuple(gone.agent_ids)
    return MemoryFilter(ids=tuple(gone.ids), session_ids=sessions, project_ids=projects, agent_ids=agents)


class PlanView:
    """A view that changes with the plan; nothing is written. Made anew for every attempt at a plan."""

    def __init__(self, parts: Parts, scope: Scope, now: datetime, *, in_steps: bool = False) -> None:
        """``now`` is the time of the plan; ``in_steps``: learning makes it, and lets requests go before each step."""
        # The session only tells which turn is meant where an id is used in several.
        self.owner = scope.at(None, None)
        self.now = now
        self.store = parts.store
        self.state = parts.state
        self.lexical = parts.lexical
        self._scheduler = parts.scheduler if in_steps else None
        self._stored: dict[str, Memory] = {}
        self._new: dict[str, Memory] = {}
        self._changes: dict[str, dict[str, Any]] = {}
        self._turn_changes: dict[str, dict[str, dict[str, Any]]] = {}
        self._changed_turns: dict[tuple[str, str], Memory] = {}
        self._deletes: list[str] = []
        self._sweep: Deletion | None = None
        self._unread: dict[str, str | None] = {}
        self._held: dict[str, str | None] = {}
        self._registered: dict[str, str | None] = {}
        self._initial: dict[str, Memory] = {}
        self._past: dict[str, Page] = {}
        self._searched: dict[Hashable, list[Candidate]] = {}
        self._is_learning: bool | None = None
        self.traces: list[Memory] | None = None  # traces of what was taken back (`nearby.ended`), once they were read
        self.vectors: Mapping[str, Vector] = {}  # those of the statements that the plan is made of, by id
        self.aliases: Aliases | None = None  # the owner's names, where a plan is made of statements
        self.aside: str | None = None
        """The memory that the plan puts others in the place of: it is no neighbour of theirs."""

    async def step(self) -> None:
        """Return when the next step of making the plan may run."""
        if self._scheduler is not None:
            await self._scheduler.step(self.owner.owner)

    async def refine(self, memory: Memory) -> None:
        """Replace a memory by others, as if it had never held."""
        self.aside = memory.id
        over = ended(memory, begins(memory), now=self.now)
        await self.change(memory.id, over | {"metadata": over.get("metadata", memory.metadata) | {REFINED: True}})

    async def load(self, ids: Sequence[str]) -> None:
        """Read memories that are not known yet."""
        missing = [name for name in ids if name not in self._stored and name not in self._new]
        if missing:
            self._stored |= await self.store.get(self.owner, missing)

    def current(self, memory: Memory) -> Memory:
        """A memory that a search found, as the plan so far leaves it."""
        planned = self._new.get(memory.id) or self._stored.get(memory.id)
        return planned or self._stored.setdefault(memory.id, memory)

    async def memory(self, name: str) -> Memory | None:
        """The memory of this id as the plan so far leaves it."""
        await self.load([name])
        return self._new.get(name) or self._stored.get(name)

    async def holder(self, slot: str) -> str | None:
        """The id registered for a slot, as the plan so far leaves it."""
        await self.load_slots([slot])
        return self._held[slot]

    async def load_slots(self, slots: Sequence[str]) -> None:
        """Read who holds these slots, at once."""
        unknown = [slot for slot in dict.fromkeys(slots) if slot not in self._held]
        held = await self.state.slots(self.owner, unknown) if unknown else {}
        for slot in unknown:
            self._held[slot] = self._registered[slot] = held.get(slot)

    async def past(self, slot: str) -> list[Memory]:
        """What holds or held a slot, newest first; of a long history the newest part."""
        page = self._past.get(slot)
        if page is None:
            await self.step()
            page = self._past[slot] = await self.store.page(self.owner, MemoryFilter(slots=(slot,)), limit=MOST_PAST)
        self._unread.setdefault(slot, page.next_cursor)
        stored = [self.current(memory) for memory in page.memories]
        listed = {memory.id for memory in stored}
        new = [memory for memory in self._new.values() if memory.slot == slot and memory.id not in listed]
        return [memory for memory in (*new, *stored) if memory.id not in self._deletes]

    async def search(self, scope: Scope, query: HybridQuery, content: str) -> list[Candidate]:
        """What a search for this content finds; kept, because one candidate is searched for several times."""
        key = (scope, content, query.dense is None, query.limit, query.where.kinds)
        if key not in self._searched:
            await self.step()
            self._searched[key] = await self.store.search(scope, query)
        return self._searched[key]

    async def stated_by(self, slot: str, turns: Sequence[str]) -> list[Memory]:
        """What held a slot and was stated by one of these turns, even before the newest part of `past`."""
        where = MemoryFilter(slots=(slot,), turn_ids=tuple(turns))
        page = await self.store.page(self.owner, where, limit=MOST_PAST)
        stored = [self.current(memory) for memory in page.memories]
        return [memory for memory in stored if memory.id not in self._deletes]

    async def chain_of(self, memory: Memory) -> list[Memory]:
        """The chain that a memory stands in, oldest first; of a long one the part around it."""
        last, visited = memory, {memory.id}
        while last.superseded_by and last.superseded_by not in visited and len(visited) < _LONGEST_CHAIN // 2:
            later = await self.memory(last.superseded_by)
            if later is None:
                break
            visited.add(later.id)
            last = later
        chain = await self.chain(last.id)
        return chain if any(link.id == memory.id for link in chain) else [memory]

    async def chain(self, last: str | None) -> list[Memory]:
        """The chain of supersession that ends in ``last``, oldest first (of a long one the newest part), if any."""
        links: dict[str, Memory] = {}
        slot: str | None = None
        while last is not None and last not in links and len(links) < _LONGEST_CHAIN:
            await self._read_slot(slot, last)
            memory = await self.memory(last)
            if memory is None:
                break
            links[last] = memory
            last, slot = memory.supersedes, memory.slot
        return list(links.values())[::-1]

    async def chain_for(self, candidate: Memory, last: str) -> list[Memory]:
        """The chain ending in ``last``; of a long one the part that the candidate belongs to: none is cut off."""
        part, visited = await self.chain(last), set[str]()
        while part and part[0].supersedes is not None and part[0].id not in visited and not position(candidate, part):
            visited.add(part[0].id)
            earlier = await self.chain(part[0].supersedes)
            if not earlier:
                break
            part = [*earlier, part[0]]
        return part

    async def _read_slot(self, slot: str | None, memory_id: str) -> None:
        """Read a slot's history, many at once, until it holds this memory: a chain is walked without many calls."""
        while slot is not None and memory_id not in self._stored and memory_id not in self._new:
            cursor = self._unread.get(slot, "")
            if cursor is None:
                return
            where = MemoryFilter(slots=(slot,))
            page = await self.store.page(self.owner, where, limit=MOST_PAST, cursor=cursor or None)
            for memory in page.memories:
                self.current(memory)
            self._unread[slot] = page.next_cursor

    def new_memories(self) -> list[Memory]:
        """What the plan adds so far."""
        return list(self._new.values())

    async def add(self, memory: Memory) -> None:
        """Write a whole memory; it takes its slot when it is active."""
        # Turns, which an import brings whole and nothing looks up, may share an id with turns of other sessions, so
        # their key holds the session too (no id holds a line break).
        key = f"{memory.session_id}\n{memory.id}" if memory.kind is Kind.TURN else memory.id
        self._new[key] = memory
        if memory.active and memory.slot:
            await self.holder(memory.slot)
            self._held[memory.slot] = memory.id

    async def change(self, name: str, fields: Mapping[str, Any]) -> None:
        """Change fields of a memory; unknown ids are passed over. A memory that ends gives its slot up."""
        memory = await self.memory(name)
        if memory is None or not fields:
            return
        changed = merged(memory, fields)
        if name in self._new:
            self._new[name] = changed
        else:
            self._initial.setdefault(name, memory)
            self._stored[name] = changed
            self._changes.setdefault(name, {}).update(fields)
        if not changed.active or changed.slot != memory.slot:
            await self.release(memory)

    async def turns(self, session: str | None, ids: Sequence[str]) -> list[Memory]:
        """The turns of these ids, those of that session where an id is used in several."""
        session_scope = msgspec.structs.replace(self.owner, session=session)
        stored = await self.store.get(session_scope, ids) if ids else {}
        return [turn for turn in stored.values() if turn.kind is Kind.TURN]

    def change_turn(self, turn: Memory, fields: Mapping[str, Any]) -> None:
        """Change fields of a turn."""
        self._turn_changes.setdefault(turn.session_id or "", {}).setdefault(turn.id, {}).update(fields)
        self._changed_turns.setdefault((turn.session_id or "", turn.id), turn)

    def turn_changes(self, turn: Memory) -> Mapping[str, Any]:
        """What the plan so far changes of a turn."""
        return self._turn_changes.get(turn.session_id or "", {}).get(turn.id, {})

    def ended_turns(self, session: str | None) -> set[str]:
        """The turns of a session whose statements the plan so far ends."""
        changed = self._turn_changes.get(session or "", {}).items()
        return {name for name, fields in changed if fields.get("superseded_by") or fields.get("active") is False}

    async def delete(self, name: str) -> None:
        """Forget a memory; its slot becomes free."""
        memory = await self.memory(name)
        if memory is not None:
            await self.release(memory)
            self._initial.setdefault(name, memory)
        self._new.pop(name, None)
        self._changes.pop(name, None)
        self._deletes.append(name)

    async def unlink(self, name: str) -> None:
        """Remove a memory from its chain: its predecessor and successor become neighbours."""
        memory = await self.memory(name)
        if memory is None:
            return
        earlier = await self.memory(memory.supersedes) if memory.supersedes else None
        later = await self.memory(memory.superseded_by) if memory.superseded_by else None
        if earlier is not None and earlier.superseded_by == name:
            await self.change(earlier.id, {"superseded_by": later.id if later else None, "updated_at": self.now})
        if later is not None and later.supersedes == name:
            await self.change(later.id, {"supersedes": earlier.id if earlier else None, "updated_at": self.now})

    async def bury(self, name: str) -> None:
        """Note in the plan's commit that a memory is gone for good, if a plan may be saved that does not know it."""
        if self._is_learning is None:
            self._is_learning = any((await self.state.backlog(self.owner)).get("learn", {}).values())
            if not self._is_learning:  # every plan that these were noted for is carried out
                await self.state.drop_slots(self.owner, _GONE_PREFIX)
        if self._is_learning:
            await self.holder(tombstone(name))
            self._held[tombstone(name)] = _GONE

    async def forgotten(self, candidate: Memory, sessions: Mapping[str, str | None]) -> bool:
        """Whether what a candidate says was deleted while its turn, of one of these sessions, stayed."""
        exact, about = _marks(candidate, sessions)
        held = await self.state.slots(self.owner, [*exact, *about]) if exact else {}
        return any(name in held for name in exact) or any(_is_about(held.get(name, ""), candidate) for name in about)

    async def forget(self, memory: Memory) -> None:
        """Note that a statement is not to be read from its turns again, in the same commit as the plan."""
        turns = await self.store.get(self.owner, memory.turn_ids) if memory.turn_ids else {}
        exact, about = _marks(memory, {name: turn.session_id for name, turn in turns.items()})
        await self.load_slots([*exact, *about])
        for mark in exact:
            self._held[mark] = _GONE
        for mark in about:
            self._held[mark] = _with_words(self._held[mark], memory)

    async def unbury(self, name: str) -> None:
        """A memory of a deleted one's id is written on purpose (an import)."""
        if await self.holder(tombstone(name)) is not None:
            self._held[tombstone(name)] = None

    def sweep(self, gone: Deletion) -> None:
        """Delete what matches when the plan is applied."""
        self._sweep = gone

    async def release(self, memory: Memory) -> None:
        """Free the slot of a memory that does not hold it any longer."""
        if memory.slot and await self.holder(memory.slot) == memory.id:
            self._held[memory.slot] = None

    async def take(self, name: str) -> None:
        """Give a changed memory the slot that its present form names; answers with its former holder superseded."""
        memory = await self.memory(name)
        if memory is None:
            return
        slot = slot_name(memory) if memory.active else None
        if slot != memory.slot:
            await self.change(name, {"slot": slot})
        if slot is not None:
            await self.holder(slot)
            self._held[slot] = name

    async def ended_statements(self) -> list[tuple[Memory, Memory | None]]:
        """Statements that the plan ends, each with the one that replaces it (None: it is retracted)."""
        pairs: list[tuple[Memory, Memory | None]] = []
        for name, original in self._initial.items():
            now = None if name in self._deletes else await self.memory(name)
            if not original.active or original.kind is Kind.TURN:
                continue
            if now is None or not now.active:
                by = now.superseded_by if now is not None else None
                pairs.append((original, await self.memory(by) if by else None))
            elif (original.content, original.object) != (now.content, now.object):
                pairs.append((original, now))
        return pairs

    def note_before(self, noting: Callable[[Memory, Mapping[str, Any]], dict[str, Any]]) -> None:
        """Replace the changed fields of stored memories by what ``noting`` makes of them and their former state."""
        self._changes = {name: noting(self._initial[name], fields) for name, fields in self._changes.items() if fields}
        for session, turns in self._turn_changes.items():
            for name, fields in turns.items():
                turns[name] = msgspec.to_builtins(noting(self._changed_turns[session, name], fields))

    def plan(self) -> PlanBody:
        """The writes, JSON types only."""
        changes = {name: msgspec.to_builtins(fields) for name, fields in self._changes.items() if fields}
        return PlanBody(
            upserts=list(self._new.values()),
            changes=changes,
            turn_changes=self._turn_changes,
            deletes=self._deletes,
            delete_where=self._sweep,
        )

    def slot_changes(self) -> list[SlotChange]:
        """The register's changes, against what was read."""
        changed = [(slot, held) for slot, held in self._held.items() if held != self._registered[slot]]
        return [SlotChange(slot=slot, expected=self._registered[slot], new=held) for slot, held in changed]
