"""A dream: tidying one user's memories in the background. It erases nothing: what it sets aside becomes inactive, and a
memory that it changes notes its former values in its own metadata, so these go wherever the memory goes, and undoing
needs nothing else. The record of a dream holds ids, numbers and times, no text.
"""

import enum
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Annotated, Any

import msgspec

from memproxy.core.memory import Memory, without

DREAMS = "dreams"  # key of the metadata: the dreams that changed a memory, the last one at the end
MERGED_INTO = "merged_into"  # key of the metadata of what was merged: it was never otherwise than what took its place
CONFLICTS_WITH = "conflicts_with"
COMPATIBLE_WITH = "compatible_with"
"""Keys of the metadata: ids of memories that contradict this one by a model, or hold beside it by a person."""

INFERRED = "inferred"
PERMISSION = "requires_user_permission"
"""Keys of the metadata of what was inferred; while `PERMISSION` is true the memory is given to nobody."""

CHANGED = frozenset(
    (
        *("active", "category", "confidence", "created_at", "entities", "expires_at", "importance", "relations"),
        *("superseded_by", "supersedes", "tags", "turn_ids", "updated_at", "valid_to"),
    )
)
"""Fields that a dream changes, beside the metadata. No others are given back, whatever a memory notes of a dream: any
caller may write such a note, and whose a memory is and what it says are not for it to change.
"""

UNDOABLE = timedelta(days=30)  # how long a dream can be taken back; what it deleted expires then


class Action(enum.StrEnum):
    """What a dream does."""

    MERGE = "merge"
    SUPERSEDE = "supersede"
    END = "end"
    DELETE = "delete"
    CATEGORISE = "categorise"
    INFER = "infer"
    AVOID = "avoid"
    REFLECT = "reflect"
    CONFLICT = "conflict"


ACTIONS = tuple(action.value for action in Action)

SESSION_END, COUNT = "session_end", "count"  # triggers of a dream that reflects and does nothing else
WAITING, RUNNING, DONE, FAILED, UNDONE = "waiting", "running", "done", "failed", "undone"


class Change(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One thing that a dream does. ``memory_id`` is what stays, is new or changes (of ``end`` and ``delete`` the memory
    itself), ``sources`` what it takes the place of or rests on. ``labels`` are the new category and tags.
    """

    action: Action
    reason: str
    memory_id: str
    sources: tuple[str, ...] = ()
    labels: dict[str, Any] = {}


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """A part of a dream as a journal row carries it out: all of ``changes`` that still fit. ``new`` are memories that
    they name and that are not there yet; ``seen`` are the versions (`core.memory.version_of`) that they were decided
    on, by id: where one is another by now, what rests on it is left out. ``undo``: take back all that the dream did.
    """

    dream: str
    changes: list[Change] = []
    new: list[Memory] = []
    seen: dict[str, str] = {}
    undo: bool = False


class Dream(msgspec.Struct, kw_only=True):
    """One dream and its progress. ``entries`` is the number of the user's active facts when it began, ``looked_at`` how
    many it has looked at, ``cursor`` where it continues, ``stage`` its current step. ``complete`` False: it stopped at
    a limit, and the next dream continues at ``cursor``. ``tokens`` are input and output of model calls; ``stopped``
    holds ``model`` where the model is not asked any more.
    """

    id: str
    trigger: str
    state: str = WAITING
    created_at: datetime
    started_at: datetime | None = None
    ended_at: datetime | None = None
    undone_at: datetime | None = None
    model: bool = False
    entries: int = 0
    looked_at: int = 0
    cursor: str | None = None
    stage: str = ""
    complete: bool = True
    counts: dict[str, int] = {}
    tokens: tuple[int, int] = (0, 0)
    seconds: float = 0.0
    notes: list[str] = []
    error: str | None = None
    changes: list[Change] = []
    stopped: list[str] = []

    @property
    def is_whole(self) -> bool:
        """Whether it looks at what is remembered, or reflects alone."""
        return self.trigger not in {SESSION_END, COUNT}

    @property
    def is_open(self) -> bool:
        """Whether it waits or runs."""
        return self.state in (WAITING, RUNNING)

    def count(self) -> None:
        """Count its changes by what they do; what was refused stays counted."""
        refused = {"refused": self.counts["refused"]} if self.counts.get("refused") else {}
        self.counts = {**Counter(change.action for change in self.changes), **refused}

    def note(self, sentence: str) -> None:
        """Tell once what was left out."""
        if sentence not in self.notes:
            self.notes.append(sentence)


def with_note(old: Memory, fields: Mapping[str, Any], dream: str, now: datetime) -> dict[str, Any]:
    """The changed fields of a memory, with a note in its metadata of how it was before this dream."""
    was = msgspec.to_builtins({name: getattr(old, name) for name in fields if name != "metadata"})
    plain = without(old.metadata, DREAMS)
    after = without(fields.get("metadata", old.metadata), DREAMS)
    became = msgspec.to_builtins({name: value for name, value in fields.items() if name != "metadata"})
    if after != plain:
        was["metadata"], became["metadata"] = plain, after
    note = {"id": dream, "at": now.isoformat(), "was": was, "became": became}
    earlier = [mark for mark in marks_of(old) if datetime.fromisoformat(mark["at"]) + UNDOABLE > now]
    return {**fields, "metadata": after | {DREAMS: [*earlier, note]}}


def made_by(memory: Memory, dream: str, now: datetime) -> Memory:
    """A new memory, noted as this dream's."""
    note = {"id": dream, "at": now.isoformat(), "was": None}
    return msgspec.structs.replace(memory, metadata=memory.metadata | {DREAMS: [note]})


def marks_of(memory: Memory) -> Sequence[dict[str, Any]]:
    """What dreams noted on a memory, oldest first; what is not theirs to read (a client's own) is nothing."""
    notes = memory.metadata.get(DREAMS)
    return [note for note in notes if _is_mark(note)] if isinstance(notes, list) else ()


class _Fields(msgspec.Struct, frozen=True):
    metadata: dict[str, Any] = {}


class _Mark(msgspec.Struct, frozen=True):
    id: str
    at: Annotated[datetime, msgspec.Meta(tz=True)]
    was: _Fields | None
    became: _Fields = _Fields()


def _is_mark(value: object) -> bool:
    try:
        msgspec.convert(value, _Mark)
    except msgspec.ValidationError:
        return False
    return True


def mark_of(memory: Memory, dream: str) -> dict[str, Any] | None:
    """What this dream noted on a memory; None where it did not touch it."""
    return next((mark for mark in marks_of(memory) if mark["id"] == dream), None)


def restored(memory: Memory, dream: str, now: datetime) -> dict[str, Any]:
    """The fields that make a memory what it was before its last dream; what somebody changed since stays."""
    note = mark_of(memory, dream)
    if note is None or note["was"] is None:
        return {}
    stored, was, became = msgspec.to_builtins(memory), note["was"], note.get("became", {})
    same = [name for name in was if name in CHANGED and name in became and stored[name] == became[name]]
    fields = {name: was[name] for name in same}
    if "updated_at" not in fields:
        fields["updated_at"] = msgspec.to_builtins(now)
    metadata = without(memory.metadata, DREAMS)
    if "metadata" in was:
        old_metadata, new_metadata = was["metadata"], became.get("metadata", {})
        for name in old_metadata.keys() | new_metadata.keys():
            if metadata.get(name) == new_metadata.get(name):
                metadata.pop(name, None)
                metadata |= {name: old_metadata[name]} if name in old_metadata else {}
        # the keys as they stood before: an export is compared byte for byte
        metadata = {name: metadata[name] for name in old_metadata if name in metadata} | metadata
    notes = [mark for mark in marks_of(memory) if mark["id"] != dream]
    return fields | {"metadata": metadata | ({DREAMS: notes} if notes else {})}


def needs_permission(memory: Memory) -> bool:
    """Whether a memory was inferred about something delicate, and its user has not allowed it yet."""
    return memory.metadata.get(PERMISSION) is True


def category_name(category: str) -> str:
    """A category in the form of the conventions: "User Preferences / Time_Zone" is "user-preferences/time-zone"."""
    parts = ("-".join(part.casefold().replace("_", " ").split()) for part in category.split("/"))
    return "/".join(part for part in parts if part)
