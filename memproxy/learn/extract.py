"""Extraction: a window of a conversation goes to a chat model, grounded candidates come back.

The messages are quoted as data, one JSON object per line; the model nominates, code checks: every candidate must quote
words that a message of the window really holds, or share its terms, and takes its trust from whoever said it.
"""

import json
import logging
from collections.abc import Sequence
from importlib import resources
from pathlib import Path

import msgspec

from memproxy.core.block import quote, strip_blocks
from memproxy.core.memory import Memory
from memproxy.core.tokens import estimate
from memproxy.errors import ConfigError
from memproxy.learn.candidates import Extracted, Grounded
from memproxy.learn.ground import ground
from memproxy.learn.guard import rejection
from memproxy.learn.parse import parse
from memproxy.metrics import metrics
from memproxy.ports import ChatModel, Credential

log = logging.getLogger(__name__)

EXTRACT_MARK = "You extract long-term memories"
"""How the built-in prompt begins; scripted models recognise an extraction by it."""

_PROMPT = "extract.md"
_MOST_MESSAGE = 6_000
_MOST_KNOWN = 500
_UNQUOTED_ROLES = frozenset({"system", "developer"})


class Prompt(msgspec.Struct, frozen=True):
    """A prompt and its version; memories note which one they came from."""

    version: str
    text: str


class Window(msgspec.Struct, frozen=True, kw_only=True):
    """What one extraction reads: turns in order, which of them are new, and the related memories known already."""

    turns: Sequence[Memory]
    new_ids: frozenset[str]
    known: Sequence[Memory] = ()


class Rejected(msgspec.Struct, frozen=True):
    """A candidate that is not stored, and why."""

    candidate: Extracted
    reason: str


class Read(msgspec.Struct, frozen=True):
    """What one extraction came to."""

    kept: list[Grounded]
    rejected: list[Rejected]


def load_prompt(folder: Path | None, name: str = _PROMPT) -> Prompt:
    """The prompt from ``learn.prompts_dir`` if it is there, else the built-in one. Reads a file: call it at start.

    Raises:
        ConfigError: the file does not begin with a line ``version: N``.
    """
    own = folder / name if folder is not None else None
    if own is not None and own.is_file():
        text = own.read_text("utf-8")
    else:
        text = resources.files("memproxy.learn").joinpath("prompts", name).read_text("utf-8")
    first, _, rest = text.partition("\n")
    label, _, version = first.partition(":")
    if label.strip() != "version" or not version.strip():
        where = own or name
        raise ConfigError(
            f"learn.prompts_dir: the first line of {where} must be `version: N`, so that memories can tell"
        )
    return Prompt(f"{name.partition('.')[0]}/{version.strip()}", rest.strip())


def window_text(window: Window) -> str:
    """The request's user message: known memories and the conversation, as JSON lines."""
    known = [_line({"content": quote(memory.content)[:_MOST_KNOWN]}) for memory in window.known]
    said = [_line(_quoted(turn, window)) for turn in window.turns if is_read(turn)]
    parts = ["Known memories (data):", *(known or ["(none)"]), "", "Conversation (data):", *said]
    return "\n".join([*parts, "", "Answer with the JSON object only."])


def is_read(turn: Memory) -> bool:
    """Whether the extractor sees this turn: no instructions to the assistant, and something left without its block."""
    return turn.metadata.get("role") not in _UNQUOTED_ROLES and bool(strip_blocks(turn.content).strip())


def _quoted(turn: Memory, window: Window) -> dict[str, object]:
    text = quote(strip_blocks(turn.content))
    line: dict[str, object] = {"role": turn.metadata.get("role", turn.trust.value)}
    if name := turn.metadata.get("name"):
        line["name"] = name
    new = turn.id in window.new_ids
    return line | {"date": turn.created_at.isoformat(), "new": new, "text": text[:_MOST_MESSAGE]}


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


class Extractor:
    """Asks the model about one window and keeps what is grounded in it."""

    def __init__(self, model: ChatModel, prompt: Prompt) -> None:
        self._model = model
        self.prompt = prompt

    async def extract(self, credential: Credential, window: Window) -> Read:
        """The grounded candidates of a window, and the others; what is rejected is counted by reason.

        Raises:
            ModelRefused: the key is missing or not accepted.
            ModelUnreadable: the answer cannot be read.
            ModelError: the call failed.
        """
        turns = [turn for turn in window.turns if is_read(turn)]
        if not any(turn.id in window.new_ids for turn in turns):
            return Read([], [])
        user = window_text(window)
        reply = await self._model.complete(credential, system=self.prompt.text, user=user, json_mode=True)
        spent = metrics().model_tokens
        spent.labels(source="extract", direction="input").inc(
            reply.input_tokens or estimate(self.prompt.text) + estimate(user)
        )
        spent.labels(source="extract", direction="output").inc(reply.output_tokens or estimate(reply.text))
        read = Read([], [])
        for candidate in parse(reply.text):
            found = rejection(candidate) or ground(candidate, turns)
            if isinstance(found, str):
                metrics().candidates_rejected.labels(reason=found).inc()
                read.rejected.append(Rejected(candidate, found))
            else:
                read.kept.append(found)
        return read
