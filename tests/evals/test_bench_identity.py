"""`python -m tests.bench.identity`, shortened. No figure is judged here: a busy machine is no failure."""

from tests.bench.identity import WARM_UP, measure
from tests.bench.versions import BLOCK


async def test_a_proxy_that_asks_for_keys_is_measured_beside_one_that_does_not() -> None:
    row = await measure(1)
    assert row.errors == {}
    assert row.outcomes == {"off": 2 * BLOCK}, f"the {WARM_UP} blocks before are not counted"
    assert row.p50_ms.before > 0 < row.p50_ms.after
