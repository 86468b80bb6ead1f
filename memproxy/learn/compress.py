"""Makes a session's state: what a conversation has come to, in place of the messages that requests then leave out.

It is made behind an answer, from the state before it and the messages since, by the model that extracts. It stands for
nothing but what the session's turns hold, rests on all of them by id, and goes with the first that is erased.
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

import msgspec

from memproxy.core.history import RESTS_ON, STATE, CompressAsked, KeptState, State, read_kept
from memproxy.core.memory import Memory
from memproxy.core.protocol import TurnsBody
from memproxy.core.scope import Scope
from memproxy.core.turn import make_turns, text_digest
from memproxy.errors import ModelUnreadable
from memproxy.learn.candidates import TEXT, TEXTS, object_schema
from memproxy.learn.extract import conversation_lines, load_prompt, turns_of
from memproxy.learn.parse import text_of, values
from memproxy.learn.parts import Parts
from memproxy.learn.planted import plants
from memproxy.learn.summary import is_true
from memproxy.metrics import metrics
from memproxy.ports import BlockLine, Credential, JournalEntry, JournalKind

log = logging.getLogger(__name__)

COMPRESS_MARK = "You compress a conversation"
"""How the built-in prompt begins; scripted models recognise a request for a state by it."""

SHARE = 0.065
"""A state's length as a share of the tokens that it replaces, within the model's own limit."""

_LEAST_TOKENS, _MOST_TOKENS = 150, 1_500
_WORDS = 0.7
"""Words of a token, in most texts; JSON takes some more."""

_MOST_PROMPT = 24_000
"""Characters of the messages in one call; a longer history takes several, each from the state of the one before."""

_MOST_ITEM = 400
_MOST_ITEMS = 40
_SAVING_TRIES = 3
_LOOKED_BACK = 200
"""Outcomes among which something that was deleted is looked for."""

_LISTS = ("decisions", "constraints", "open_points")
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = object_schema({"topic": TEXT, **dict.fromkeys(_LISTS, TEXTS)}, ["topic", *_LISTS])


class _Held(NamedTuple):
    """The turns that hold a history: those stored already, and those of the request that are written soon."""

    brought: list[Memory]
    stored: list[Memory]


class Compressor:
    """Makes and keeps the states of sessions."""

    def __init__(self, parts: Parts, wake_index: Callable[[], None]) -> None:
        self._parts = parts
        self._prompt = load_prompt(parts.settings.learn.prompts_dir, "compress.md")
        self._most_tokens = parts.settings.models.extract.max_tokens
        self._wake_index = wake_index

    async def compress(self, scope: Scope, asked: CompressAsked, credential: Credential) -> None:
        """Make and keep the state that was asked for; none where the session's turns do not hold the messages.

        Raises:
            ModelRefused: the key is not accepted.
            BudgetSpent: the tenant's tokens are used up.
            ModelError: the call failed.
            StoreUnavailable, StateUnavailable: try again later.
        """
        found = await self._parts.state.find_blocks(scope, [STATE])
        lines = found.blocks.get(STATE, [])
        frame = next((line.text for line in lines if line.memory_id is None), None)
        former = read_kept(frame, sum(line.memory_id is not None for line in lines))
        if former is not None and former.after == asked.after:
            return
        if asked.former is not None and (former is None or former.after != asked.former):
            return  # it was erased meanwhile: the next request asks for all of it
        base = former if asked.former is not None else None
        held = await self._held(scope, asked, is_whole=base is None)
        if held is None:
            log.info("a history is not compressed, because turns of its session do not hold all of it")
            return
        state = await self._made(scope, asked, base, [*held.brought, *held.stored], credential)
        if state is None or state.is_empty:
            return
        tokens = asked.tokens + (base.tokens if base is not None else 0)
        kept = KeptState(after=asked.after, turns=len(held.brought) + len(held.stored), tokens=tokens, state=state)
        await self._keep(scope, kept, held, found.erasures)

    async def _held(self, scope: Scope, asked: CompressAsked, *, is_whole: bool) -> "_Held | None":
        """The turns that hold the messages, and all before them; None where a message of the user is in none.

        A client may begin with a history that was never captured: what stands before all that was becomes turns now,
        unless something of the user's was deleted lately: it is not to come back with a history.
        """
        turns = await turns_of(self._parts.store, scope)
        left: dict[tuple[str, str], list[Memory]] = {}
        for turn in turns:
            left.setdefault((str(turn.metadata.get("role")), text_digest(turn.content)), []).append(turn)
        held = [
            same.pop(0) if (same := left.get((one.role, text_digest(one.content)))) else None for one in asked.messages
        ]
        first = next((at for at, turn in enumerate(held) if turn is not None), len(held))
        missing = [at for at, one in enumerate(asked.messages) if held[at] is None and one.role == "user"]
        newest = max((turn.created_at for turn in held if turn is not None), default=_EVER)
        stored = [turn for turn in turns if turn.created_at <= newest]
        if not missing:
            return _Held([], stored)
        begins = is_whole and missing[-1] < first
        brought = await self._brought(scope, asked, first, turns) if begins else []
        return _Held(brought, stored) if brought else None

    async def _brought(self, scope: Scope, asked: CompressAsked, first: int, turns: Sequence[Memory]) -> list[Memory]:
        """The first messages of a history as turns, which are written soon, before all others; none where something
        was deleted.
        """
        noted = await self._parts.state.outcomes(scope.whole, session=None, limit=_LOOKED_BACK)
        if any(one.outcome.result == "deleted" for one in noted):
            return []
        begin = min((turn.created_at for turn in turns), default=asked.asked_at)
        said = [one for one in asked.messages[:first] if one.content.strip()]
        times = [begin - timedelta(milliseconds=len(said) - at) for at in range(len(said))]
        messages = [msgspec.structs.replace(one, timestamp=at) for one, at in zip(said, times, strict=True)]
        body = msgspec.json.encode(TurnsBody(messages=messages, said_at=begin))
        # as if said before any erasure: the journal takes nothing of a session, project or user that was erased
        entry = JournalEntry(kind=JournalKind.TURNS, scope=scope, body=body, captured_at=_EVER)
        if not await self._parts.state.append(entry):
            return []
        self._wake_index()
        return make_turns(scope, messages, now=begin)

    async def _made(
        self,
        scope: Scope,
        asked: CompressAsked,
        base: KeptState | None,
        turns: Sequence[Memory],
        credential: Credential,
    ) -> State | None:
        """What the model makes of it; None when that cannot be read."""
        by_digest = {(str(turn.metadata.get("role")), text_digest(turn.content)): turn for turn in turns}
        made = make_turns(scope, asked.messages, now=asked.asked_at)
        shown = [by_digest.get((str(one.metadata.get("role")), text_digest(one.content)), one) for one in made]
        tokens = (asked.tokens + (base.tokens if base is not None else 0)) * SHARE
        tokens = min(max(tokens, _LEAST_TOKENS), _MOST_TOKENS, self._most_tokens * 0.9)
        state = base.state if base is not None else State()
        for piece in pieces(conversation_lines(shown)):
            former = msgspec.json.encode(state).decode()
            end = f"Answer with the JSON object only, at most {int(tokens * _WORDS)} words in all."
            user = "\n".join(["State so far (data):", former, "", "Conversation (data):", *piece, "", end])
            model, system = self._parts.model, self._prompt.text
            reply = await self._parts.meter.ask(
                model, credential, scope.tenant, "compress", system=system, user=user, schema=_SCHEMA
            )
            if reply.truncated and not reply.text.strip():
                raise ModelUnreadable(
                    "the model's answer was cut before it began: set a higher models.extract.max_tokens"
                )
            said = "\n".join([former, *piece])
            if (read := read_state(reply.text, said, most=int(tokens * 4))) is None:
                log.warning("a session's state cannot be read in its model's answer; its requests go on whole")
                return None
            state = read
        return state

    async def _keep(self, scope: Scope, kept: KeptState, held: "_Held", erasures: int) -> None:
        """Keep it, unless one of its turns is gone by now."""
        lines = [BlockLine(text=msgspec.json.encode(kept).decode())]
        lines += [
            BlockLine(text=RESTS_ON, memory_id=turn.id, expires_at=turn.expires_at)
            for turn in (*held.brought, *held.stored)
        ]
        rests_on = {turn.id for turn in held.stored}
        for _ in range(_SAVING_TRIES):
            if await self._parts.state.save_block(scope, STATE, lines, erasures=erasures, at=self._parts.clock.now()):
                return
            # something of the owner's changed: of these turns?
            erasures = (await self._parts.state.find_blocks(scope, [])).erasures
            if not rests_on <= {turn.id for turn in await turns_of(self._parts.store, scope)}:
                return


def pieces(lines: Sequence[str]) -> list[list[str]]:
    """The lines in pieces of at most `_MOST_PROMPT` characters, as far as single lines allow."""
    found: list[list[str]] = [[]]
    room = _MOST_PROMPT
    for line in lines:
        if found[-1] and len(line) > room:
            found.append([])
            room = _MOST_PROMPT
        found[-1].append(line)
        room -= len(line)
    return [piece for piece in found if piece]


def read_state(text: str, said: str, *, most: int) -> State | None:
    """The state in a model's answer, of at most ``most`` characters; None when there is none. Lines with numbers or
    names that were not ``said``, and lines that give orders to a model, are left out of it.
    """
    value = next((one for one in values(text) if isinstance(one, dict) and ("topic" in one or _LISTS[0] in one)), None)
    if value is None:
        return None
    topic = text_of(value, ("topic",), 2 * _MOST_ITEM) or ""
    if topic and not _stands(topic, said):
        topic = ""
    lists = {name: _items(value.get(name), said) for name in _LISTS}
    while lists and sum(len(one) + 4 for items in lists.values() for one in items) + len(topic) > most:
        longest = max(lists.values(), key=lambda items: sum(map(len, items)))
        if not longest:
            break
        del longest[0]  # what was said first, of what there is most of
    return State(topic=topic, **lists)


def _items(value: object, said: str) -> list[str]:
    given = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [text_of({"text": one}, ("text",), _MOST_ITEM) for one in given[:_MOST_ITEMS]]
    return [text for text in dict.fromkeys(texts) if text and _stands(text, said)]


def _stands(text: str, said: str) -> bool:
    if not plants(text) and is_true(text, said):
        return True
    metrics().candidates_rejected.labels(reason="summary").inc()
    return False
