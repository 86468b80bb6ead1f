"""Messages to memory itself (``control.in_chat``): "What do you know about me?", "Forget my birthday".

They are answered by the memory API, as whoever sends them may call it, and by the same code. Where that cannot be (the
engine is away, the key may not do it, nothing is known of what is named) the message goes to the model as any other.
"""

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from memproxy.auth.identity import encode_identity
from memproxy.core.block import strip_blocks
from memproxy.core.control_phrases import Command, line
from memproxy.core.protocol import IDENTITY_HEADER, Identity
from memproxy.core.redact import redact
from memproxy.core.scope import Scope
from memproxy.errors import EngineUnavailable
from memproxy.metrics import metrics
from memproxy.relay.controls import Mode
from memproxy.relay.engines import Engines
from memproxy.settings import Settings
from memproxy.wire.made_answer import may_be_answered
from memproxy.wire.request_body import RequestBody

log = logging.getLogger(__name__)

LOOK_S = 3.0
"""How long looking for what is meant may take; then the message goes to the model."""

LOOK_AGAIN_S = 0.1
"""Pause between looks for the last exchange, which is indexed in a moment."""

MEANT = 0.6
"""Least calibrated score of a memory that is more likely meant than not."""

MOST_FORGOTTEN = 10
"""Most facts, and most messages, that one message may delete."""

_FACTS = ("semantic", "procedural", "reflective")
_MOST_LISTED = 200
_OK = frozenset({200, 202})

Memory = dict[str, Any]


class _Refused(Exception):
    """The memory API refuses this; the message goes to the model."""


class InChat:
    """Carries out such messages."""

    def __init__(self, engine: Engines, settings: Settings) -> None:
        self._engine = engine
        self._redact = frozenset[str](settings.privacy.redact)
        self._enabled = settings.control.in_chat

    def may_be_asked(self, chat: RequestBody, mode: Mode) -> bool:
        """Whether a line of ours can be an answer at all: memory is on, no tools run, and no other form is wanted."""
        if not self._enabled or not mode.injects or not chat.messages or chat.messages[-1].role != "user":
            return False
        content = chat.messages[-1].content
        if not isinstance(content, str) and any(part.text is None for part in content or ()):
            return False  # a picture, a file
        return not chat.is_tool_followup and not chat.tool_choice_forced and may_be_answered(chat)

    async def carry_out(self, command: Command, identity: Identity, scope: Scope, chat: RequestBody) -> str | None:
        """Do what is asked, and answer in one line; None where it cannot be done. ``scope.session`` None: nothing was
        said in it before.
        """
        memory = _Api(self._engine, identity, scope)
        answer: str | None
        try:
            match command.name:
                case "about":
                    answer = await self._about(command, memory)
                case "forget":
                    answer = await self._forget(command, memory)
                case "unremember":
                    answer = await self._unremember(command, memory, scope, chat)
                case _:
                    answer = await self._switch(command, memory)
        except (EngineUnavailable, _Refused, TimeoutError) as error:
            log.info("a message to memory (%s) goes to the model: %s", command.name, str(error) or "it took too long")
            return None
        if answer is not None:
            metrics().control.labels(command.name).inc()
        return answer

    async def _about(self, command: Command, memory: "_Api") -> str:
        async with asyncio.timeout(LOOK_S):
            facts = [fact for fact in await memory.listed(kind=_FACTS, active="true") if not fact["quarantined"]]
        facts.sort(key=lambda fact: fact["importance"], reverse=True)
        return line(command, "about" if facts else "nothing", [fact["content"] for fact in facts])

    async def _forget(self, command: Command, memory: "_Api") -> str | None:
        """Facts that fit, with the messages that they come from; where no fact does, and the message says that memory
        is meant, the user's own messages that fit. With a message goes what was answered to it, and what else it
        told: that is named, too.
        """
        async with asyncio.timeout(LOOK_S):
            facts = (await memory.search(command.target, _FACTS))[:MOST_FORGOTTEN]
            fits = [] if facts or not command.in_messages else await memory.search(command.target, ("turn",))
            own_rows = [row for row in fits if row["trust"] == "user"][:MOST_FORGOTTEN]
            sources = {(row["session_id"], name) for row in facts for name in row["turn_ids"]}
            sources |= {(row["session_id"], row["id"]) for row in own_rows}
            sessions = {session for session, _ in sources if session is not None}
            answers = [
                (session, row["id"])
                for session in sessions
                for row in _answers(await memory.listed(kind=("turn",), session_id=session), sources)
            ]
            messages = {name for _, name in [*sources, *answers]}
            along = [
                row
                for session in sessions
                for row in await memory.listed(kind=_FACTS, session_id=session, active="true")
                if row["turn_ids"] and messages.issuperset(row["turn_ids"])
            ]
        gone = 0
        for session, name in [*((None, row["id"]) for row in facts), *sorted(sources, key=str), *answers]:
            gone += await memory.forgotten(name, session)
        named = {row["id"]: row["content"] for row in own_rows or [*facts, *along]}
        return line(command, "forgotten", list(named.values()), count=gone) if gone else None

    async def _unremember(self, command: Command, memory: "_Api", scope: Scope, chat: RequestBody) -> str | None:
        """The exchange before this message: what the user said last, and what came of it."""
        if scope.session is None:
            return None
        brought = chat.user_texts[-2:-1] if chat.sends_history else []
        last_text = redact(strip_blocks(brought[0]), self._redact).strip() if brought else None
        async with asyncio.timeout(LOOK_S):
            while True:  # until it is indexed: what was said before that is not meant
                is_newest = bool(last_text) or await memory.all_indexed()
                turns = await memory.listed(kind=("turn",), session_id=scope.session)
                place = next((index for index, row in enumerate(turns) if row["trust"] == "user"), None)
                if place is not None and is_newest and (turns[place]["content"].strip() == last_text or not last_text):
                    break
                await asyncio.sleep(LOOK_AGAIN_S)
        last = turns[place]
        exchange = [last, *_answers(turns, {(scope.session, last["id"])})]
        gone = [await memory.forgotten(row["id"], scope.session) for row in exchange]
        return line(command, "unremembered", [last["content"]]) if any(gone) else None

    async def _switch(self, command: Command, memory: "_Api") -> str:
        """Change the user's (the agent's) own settings; what else was chosen stays."""
        async with asyncio.timeout(LOOK_S):
            holds = await memory.call("GET", "/settings")
        less = "read" if holds["mode"] in {"on", "read"} else "off"
        mode, outcome = ("on", "started") if command.name == "start" else (less, "stopped")
        await memory.call("PUT", "/settings", {**holds["chosen"], "mode": mode})
        return line(command, outcome)


def _answers(turns: Sequence[Memory], messages: Collection[tuple[str | None, str]]) -> list[Memory]:
    """A session's turns that came with these messages in one request, the user's apart: they mostly say the same."""
    requests = {
        turn["metadata"].get("request_id") for turn in turns if (turn["session_id"], turn["id"]) in messages
    } - {None}
    return [turn for turn in turns if turn["trust"] != "user" and turn["metadata"].get("request_id") in requests]


class _Api:
    """The memory API, for the user of one request."""

    def __init__(self, engine: Engines, identity: Identity, scope: Scope) -> None:
        self._engine = engine
        asker = msgspec.structs.replace(
            identity, named_user=scope.user, project=scope.project, agent=scope.agent, session=None
        )
        self._headers = {IDENTITY_HEADER: encode_identity(asker), "content-type": "application/json"}

    async def call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> Any:
        """The answer of a call of ``/v1/memory``, or below it. `EngineUnavailable` without an answer, `_Refused` for a
        refusal.
        """
        data = msgspec.json.encode(body) if body is not None else b""
        status, _, chunks = await self._engine.api(method, f"/v1/memory{path}", self._headers, data)
        answered = b"".join([chunk async for chunk in chunks])
        if status not in _OK:
            raise _Refused(f"the memory API answers {method} with {status}")
        return msgspec.json.decode(answered)

    async def all_indexed(self) -> bool:
        """Whether all that the user said is indexed; False, too, for a key of one project, which may not know."""
        index = (await self.call("GET", "/stats"))["queues"].get("index")
        return index is not None and not (index["waiting"] or index["running"])

    async def listed(self, *, kind: Sequence[str], **where: str) -> list[Memory]:
        query = urlencode([*(("kind", name) for name in kind), *where.items(), ("limit", _MOST_LISTED)])
        data: list[Memory] = (await self.call("GET", f"?{query}"))["data"]
        return data

    async def search(self, query: str, kind: Sequence[str]) -> list[Memory]:
        """What the query means, best first; nothing that is more likely not meant."""
        answer = await self.call("POST", "/search", {"query": query, "kind": list(kind), "limit": 50})
        return [hit["memory"] for hit in answer["data"] if hit["score"] >= MEANT]

    async def forgotten(self, name: str, session: str | None) -> int:
        """Forget one memory, with what was learned from it alone; how many went. One that is gone already is none."""
        try:
            where = f"?{urlencode({'session_id': session})}" if session is not None else ""
            return int((await self.call("DELETE", f"/{quote(name, safe='')}{where}"))["deleted"])
        except _Refused:
            return 0
