"""Dialogues of known content: what must be stored at the end, what must have ended, what must never be stored; and
what is stored in fact, laid beside that.

A file is YAML (or JSON, which is YAML): ``type`` and ``dialogues``; docs/evaluation.md has an example.
"""

import enum
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

import msgspec

from memproxy.core.memory import Memory
from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.settings.yaml_file import parse_long

Patterns = tuple[str, ...]

_ROLES = frozenset({"user", "assistant", "tool", "system", "document"})


class Stored(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement that is to be active at the end; one that is ``optional`` counts neither way.

    Each of ``match`` (regular expressions, case aside) must be found in a memory's content, subject or object. ``kind``
    and ``subject`` (an expression too) must agree where they are given. ``says``, ``source`` (a quote of the dialogue),
    ``slot`` (subject, predicate, object), ``aspect`` and ``stance`` are how a perfect extractor would put it.
    """

    match: Patterns
    optional: bool = False
    kind: str | None = None
    subject: str | None = None
    says: str = ""
    source: str = msgspec.field(name="from", default="")
    slot: tuple[str, str, str] | None = None
    aspect: str | None = None
    stance: str | None = None


class Ended(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A statement that must not be active any more.

    It was corrected when ``by`` names (as ``match`` does) what replaced it: a memory that matches both is the new
    statement. Else it was taken back, by the words ``back``.
    """

    match: Patterns
    by: Patterns = ()
    back: str = ""
    says: str
    source: str = msgspec.field(name="from")
    slot: tuple[str, str, str]
    aspect: str | None = None
    stance: str | None = None


class Session(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One session: when it was, and what was said, each message as ``{role: text}``."""

    at: datetime
    said: tuple[dict[str, str], ...]

    @property
    def messages(self) -> list[Message]:
        return [Message(role=role, content=text) for message in self.said for role, text in message.items()]


class Dialogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions of one user, in the order in which they come in, and the gold.

    ``never`` are regular expressions that no stored statement may match, whatever became of it.
    """

    id: str
    type: str = ""
    sessions: tuple[Session, ...]
    stored: tuple[Stored, ...] = ()
    ended: tuple[Ended, ...] = ()
    never: Patterns = ()

    @property
    def required(self) -> list[Stored]:
        """What counts for recall."""
        return [gold for gold in self.stored if not gold.optional]


class _File(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    type: str
    dialogues: tuple[Dialogue, ...]


def load(path: Path) -> list[Dialogue]:
    """The dialogues of a file, or of all YAML files of a folder.

    Raises:
        ConfigError: the file is not there, or not of this form.
    """
    files = sorted(path.glob("*.yaml")) if path.is_dir() else [path]
    return _check([dialogue for file in files for dialogue in _read(file)])


def _read(path: Path) -> list[Dialogue]:
    try:
        file = msgspec.convert(parse_long(path.read_text("utf-8"), path.name), _File)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"--data {path} cannot be read ({error}); name a file of dialogues") from error
    except msgspec.ValidationError as error:
        raise ConfigError(f"{path.name} holds no dialogues ({error}); see docs/evaluation.md for their form") from error
    return [
        dialogue if dialogue.type else msgspec.structs.replace(dialogue, type=file.type) for dialogue in file.dialogues
    ]


def _check(dialogues: list[Dialogue]) -> list[Dialogue]:
    """Them, when every id is there once, every role is known and every pattern can be read."""
    ids: set[str] = set()
    for dialogue in dialogues:
        if dialogue.id in ids:
            raise ConfigError(f"two dialogues are called {dialogue.id}; give each an id of its own")
        ids.add(dialogue.id)
        if unknown := {role for session in dialogue.sessions for spoken in session.said for role in spoken} - _ROLES:
            raise ConfigError(f"dialogue {dialogue.id}: the role {sorted(unknown)[0]} is none of {sorted(_ROLES)}")
        ended = [pattern for gold in dialogue.ended for pattern in (*gold.match, *gold.by)]
        stored = [pattern for gold in dialogue.stored for pattern in (*gold.match, gold.subject or "")]
        for pattern in (*ended, *stored, *dialogue.never):
            try:
                re.compile(pattern, re.IGNORECASE)
            except re.error as error:
                message = f"dialogue {dialogue.id}: {pattern!r} is no regular expression ({error})"
                raise ConfigError(message) from error
    if not dialogues:
        raise ConfigError("there is no dialogue to evaluate")
    return dialogues


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
    expected = [memory for memory, verdict in verdicts if verdict in (Verdict.WANTED, Verdict.OPTIONAL)]
    forbidden = [memory for memory in end if _any(dialogue.never, memory)]
    return Judged(
        run=run,
        facts=[(memory.content, verdict) for memory, verdict in verdicts],
        missing=[gold for gold in dialogue.required if not any(fits(gold, memory) for memory in expected)],
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
    is_summary = SUMMARY_TAGS.intersection(memory.tags) or memory.metadata.get("summary") is not None
    return Verdict.OPTIONAL if fitting or about_ended or is_summary else Verdict.EXTRA


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


def _all(patterns: Patterns, memory: Memory) -> bool:
    return all(_matches(patterns, memory))


def _any(patterns: Patterns, memory: Memory) -> bool:
    return any(_matches(patterns, memory))


def _matches(patterns: Patterns, memory: Memory) -> Iterator[bool]:
    text = " | ".join(part for part in (memory.content, memory.subject, memory.object) if part)
    return (re.search(pattern, text, re.IGNORECASE) is not None for pattern in patterns)
