"""The journal's order, whatever is done to it: checked against a plain list."""

from datetime import timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memproxy.core.scope import Scope
from memproxy.ports import JournalEntry, JournalKind, JournalRow
from memproxy.stores.sqlite_state import SqliteState
from memproxy.stores.state_journal import LANES
from tests.stores.making import NOON
from tests.support.folders import Folders

Key = tuple[str, str]

CLAIMS = st.tuples(st.integers(1, 4), st.integers(1, 3))
"""How many owners, and how many rows of each."""

steps = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.sampled_from(["a", "b", "c"]), st.sampled_from(list(JournalKind))),
        st.tuples(st.just("claim"), st.sampled_from(["index", "learn"]), CLAIMS),
        st.tuples(st.sampled_from(["finish", "retry", "park"]), st.integers(0, 9), st.booleans()),
        st.tuples(st.just("later"), st.none(), st.none()),
        st.tuples(st.just("forget"), st.sampled_from(["a", "b", "c"]), st.none()),
    ),
    max_size=60,
)


class Model:
    """What the journal should hold: for each owner and lane the unfinished rows, oldest first."""

    def __init__(self) -> None:
        self.rows: dict[Key, list[int]] = {}
        self.due: dict[int, int] = {}
        self.tried: set[int] = set()
        self.running: dict[int, Key] = {}
        self.now = 0

    def claimable(self, lane: str, limit: int, run: int) -> list[int]:
        queues = {rows[0]: (owner, rows) for (owner, its), rows in self.rows.items() if its == lane and rows}
        heads = [
            head for head, (owner, _) in queues.items() if self.is_free(head) and self.may_learn(owner, lane, head)
        ]
        return [number for head in sorted(heads)[:limit] for number in self.together(queues[head][1], run)]

    def together(self, rows: list[int], run: int) -> list[int]:
        if rows[0] in self.tried:
            return rows[:1]
        alone = (number for number in rows[1:] if not self.is_free(number) or number in self.tried)
        stop = next(alone, None)
        return rows[: min(run, rows.index(stop) if stop is not None else run)]

    def is_free(self, number: int) -> bool:
        return number not in self.running and self.due[number] <= self.now

    def may_learn(self, owner: str, lane: str, number: int) -> bool:
        return lane != "learn" or min(self.rows.get((owner, "index")) or [number]) >= number


@settings(max_examples=60, deadline=None)
@given(steps)
async def test_rows_are_claimed_in_order_and_those_of_one_owner_together_or_not_at_all(
    folders: Folders, done: list[tuple[str, object, object]]
) -> None:
    with folders.new() as folder:
        states = [SqliteState(folder / "state.db", sync="normal") for _ in range(2)]
        for state in states:
            await state.open()
        model = Model()
        for place, (action, first, second) in enumerate(done):
            await _step(states[place % 2], model, action, first, second)
        for state in states:
            await state.close()


async def _step(state: SqliteState, model: Model, action: str, first: object, second: object) -> None:
    now = NOON + timedelta(hours=model.now)
    if action == "append":
        assert isinstance(first, str)
        assert isinstance(second, JournalKind)
        number = await state.append(JournalEntry(kind=second, scope=Scope(tenant="t", user=first), body=b"{}"))
        model.rows.setdefault((first, LANES[second]), []).append(number)
        model.due[number] = 0
    elif action == "claim":
        assert isinstance(first, str)
        assert isinstance(second, tuple)
        limit, run = second
        expected = model.claimable(first, limit, run)
        rows: list[JournalRow] = await state.claim(first, limit=limit, now=now, run=run)
        assert [row.number for row in rows] == expected
        model.running |= {row.number: (row.entry.scope.user, first) for row in rows}
    elif action == "later":
        model.now += 1
    elif action == "forget":
        assert isinstance(first, str)
        await state.forget(Scope(tenant="t", user=first), session=None)
        for key in [key for key in model.rows if key[0] == first]:
            for number in model.rows.pop(key):
                model.running.pop(number, None)
    elif model.running:
        assert isinstance(first, int)
        await _end(state, model, action, sorted(model.running)[first % len(model.running)], counted=bool(second))


async def _end(state: SqliteState, model: Model, action: str, number: int, *, counted: bool) -> None:
    key = model.running.pop(number)
    if action == "retry":
        model.due[number] = model.now + 1
        model.tried |= {number} if counted else set()
        due = NOON + timedelta(hours=model.due[number])
        await state.retry(number, error="x", due=due, counted=counted)
        return
    model.rows[key].remove(number)
    if action == "finish":
        await state.finish(number, error="x" if counted else None)
    else:
        await state.park(number, error="x")
