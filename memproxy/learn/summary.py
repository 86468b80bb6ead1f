"""What a finished conversation was about: one episodic memory of it, by a model or from the user's own sentences."""

import logging
import math
import re
import uuid
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.memory import Kind, Memory, Trust
from memproxy.core.scope import Scope
from memproxy.core.similar import repeats
from memproxy.core.slots import numbers, slot_name
from memproxy.core.text import key_terms, sentences, words
from memproxy.errors import BudgetSpent, ModelError, ModelRefused
from memproxy.learn.candidates import TEXT, object_schema
from memproxy.learn.extract import conversation_lines, load_prompt
from memproxy.learn.forget_everything import since_order
from memproxy.learn.grounding import hold_nothing
from memproxy.learn.outdated import PREDICATE, TAG
from memproxy.learn.parse import MOST_CONTENT, text_of, values
from memproxy.learn.parts import Parts
from memproxy.learn.plan_view import PlanView
from memproxy.learn.planted import plants
from memproxy.metrics import metrics
from memproxy.ports import Credential, MemoryFilter, every

log = logging.getLogger(__name__)

SUMMARY_MARK = "You summarise a conversation"  # how the built-in prompt begins: scripted models know it by this
EXTRACTS = "extract/summary"  # the maker of a summary of the user's own sentences
_MOST_PROMPT = 24_000
_MOST_TURNS = 500
_SENTENCES = 3
_MOST_SENTENCE = 200
_LEAST_TERMS = 2
_SMALL = 31
_SCHEMA = object_schema({"summary": TEXT}, ["summary"])
_NAME = re.compile(r"(?<![.!?:\"“]\s)(?<!^)(?<![\w\"“])[A-Z][\w'’-]+")
_CALENDAR = frozenset(
    {"january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november"}
    | {"december", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
    | {"user", "assistant", "i"}
)


_TAKES_BACK = re.compile(
    r"(?:(?:please|ok(?:ay)?|oh|hey|sorry|actually|wait|and|so|well|can you|could you|you can|just)[ ,:]*)*"
    r"(?:forget|delete|erase|disregard|scratch that|strike that|never ?mind|(?:do not|don['’]t) (?:remember|store|keep)"
    r"|(?:remove|ignore|drop) (?:that|what|everything|all|the fact|my)|no[,.!] ?(?:it|that|this)\b)",
    re.IGNORECASE,
)
"""A sentence that retracts or corrects the one before it: quoted alone, it would bring that back."""


class Summary(msgspec.Struct, frozen=True):
    """A conversation in a few sentences, its turns, its maker (a prompt or `EXTRACTS`), and the last turn read."""

    content: str
    turns: Sequence[Memory]
    maker: str
    until: str


class Summariser:
    """Summarises sessions. Without a model, or when its answer is not true to the conversation, by extracts."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._prompt = load_prompt(parts.settings.learn.prompts_dir, "summary.md")
        self._min_trust = Trust(parts.settings.learn.min_trust)

    async def summary(self, scope: Scope, turns: Sequence[Memory], credential: Credential | None) -> Summary | None:
        """The summary of a session's turns; None when it is known or there is nothing to tell. Raises `ModelRefused`
        and `BudgetSpent`; after other failures of the model it is made of extracts.
        """
        spoken = [turn for turn in since_order(turns)[-_MOST_TURNS:] if _may_be_summarised(turn)]
        if hold_nothing(spoken, frozenset(turn.id for turn in spoken)):
            return None
        former = await self._stored_summary(scope)
        if former is not None and former.metadata.get("until") == spoken[-1].id:
            return None
        if credential is not None and (content := await self._by_model(scope, spoken, credential)) is not None:
            return Summary(content, spoken, self._prompt.version, spoken[-1].id) if content else None
        user_turns = [turn for turn in spoken if turn.trust is Trust.USER]
        content = extract(user_turns)
        return Summary(content, user_turns, EXTRACTS, spoken[-1].id) if content else None

    async def _by_model(self, scope: Scope, turns: Sequence[Memory], credential: Credential) -> str | None:
        """The model's summary; None when it cannot be relied on."""
        model, system = self._parts.model, self._prompt.text
        user = "\n".join(conversation_lines(turns))[-_MOST_PROMPT:]
        try:
            reply = await self._parts.meter.ask(
                model, credential, scope.tenant, "summary", system=system, user=user, schema=_SCHEMA
            )
        except (ModelRefused, BudgetSpent):
            raise
        except ModelError as error:
            log.warning("a session's summary is made of extracts, because the model failed: %s", error)
            return None
        objects = (value for value in values(reply.text) if isinstance(value, dict))
        value = next((value for value in objects if isinstance(value.get("summary"), str)), None)
        # empty when there is nothing to tell, None when it cannot be read
        content = None if value is None else text_of(value, ("summary",), MOST_CONTENT) or ""
        dates = (turn.created_at.isoformat() for turn in turns)
        source_text = "\n".join([*(strip_blocks(turn.content) for turn in turns), *dates])
        if content is None or (content and (plants(content) or not is_true(content, source_text))):
            metrics().candidates_rejected.labels(reason="summary").inc()
            return None
        return content

    async def _stored_summary(self, scope: Scope) -> Memory | None:
        where = MemoryFilter(kinds=(Kind.EPISODIC,), session_ids=scope.sessions, active=True)
        async for memory in every(self._parts.store, scope, where):
            if memory.predicate == PREDICATE and memory.session_id == scope.session:
                return memory
        return None

    async def put(self, view: PlanView, scope: Scope, summary: Summary) -> None:
        """Add the summary to a plan, in place of the one that the session has."""
        memory = _memory(scope, summary, min_trust=self._min_trust, now=view.now)
        former = await self._stored_summary(scope)
        if former is not None:
            ended = {"active": False, "superseded_by": memory.id, "valid_to": view.now, "updated_at": view.now}
            await view.change(former.id, ended)
            memory = msgspec.structs.replace(memory, supersedes=former.id)
        await view.add(memory)


async def still_so(summary: Summary, view: PlanView) -> Summary | None:
    """The summary without sentences that the plan ends. A model that has read both states what holds, so its text is
    not cut; where it mentions what was forgotten, or a message was deleted since, extracts replace it.
    """
    existing = {turn.id for turn in await view.turns(summary.turns[0].session_id, [turn.id for turn in summary.turns])}
    remaining = [turn for turn in summary.turns if turn.id in existing]
    turns = [turn for turn in remaining if turn.id not in view.ended_turns(turn.session_id)]
    if summary.maker == EXTRACTS:
        holds = len(turns) == len(summary.turns)
    else:
        retracted = [old for old, new in await view.ended_statements() if new is None]
        tells_forgotten = any(repeats(summary.content, old, None) for old in retracted)
        holds = len(remaining) == len(summary.turns) and not tells_forgotten
    if holds:
        return summary
    turns = [turn for turn in turns if turn.trust is Trust.USER]
    content = extract(turns)
    return Summary(content, turns, EXTRACTS, summary.until) if content else None


def _may_be_summarised(turn: Memory) -> bool:
    """Whether a turn is said by one of the two, still so, neither hidden nor withheld, and plants nothing."""
    if turn.trust not in {Trust.USER, Trust.ASSISTANT} or not turn.active or turn.quarantined or turn.superseded_by:
        return False
    text = strip_blocks(turn.content)
    return bool(text.strip()) and not plants(text)


def _memory(scope: Scope, summary: Summary, *, min_trust: Trust, now: datetime) -> Memory:
    trust = min((turn.trust for turn in summary.turns), key=lambda trust: trust.level)
    first, last = summary.turns[0], summary.turns[-1]
    memory = Memory(
        id=str(uuid.uuid4()),
        tenant=scope.tenant,
        user_id=scope.user,
        project_id=scope.project,
        agent_id=scope.agent,
        session_id=scope.session,
        kind=Kind.EPISODIC,
        content=summary.content,
        category="conversations/summary",
        tags=[TAG],
        subject="user",
        predicate=PREDICATE,
        object=scope.session,
        confidence=0.7,
        importance=0.4,
        trust=trust,
        quarantined=trust.level < min_trust.level,
        source=last.source,
        turn_ids=_sources(summary),
        created_at=now,
        updated_at=now,
        valid_from=first.created_at,
        metadata={"extractor": summary.maker, "said_at": last.created_at.isoformat(), "until": summary.until},
    )
    return msgspec.structs.replace(memory, slot=slot_name(memory))


def _sources(summary: Summary) -> list[str]:
    """The turns that it rests on: of extracts those whose sentences they are."""

    def is_quoted(turn: Memory) -> bool:
        stated = filter(_states, sentences(strip_blocks(turn.content)))
        return any(sentence[:_MOST_SENTENCE] in summary.content for sentence in stated)

    quoted = [turn.id for turn in summary.turns if is_quoted(turn)] if summary.maker == EXTRACTS else []
    return quoted or [turn.id for turn in summary.turns]


def is_true(content: str, source_text: str) -> bool:
    """Whether all numbers and names of a summary occur in what was said (small numbers may be counts or days)."""
    summary_numbers = {number for number in numbers(content) if float(number) > _SMALL}
    names = {word for name in _NAME.findall(content) for word in words(name)} - _CALENDAR
    heard = {word.removesuffix("'s") for word in words(source_text)}
    are_heard = {name.removesuffix("'s") for name in names} <= heard
    return are_heard and summary_numbers <= numbers(f"{source_text} {source_text.replace('-', ' ')}")


def extract(turns: Sequence[Memory]) -> str:
    """The user's most central sentences (those whose key terms come up most), in their order; empty without any."""
    all_sentences = [sentence for turn in turns for sentence in sentences(strip_blocks(turn.content))]
    stated = [sentence for sentence in dict.fromkeys(all_sentences) if _states(sentence)]
    if not stated:
        return ""
    terms = [key_terms(sentence, 50) for sentence in stated]
    frequency = Counter(term for sentence_terms in terms for term in sentence_terms)
    central = [sum(frequency[term] for term in terms_of_one) / math.sqrt(len(terms_of_one)) for terms_of_one in terms]
    ranked = sorted(range(len(stated)), key=lambda index: central[index], reverse=True)
    chosen = [stated[index][:_MOST_SENTENCE] for index in sorted(ranked[:_SENTENCES])]
    day = turns[0].created_at.date().isoformat()
    return f"On {day} the user said: " + " / ".join(chosen)


def _states(sentence: str) -> bool:
    if _TAKES_BACK.match(sentence):
        return False
    return not sentence.endswith("?") and len(key_terms(sentence)) >= _LEAST_TERMS and not plants(sentence)
