"""Dialogues and their gold: what must be stored at the end, what must have ended, what must never be stored.

A file is YAML (or JSON, which is YAML): ``type`` and ``dialogues``. Our own lie in ``data`` beside this module, one
file for each type.
"""

import re
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import msgspec

from memproxy.core.turn import Message
from memproxy.errors import ConfigError
from memproxy.evals.own_files import texts
from memproxy.settings.yaml_file import parse_long

SMOKE_DIALOGUES = 10

Split = Literal["dev", "held_out", "unseen"]
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
        """What was said, as it is ingested."""
        return [Message(role=role, content=text) for one in self.said for role, text in one.items()]


class Dialogue(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sessions of one user, in the order in which they come in, and the gold.

    ``never`` are regular expressions that no stored statement may match, whatever became of it.
    """

    id: str
    type: str = ""
    split: Split
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


def load(path: Path | None) -> list[Dialogue]:
    """The dialogues of a file, or our own.

    Raises:
        ConfigError: the file is not there, or not of this form.
    """
    return _checked(
        [one for name, text in texts(path, "memproxy.evals.extraction", "dialogues") for one in _read(name, text)]
    )


def smoke(dialogues: Sequence[Dialogue]) -> list[Dialogue]:
    """Ten of them, spread evenly."""
    step = max(1, len(dialogues) // SMOKE_DIALOGUES)
    return list(dialogues[::step][:SMOKE_DIALOGUES])


def _read(name: str, text: str) -> list[Dialogue]:
    value: Any = parse_long(text, name)
    try:
        file = msgspec.convert(value, _File)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{name} holds no dialogues ({error}); see docs/evaluation.md for their form") from error
    return [
        dialogue if dialogue.type else msgspec.structs.replace(dialogue, type=file.type) for dialogue in file.dialogues
    ]


def _checked(dialogues: list[Dialogue]) -> list[Dialogue]:
    """Them, when every id is there once, every role is known and every pattern can be read."""
    seen: set[str] = set()
    for dialogue in dialogues:
        if dialogue.id in seen:
            raise ConfigError(f"two dialogues are called {dialogue.id}; give each an id of its own")
        seen.add(dialogue.id)
        if unknown := {role for session in dialogue.sessions for one in session.said for role in one} - _ROLES:
            raise ConfigError(f"dialogue {dialogue.id}: the role {sorted(unknown)[0]} is none of {sorted(_ROLES)}")
        for pattern in _patterns(dialogue):
            _compiled(dialogue.id, pattern)
    if not dialogues:
        raise ConfigError("there is no dialogue to evaluate")
    return dialogues


def _patterns(dialogue: Dialogue) -> list[str]:
    ended = [pattern for gold in dialogue.ended for pattern in (*gold.match, *gold.by)]
    stored = [pattern for gold in dialogue.stored for pattern in (*gold.match, gold.subject or "")]
    return [*ended, *stored, *dialogue.never]


def _compiled(name: str, pattern: str) -> None:
    try:
        re.compile(pattern, re.IGNORECASE)
    except re.error as error:
        raise ConfigError(f"dialogue {name}: {pattern!r} is no regular expression ({error})") from error
