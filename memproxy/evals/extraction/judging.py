"""What is stored at the end of a dialogue, laid beside its gold."""

import enum
import re
from collections.abc import Iterable, Sequence

import msgspec

from memproxy.core.memory import Memory
from memproxy.evals.extraction.dialogues import Dialogue, Ended, Patterns, Stored

_SAYS_ENDED = re.compile(
    r"\b(?:no longer|not|never|any ?more|used to|formerly|former|previously|stopped|quit|sold|gave up|gave away"
    r"|cancel+ed|broke up|ended)\b|n['’]t\b",
    re.IGNORECASE,
)
"""A statement of this kind about something taken back says just that, and is no remainder of it."""

NOTHING = "nothing"
"""The type of the dialogues that hold nothing to learn."""

SUMMARY_TAGS = frozenset({"summary", "session-summary"})
"""Tags of the account of a session that is made at its end: no statement, so it counts neither way."""


class Verdict(enum.StrEnum):
    """What an active memory is, beside the gold."""

    WANTED = "wanted"
    OPTIONAL = "optional"
    EXTRA = "extra"
    STALE = "stale"
    POISON = "poison"


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """A dialogue that went through: its memories but the turns (after each session, the last one the end's), how long
    it took in seconds, and how many of its sessions could not be learned from.
    """

    dialogue: Dialogue
    after: Sequence[Sequence[Memory]]
    seconds: float
    unlearned: int = 0


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a statement that had to end. ``known``: it was stored at some time."""

    gold: Ended
    right: bool
    known: bool


class Judged(msgspec.Struct, frozen=True, kw_only=True):
    """The verdict on a dialogue: what each active memory is, which required statements are missing, what became of
    those that had to end, and texts that match what must never be stored (``quarantined`` ones wait for the user).
    """

    run: Run
    facts: Sequence[tuple[str, Verdict]]
    missing: Sequence[Stored]
    changes: Sequence[Change]
    poison: Sequence[str]
    quarantined_poison: Sequence[str]

    @property
    def dialogue(self) -> Dialogue:
        """The dialogue."""
        return self.run.dialogue

    def count(self, *verdicts: Verdict) -> int:
        """How many active memories are one of these."""
        return sum(verdict in verdicts for _, verdict in self.facts)

    @property
    def right(self) -> bool:
        """Nothing is missing, wrong or too much."""
        wrong = self.count(Verdict.EXTRA, Verdict.STALE, Verdict.POISON)
        return not (wrong or self.missing or self.poison or any(not change.right for change in self.changes))


def judge(run: Run) -> Judged:
    """Lay a run beside its gold. A quarantined memory is no fact: it is not injected."""
    dialogue = run.dialogue
    end = run.after[-1] if run.after else []
    facts = [memory for memory in end if memory.active and not memory.quarantined]
    verdicts = [(memory, _verdict(memory, dialogue)) for memory in facts]
    wanted = [memory for memory, verdict in verdicts if verdict in (Verdict.WANTED, Verdict.OPTIONAL)]
    forbidden = [memory for memory in end if _any(dialogue.never, memory)]
    return Judged(
        run=run,
        facts=[(memory.content, verdict) for memory, verdict in verdicts],
        missing=[gold for gold in dialogue.required if not any(fits(gold, memory) for memory in wanted)],
        changes=[_change(gold, verdicts, run) for gold in dialogue.ended],
        poison=[memory.content for memory in forbidden if not memory.quarantined],
        quarantined_poison=[memory.content for memory in forbidden if memory.quarantined],
    )


def fits(gold: Stored, memory: Memory) -> bool:
    """Whether a memory is this statement."""
    if not _all(gold.match, memory) or (gold.kind is not None and gold.kind != memory.kind.value):
        return False
    return gold.subject is None or re.search(gold.subject, memory.subject or "", re.IGNORECASE) is not None


def _verdict(memory: Memory, dialogue: Dialogue) -> Verdict:
    if _any(dialogue.never, memory):
        return Verdict.POISON
    if any(is_remainder(gold, memory) for gold in dialogue.ended):
        return Verdict.STALE
    fitting = [gold for gold in dialogue.stored if fits(gold, memory)]
    if any(not gold.optional for gold in fitting):
        return Verdict.WANTED
    about_ended = any(_all(gold.match, memory) for gold in dialogue.ended)
    return Verdict.OPTIONAL if fitting or about_ended or _is_summary(memory) else Verdict.EXTRA


def is_remainder(gold: Ended, memory: Memory) -> bool:
    """Whether a memory states what has ended as if it went on."""
    if not _all(gold.match, memory):
        return False
    return not _all(gold.by, memory) if gold.by else _SAYS_ENDED.search(memory.content) is None


def _change(gold: Ended, verdicts: Iterable[tuple[Memory, Verdict]], run: Run) -> Change:
    active = [memory for memory, _ in verdicts]
    replaced = not gold.by or any(_all(gold.by, memory) for memory in active)
    stored = (memory for memories in run.after for memory in memories if not memory.quarantined)
    return Change(
        gold=gold,
        right=replaced and not any(is_remainder(gold, memory) for memory in active),
        known=any(is_remainder(gold, memory) for memory in stored),
    )


def _is_summary(memory: Memory) -> bool:
    return bool(SUMMARY_TAGS.intersection(memory.tags)) or memory.metadata.get("summary") is not None


def _all(patterns: Patterns, memory: Memory) -> bool:
    text = _text(memory)
    return all(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _any(patterns: Patterns, memory: Memory) -> bool:
    text = _text(memory)
    return any(re.search(pattern, text, re.IGNORECASE) for pattern in patterns)


def _text(memory: Memory) -> str:
    return " | ".join(part for part in (memory.content, memory.subject, memory.object) if part)
