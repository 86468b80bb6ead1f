"""A message is deleted: what was learned from it alone goes with it, what others tell too rests on these from then on.

Nothing is undone by it (that is `undo`): what a message had superseded, taken back or ended stays in the history.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memproxy.core.chain import LAST_SAID, SAID, said_at
from memproxy.core.memory import Kind, Memory
from memproxy.learn.known import Known
from memproxy.learn.outdated import PREDICATE
from memproxy.ports import MemoryFilter, MemoryStore

EVIDENCE = "evidence"
"""Name in ``metadata``: the words of a message from which a fact was read."""

_FACTS = tuple(kind for kind in Kind if kind is not Kind.TURN)
_PAGE = 200


async def unlearn(known: Known, store: MemoryStore, turn: Memory, *, now: datetime) -> list[Memory]:
    """What goes with a turn: facts that no other message which is still there tells, and every summary made of it.
    Others lose in the plan what they have of it. A fact that was edited to say something else than the turn stays: it
    is the person's own word.

    Raises:
        StoreUnavailable: what is known could not be read.
    """
    elsewhere = {one.session_id for one in await _all(known, store, MemoryFilter(ids=(turn.id,), kinds=(Kind.TURN,)))}
    elsewhere.discard(turn.session_id)
    told = await _all(known, store, MemoryFilter(turn_ids=(turn.id,), kinds=_FACTS))
    told = [known.current(fact) for fact in told if fact.session_id not in elsewhere]
    names = sorted({name for fact in told for name in fact.turn_ids} - {turn.id})
    others = await _turns(known, store, names)
    lost = []
    for fact in told:
        there = {one.id: one for one in sorted(others, key=lambda one: one.session_id == fact.session_id)}
        left = [there[name] for name in fact.turn_ids if name in there]
        if fact.predicate == PREDICATE or (not left and turn.superseded_by != fact.id):
            lost.append(fact)
        else:
            await known.change(fact.id, _without(fact, turn, left, now))
    return lost


def _without(fact: Memory, turn: Memory, left: Sequence[Memory], now: datetime) -> dict[str, Any]:
    """The fields of a fact that stays, without the turn: its words, and when it was said by it."""
    noted = dict(fact.metadata)
    quoted = noted.get(EVIDENCE)
    if isinstance(quoted, str) and not any(quoted in one.content for one in left):
        del noted[EVIDENCE]
    fields: dict[str, Any] = {
        "turn_ids": [name for name in fact.turn_ids if name != turn.id],
        "metadata": noted,
        "updated_at": now,
    }
    if left:
        first, last = min(one.created_at for one in left), max(one.created_at for one in left)
        fields["metadata"] = noted | {SAID: first.isoformat(), LAST_SAID: last.isoformat()}
        if fact.valid_from == said_at(fact):
            fields["valid_from"] = first
        if fact.session_id not in {one.session_id for one in left}:
            fields["session_id"] = left[0].session_id
    return fields


async def _turns(known: Known, store: MemoryStore, names: Sequence[str]) -> list[Memory]:
    """Those of these turns that are still there, of every session in which an id is used."""
    found: list[Memory] = []
    for start in range(0, len(names), _PAGE):
        where = MemoryFilter(ids=tuple(names[start : start + _PAGE]), kinds=(Kind.TURN,))
        found += await _all(known, store, where)
    return found


async def _all(known: Known, store: MemoryStore, where: MemoryFilter) -> list[Memory]:
    found: list[Memory] = []
    cursor = None
    while True:
        page = await store.page(known.owner, where, limit=_PAGE, cursor=cursor)
        found += page.memories
        if (cursor := page.next_cursor) is None:
            return found
