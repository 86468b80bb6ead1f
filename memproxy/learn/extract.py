"""Extract: a window of a session's turns goes to a chat model, or to the rules; grounded candidates come back.

The messages are quoted as data, one JSON object per line; the model nominates, code checks: every candidate must quote
words that a message of the window really holds, and takes its trust from whoever said it.
"""

import asyncio
import json
import math
from collections.abc import Container, Sequence
from datetime import datetime
from importlib import resources
from itertools import zip_longest
from pathlib import Path

import msgspec

from memproxy.core.block import quote, strip_blocks
from memproxy.core.memory import FACTS, Kind, Memory, Trust
from memproxy.core.protocol import LearnBody
from memproxy.core.scope import Scope
from memproxy.core.slots import OFFERED, OTHER
from memproxy.core.turn import in_order
from memproxy.errors import ConfigError, ModelRefused, ModelUnreadable
from memproxy.learn import rules
from memproxy.learn.candidates import ANSWER_SCHEMA, Read, Window, is_read
from memproxy.learn.forget_everything import split_at_order
from memproxy.learn.grounding import admitted_of_model, admitted_of_rules, hold_nothing
from memproxy.learn.outdated import PREDICATE
from memproxy.learn.parse import parse
from memproxy.learn.parts import Parts
from memproxy.learn.pending import as_before, changed_by
from memproxy.learn.rules import reader
from memproxy.metrics import metrics
from memproxy.ports import Credential, HybridQuery, MemoryFilter, MemoryStore, every

MINE = "mine"  # reason of a row that reads the whole session again
_SLACK = 2  # turns before the new ones that are read again: an exchange that came while the row was made is not missed


async def turns_of(
    store: MemoryStore, scope: Scope, *, last: int | None = None, until: datetime | None = None
) -> list[Memory]:
    """The ``last`` turns of the session (None: all) said until then, in order."""
    turns: list[Memory] = []
    async for turn in every(store, scope, MemoryFilter(kinds=(Kind.TURN,), session_ids=scope.sessions)):
        if last is not None and len(turns) >= last and turn.created_at < turns[-1].created_at:
            break
        if until is None or turn.created_at <= until:
            turns.append(turn)
    return in_order(turns)[-last:] if last is not None else in_order(turns)


async def unlearned(store: MemoryStore, scope: Scope, body: LearnBody, most: int) -> list[Window]:
    """A session's windows that a row asks for, of ``most`` turns each: the turns that it counts as unlearned, or all.
    Of a longer conversation two thirds of each are new, the rest are those before (10 and 5 of 15).
    """
    if body.reason != MINE and not body.unlearned:
        return []
    new = body.unlearned + _SLACK if body.reason != MINE else None
    last = new + most if new is not None else None
    turns = await turns_of(store, scope.at(None, None), last=last, until=body.until)
    return of_places(turns, first=0 if new is None else max(0, len(turns) - new), most=most)


def is_visible(project: str | None, agent: str | None, turn: Memory) -> bool:
    """Whether what is learned in a project and agent may draw on a turn: it is theirs, or of none."""
    return turn.project_id in {None, project} and turn.agent_id in {None, agent}


def of_places(turns: Sequence[Memory], *, first: int, most: int) -> list[Window]:
    """The windows of the turns from ``first`` on, by project and agent, in the order of their first turns."""
    windows = []
    for place in dict.fromkeys(turn.place for turn in turns[first:]):
        new = {turn.id for turn in turns[first:] if turn.place == place}
        visible = [turn for turn in turns if is_visible(*place, turn)]
        begins = next(position for position, turn in enumerate(visible) if turn.id in new)
        windows += [
            Window(turns=window.turns, new_ids=window.new_ids & new)
            for window in cut(visible, first=begins, most=most)
            if not new.isdisjoint(window.new_ids)
        ]
    return windows


def cut(turns: Sequence[Memory], *, first: int, most: int) -> list[Window]:
    """The turns from ``first`` on in windows of at most ``most`` turns, evenly long, each after some before it."""
    count = len(turns) - first
    size = count if count <= most else math.ceil(count / math.ceil(count / max(1, most * 2 // 3)))
    windows = []
    for start in range(first, len(turns), max(1, size)):
        new = turns[start : start + size]
        lead = turns[max(0, start - (most - len(new))) : start]
        windows.append(Window(turns=[*lead, *new], new_ids=frozenset(turn.id for turn in new)))
    return windows


EXTRACT_MARK = "You extract long-term memories"  # how the built-in prompt begins: scripted models know it by this
_PROMPT = "extract.md"
_MOST_MESSAGE = 6_000
_MOST_KNOWN = 500
_MOST_NAMED = 100


class Prompt(msgspec.Struct, frozen=True):
    """A prompt and its version; memories note which one they came from."""

    version: str
    text: str


def load_prompt(folder: Path | None, name: str = _PROMPT) -> Prompt:
    """The prompt in ``learn.prompts_dir``, else the built-in. Raises `ConfigError` without a ``version: N``."""
    custom_file = folder / name if folder is not None else None
    built_in = resources.files("memproxy.learn").joinpath("prompts", name)
    text = (custom_file if custom_file is not None and custom_file.is_file() else built_in).read_text("utf-8")
    first, _, rest = text.partition("\n")
    label, _, version = first.partition(":")
    if label.strip() != "version" or not version.strip():
        where = custom_file or name
        must = "must be `version: N`, so that memories can tell"
        raise ConfigError(f"learn.prompts_dir: the first line of {where} {must}")
    return Prompt(f"{name.partition('.')[0]}/{version.strip()}", rest.strip())


def window_text(window: Window) -> str:
    """The request's user message: known memories and the conversation, as JSON lines."""
    known_lines = [json.dumps(_memory_fields(memory), ensure_ascii=False) for memory in window.related]
    turn_lines = conversation_lines(window.turns, window.new_ids)
    parts = ["Known memories (data):", *(known_lines or ["(none)"]), "", "Conversation (data):", *turn_lines]
    return "\n".join([*parts, "", "Answer with the JSON object only."])


def _memory_fields(memory: Memory) -> dict[str, object]:
    """A known memory as the model is shown it: with its names, so that it calls the same thing the same again."""
    named = {"subject": memory.subject, "predicate": memory.predicate, "other_predicate": None}
    if memory.predicate is not None and memory.predicate not in OFFERED:
        named |= {"predicate": OTHER, "other_predicate": memory.predicate}
    named |= {"object": memory.object, "aspect": memory.aspect}
    line: dict[str, object] = {"content": quote(memory.content)[:_MOST_KNOWN]}
    return line | {name: quote(value)[:_MOST_NAMED] for name, value in named.items() if value}


def conversation_lines(turns: Sequence[Memory], new_ids: Container[str] | None = None) -> list[str]:
    """Messages as data, a JSON object a line: which are new, if given, and of which of several conversations."""
    sessions = list(dict.fromkeys(turn.session_id for turn in turns))
    lines = []
    for turn in filter(is_read, turns):
        line: dict[str, object] = {}
        if len(sessions) > 1:
            line["conversation"] = sessions.index(turn.session_id) + 1
        line["role"] = turn.metadata.get("role", turn.trust.value)
        if name := turn.metadata.get("name"):
            line["name"] = name
        line["date"] = turn.created_at.isoformat()
        if new_ids is not None:
            line["new"] = turn.id in new_ids
        line["text"] = quote(strip_blocks(turn.content))[:_MOST_MESSAGE]
        lines.append(json.dumps(line, ensure_ascii=False))
    return lines


_KNOWN = 12
_LATEST = 24  # facts learned last that the rules see beside the nearest; a model is shown `_KNOWN` of both together
_QUERY = 2_000  # most characters of a message by which what is known already is searched
_MESSAGES = 12  # most messages of a window by which that is done, the latest


class Reader:
    """Reads windows by a model, or with ``verbatim`` by the rules (``learn.mode``)."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._prompt = load_prompt(parts.settings.learn.prompts_dir)
        self._min_trust = Trust(parts.settings.learn.min_trust)
        self.asks_model = parts.by_model  # whether a model reads

    @property
    def version(self) -> str:
        """The extractor's name, which memories note."""
        return self._prompt.version if self.asks_model else rules.VERSION

    async def read(self, scope: Scope, body: LearnBody, window: Window) -> Read:
        """The candidates of the window, grounded or rejected. Raises the model's errors and `BudgetSpent`."""
        window, order = split_at_order(msgspec.structs.replace(window, turns=list(filter(is_read, window.turns))))
        reading = await self._nominate(scope, body, window, is_new=order is not None)
        return reading if order is None else msgspec.structs.replace(reading, grounded=[order, *reading.grounded])

    async def _nominate(self, scope: Scope, body: LearnBody, window: Window, *, is_new: bool) -> Read:
        """The window's candidates, by a model or the rules; ``is_new``: nothing is known of the user (any more)."""
        if self.asks_model and hold_nothing(window.turns, window.new_ids):
            metrics().extractions_skipped.labels(reason="idle").inc()
            return Read([], [])
        if not is_new:
            # what a new message ended by rules, as it was: whoever reads the message sees what it is about
            changed = changed_by([turn for turn in window.turns if turn.id in window.new_ids])
            stored = await self._parts.store.get(scope, list(changed)) if changed else {}
            as_planned = {name: as_before(memory, changed[name]) for name, memory in stored.items()}
            pending = {name: memory for name, memory in as_planned.items() if memory.active}
            shown_ids = pending.keys() | window.new_ids  # a saved memory is read as a message, and known as well
            related = [memory for memory in await self._related_memories(scope, window) if memory.id not in shown_ids]
            window = msgspec.structs.replace(window, related=[*pending.values(), *related])
        if not self.asks_model:
            plain = [msgspec.structs.replace(turn, content=strip_blocks(turn.content)) for turn in window.turns]
            read = await asyncio.to_thread(reader.read, msgspec.structs.replace(window, turns=plain))
            return admitted_of_rules(read, self._min_trust)
        return await self._extract(scope.tenant, self.known_credential(scope, body), window)

    async def _extract(self, tenant: str, credential: Credential, window: Window) -> Read:
        """The grounded candidates of a window of turns that are read, and the others."""
        new = [turn.id for turn in window.turns if turn.id in window.new_ids]
        if not new:
            return Read([], [])
        system, user = self._prompt.text, window_text(window)
        model, meter = self._parts.model, self._parts.meter
        reply = await meter.ask(model, credential, tenant, "extract", system=system, user=user, schema=ANSWER_SCHEMA)
        if reply.truncated and not reply.text.strip():
            raise ModelUnreadable(
                "the model's answer was cut before it began (a reasoning model thinks within the limit): set a higher"
                " models.extract.max_tokens"
            )
        if reply.truncated and len(new) > 1:
            # the answer to the whole was longer than ``max_tokens``: the window in two calls
            halves = [frozenset(ids) for ids in (new[: len(new) // 2], new[len(new) // 2 :])]
            parts = [msgspec.structs.replace(window, new_ids=ids) for ids in halves]
            read = [await self._extract(tenant, credential, part) for part in parts]
            return Read([*read[0].grounded, *read[1].grounded], [*read[0].rejected, *read[1].rejected])
        try:
            answer = parse(reply.text)
        except ModelUnreadable:
            metrics().candidates_rejected.labels(reason="unparsable").inc()
            raise
        metrics().candidates_rejected.labels(reason="empty").inc(answer.dropped)
        # long messages take tens of milliseconds to read, in which nobody would be answered
        return await asyncio.to_thread(admitted_of_model, answer.candidates, window, self._min_trust)

    def known_credential(self, scope: Scope, body: LearnBody) -> Credential:
        """The credential for the tenant's model. Raises `ModelRefused` while that is not known."""
        credential = self.credential(scope, body)
        if credential is None:
            raise ModelRefused(
                "no key (or model) is known for extraction: the tenant made no request since the start. Its next one "
                "brings it; or set models.extract.api_key or upstream.api_key (and models.extract.model)"
            )
        return credential

    def require_model(self, scope: Scope, body: LearnBody) -> None:
        """Raises `ModelAwaited` where the tenant's model is left alone for a while, because it did not answer."""
        if (credential := self.credential(scope, body)) is not None:
            self._parts.outages.require(credential)

    def credential(self, scope: Scope, body: LearnBody) -> Credential | None:
        """How the tenant's model is called; None while that is not known, and where no model is asked."""
        role = self._parts.settings.models.extract
        return self._parts.access.credential(scope.tenant, role, body.model) if self.asks_model else None

    async def _related_memories(self, scope: Scope, window: Window) -> list[Memory]:
        """What is known of the things that the window's new messages speak of, the nearest first, then the latest."""
        new = [turn for turn in window.turns if turn.id in window.new_ids]
        # an assistant's long answer would be near to anything else
        texts = [turn.content[:_QUERY] for turn in new if turn.trust is not Trust.ASSISTANT]
        texts = texts[-_MESSAGES:] or [turn.content[:_QUERY] for turn in new[-1:]]
        vectors = await self._parts.vectors.statement_vectors(texts, scope.tenant)
        # what is withheld is not known: said again, it is to be learned again
        where = MemoryFilter(kinds=FACTS, active=True, quarantined=False, now=self._parts.clock.now())
        ranks: list[list[Memory]] = []
        for text, vector in zip(texts, vectors, strict=True):
            words = self._parts.lexical.encode_query(text)
            query = HybridQuery(dense=vector, bm25=words, limit=_KNOWN, where=where, background=True)
            candidates = list(await self._parts.store.search(scope, query))
            candidates.sort(key=lambda candidate: (candidate.bm25 or 0.0, candidate.cosine or 0.0), reverse=True)
            # A summary tells what was said: it ends with that, and nothing in it is to be corrected.
            ranks.append([candidate.memory for candidate in candidates if candidate.memory.predicate != PREDICATE])
        nearest = {memory.id: memory for rank in zip_longest(*ranks) for memory in rank if memory is not None}
        stated = list(nearest.values())[:_KNOWN]
        if self.asks_model and len(stated) == _KNOWN:
            return stated
        # and what was learned last: a change ("I sold it", "I switched to Figma") need not name what it ends
        page = await self._parts.store.page(scope.whole.at(scope.project, scope.agent), where, limit=_LATEST)
        stated_ids = {memory.id for memory in stated}
        latest = [memory for memory in page.memories if memory.id not in stated_ids and memory.predicate != PREDICATE]
        return stated + (latest[: _KNOWN - len(stated)] if self.asks_model else latest)
