"""Extraction: a window of a conversation goes to a chat model, grounded candidates come back.

The messages are quoted as data, one JSON object per line; the model nominates, code checks: every candidate must quote
words that a message of the window really holds, and takes its trust from whoever said it.
"""

import asyncio
import json
from collections.abc import Container, Sequence
from importlib import resources
from pathlib import Path

import msgspec

from memproxy.core.block import quote, strip_blocks
from memproxy.core.forget_all import is_all_forgotten
from memproxy.core.memory import Memory
from memproxy.core.predicates import OFFERED, OTHER
from memproxy.errors import ConfigError, ModelUnreadable
from memproxy.learn.admission import Admission
from memproxy.learn.budget import TokenMeter
from memproxy.learn.candidates import Extracted, Read, Window
from memproxy.learn.parse import parse
from memproxy.learn.schema import ANSWER_SCHEMA
from memproxy.metrics import metrics
from memproxy.ports import ChatModel, Credential

EXTRACT_MARK = "You extract long-term memories"
"""How the built-in prompt begins; scripted models recognise an extraction by it."""

_PROMPT = "extract.md"
_MOST_MESSAGE = 6_000
_MOST_KNOWN = 500
_MOST_NAMED = 100
_UNQUOTED_ROLES = frozenset({"system", "developer"})


class Prompt(msgspec.Struct, frozen=True):
    """A prompt and its version; memories note which one they came from."""

    version: str
    text: str


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
    known = [_line(_known(memory)) for memory in window.known]
    said = conversation_lines(window.turns, window.new_ids)
    parts = ["Known memories (data):", *(known or ["(none)"]), "", "Conversation (data):", *said]
    return "\n".join([*parts, "", "Answer with the JSON object only."])


def _known(memory: Memory) -> dict[str, object]:
    """A known memory as the model is shown it: with its names, so that it calls the same thing the same again."""
    predicate, own = memory.predicate, None
    if predicate is not None and predicate not in OFFERED:
        predicate, own = OTHER, predicate
    named = {"subject": memory.subject, "predicate": predicate, "other_predicate": own}
    named |= {"object": memory.object, "aspect": memory.aspect}
    line: dict[str, object] = {"content": quote(memory.content)[:_MOST_KNOWN]}
    return line | {name: quote(value)[:_MOST_NAMED] for name, value in named.items() if value}


def conversation_lines(turns: Sequence[Memory], new_ids: Container[str] | None = None) -> list[str]:
    """The messages that a model is shown, as data: one JSON object a line, with which of them are new if given, and of
    several conversations which one each is of.
    """
    sessions = list(dict.fromkeys(turn.session_id for turn in turns))
    lines = []
    for turn in turns:
        if is_read(turn):
            of = {"conversation": sessions.index(turn.session_id) + 1} if len(sessions) > 1 else {}
            lines.append(_line(of | _quoted(turn, new_ids)))
    return lines


def is_read(turn: Memory) -> bool:
    """Whether the extractor sees this turn: no instructions to the assistant, nothing that the user ordered to forget,
    and something left without its block.
    """
    if turn.metadata.get("role") in _UNQUOTED_ROLES or is_all_forgotten(turn.metadata):
        return False
    return bool(strip_blocks(turn.content).strip())


def _quoted(turn: Memory, new_ids: Container[str] | None) -> dict[str, object]:
    text = quote(strip_blocks(turn.content))
    line: dict[str, object] = {"role": turn.metadata.get("role", turn.trust.value)}
    if name := turn.metadata.get("name"):
        line["name"] = name
    line["date"] = turn.created_at.isoformat()
    if new_ids is not None:
        line["new"] = turn.id in new_ids
    return line | {"text": text[:_MOST_MESSAGE]}


def _line(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)


class Extractor:
    """Asks the model about one window and keeps what is grounded in it."""

    def __init__(self, model: ChatModel, prompt: Prompt, *, admission: Admission, meter: TokenMeter) -> None:
        self._model = model
        self.prompt = prompt
        self._admission = admission
        self._meter = meter

    async def extract(self, tenant: str, credential: Credential, window: Window) -> Read:
        """The grounded candidates of a window, and the others; what is rejected is counted by reason.

        Raises:
            BudgetSpent: the tenant's hour of tokens is used up.
            ModelRefused: the key is missing or not accepted.
            ModelUnreadable: the answer cannot be read.
            ModelError: the call failed.
            StateUnavailable: tokens cannot be counted.
        """
        shown = msgspec.structs.replace(window, turns=[turn for turn in window.turns if is_read(turn)])
        new = [turn.id for turn in shown.turns if turn.id in window.new_ids]
        if not new:
            return Read([], [])
        await self._meter.admit(tenant)
        user = window_text(window)
        reply = await self._model.complete(
            credential, system=self.prompt.text, user=user, json_mode=True, schema=ANSWER_SCHEMA
        )
        await self._meter.note(tenant, "extract", reply, f"{self.prompt.text}\n{user}")
        if reply.truncated and not reply.text.strip():
            raise ModelUnreadable(
                "the model's answer was cut before it began (a reasoning model thinks within the limit): set a higher"
                " models.extract.max_tokens"
            )
        if reply.truncated and len(new) > 1:
            return await self._halves(tenant, credential, window, new)
        # long messages take tens of milliseconds to read, in which nobody would be answered
        return await asyncio.to_thread(self._admission.of_model, _read(reply.text), shown)

    async def _halves(self, tenant: str, credential: Credential, window: Window, new: Sequence[str]) -> Read:
        """The window in two calls, because the answer to the whole was longer than ``max_tokens``."""
        both = Read([], [])
        for ids in (new[: len(new) // 2], new[len(new) // 2 :]):
            read = await self.extract(tenant, credential, msgspec.structs.replace(window, new_ids=frozenset(ids)))
            both.kept.extend(read.kept)
            both.rejected.extend(read.rejected)
        return both


def _read(text: str) -> list[Extracted]:
    """The candidates of an answer; what is none of it is counted."""
    rejected = metrics().candidates_rejected
    try:
        answer = parse(text)
    except ModelUnreadable:
        rejected.labels(reason="unparsable").inc()
        raise
    rejected.labels(reason="empty").inc(answer.dropped)
    return answer.candidates
