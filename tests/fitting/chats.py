"""Chats of invented users, written for this project, with questions and the messages that answer them.

A file in ``data`` beside this module is plain text. A user begins with ``# name | language`` (and ``| held_out``, if
nothing may be fitted on him), a session with ``@ date``. Then every line is a message of the user's, with ``> ``
before it one of the assistant's; ``[label]`` before a message names it. ``= [label] text`` is the fact that was learned
from that message. ``? kind | question | labels`` is a question and what answers it; a follow-up is put as
``earlier // question``.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, cast

import msgspec

from memproxy.core.turn import Message
from memproxy.errors import ConfigError

DATA = Path(__file__).parent / "data"

Kind = Literal["direct", "paraphrase", "list", "follow", "none", "general", "smalltalk"]
"""``paraphrase``: in words that the message does not have; ``list``: several messages answer together; the last three
have no answer in the chat.
"""

_KINDS = frozenset(("direct", "paraphrase", "list", "follow", "none", "general", "smalltalk"))
_LABELLED = re.compile(r"\[(\w+)\] (.+)")


class ChatSession(msgspec.Struct, frozen=True):
    """One session: when, and its messages; the ids of those with a label are the labels."""

    date: datetime
    messages: list[Message]


class Asked(msgspec.Struct, frozen=True):
    """One question: the user's messages, the last of them the question; and labels of what answers it."""

    kind: Kind
    queries: list[str]
    gold: frozenset[str]


class Chat(msgspec.Struct, frozen=True):
    """All that is known of one invented user. ``facts`` are pairs of a label and a statement."""

    user: str
    language: str
    held_out: bool
    sessions: list[ChatSession]
    facts: list[tuple[str, str]]
    questions: list[Asked]


def load() -> list[Chat]:
    """All chats, in the order of the files.

    Raises:
        ConfigError: a line cannot be read, or a question names a label that is not there.
    """
    return [chat for one in sorted(DATA.glob("*.txt")) for chat in parse(one.read_text("utf-8"))]


def parse(text: str) -> Iterator[Chat]:
    """The chats of one file.

    Raises:
        ConfigError: as `load`.
    """
    for part in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        head, *lines = part.splitlines()
        yield _chat(head, [line.strip() for line in lines if line.strip()])


def _chat(head: str, lines: list[str]) -> Chat:
    user, language, *held_out = (part.strip() for part in head.split("|"))
    chat = Chat(user, language, held_out == ["held_out"], [], [], [])
    for line in lines:
        _add(chat, line)
    labels = {message.id for session in chat.sessions for message in session.messages}
    unknown = sorted({label for label, _ in chat.facts}.union(*(one.gold for one in chat.questions)) - labels)
    if unknown:
        raise ConfigError(f"the chat of {user} has no message {unknown[0]!r}")
    return chat


def _add(chat: Chat, line: str) -> None:
    sign, rest = line[0], line[1:].strip()
    if sign == "@":
        date = datetime.fromisoformat(rest).replace(hour=18, tzinfo=UTC)
        chat.sessions.append(ChatSession(date, []))
    elif sign == "=":
        chat.facts.append(_labelled(chat, rest))
    elif sign == "?":
        chat.questions.append(_question(chat, rest))
    else:
        messages = chat.sessions[-1].messages
        label, said = f"{len(chat.sessions)}:{len(messages)}", rest if sign == ">" else line
        if match := _LABELLED.fullmatch(said):
            label, said = match.groups()
        messages.append(Message(role="assistant" if sign == ">" else "user", id=label, content=said))


def _labelled(chat: Chat, text: str) -> tuple[str, str]:
    match = _LABELLED.fullmatch(text)
    if match is None:
        raise ConfigError(f"the chat of {chat.user} has a fact without a label: {text!r}")
    return match.group(1), match.group(2)


def _question(chat: Chat, text: str) -> Asked:
    kind, question, labels = (part.strip() for part in text.split("|"))
    if kind not in _KINDS:
        raise ConfigError(f"the chat of {chat.user} asks a question of no known kind: {kind!r}")
    return Asked(cast(Kind, kind), [part.strip() for part in question.split("//")], frozenset(labels.split()))
