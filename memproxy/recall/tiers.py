"""Tiers: stable facts, relevant memories and the recent session each have a share of a block's tokens.

They partition what may be injected anyway; a tier brings nothing in by itself. What one tier leaves is the others'.
"""

import enum
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from memproxy.core.memory import Kind, Memory
from memproxy.settings import TierSettings

RECENT = timedelta(hours=24)
"""What was said so lately counts as the recent session, whichever session it was."""

STABLE_KINDS = frozenset({Kind.SEMANTIC, Kind.PROCEDURAL, Kind.REFLECTIVE})


class Tier(enum.Enum):
    """To which part of the budget a memory belongs."""

    STABLE = "stable"
    RELEVANT = "relevant"
    RECENT = "recent"


Shares = Mapping[Tier, float]


def shares_of(settings: TierSettings) -> Shares:
    """The configured shares, so that they sum to 1; a tier that is off is not in them."""
    values = {Tier.STABLE: settings.stable, Tier.RELEVANT: settings.relevant, Tier.RECENT: settings.recent}
    total = sum(values.values())
    return {tier: share / total for tier, share in values.items() if share > 0}


def tier_of(memory: Memory, *, session: str | None, now: datetime) -> Tier:
    """Facts, ways of doing and reflections are stable; messages and episodes are recent or else relevant."""
    if memory.kind in STABLE_KINDS:
        return Tier.STABLE
    if session is not None and memory.session_id == session:
        return Tier.RECENT
    return Tier.RECENT if now - RECENT <= memory.created_at <= now + RECENT else Tier.RELEVANT


def within(lines: Sequence[tuple[Tier, int]], room: int, shares: Shares) -> frozenset[int]:
    """Which of the lines (their tier and tokens, best first) fit into ``room``: first each tier within its share, then
    the best of the others into what is left.
    """
    spent = dict.fromkeys(shares, 0)
    kept: set[int] = set()
    for place, (tier, cost) in enumerate(lines):
        if spent[tier] + cost <= shares[tier] * room:
            spent[tier] += cost
            kept.add(place)
    left = room - sum(spent.values())
    for place, (_, cost) in enumerate(lines):
        if place not in kept and cost <= left:
            left -= cost
            kept.add(place)
    return frozenset(kept)
