from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from memproxy.recall.tiers import Tier, shares_of, tier_of, within
from memproxy.settings import TierSettings
from tests.recall.making import NOW, fact, turn

SHARES = shares_of(TierSettings())
LONG_AGO = NOW - timedelta(days=90)


def test_facts_are_stable_and_messages_recent_or_relevant() -> None:
    assert tier_of(fact("x"), session="s1", now=NOW) is Tier.STABLE
    assert tier_of(turn("x"), session="s1", now=NOW) is Tier.RECENT
    assert tier_of(turn("x", session_id="s0", created_at=LONG_AGO), session="s1", now=NOW) is Tier.RELEVANT
    assert tier_of(turn("x", session_id="s1", created_at=LONG_AGO), session="s1", now=NOW) is Tier.RECENT
    assert tier_of(turn("x", session_id="s0"), session=None, now=NOW) is Tier.RECENT


def test_a_tier_that_is_off_has_no_share_and_the_others_have_all() -> None:
    shares = shares_of(TierSettings(stable=0.0, relevant=0.3, recent=0.1))
    assert shares == {Tier.RELEVANT: 0.3 / 0.4, Tier.RECENT: 0.1 / 0.4}


def test_many_facts_leave_room_for_what_was_said() -> None:
    lines = [(Tier.STABLE, 30)] * 9 + [(Tier.RELEVANT, 40)] * 2
    assert within(lines, 240, SHARES) == {0, 1, 2, 3, 4, 9, 10}


def test_what_a_tier_leaves_is_the_others() -> None:
    assert within([(Tier.STABLE, 30)] * 9, 240, SHARES) == set(range(8))


Lines = st.lists(st.tuples(st.sampled_from(list(Tier)), st.integers(1, 200)), max_size=30)


@given(Lines, st.integers(-50, 1000))
def test_the_room_is_never_exceeded_and_what_fits_beside_the_others_is_taken(
    lines: list[tuple[Tier, int]], room: int
) -> None:
    kept = within(lines, room, SHARES)
    used = sum(lines[place][1] for place in kept)
    assert used <= max(room, 0)
    assert all(used + cost > room for place, (_, cost) in enumerate(lines) if place not in kept)
