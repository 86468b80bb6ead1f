"""What a dream asks a chat model, and what of its answers is taken.

The model sees a window of memories by numbers and answers by them: it cannot name what it was not shown. Code checks
the answer (docs/dream.md); what the model leaves out stays.
"""

import itertools
import json
import logging
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

import msgspec

from memproxy.core.block import quote
from memproxy.core.dream import INFERRED, PERMISSION, Action, Change, Dream, Step, category_name
from memproxy.core.facts import begins, trusted_enough
from memproxy.core.memory import SOURCES, Kind, Memory, Source, version_of
from memproxy.core.memory_feedback import feedback_of
from memproxy.core.scope import Scope
from memproxy.core.similar import names, topic
from memproxy.core.slots import numbers, slot_name
from memproxy.core.text import estimate, sentences, words
from memproxy.errors import BudgetSpent, ModelError, ModelRefused
from memproxy.learn.budget import charged_to, tallied
from memproxy.learn.consolidate import in_order, is_worded_alike, may_be_compared, newest
from memproxy.learn.dream_plan import joined
from memproxy.learn.extract import load_prompt
from memproxy.learn.parse import values
from memproxy.learn.parts import Parts
from memproxy.learn.planted import plants
from memproxy.ports import Credential

log = logging.getLogger(__name__)

WINDOW = 30  # memories that one question shows
_MOST_DELETED = 0.2
_MOST_SET_ASIDE = 0.5
"""Shares of a window that an answer may delete, and set aside in all (merged, superseded, deleted); one may always."""

_MOST_SOURCES = 8
_MOST_TEXT = 600
_LEAST_KEPT = 0.34  # share of a source's words that a merged sentence has, beside all of its names and numbers
_NEEDED = {"strong": 1, "clear": 2, "slight": 3}  # messages that must show a preference, by how strongly it is said

_LEAST_SOURCES = 2
_MOST_LABEL = 60
_MOST_TAGS = 8


class _Merge(msgspec.Struct):
    numbers: list[int]
    text: str


class _Superseded(msgspec.Struct):
    old: int
    new: int


class _Label(msgspec.Struct):
    number: int
    category: str | None = None
    tags: list[str] | None = None


class _Tidied(msgspec.Struct):
    merge: list[_Merge] = []
    supersede: list[_Superseded] = []
    delete: list[int] = []
    label: list[_Label] = []
    conflicts: list[tuple[int, int]] = []


class _Shown(msgspec.Struct):
    number: int
    quote: str


class _Preference(msgspec.Struct):
    text: str
    topic: str
    strength: Literal["strong", "clear", "slight"]
    shown: list[_Shown]
    about: list[str] | None = None


class _Preferences(msgspec.Struct):
    preferences: list[_Preference] = []


class _Drawn(msgspec.Struct):
    text: str
    numbers: list[int]
    topic: str = ""


class _Patterns(msgspec.Struct):
    patterns: list[_Drawn] = []


class _Insights(msgspec.Struct):
    insights: list[_Drawn] = []


_Answer = TypeVar("_Answer", _Tidied, _Preferences, _Patterns, _Insights)
_One = TypeVar("_One")
NewChanges = list[tuple[Change, Memory | None]]  # what is to be done, each with the memory that it makes

_MAKES = {
    Action.INFER: (Kind.SEMANTIC, "preferences", "user-preferences"),
    Action.AVOID: (Kind.PROCEDURAL, "avoid", "anti-patterns"),
    Action.REFLECT: (Kind.REFLECTIVE, "reflect", "reflections"),
}
"""The kind of memory that an action makes, the prompt that it comes from, and its category above the topic."""


class DreamModel:
    """Asks the extraction model about memories, within its tenant's budgets and the dream's own."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._most = parts.settings.dream.max_model_tokens
        self._delicate = frozenset[str](parts.settings.dream.permission_for)
        folder = parts.settings.learn.prompts_dir
        self._prompts = {
            name: load_prompt(folder, f"{name}.md") for name in ("dream", "preferences", "avoid", "reflect")
        }

    def credential(self, tenant: str) -> Credential | None:
        """How the tenant's model is reached; None: by rules alone."""
        if not self._parts.by_model or not self._most:
            return None
        return self._parts.access.credential(tenant, self._parts.settings.models.extract)

    async def tidy(self, owner: Scope, dream: Dream, window: Sequence[Memory]) -> Step:
        """What the model makes of a window of active entries of one place."""
        lines = [_line(number, memory) for number, memory in enumerate(window, start=1)]
        answer = await self._ask(owner, dream, "dream", lines, _Tidied)
        aside = {
            *answer.delete,
            *(pair.old for pair in answer.supersede),
            *itertools.chain(*(merge.numbers[1:] for merge in answer.merge)),
        }
        deleted, shown = len(set(answer.delete)), len(window)
        if len(aside) > max(1, _MOST_SET_ASIDE * shown):
            self._refuse(dream, f"an answer of the model that set aside {len(aside)} of {shown} entries")
            return Step(dream=dream.id)
        if deleted > max(1, _MOST_DELETED * shown):
            self._refuse(dream, f"an answer of the model that deleted {deleted} of {shown} entries")
            answer.delete = []
        return _step(dream, self._check_answer(owner, dream, window, answer), window)

    def _check_answer(self, owner: Scope, dream: Dream, window: Sequence[Memory], answer: _Tidied) -> NewChanges:
        """The permitted changes of an answer; each entry is in one change at most, the first."""
        changes, used_ids = NewChanges(), set[str]()
        proposals: list[tuple[tuple[int, ...], Callable[[Sequence[Memory]], tuple[Change | None, Memory | None]]]] = [
            *((tuple(merge.numbers), partial(self._merge, owner, dream, merge.text)) for merge in answer.merge),
            *(((replaced.old, replaced.new), lambda pair: (_supersede(*pair), None)) for replaced in answer.supersede),
            *(((number,), lambda entry: (_delete_change(entry[0]), None)) for number in dict.fromkeys(answer.delete)),
            *((pair, lambda pair: (_conflict(*pair), None)) for pair in answer.conflicts),
            *(((labels.number,), partial(_label_change, labels)) for labels in answer.label),
        ]
        for numbers_named, checked in proposals:
            change = new = None
            if numbers_named and all(0 < number <= len(window) for number in numbers_named):
                named = [window[number - 1] for number in numbers_named]
                if len(set(numbers_named)) == len(named) and used_ids.isdisjoint(_ids(named)):
                    change, new = checked(named)
            if change is None:
                self._refuse(dream, "what an answer of the model named or wrote wrongly")
            else:
                used_ids.update((change.memory_id, *change.sources))
                changes.append((change, new))
        return changes

    def _merge(
        self, owner: Scope, dream: Dream, text: str, sources: Sequence[Memory]
    ) -> tuple[Change | None, Memory | None]:
        """Entries and the sentence that stands for them; where one of them says it already, that one stays."""
        first = sources[0]
        fits = 1 < len(sources) <= _MOST_SOURCES and all(may_be_compared(first, source) for source in sources[1:])
        texts = [source.content for source in sources]
        if not fits or not _may_stand(text, texts) or not all(_keeps(text, sentence) for sentence in texts):
            return None, None
        same = next((source for source in sources if is_worded_alike(source.content, text)), None)
        if same is not None:
            other_ids = _ids(source for source in sources if source is not same)
            return Change(action=Action.MERGE, reason="model", memory_id=same.id, sources=other_ids), None
        new = self._in_place_of(sources, owner, dream, text)
        return Change(action=Action.MERGE, reason="model", memory_id=new.id, sources=_ids(sources)), new

    def _in_place_of(self, sources: Sequence[Memory], owner: Scope, dream: Dream, text: str) -> Memory:
        """The sentence as a memory, with all that its sources have."""
        latest = newest(sources)
        one_slot = len({slot_name(source) for source in sources}) == 1
        labels = Counter(source.category for source in sources if source.category).most_common(1)
        name = "\n".join([dream.id, *sorted(_ids(sources)), text])
        fields = joined(sources)
        origin = {"extractor": self._prompts["dream"].version, SOURCES: list(_ids(sources))}
        fields["metadata"] = origin | fields["metadata"]
        fields["relations"] = list({str(edge): edge for source in sources for edge in source.relations}.values())
        nameless = {} if one_slot else dict.fromkeys(("subject", "predicate", "object", "aspect"))
        named = msgspec.structs.replace(latest, **nameless)
        return msgspec.structs.replace(
            named,
            **fields,
            id=f"mem_{uuid.uuid5(uuid.NAMESPACE_OID, name).hex}",
            content=" ".join(text.split()),
            tenant=owner.tenant,
            user_id=owner.user,
            updated_at=self._parts.clock.now(),
            supersedes=latest.id,
            superseded_by=None,
            source=Source.DREAM,
            category=labels[0][0] if labels else None,
            slot=slot_name(named),
            trust=min(sources, key=lambda source: source.trust.level).trust,
            access_count=0,
            last_accessed_at=None,
            pointer=None,
        )

    async def infer_preferences(
        self, owner: Scope, dream: Dream, turns: Sequence[Memory], known_texts: Sequence[str]
    ) -> Step:
        """Preferences that the user's messages of one place show, as often as their strength asks for."""
        lines = [json.dumps({"known": quote(text)[:_MOST_TEXT]}, ensure_ascii=False) for text in known_texts]
        lines += [_line(number, turn) for number, turn in enumerate(turns, start=1)]
        answer = await self._ask(owner, dream, "preferences", lines, _Preferences)
        changes = NewChanges()
        for preference in answer.preferences:
            shown = {
                evidence.number: turns[evidence.number - 1]
                for evidence in preference.shown
                if 0 < evidence.number <= len(turns) and _is_quoted(evidence.quote, turns[evidence.number - 1].content)
            }
            evident, text = list(shown.values()), preference.text
            is_shown = len(evident) >= _NEEDED[preference.strength]
            if not is_shown or not _may_stand(text, [turn.content for turn in evident]):
                self._refuse(dream, "a preference that too few messages show")
                continue
            if any(is_worded_alike(text, known_text) for known_text in known_texts):
                continue
            delicate = preference.about is None or bool(self._delicate & set(preference.about))
            change, memory = self._new_memory(owner, Action.INFER, evident, text, preference.topic)
            memory.metadata |= {INFERRED: True, "strength": preference.strength}
            memory.metadata |= {PERMISSION: True} if delicate and self._delicate else {}
            changes.append((change, memory))
        return _step(dream, changes, turns)

    async def infer_lessons(self, owner: Scope, dream: Dream, wrong: Sequence[tuple[Memory, Memory | None]]) -> Step:
        """Lessons of what to avoid, from memories that were judged wrong and what is right instead."""
        lines = []
        for number, (memory, right) in enumerate(wrong, start=1):
            notes = {"said": feedback_of(memory).text, "right": right.content if right is not None else None}
            quoted = {name: quote(text)[:_MOST_TEXT] for name, text in notes.items() if text}
            lines.append(_line(number, memory, **quoted))
        answer = await self._ask(owner, dream, "avoid", lines, _Patterns)
        changes = NewChanges()
        for pattern in answer.patterns:
            rests_on = _named_by_numbers(wrong, pattern.numbers)
            texts = [memory.content for memory, _ in rests_on] + [right.content for _, right in rests_on if right]
            texts += [text for memory, _ in rests_on if (text := feedback_of(memory).text)]
            if rests_on and _may_stand(pattern.text, texts):
                sources = [memory for memory, _ in rests_on]
                changes.append(self._new_memory(owner, Action.AVOID, sources, pattern.text, pattern.topic))
            else:
                self._refuse(dream, "a pattern that rests on nothing that was said")
        return _step(dream, changes, [memory for memory, _ in wrong])

    async def reflect(self, owner: Scope, dream: Dream, window: Sequence[Memory], about: str | None = None) -> Step:
        """Insights that several entries of one place show together."""
        lines = [json.dumps({"topic": quote(about)[:_MOST_TEXT]}, ensure_ascii=False)] if about else []
        lines += [_line(number, memory) for number, memory in enumerate(window, start=1)]
        answer = await self._ask(owner, dream, "reflect", lines, _Insights)
        changes = NewChanges()
        for insight in answer.insights:
            sources = _named_by_numbers(window, insight.numbers)
            if len(sources) >= _LEAST_SOURCES and _may_stand(insight.text, [entry.content for entry in sources]):
                changes.append(self._new_memory(owner, Action.REFLECT, sources, insight.text, "insight"))
            else:
                self._refuse(dream, "an insight that does not rest on two entries")
        return _step(dream, changes, window)

    def _new_memory(
        self, owner: Scope, action: Action, sources: Sequence[Memory], text: str, topic: str
    ) -> tuple[Change, Memory]:
        """A memory that rests on others: of the least trust among them; the same sentence has the same id again."""
        kind, prompt, category = _MAKES[action]
        first, least = sources[0], min(sources, key=lambda source: source.trust.level)
        turns = [[source.id] if source.kind is Kind.TURN else source.turn_ids for source in sources]
        name = "\n".join([*owner.owner, first.project_id or "", first.agent_id or "", " ".join(words(text))])
        now = self._parts.clock.now()
        memory = Memory(
            id=f"mem_{uuid.uuid5(uuid.NAMESPACE_OID, name).hex}",
            tenant=owner.tenant,
            user_id=owner.user,
            project_id=first.project_id,
            agent_id=first.agent_id,
            session_id=first.session_id if len({source.session_id for source in sources}) == 1 else None,
            kind=kind,
            content=" ".join(text.split()),
            category=category_name(f"{category}/{topic}")[:_MOST_LABEL] or None,
            confidence=min(0.8, *(source.confidence for source in sources)),
            trust=least.trust,
            source=Source.DREAM,
            turn_ids=list(dict.fromkeys(itertools.chain(*turns))),
            created_at=now,
            updated_at=now,
            metadata={"extractor": self._prompts[prompt].version, SOURCES: list(_ids(sources))},
        )
        return Change(action=action, reason="model", memory_id=memory.id, sources=_ids(sources)), memory

    async def _ask(self, owner: Scope, dream: Dream, name: str, lines: Sequence[str], answer: type[_Answer]) -> _Answer:
        """The model's answer, read; an empty one where it is not asked (any more) or its answer cannot be read."""
        credential, prompt = self.credential(owner.tenant), self._prompts[name]
        user = "\n".join([*lines, "", "Answer with the JSON object only."])
        if credential is None or "model" in dream.stopped:
            return answer()
        if sum(dream.tokens) + estimate(prompt.text) + estimate(user) > self._most:
            dream.stopped.append("model")
            dream.note("dream.max_model_tokens is reached: what is left was looked at by rules alone.")
            return answer()
        spent: dict[str, tuple[int, int]] = {}
        try:
            with charged_to(owner.owner), tallied(spent):
                model, schema = self._parts.model, msgspec.json.schema(answer)
                reply = await self._parts.meter.ask(
                    model, credential, owner.tenant, "dream", system=prompt.text, user=user, schema=schema
                )
        except (ModelRefused, ModelError, BudgetSpent) as error:
            dream.stopped.append("model")
            dream.note(f"The model was not asked any more: {error.message}")
            return answer()
        input_tokens, output_tokens = spent.get("dream", (0, 0))
        dream.model, dream.tokens = True, (dream.tokens[0] + input_tokens, dream.tokens[1] + output_tokens)
        for value in values(reply.text):
            try:
                return msgspec.convert(value, answer)
            except msgspec.ValidationError:
                continue
        self._refuse(dream, "an answer of the model that could not be read")
        return answer()

    def _refuse(self, dream: Dream, refusal: str) -> None:
        dream.counts["refused"] = dream.counts.get("refused", 0) + 1
        dream.note(f"Refused: {refusal}.")
        log.info("refused in a dream: %s", refusal)


def windows(entries: Sequence[Memory]) -> list[list[Memory]]:
    """Entries in windows, in their order, those of one project and agent together."""
    order = sorted(entries, key=_project_and_agent)
    all_windows: list[list[Memory]] = []
    for _, group in itertools.groupby(order, key=_project_and_agent):
        members = list(group)
        all_windows += [members[start : start + WINDOW] for start in range(0, len(members), WINDOW)]
    return [window for window in all_windows if len(window) > 1]


def _step(dream: Dream, changes: NewChanges, shown: Iterable[Memory]) -> Step:
    by_id = {memory.id: memory for memory in shown}
    named = {name for change, _ in changes for name in (change.memory_id, *change.sources)} & by_id.keys()
    return Step(
        dream=dream.id,
        changes=[change for change, _ in changes],
        new=[memory for _, memory in changes if memory is not None],
        seen={name: version_of(by_id[name]) for name in named},
    )


def _named_by_numbers(shown: Sequence[_One], numbers_named: Sequence[int]) -> list[_One]:
    """What an answer names by its numbers, each once."""
    return [shown[number - 1] for number in dict.fromkeys(numbers_named) if 0 < number <= len(shown)]


def _project_and_agent(memory: Memory) -> tuple[str, str]:
    return memory.project_id or "", memory.agent_id or ""


def _ids(memories: Iterable[Memory]) -> tuple[str, ...]:
    return tuple(memory.id for memory in memories)


def _line(number: int, memory: Memory, **more: str) -> str:
    fields: dict[str, object] = {"number": number, "date": begins(memory).date().isoformat()}
    if memory.kind is not Kind.TURN:
        fields |= {"kind": memory.kind.value, "category": memory.category, "tags": memory.tags}
    fields["text"] = quote(memory.content)[:_MOST_TEXT]
    return json.dumps({name: value for name, value in (fields | more).items() if value}, ensure_ascii=False)


def _supersede(old: Memory, new: Memory) -> Change | None:
    fits = may_be_compared(old, new) and old.kind is not Kind.EPISODIC and trusted_enough(new, old)
    if not fits or begins(old) == begins(new) or in_order(old, new) != (old, new):
        return None
    return Change(action=Action.SUPERSEDE, reason="model", memory_id=new.id, sources=(old.id,))


def _delete_change(entry: Memory) -> Change | None:
    """The deletion of an entry; None for one that was recalled or called helpful."""
    used = entry.access_count or feedback_of(entry).helpful
    return None if used else Change(action=Action.DELETE, reason="model", memory_id=entry.id)


def _conflict(entry: Memory, other: Memory) -> Change | None:
    change = Change(action=Action.CONFLICT, reason="model", memory_id=entry.id, sources=(other.id,))
    return change if may_be_compared(entry, other) else None


def _label_change(label: _Label, named: Sequence[Memory]) -> tuple[Change | None, None]:
    entry = named[0]
    new: dict[str, Any] = {}
    name = category_name(label.category or "")
    if name and len(name) <= _MOST_LABEL and name != entry.category and not plants(name):
        new["category"] = name
    tags = [" ".join(tag.split()) for tag in label.tags or () if tag.strip() and len(tag) <= _MOST_LABEL]
    tags = list(dict.fromkeys([*entry.tags, *tags[:_MOST_TAGS]]))
    if tags != entry.tags:
        new["tags"] = tags
    return (Change(action=Action.CATEGORISE, reason="model", memory_id=entry.id, labels=new) if new else None), None


def _may_stand(text: str, sources: Sequence[str]) -> bool:
    """Whether a model's sentence may be stored: short, no instruction, no name or number that nobody said."""
    heard = "\n".join(sources)
    if not text.strip() or len(text) > _MOST_TEXT or plants(text):
        return False
    heard_words = {word.removesuffix("'s") for word in words(heard)}
    named = frozenset(itertools.chain(*map(names, sentences(text))))
    new = {word.removesuffix("'s") for name in named for word in name.split("_")}
    return numbers(text) <= numbers(heard) and new <= heard_words | {word.rstrip("s") for word in heard_words}


def _keeps(text: str, source: str) -> bool:
    """Whether a merged sentence has the names and numbers of a source, and enough of its other words."""
    if not (numbers(source) <= numbers(text) and names(f"- {source}") <= names(f"- {text}")):
        return False
    about = topic(source) - names(source)
    return not about or len(about & topic(text)) >= _LEAST_KEPT * len(about)


def _is_quoted(quote_text: str, text: str) -> bool:
    """Whether these words stand in a message, blanks and case aside."""
    plain_quote = " ".join(quote_text.casefold().split()).strip(" .…\"'")
    return bool(plain_quote) and plain_quote in " ".join(text.casefold().split())
