"""The palace's numbers in the embedded state."""

from pathlib import Path
from uuid import uuid4

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memproxy.core.palace import Names
from memproxy.core.scope import Scope
from memproxy.core.transfer_lines import PalaceRow
from memproxy.ports import PalacePlace, Placed
from memproxy.stores.sqlite_state import SqliteState

OWNER = Scope(tenant="t", user="u")
OTHER = Scope(tenant="t", user="v")
ATLAS = Scope(tenant="t", user="u", project="atlas")
APOLLO = Scope(tenant="t", user="u", project="apollo")
CODER = Scope(tenant="t", user="u", project="atlas", agent="coder")


async def test_numbers_are_given_once_and_per_owner(state: SqliteState) -> None:
    wanted = [Names(wing="a", room="s1"), Names(wing="b", room="s1"), Names(wing="a", room="s2")]
    first = await state.allot_numbers(OWNER, wanted)
    assert first == [Placed("a", "W-001/R-01"), Placed("b", "W-002/R-01"), Placed("a", "W-001/R-02")]
    assert await state.allot_numbers(OWNER, wanted) == first
    assert await state.allot_numbers(OTHER, wanted[1:2]) == [Placed("b", "W-001/R-01")]


async def test_a_sessions_turns_stay_in_the_wing_of_the_first(state: SqliteState) -> None:
    first = await state.allot_numbers(OWNER, [Names(wing="a", room="s", drawer=True)])
    later = await state.allot_numbers(OWNER, [Names(wing="b", room="s", drawer=True), Names(wing="b", room="s")])
    assert [place.pointer for place in first + later] == ["W-001/R-01/D-001", "W-001/R-01/D-002", "W-002/R-01"]


async def test_two_names_of_one_subject_are_one_wing_and_two_wings_stay_two(state: SqliteState) -> None:
    await state.allot_numbers(OWNER, [Names(wing="dog"), Names(wing="rex", same=(("dog", "rex"),))])
    assert await state.palace_names(OWNER) == {"dog": "dog", "rex": "dog"}
    await state.allot_numbers(OWNER, [Names(wing="cat"), Names(wing="dog", same=(("cat", "dog"),))])
    assert await state.palace_names(OWNER) == {"dog": "dog", "rex": "dog", "cat": "cat"}


async def test_a_name_told_in_a_project_holds_there_alone(state: SqliteState) -> None:
    await state.allot_numbers(OWNER, [Names(wing="rex", same=(("dog", "rex"),))])
    await state.allot_numbers(OWNER, [Names(wing="nightjar", same=(("nightjar", "lloyds"),), project="atlas")])
    wings = {"rex": "rex", "lloyds": "lloyds", "dog": "rex"}
    assert await state.palace_names(ATLAS) == await state.palace_names(ATLAS, writing=True)
    assert await state.palace_names(ATLAS) == await state.palace_names(OWNER) == wings | {"nightjar": "lloyds"}
    assert await state.palace_names(APOLLO) == wings
    assert await state.palace_names(OWNER, writing=True) == wings
    placed = await state.allot_numbers(OWNER, [Names(wing="nightjar", project=p) for p in ("atlas", "apollo", None)])
    assert [place.wing for place in placed] == ["lloyds", "nightjar", "nightjar"]
    assert (await state.allot_numbers(OWNER, [Names(wing="nightjar", project="atlas")]))[0].wing == "lloyds"
    assert (await state.palace_names(ATLAS))["nightjar"] == "lloyds"
    assert (await state.palace_names(OWNER))["nightjar"] == "nightjar", "every wing is found by its own name"
    await state.erase_wings(OWNER, ["lloyds"])
    assert [row.name for row in await state.palace_rows(OWNER) if row.kind == "alias"] == ["dog"]


async def test_a_name_told_to_an_agent_holds_for_that_one_and_is_seen_by_who_sees_all_agents(
    state: SqliteState,
) -> None:
    await state.allot_numbers(OWNER, [Names(wing="a", same=(("b", "a"),), project="atlas", agent="coder")])
    seen = {scope: set(await state.palace_names(scope)) for scope in (OWNER, ATLAS, APOLLO, CODER)}
    assert seen == {OWNER: {"a", "b"}, ATLAS: {"a", "b"}, APOLLO: {"a"}, CODER: {"a", "b"}}
    assert set(await state.palace_names(ATLAS, writing=True)) == {"a"}
    assert set(await state.palace_names(CODER, writing=True)) == {"a", "b"}
    other = Scope(tenant="t", user="u", agent="writer")
    assert set(await state.palace_names(other)) == {"a"}


async def test_a_role_that_is_taken_over_in_a_project_is_taken_over_there_alone(state: SqliteState) -> None:
    await state.allot_numbers(OWNER, [Names(wing="tom", same=(("boss", "tom"),))])
    await state.allot_numbers(OWNER, [Names(wing="kim", same=(("boss", "kim"),), project="atlas")])
    known = [(await state.palace_names(scope))["boss"] for scope in (ATLAS, APOLLO)]
    assert known == ["kim", "tom"]
    await state.allot_numbers(OWNER, [Names(wing="ann", same=(("boss", "ann"),), project="atlas")])
    known = [(await state.palace_names(scope))["boss"] for scope in (ATLAS, APOLLO)]
    assert known == ["ann", "tom"]


async def test_exported_names_keep_where_they_were_told_and_old_ones_hold_everywhere(state: SqliteState) -> None:
    await state.allot_numbers(OWNER, [Names(wing="a", same=(("b", "a"),), project="a & b/ü")])
    rows = await state.palace_rows(OWNER)
    assert await state.adopt_palace(OTHER, [*rows, PalaceRow(kind="alias", parent="", name="old", number=1)])
    told = Scope(tenant="t", user="v", project="a & b/ü")
    assert set(await state.palace_names(told)) == {"a", "b", "old"}
    assert set(await state.palace_names(Scope(tenant="t", user="v", project="a"))) == {"a", "old"}
    for wrong in ("W-001", "project=", "agent=x&project=y", "project=%zz", "project=a&x=b"):
        taken = await state.adopt_palace(OTHER, [PalaceRow(kind="alias", parent=wrong, name="n", number=1)])
        assert taken is (wrong == "project=")


async def test_an_erased_session_gives_no_number_to_another(state: SqliteState) -> None:
    await state.allot_numbers(OWNER, [Names(wing="a", room="s1", closet="x", drawer=True), Names(wing="a", room="s2")])
    await state.forget(OWNER, session="s1")
    assert await state.palace(OWNER, "W-001", after=0, limit=9) == [PalacePlace(2, "s2")]
    assert await state.palace(OWNER, "W-001/R-01", after=0, limit=9) == []
    assert (await state.allot_numbers(OWNER, [Names(wing="a", room="s1")]))[0].pointer == "W-001/R-03"


async def test_a_wing_that_is_left_takes_all_that_is_in_it(state: SqliteState) -> None:
    for n in range(1, 12):
        await state.allot_numbers(OWNER, [Names(wing=f"w{n}", room="s", closet="c")])
    await state.allot_numbers(OWNER, [Names(wing="w1", same=(("alias", "w1"),))])
    await state.erase_wings(OWNER, ["w1", "never there"])
    assert "alias" not in await state.palace_names(OWNER)
    assert await state.palace(OWNER, "W-001", after=0, limit=9) == []
    assert await state.palace(OWNER, "W-010/R-01", after=0, limit=9) == [PalacePlace(1, "c")]
    assert (await state.allot_numbers(OWNER, [Names(wing="w1")]))[0].pointer == "W-012/R-01"
    await state.forget(OWNER, session=None)
    assert await state.palace(OWNER, "", after=0, limit=9) == []


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("st"), st.booleans()), max_size=12), st.data())
async def test_no_pointer_ever_means_two_things(
    tmp_path: Path, steps: list[tuple[str, str, bool]], data: st.DataObject
) -> None:
    owner = Scope(tenant="t", user=data.draw(st.uuids()).hex)
    state = SqliteState(tmp_path / "state.db", sync="normal")
    await state.open()
    rooms: dict[str, tuple[str, str]] = {}
    drawers: list[str] = []
    for wing, room, drawer in steps:
        (place,) = await state.allot_numbers(owner, [Names(wing=wing, room=room, drawer=drawer)])
        name, _, rest = place.pointer.partition("/D-")
        assert rooms.setdefault(name, (place.wing, room)) == (place.wing, room)
        drawers += [place.pointer] if rest else []
        if data.draw(st.integers(0, 3)) == 0:
            await state.forget(owner, session=room)
    assert len(drawers) == len(set(drawers))
    await state.close()


WANTED = st.builds(
    Names,
    wing=st.sampled_from(["user", "dog", "rex", "boss"]),
    room=st.sampled_from(["s1", "s2"]),
    closet=st.sampled_from(["general", "food"]),
    same=st.sampled_from([(), (), (("dog", "rex"),), (("boss", "rex"),), (("boss", "clara"),)]),
    drawer=st.booleans(),
    moves=st.sampled_from([False, False, True]),
    project=st.sampled_from([None, None, "atlas"]),
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(wanted=st.lists(WANTED, max_size=12))
async def test_many_are_placed_as_one_after_the_other(tmp_path: Path, wanted: list[Names]) -> None:
    opened = SqliteState(tmp_path / f"{uuid4().hex}.db", sync="normal")
    await opened.open()
    together = await opened.allot_numbers(OWNER, wanted)
    assert together == [(await opened.allot_numbers(OTHER, [names]))[0] for names in wanted]
    assert await opened.palace_rows(OWNER) == await opened.palace_rows(OTHER)
    names = [(place.wing, one.room, place.pointer) for place, one in zip(together, wanted, strict=True)]
    wrong = [(wing, "s3", where) for wing, _, where in names]
    asked = [*names, *wrong, ("user", "s1", "nonsense")]
    assert await opened.stand(OWNER, asked) == [(await opened.stand(OTHER, [each]))[0] for each in asked]
    await opened.close()
