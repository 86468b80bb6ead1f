"""The outcomes of learning, for the receipts of the requests whose turns were read."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from memproxy.core.facts import Decision, Operation
from memproxy.core.memory import Memory
from memproxy.core.receipt import Outcome
from memproxy.learn.candidates import Read, Window

_SHOWN = 120  # characters shown of a rejected candidate: enough to tell which one it was

_RESULTS = {
    Operation.ADD: "stored",
    Operation.COEXIST: "stored",
    Operation.UPDATE: "superseded",
    Operation.DUPLICATE: "duplicate",
    Operation.RETRACT: "retracted",
}


def requests_of(turns: Iterable[Memory]) -> list[str]:
    """The requests that brought these turns, each once, in order; turns of the API have none."""
    named = (turn.metadata.get("request_id") for turn in turns)
    return list(dict.fromkeys(name for name in named if isinstance(name, str)))


def outcome_of(turn: Memory, memory: Memory, operation: str, decision: Decision) -> list[Outcome]:
    """What became of ``memory``, a candidate from ``turn``: one outcome (of what was taken back one each), or none when
    it was learned from that turn before. Another ``operation`` than the decision's is why it was not carried out.
    """
    outcome = Outcome(
        result="rejected", reason=operation, request_ids=requests_of([turn]), kind=memory.kind.value, turn_id=turn.id
    )
    if operation != decision.operation.value:
        return [msgspec.structs.replace(outcome, content=memory.content[:_SHOWN])]
    outcome = msgspec.structs.replace(outcome, result=_RESULTS[decision.operation])
    if decision.operation is Operation.RETRACT:
        return [msgspec.structs.replace(outcome, memory_id=ended.id, kind=ended.kind.value) for ended in decision.meant]
    if decision.operation is not Operation.DUPLICATE or decision.target is None:
        chain = {"supersedes": memory.supersedes, "superseded_by": memory.superseded_by}
        return [msgspec.structs.replace(outcome, memory_id=memory.id, **chain)]
    if turn.id in decision.target.turn_ids:
        return []
    return [msgspec.structs.replace(outcome, memory_id=decision.target.id)]


def of_reading(
    noted: Sequence[Outcome], windows: Sequence[Window], reads: Sequence[Read], spent: Mapping[str, tuple[int, int]]
) -> list[Outcome]:
    """The ``noted`` outcomes of a reading, what extraction rejected, what brought nothing, and tokens spent."""
    outcomes = list(noted)
    requests: list[str] = []
    for window, read in zip(windows, reads, strict=True):
        ids = requests_of(turn for turn in window.turns if turn.id in window.new_ids)
        requests += [request for request in ids if request not in requests]
        for rejected in read.rejected:
            kind, content = rejected.candidate.kind.value, rejected.candidate.content[:_SHOWN]
            outcome = Outcome(result="rejected", reason=rejected.reason, request_ids=ids, kind=kind, content=content)
            outcomes.append(outcome)
    named = {request for outcome in outcomes for request in outcome.request_ids}
    silent = [request for request in requests if request not in named]
    outcomes += [Outcome(result="nothing", request_ids=silent)] if silent else []
    outcomes += [Outcome(result="tokens", request_ids=requests, tokens=dict(spent))] if spent and requests else []
    return outcomes
