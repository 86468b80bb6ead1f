"""Plan: what each candidate does to what is known, as exact writes and slot changes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime

import msgspec

from memproxy.core.block import strip_blocks
from memproxy.core.dream import noted
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
    named_by,
    only_asks_to_forget,
    repeat,
    said_at,
    says_exactly,
    trusted_enough,
)
from memproxy.core.memory import ASKED, Memory, Trust, without
from memproxy.core.protocol import PlanBody
from memproxy.core.receipt import Outcome
from memproxy.core.scope import Scope
from memproxy.core.slots import slot_name
from memproxy.core.telling import LEAST, PLAINLY, telling
from memproxy.learn import nearby, succession
from memproxy.learn.api_plan import asked_for
from memproxy.learn.candidates import Grounded, Intent, Read, Window, is_read, memory_of
from memproxy.learn.cooperative import Step, no_wait
from memproxy.learn.extract import said_where
from memproxy.learn.forget_everything import forget_everything
from memproxy.learn.grounding import goes_back_unsaid, turns
from memproxy.learn.judge import Advice, Judge, advised, candidate_key
from memproxy.learn.outcomes import outcome_of
from memproxy.learn.outdated import end_outdated
from memproxy.learn.parts import Parts
from memproxy.learn.pending import opened, settled, taken_back_with
from memproxy.learn.plan_view import Aliases, PlanView
from memproxy.metrics import metrics


def hide_requests(known: PlanView, found: Sequence[Grounded]) -> None:
    """Add to the plan that the user's turns of which nothing but requests to forget was read are not recalled; they
    are listed, and read again as any turn. One that was hidden for that, and tells something, is shown again.
    """
    by_turn: dict[tuple[str | None, str], list[Grounded]] = {}
    for one in found:
        by_turn.setdefault((one.turn.session_id, one.turn.id), []).append(one)
    for read in by_turn.values():
        turn = read[0].turn
        was_hidden = not turn.active and turn.metadata.get(RETRACTED_BY) == turn.id and not known.marked(turn)
        if was_hidden and any(one.candidate.intent in (Intent.STATE, Intent.CORRECT) for one in read):
            known.mark(turn, {"active": True, "metadata": without(turn.metadata, RETRACTED_BY)})
        is_shown = turn.trust is Trust.USER and turn.active and known.marked(turn).get("active") is not False
        quotes = [quote for one in read for quote in one.candidate.evidence]
        asks = all(one.candidate.intent is Intent.FORGET for one in read)
        if is_shown and asks and only_asks_to_forget(strip_blocks(turn.content), quotes):
            noted = known.marked(turn).get("metadata", turn.metadata)
            known.mark(turn, {"active": False, "metadata": noted | {RETRACTED_BY: turn.id}})


def only_asked(window: Window, read: Read) -> list[Memory]:
    """The user's new turns in which a model that read them found nothing told, and that do not plainly tell something
    either. None where it named what the turns do not hold: it may have misread what one of them tells.
    """
    if any(one.reason not in _SAYS_NOTHING_NEW for one in read.rejected):
        return []
    named = {(one.turn.session_id, one.turn.id) for one in read.kept}
    return [
        turn
        for turn in window.turns
        if turn.id in window.new_ids
        and turn.trust is Trust.USER
        and turn.active
        and ASKED not in turn.metadata
        and (turn.session_id, turn.id) not in named
        and is_read(turn)
        and LEAST <= telling(turn.content) < PLAINLY
    ]


def hide_questions(known: PlanView, asked: Sequence[Memory], found: Sequence[Grounded]) -> None:
    """Add to the plan that the ``asked`` turns are no candidates of recall, and that those are again in which something
    was ``found`` when they were read once more.
    """
    told = [one.turn for one in found if one.turn.metadata.get(ASKED) is True]
    for turn, asks in (*((turn, True) for turn in asked), *((turn, False) for turn in told)):
        known.mark(turn, {"metadata": known.marked(turn).get("metadata", turn.metadata) | {ASKED: asks}})


_SAYS_NOTHING_NEW = frozenset({"echo", "question", "pleasantry"})
"""Reasons of rejected candidates by which their message tells nothing (`learn.grounding`)."""

_DONE_BEFORE = "again"
"""Marks an intent that was carried out when the same words were read before: nothing happens, and no outcome is noted.
"""


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """A plan (with what became of each candidate), the slot changes that go with it, and how many of each operation it
    holds.
    """

    plan: PlanBody
    known: PlanView
    operations: Mapping[str, int]


class _Case(msgspec.Struct, frozen=True):
    """One candidate and what its decision is made from; ``named`` is what it names as replaced, ``seen``
    are the messages that were read with its own.
    """

    scope: Scope
    grounded: Grounded
    candidate: Memory
    verdicts: Mapping[str, str]
    named: Memory | None = None
    seen: frozenset[str] = frozenset()


class Planner:
    """Makes plans. Callers hold the owner's lock from here until the plan is applied (but for `advice`)."""

    def __init__(self, parts: Parts, judge: Judge | None = None) -> None:
        self._by_model = parts.by_model  # it may repeat what it was shown, or leave out what a statement replaces
        self._parts = parts
        self._bands = parts.bands
        self._judge = judge

    async def advice(self, scope: Scope, found: Sequence[Grounded], *, now: datetime) -> Advice:
        """What the judge holds of the doubtful pairs, as things stand now; empty with ``judge: rules``. Asks a model,
        so it is called before the lock is taken; what changed meanwhile makes the advice void, never wrong.
        """
        if self._judge is None or any(one.candidate.intent is Intent.FORGET_ALL for one in found):
            return {}  # nothing that is known is to be shown to a model, nor compared with
        known = PlanView(self._parts, scope, now)
        candidates = await self._candidates(known, scope, found, "judge")
        advice: dict[str, Mapping[str, str]] = {}
        for grounded, candidate in zip(found, candidates, strict=True):
            if grounded.candidate.intent is Intent.STATE:
                chain = await nearby.chain(known, candidate)
                place = said_where(scope, grounded.turn)
                near = [] if chain else await nearby.neighbours(known, place, candidate)
                verdicts = await self._judge.verdicts(scope.tenant, candidate, chain, near, self._bands)
                key = candidate_key(candidate)
                advice[key] = {**advice.get(key, {}), **verdicts}
        return advice

    async def plan(
        self,
        scope: Scope,
        found: Sequence[Grounded],
        *,
        now: datetime,
        extractor: str,
        advice: Advice | None = None,
        read: Sequence[Memory] = (),
        aside: Memory | None = None,
        step: Step = no_wait,
    ) -> Planned:
        """The plan for what was extracted, each candidate against what is known and against those before it. ``read``
        are the messages that it was extracted from: what is pending by them is settled. The memory ``aside`` is told by
        what was extracted, and holds no longer by itself.
        """
        known = PlanView(self._parts, scope, now, step)
        if aside is not None:
            await known.refine(aside)
        held = await opened(known, read)
        candidates = await self._candidates(known, scope, found, extractor)
        seen = frozenset(turn.id for turn in read)
        counts: Counter[str] = Counter()
        outcomes: list[Outcome] = []
        for grounded, candidate in zip(found, candidates, strict=True):
            await step()
            verdicts = (advice or {}).get(candidate_key(candidate), {})
            place = said_where(scope, grounded.turn)
            case = _Case(place, grounded, candidate, verdicts, seen=seen)
            operation, decision = await self._learn(known, case)
            counts[operation] += 1
            memory = await known.memory(candidate.id) or candidate
            if operation not in (decision.operation, _DONE_BEFORE):
                metrics().candidates_rejected.labels(reason=operation).inc()
            if operation != _DONE_BEFORE:
                outcomes += outcome_of(grounded.turn, memory, operation, decision)
        hide_requests(known, found)
        outcomes += await settled(known, read, held)
        plan = msgspec.structs.replace(known.plan(), outcomes=outcomes)
        return Planned(plan=plan, known=known, operations=counts)

    async def _candidates(
        self, known: PlanView, scope: Scope, found: Sequence[Grounded], extractor: str
    ) -> list[Memory]:
        known.aliases = aliases = await Aliases.of(known.state, scope)
        stated = [memory_of(one, said_where(scope, one.turn), now=known.now, extractor=extractor) for one in found]
        candidates = [aliases.resolved(memory) for memory in stated]
        vectors = await self._parts.vectors.statement_vectors([one.content for one in candidates], scope.tenant)
        known.vectors = dict(zip((candidate.id for candidate in candidates), vectors, strict=True))
        return candidates

    async def _learn(self, known: PlanView, case: _Case) -> tuple[str, Decision]:
        """Add to the plan what a candidate does; the name of that (or why it does nothing), and the decision."""
        intent, candidate = case.grounded.candidate.intent, case.candidate
        if intent is Intent.FORGET_ALL:
            everything = await forget_everything(known, case.scope, case.grounded.turn)
            over = Decision(Operation.RETRACT, next(iter(everything or ()), None), everything or ())
            return (_DONE_BEFORE, Decision(Operation.NOTHING)) if everything is None else (over.operation.value, over)
        if intent is Intent.FORGET:
            return await self._forget(known, case)
        case = await self._with_named(known, case)
        if await known.forgotten(candidate, {case.grounded.turn.id: case.grounded.turn.session_id}):
            return "forgotten", Decision(Operation.NOTHING)
        decision = await self._decision(known, case)
        if (reason := await self._refused(known, case, decision)) is not None:
            return reason, decision
        # taken back after it was said: with its whole message, or in its own words
        ended = None
        if decision.operation is not Operation.DUPLICATE:
            ended = taken_back_with(case.grounded.turn, candidate, case.seen, known.now)
        if (ended := ended or await nearby.ended(known, candidate, decision)) is not None:
            await succession.add_ended(known, ended)
            decision = Decision(Operation.RETRACT, ended, (ended,))
        else:
            await self._carry_out(known, case, decision)
        return decision.operation.value, decision

    async def _carry_out(self, known: PlanView, case: _Case, decision: Decision) -> None:
        """Add to the plan what a statement does."""
        candidate = case.candidate
        if decision.operation is Operation.DUPLICATE and decision.target is not None:
            chain = await known.chain_of(decision.target)
            for name, fields in repeat(decision.target, candidate, chain, now=known.now).items():
                await known.change(name, fields)
            await succession.hide_late(known, decision.target.id)
        elif decision.operation is Operation.UPDATE and decision.target is not None:
            if case.grounded.candidate.intent is Intent.CORRECT:
                candidate = in_place_of(candidate, decision.target)
            if case.named is decision.target:
                candidate = await self._out_of_others_way(known, candidate, decision.target)
            await succession.supersede(known, candidate, decision.target)
        else:
            await known.add(candidate)

    async def _refused(self, known: PlanView, case: _Case, decision: Decision) -> str | None:
        """Why a decision is not carried out: a value of before that a model took from elsewhere is an echo; what only
        the assistant (a tool) said confirms and changes nothing; a correction of nothing that is known cannot be
        understood.
        """
        candidate, target = case.candidate, decision.target
        chain = await nearby.chain(known, candidate) if self._by_model else ()
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

    async def _decision(self, known: PlanView, case: _Case) -> Decision:
        candidate, wrong = case.candidate, case.grounded.candidate.replaces
        if case.named is not None:
            near = await nearby.neighbours(known, case.scope, candidate)
            return decide_replacement(candidate, case.named, near)
        chain = await nearby.chain(known, candidate)
        if case.grounded.candidate.intent is Intent.CORRECT:
            near = [] if chain else await nearby.to_replace(known, case.scope, candidate, wrong)
            decision = decide_correction(candidate, wrong, chain=chain, neighbours=near, bands=self._bands)
            if decision.operation is not Operation.NOTHING or chain or not (self._by_model and is_whole(candidate)):
                return self._turned(candidate, decision)
        near = [] if chain else await nearby.neighbours(known, case.scope, candidate)
        decision = self._turned(candidate, decide(candidate, chain=chain, neighbours=near, bands=self._bands))
        if not case.verdicts:
            return decision
        return advised(decision, candidate, case.verdicts, chain=chain, near=near, bands=self._bands)

    async def _out_of_others_way(self, known: PlanView, candidate: Memory, target: Memory) -> Memory:
        """A statement that names what it replaces, under the names of that where its own are those of a third one that
        says something else: nothing but what is named ends.
        """
        holder = await known.holder(candidate.slot) if candidate.slot else None
        other = await known.memory(holder) if holder is not None and holder != target.id else None
        if other is None or says_exactly(other, candidate.content):
            return candidate
        names = {"subject": target.subject, "predicate": target.predicate, "aspect": target.aspect}
        there = msgspec.structs.replace(candidate, **names)
        there = msgspec.structs.replace(there, slot=slot_name(there))
        taken = await known.holder(there.slot) if there.slot else None
        if taken in (None, target.id):
            return there
        return msgspec.structs.replace(candidate, predicate=None, slot=None)

    async def _with_named(self, known: PlanView, case: _Case) -> _Case:
        """The case with the statement that it names as replaced."""
        read = case.grounded.candidate
        if read.replaces:
            worded = await nearby.worded(known, case.scope, case.candidate, read.replaces)
            if (named := named_by(read.replaces, worded)) is not None:
                return msgspec.structs.replace(case, named=named)
        return case

    def _turned(self, candidate: Memory, decision: Decision) -> Decision:
        """The decision; what says of something known that it is over is no repetition of it, though its value is the
        same ("cancelled the trip to Japan").
        """
        target = decision.target
        if not self._by_model or decision.operation is not Operation.DUPLICATE or target is None or not target.active:
            return decision
        if set(candidate.turn_ids) & set(target.turn_ids) or not turns(candidate, target):
            return decision
        return Decision(Operation.UPDATE, target)

    async def _forget(self, known: PlanView, case: _Case) -> tuple[str, Decision]:
        """End what a request to forget means. Only the user takes back what the user's memory holds."""
        request = case.candidate
        if request.trust is not Trust.USER:
            return "trust", Decision(Operation.NOTHING)
        turn = request.turn_ids[0]
        near = await nearby.to_forget(known, case.scope, request)
        decision = decide_retraction(request, near)
        for memory in decision.meant:
            await succession.retract(known, memory, turn, said_at(request))
        if decision.operation is Operation.RETRACT:
            return decision.operation.value, decision
        if any(one.memory.metadata.get(RETRACTED_BY) == turn for one in near):
            return _DONE_BEFORE, decision
        await nearby.note_forget_request(known, request)
        return "unknown", decision

    async def plan_asked(self, scope: Scope, body: PlanBody, *, now: datetime) -> Planned:
        """The plan for what the API asks: statements take their slots, what goes frees them.

        Raises:
            msgspec.ValidationError: a changed field does not take its value.
        """
        known = PlanView(self._parts, scope, now)
        counts = await asked_for(known, body, scope)
        dream = body.dream
        if dream is None or not dream.undo:
            await end_outdated(known)
        if dream is not None and not dream.undo:
            known.note_before(lambda before, fields: noted(before, fields, dream.dream, now))
        return Planned(plan=known.plan(), known=known, operations=counts)
