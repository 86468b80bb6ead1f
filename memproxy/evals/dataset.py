"""What an evaluation is made of, whatever file it was read from: sessions of users, and questions with their gold."""

import gzip
import json
from collections.abc import Iterator, Sequence, Set
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from memproxy.core.turn import Message
from memproxy.errors import ConfigError

T = TypeVar("T")


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One session of one user: its messages, each with an id of its own, and when it was."""

    user: str
    name: str
    date: datetime
    messages: list[Message]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question with its gold: ids of turns and names of sessions that hold the answer (either may be empty).

    ``group`` is its type, ``asked_at`` what the pipeline takes for now, ``answer`` what a right answer says. Where the
    conversations hold none, it may say why, or be empty, and the question is not ``scored`` but reported apart.
    """

    id: str
    user: str
    text: str
    group: str
    asked_at: datetime
    answer: str = ""
    gold_turns: frozenset[str] = frozenset()
    gold_sessions: frozenset[str] = frozenset()
    scored: bool = True


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    """Sessions in the order in which they are pushed (by time, within a user) and the questions about them."""

    name: str
    total: str
    sessions: list[Session]
    questions: list[Question]

    def by_turns(self) -> Iterator[Session]:
        """The sessions, one of each user in turn: those of different users are indexed side by side."""
        users: dict[str, list[Session]] = {}
        for session in self.sessions:
            users.setdefault(session.user, []).append(session)
        for row in zip_longest(*users.values()):
            yield from (session for session in row if session is not None)

    def smoke(self) -> "Dataset":
        """Ten questions, spread evenly over the set, and only the sessions of their users."""
        questions = for_smoke(self.questions)
        fewer = msgspec.structs.replace(self, questions=questions)
        return fewer.of_users({question.user for question in questions})

    def of_users(self, users: Set[str]) -> "Dataset":
        sessions = [session for session in self.sessions if session.user in users]
        questions = [question for question in self.questions if question.user in users]
        return msgspec.structs.replace(self, sessions=sessions, questions=questions)


def for_smoke(items: Sequence[T]) -> list[T]:
    """Ten of them, spread evenly."""
    return list(items[:: max(1, len(items) // 10)][:10])


def read_json(path: Path) -> Any:
    """A JSON file, gzipped or not.

    Raises:
        ConfigError: it is not there or no JSON.
    """
    try:
        data = path.read_bytes()
        return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    except (OSError, ValueError, EOFError) as error:
        raise ConfigError(f"--data {path} cannot be read as JSON ({error}); name the data set's file") from error
