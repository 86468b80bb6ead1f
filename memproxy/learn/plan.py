"""Makes plans: what each candidate changes, as exact writes and slot changes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.dream import with_note
from memproxy.core.facts import (
    RETRACTED_BY,
    Decision,
    Operation,
    decide,
    decide_correction,
    decide_replacement,
    decide_retraction,
    in_place_of,
    is_whole,
    only_asks_to_forget,
    repeat,
    said_at,
    says_exactly,
    statement_named,
    trusted_enough,
)
from memproxy.core.memory import ASKED, Memory, Trust, without
from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import Scope
from memproxy.core.slots import slot_name
from memproxy.core.telling import LEAST, PLAINLY, telling
from memproxy.learn import nearby, succession
from memproxy.learn.api_plan import add_requested
from memproxy.learn.candidates import Grounded, Intent, Read, Window, is_read, memory_of
from memproxy.learn.forget_everything import forget_everything
from memproxy.learn.grounding import contradict, goes_back_unsaid
from memproxy.learn.judge import Advice, Judge, apply_verdicts, candidate_key
from memproxy.learn.outcomes import outcome_of
from memproxy.learn.outdated import end_outdated
from memproxy.learn.parts import Parts
from memproxy.learn.pending import reopen_pending, settle_pending, taken_back_with
from memproxy.learn.plan_view import Aliases, PlanView
from memproxy.metrics import metrics


def hide_requests(view: PlanView, extracted: Sequence[Grounded]) -> None:
    """Hide from recall the turns that only ask to forget something; show those again that tell something."""
    by_turn: dict[tuple[str | None, str], list[Grounded]] = {}
    for grounded in extracted:
        by_turn.setdefault((grounded.turn.session_id, grounded.turn.id), []).append(grounded)
    for read in by_turn.values():
        turn = read[0].turn
        was_hidden = not turn.active and turn.metadata.get(RETRACTED_BY) == turn.id and not view.turn_changes(turn)
        if was_hidden and any(grounded.candidate.intent in (Intent.STATE, Intent.CORRECT) for grounded in read):
            view.change_turn(turn, {"active": True, "metadata": without(turn.metadata, RETRACTED_BY)})
        is_shown = turn.trust is Trust.USER and turn.active and view.turn_changes(turn).get("active") is not False
        quotes = [quote for grounded in read for quote in grounded.candidate.evidence]
        asks = all(grounded.candidate.intent is Intent.FORGET for grounded in read)
        if is_shown and asks and only_asks_to_forget(strip_blocks(turn.content), quotes):
            noted = view.turn_changes(turn).get("metadata", turn.metadata)
            view.change_turn(turn, {"active": False, "metadata": noted | {RETRACTED_BY: turn.id}})


def silent_turns(window: Window, read: Read) -> list[Memory]:
    """The user's new turns in which a model found nothing told; none where it misread some."""
    if any(rejected.reason not in _SAYS_NOTHING_NEW for rejected in read.rejected):
        return []
    named = {(grounded.turn.session_id, grounded.turn.id) for grounded in read.grounded}
    turns = [turn for turn in window.turns if turn.id in window.new_ids and turn.trust is Trust.USER and turn.active]
    silent = [turn for turn in turns if ASKED not in turn.metadata and (turn.session_id, turn.id) not in named]
    return [turn for turn in silent if is_read(turn)]


def mere_questions(silent: Sequence[Memory]) -> list[Memory]:
    """Those of the turns in which a model found nothing that hardly tell anything; none where it overlooked one that
    plainly tells, for it is not believed about the others then.
    """
    strengths = [telling(turn.content) for turn in silent]
    if max(strengths, default=0.0) >= PLAINLY:
        return []
    return [turn for turn, strength in zip(silent, strengths, strict=True) if strength >= LEAST]


def hide_questions(view: PlanView, questions: Sequence[Memory], extracted: Sequence[Grounded]) -> None:
    """Mark ``questions`` as no candidates of recall, and unmark turns of which something was ``extracted`` since."""
    telling_turns = [grounded.turn for grounded in extracted if grounded.turn.metadata.get(ASKED) is True]
    for turn, asks in (*((turn, True) for turn in questions), *((turn, False) for turn in telling_turns)):
        view.change_turn(turn, {"metadata": view.turn_changes(turn).get("metadata", turn.metadata) | {ASKED: asks}})


_SAYS_NOTHING_NEW = frozenset({"echo", "question", "pleasantry"})
"""Reasons of rejected candidates by which their message tells nothing (`learn.grounding`)."""

_DONE_BEFORE = "again"  # marks an intent that was carried out when the same words were read before: nothing is noted


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan with its outcomes, its slot changes (in the view), and how many of each operation it holds."""

    plan: PlanBody
    view: PlanView
    operations: Mapping[str, int]


class _Case(msgspec.Struct, frozen=True):
    """A candidate, what its decision is made from, what it names as replaced, and the messages read with its own."""

    scope: Scope
    grounded: Grounded
    candidate: Memory
    verdicts: Mapping[str, str]
    named: Memory | None = None
    read_ids: frozenset[str] = frozenset()


class Planner:
    """Makes plans. Callers hold the owner's lock from here until the plan is applied (but for `advice`)."""

    def __init__(self, parts: Parts, judge: Judge | None = None) -> None:
        self._by_model = parts.by_model  # it may repeat what it was shown, or leave out what a statement replaces
        self._parts = parts
        self._bands = parts.bands
        self._judge = judge

    async def advice(self, scope: Scope, extracted: Sequence[Grounded], *, now: datetime) -> Advice:
        """The judge's advice on doubtful pairs, asked before the lock is taken; what changes then makes it void."""
        if self._judge is None or any(grounded.candidate.intent is Intent.FORGET_ALL for grounded in extracted):
            return {}  # nothing that is known is to be shown to a model, nor compared with
        view = PlanView(self._parts, scope, now)
        candidates = await self._candidates(view, scope, extracted, "judge")
        advice: dict[str, Mapping[str, str]] = {}
        for grounded, candidate in zip(extracted, candidates, strict=True):
            if grounded.candidate.intent is Intent.STATE:
                chain = await nearby.chain(view, candidate)
                turn_scope = scope.at(*grounded.turn.place)
                near = [] if chain else await nearby.neighbours(view, turn_scope, candidate)
                verdicts = await self._judge.verdicts(scope.tenant, candidate, chain, near, self._bands)
                key = candidate_key(candidate)
                advice[key] = {**advice.get(key, {}), **verdicts}
        return advice

    async def plan(
        self,
        scope: Scope,
        extracted: Sequence[Grounded],
        *,
        now: datetime,
        extractor: str,
        advice: Advice | None = None,
        read: Sequence[Memory] = (),
        aside: Memory | None = None,
    ) -> Planned:
        """The plan for what was extracted from the messages ``read`` (what is pending by them is settled), each
        candidate against what is known and those before it. It stands for the memory ``aside``, which holds no longer.
        """
        view = PlanView(self._parts, scope, now, in_steps=True)
        if aside is not None:
            await view.refine(aside)
        held = await reopen_pending(view, read)
        candidates = await self._candidates(view, scope, extracted, extractor)
        read_ids = frozenset(turn.id for turn in read)
        counts: Counter[str] = Counter()
        outcomes: list[Outcome] = []
        for grounded, candidate in zip(extracted, candidates, strict=True):
            await view.step()
            verdicts = (advice or {}).get(candidate_key(candidate), {})
            turn_scope = scope.at(*grounded.turn.place)
            case = _Case(turn_scope, grounded, candidate, verdicts, read_ids=read_ids)
            operation, decision = await self._learn(view, case)
            counts[operation] += 1
            memory = await view.memory(candidate.id) or candidate
            if operation not in (decision.operation, _DONE_BEFORE):
                metrics().candidates_rejected.labels(reason=operation).inc()
            if operation != _DONE_BEFORE:
                outcomes += outcome_of(grounded.turn, memory, operation, decision)
        hide_requests(view, extracted)
        outcomes += await settle_pending(view, read, held)
        plan = msgspec.structs.replace(view.plan(), outcomes=outcomes)
        return Planned(plan=plan, view=view, operations=counts)

    async def _candidates(
        self, view: PlanView, scope: Scope, extracted: Sequence[Grounded], extractor: str
    ) -> list[Memory]:
        view.aliases = aliases = Aliases(await view.state.palace_names(scope, writing=True))
        candidates = []
        for grounded in extracted:
            turn_scope = scope.at(*grounded.turn.place)
            candidates.append(aliases.resolved(memory_of(grounded, turn_scope, now=view.now, extractor=extractor)))
        texts = [candidate.content for candidate in candidates]
        vectors = await self._parts.vectors.statement_vectors(texts, scope.tenant)
        view.vectors = dict(zip((candidate.id for candidate in candidates), vectors, strict=True))
        return candidates

    async def _learn(self, view: PlanView, case: _Case) -> tuple[str, Decision]:
        """Add to the plan what a candidate does; the name of that (or why it does nothing), and the decision."""
        intent, candidate = case.grounded.candidate.intent, case.candidate
        if intent is Intent.FORGET_ALL:
            everything = await forget_everything(view, case.scope, case.grounded.turn)
            over = Decision(Operation.RETRACT, next(iter(everything or ()), None), everything or ())
            return (_DONE_BEFORE, Decision(Operation.NOTHING)) if everything is None else (over.operation.value, over)
        if intent is Intent.FORGET:
            return await self._forget(view, case)
        if replaced := case.grounded.candidate.replaces:
            worded = await nearby.worded(view, case.scope, candidate, replaced)
            case = msgspec.structs.replace(case, named=statement_named(replaced, worded))
        if await view.forgotten(candidate, {case.grounded.turn.id: case.grounded.turn.session_id}):
            return "forgotten", Decision(Operation.NOTHING)
        decision = await self._decision(view, case)
        if (reason := await self._refusal(view, case, decision)) is not None:
            return reason, decision
        # taken back after it was said: with its whole message, or in its own words
        ended = None
        if decision.operation is not Operation.DUPLICATE:
            ended = taken_back_with(case.grounded.turn, candidate, case.read_ids, view.now)
        if (ended := ended or await nearby.ended(view, candidate, decision)) is not None:
            await view.add(ended)
            await succession.hide_late(view, ended)
            decision = Decision(Operation.RETRACT, ended, (ended,))
        else:
            await self._carry_out(view, case, decision)
        return decision.operation.value, decision

    async def _carry_out(self, view: PlanView, case: _Case, decision: Decision) -> None:
        candidate = case.candidate
        if decision.operation is Operation.DUPLICATE and decision.target is not None:
            chain = await view.chain_of(decision.target)
            for name, fields in repeat(decision.target, candidate, chain, now=view.now).items():
                await view.change(name, fields)
            await succession.hide_late(view, await view.memory(decision.target.id) or decision.target)
        elif decision.operation is Operation.UPDATE and decision.target is not None:
            if case.grounded.candidate.intent is Intent.CORRECT:
                candidate = in_place_of(candidate, decision.target)
            if case.named is decision.target:
                candidate = await self._out_of_others_way(view, candidate, decision.target)
            await succession.supersede(view, candidate, decision.target)
        else:
            await view.add(candidate)

    async def _refusal(self, view: PlanView, case: _Case, decision: Decision) -> str | None:
        """Why a decision is not carried out: an echo, a correction of nothing known, or not the user's word."""
        candidate, target = case.candidate, decision.target
        chain = await nearby.chain(view, candidate) if self._by_model else ()
        if goes_back_unsaid(candidate, case.grounded, chain):
            return "echo"
        if decision.operation is Operation.NOTHING:
            return "unknown"
        if target is None or (candidate.trust is Trust.USER and not candidate.quarantined):
            return None
        if decision.operation is Operation.DUPLICATE:
            return "echo"
        changes = decision.operation is Operation.UPDATE
        return "trust" if changes and not trusted_enough(candidate, target) else None

    async def _decision(self, view: PlanView, case: _Case) -> Decision:
        candidate, wrong = case.candidate, case.grounded.candidate.replaces
        if case.named is not None:
            near = await nearby.neighbours(view, case.scope, candidate)
            return decide_replacement(candidate, case.named, near)
        chain = await nearby.chain(view, candidate)
        if case.grounded.candidate.intent is Intent.CORRECT:
            near = [] if chain else await nearby.to_replace(view, case.scope, candidate, wrong)
            decision = decide_correction(candidate, wrong, chain=chain, neighbours=near, bands=self._bands)
            if decision.operation is not Operation.NOTHING or chain or not (self._by_model and is_whole(candidate)):
                return self._with_retraction(candidate, decision)
        near = [] if chain else await nearby.neighbours(view, case.scope, candidate)
        decision = self._with_retraction(candidate, decide(candidate, chain=chain, neighbours=near, bands=self._bands))
        if not case.verdicts:
            return decision
        return apply_verdicts(decision, candidate, case.verdicts, chain=chain, near=near, bands=self._bands)

    async def _out_of_others_way(self, view: PlanView, candidate: Memory, target: Memory) -> Memory:
        """A statement under the names of what it replaces, where a third one, which must stay, holds its slot."""
        holder = await view.holder(candidate.slot) if candidate.slot else None
        other = await view.memory(holder) if holder is not None and holder != target.id else None
        if other is None or says_exactly(other, candidate.content):
            return candidate
        names = {"subject": target.subject, "predicate": target.predicate, "aspect": target.aspect}
        renamed = msgspec.structs.replace(candidate, **names)
        renamed = msgspec.structs.replace(renamed, slot=slot_name(renamed))
        other_holder = await view.holder(renamed.slot) if renamed.slot else None
        if other_holder in (None, target.id):
            return renamed
        return msgspec.structs.replace(candidate, predicate=None, slot=None)

    def _with_retraction(self, candidate: Memory, decision: Decision) -> Decision:
        """The decision; what says of something known that it is over ("cancelled the trip") is no repetition of it."""
        target = decision.target
        if not self._by_model or decision.operation is not Operation.DUPLICATE or target is None or not target.active:
            return decision
        if set(candidate.turn_ids) & set(target.turn_ids) or not contradict(candidate, target):
            return decision
        return Decision(Operation.UPDATE, target)

    async def _forget(self, view: PlanView, case: _Case) -> tuple[str, Decision]:
        """End what a request to forget means. Only the user takes back what the user's memory holds."""
        request = case.candidate
        if request.trust is not Trust.USER:
            return "trust", Decision(Operation.NOTHING)
        turn = request.turn_ids[0]
        near = await nearby.to_forget(view, case.scope, request)
        decision = decide_retraction(request, near)
        for memory in decision.meant:
            await succession.retract(view, memory, turn, said_at(request))
        if decision.operation is Operation.RETRACT:
            return decision.operation.value, decision
        if any(neighbour.memory.metadata.get(RETRACTED_BY) == turn for neighbour in near):
            return _DONE_BEFORE, decision
        await nearby.note_forget_request(view, request)
        return "unknown", decision

    async def plan_asked(self, scope: Scope, body: PlanBody, *, now: datetime) -> Planned:
        """The plan for what the API asks. Raises `msgspec.ValidationError` where a field does not take its value."""
        view = PlanView(self._parts, scope, now)
        counts = await add_requested(view, body, scope)
        dream = body.dream
        if dream is None or not dream.undo:
            await end_outdated(view)
        if dream is not None and not dream.undo:
            view.note_before(lambda old, fields: with_note(old, fields, dream.dream, now))
        return Planned(plan=view.plan(), view=view, operations=counts)
