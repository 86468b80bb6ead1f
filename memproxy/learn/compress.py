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

COMPRESS_MARK = "You compress a conversation"  # how the built-in prompt begins: scripted models know it by this
SHARE = 0.065  # a state's length as a share of the tokens that it replaces, within the model's own limit
_LEAST_TOKENS, _MOST_TOKENS = 150, 1_500
_WORDS = 0.7  # words of a token, in most texts; JSON takes some more
_MOST_PROMPT = 24_000  # characters of the messages in one call; a longer history takes several, one after the other
_MOST_ITEM = 400
_MOST_ITEMS = 40
_SAVING_TRIES = 3
_LOOKED_BACK = 200  # outcomes among which something that was deleted is looked for

_LISTS = ("decisions", "constraints", "open_points")
_EVER = datetime(1970, 1, 1, tzinfo=UTC)
_SCHEMA = object_schema({"topic": TEXT, **dict.fromkeys(_LISTS, TEXTS)}, ["topic", *_LISTS])


class _Held(NamedTuple):
    """The turns that hold a history: those stored already, and those ``brought`` by the request, written soon."""

    brought: list[Memory]
    stored: list[Memory]


class Compressor:
    """Makes and keeps the states of sessions."""

    def __init__(self, parts: Parts, wake_index: Callable[[], None]) -> None:
        self._parts = parts
        self._prompt = load_prompt(parts.settings.learn.prompts_dir, "compress.md")
        self._most_tokens = parts.settings.models.extract.max_tokens
        self._wake_index = wake_index

    async def compress(self, scope: Scope, request: CompressAsked, credential: Credential) -> None:
        """Make and keep the state, if turns hold the messages. Raises the model's errors and `BudgetSpent`."""
        saved = await self._parts.state.find_blocks(scope, [STATE])
        lines = saved.blocks.get(STATE, [])
        frame = next((line.text for line in lines if line.memory_id is None), None)
        former = read_kept(frame, sum(line.memory_id is not None for line in lines))
        if former is not None and former.after == request.after:
            return
        if request.former is not None and (former is None or former.after != request.former):
            return  # it was erased meanwhile: the next request asks for all of it
        base = former if request.former is not None else None
        held = await self._held(scope, request, is_whole=base is None)
        if held is None:
            log.info("a history is not compressed, because turns of its session do not hold all of it")
            return
        state = await self._ask_model(scope, request, base, [*held.brought, *held.stored], credential)
        if state is None or state.is_empty:
            return
        tokens = request.tokens + (base.tokens if base is not None else 0)
        turns = len(held.brought) + len(held.stored)
        kept_state = KeptState(after=request.after, turns=turns, tokens=tokens, state=state)
        await self._keep(scope, kept_state, held, saved.erasures)

    async def _held(self, scope: Scope, request: CompressAsked, *, is_whole: bool) -> _Held | None:
        """The turns that hold the messages, and all before them; None where a message of the user is in none. A history
        that was never captured becomes turns now, unless something of the user's was deleted lately: that must not come
        back with a history.
        """
        turns = await turns_of(self._parts.store, scope)
        unmatched: dict[tuple[str, str], list[Memory]] = {}
        for turn in turns:
            unmatched.setdefault(_role_and_text(turn), []).append(turn)
        held = [
            same.pop(0) if (same := unmatched.get((message.role, text_digest(message.content)))) else None
            for message in request.messages
        ]
        first = next((at for at, turn in enumerate(held) if turn is not None), len(held))
        missing = [at for at, message in enumerate(request.messages) if held[at] is None and message.role == "user"]
        newest = max((turn.created_at for turn in held if turn is not None), default=_EVER)
        stored = [turn for turn in turns if turn.created_at <= newest]
        if not missing:
            return _Held([], stored)
        begins = is_whole and missing[-1] < first
        brought = await self._history(scope, request, first, turns) if begins else []
        return _Held(brought, stored) if brought else None

    async def _history(self, scope: Scope, request: CompressAsked, first: int, turns: Sequence[Memory]) -> list[Memory]:
        """The first messages of a history as turns, to be written before all; none where something was deleted."""
        noted = await self._parts.state.outcomes(scope.whole, session=None, limit=_LOOKED_BACK)
        if any(row.outcome.result == "deleted" for row in noted):
            return []
        begin = min((turn.created_at for turn in turns), default=request.asked_at)
        spoken = [message for message in request.messages[:first] if message.content.strip()]
        times = [begin - timedelta(milliseconds=len(spoken) - at) for at in range(len(spoken))]
        messages = [msgspec.structs.replace(message, timestamp=at) for message, at in zip(spoken, times, strict=True)]
        body = msgspec.json.encode(TurnsBody(messages=messages, said_at=begin))
        # as if said before any erasure: the journal takes nothing of a session, project or user that was erased
        entry = JournalEntry(kind=JournalKind.TURNS, scope=scope, body=body, captured_at=_EVER)
        if not await self._parts.state.append(entry):
            return []
        self._wake_index()
        return make_turns(scope, messages, now=begin)

    async def _ask_model(
        self,
        scope: Scope,
        request: CompressAsked,
        base: KeptState | None,
        turns: Sequence[Memory],
        credential: Credential,
    ) -> State | None:
        """The state that the model writes; None when its answer cannot be read."""
        by_digest = {_role_and_text(turn): turn for turn in turns}
        request_turns = make_turns(scope, request.messages, now=request.asked_at)
        shown = [by_digest.get(_role_and_text(turn), turn) for turn in request_turns]
        tokens = (request.tokens + (base.tokens if base is not None else 0)) * SHARE
        tokens = min(max(tokens, _LEAST_TOKENS), _MOST_TOKENS, self._most_tokens * 0.9)
        state = base.state if base is not None else State()
        for piece in _pieces(conversation_lines(shown)):
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
            source_text = "\n".join([former, *piece])
            if (read := _read_state(reply.text, source_text, most=int(tokens * 4))) is None:
                log.warning("a session's state cannot be read in its model's answer; its requests go on whole")
                return None
            state = read
        return state

    async def _keep(self, scope: Scope, kept_state: KeptState, held: _Held, erasures: int) -> None:
        """Store the state, unless one of its turns was deleted meanwhile."""
        turns = (*held.brought, *held.stored)
        lines = [BlockLine(text=msgspec.json.encode(kept_state).decode())]
        lines += [BlockLine(text=RESTS_ON, memory_id=turn.id, expires_at=turn.expires_at) for turn in turns]
        rests_on = {turn.id for turn in held.stored}
        for _ in range(_SAVING_TRIES):
            if await self._parts.state.save_block(scope, STATE, lines, erasures=erasures, at=self._parts.clock.now()):
                return
            # something of the owner's changed: of these turns?
            erasures = (await self._parts.state.find_blocks(scope, [])).erasures
            if not rests_on <= {turn.id for turn in await turns_of(self._parts.store, scope)}:
                return


def _role_and_text(turn: Memory) -> tuple[str, str]:
    """Who says it and what: by that messages of a request are found among the turns."""
    return str(turn.metadata.get("role")), text_digest(turn.content)


def _pieces(lines: Sequence[str]) -> list[list[str]]:
    """The lines in pieces of at most `_MOST_PROMPT` characters, as far as single lines allow."""
    groups: list[list[str]] = [[]]
    room = _MOST_PROMPT
    for line in lines:
        if groups[-1] and len(line) > room:
            groups.append([])
            room = _MOST_PROMPT
        groups[-1].append(line)
        room -= len(line)
    return [piece for piece in groups if piece]


def _read_state(text: str, source_text: str, *, most: int) -> State | None:
    """The state in an answer, ``most`` characters at most; None without one. Lines with numbers or names that
    ``source_text`` does not hold, and lines that give orders to a model, are left out.
    """
    objects = (value for value in values(text) if isinstance(value, dict))
    value = next((value for value in objects if "topic" in value or _LISTS[0] in value), None)
    if value is None:
        return None
    topic = text_of(value, ("topic",), 2 * _MOST_ITEM) or ""
    if topic and not _stands(topic, source_text):
        topic = ""
    lists = {name: _items(value.get(name), source_text) for name in _LISTS}
    while sum(len(item) + 4 for items in lists.values() for item in items) + len(topic) > most:
        longest = max(lists.values(), key=lambda items: sum(map(len, items)))
        if not longest:
            break
        del longest[0]  # what was said first, of what there is most of
    return State(topic=topic, **lists)


def _items(value: object, source_text: str) -> list[str]:
    items = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    texts = [text_of({"text": item}, ("text",), _MOST_ITEM) for item in items[:_MOST_ITEMS]]
    return [text for text in dict.fromkeys(texts) if text and _stands(text, source_text)]


def _stands(text: str, source_text: str) -> bool:
    if not plants(text) and is_true(text, source_text):
        return True
    metrics().candidates_rejected.labels(reason="summary").inc()
    return False
