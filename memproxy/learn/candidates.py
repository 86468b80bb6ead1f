"""What an extraction reads and nominates, whoever makes it: a model or the rules of ``learn.mode: verbatim``."""

import enum
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.memory import Kind, Memory, Relation


class Intent(enum.StrEnum):
    """What the speaker does by saying it.

    ``state``: tells something. ``correct``: replaces what was said before ("no, it's 15,000 now"). ``forget``: takes
    back what is known ("forget what I told you about X"); then ``content`` names what is to be forgotten.
    ``forget_all``: takes back all that is known of the user; only code reads that (`orders`), no model says it.
    """

    STATE = "state"
    CORRECT = "correct"
    FORGET = "forget"
    FORGET_ALL = "forget_all"


class Extracted(msgspec.Struct, frozen=True, kw_only=True):
    """One candidate, cleaned in form only; ``evidence`` are the quotes it rests on.

    ``stance`` is what somebody holds of an aspect (``positive``, ``negative``, ``mixed``, ``neutral``); ``replaces`` is
    the value or statement that a correction names as wrong, in the speaker's words; ``until`` is an end that was given
    in words ("next Friday"), for `moments.dated`.
    """

    content: str
    intent: Intent = Intent.STATE
    kind: Kind = Kind.SEMANTIC
    subject: str | None = None
    predicate: str | None = None
    object: str | None = None
    aspect: str | None = None
    stance: str | None = None
    replaces: str | None = None
    category: str | None = None
    tags: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    relations: tuple[Relation, ...] = ()
    confidence: float = 0.8
    importance: float = 0.5
    valid_from: datetime | None = None
    valid_to: datetime | None = None
    until: str | None = None
    evidence: tuple[str, ...] = ()


class Grounded(msgspec.Struct, frozen=True):
    """A candidate and the turn it rests on, the one that says it of the most trusted source.

    ``quarantined``: it is stored and not injected until the user confirms it (its source is not trusted enough).
    """

    candidate: Extracted
    turn: Memory
    quarantined: bool = False


class Rejected(msgspec.Struct, frozen=True):
    """A candidate that is not stored, and why."""

    candidate: Extracted
    reason: str


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What one extraction reads: turns in order, which of them are new, and the related memories known already."""

    turns: Sequence[Memory]
    new_ids: frozenset[str]
    known: Sequence[Memory] = ()

    @property
    def newest(self) -> Memory:
        """The last of the new turns; all of them were said in its project and agent."""
        return next(turn for turn in reversed(self.turns) if turn.id in self.new_ids)


class Read(msgspec.Struct, frozen=True):
    """What one extraction came to."""

    kept: list[Grounded]
    rejected: list[Rejected]
