"""What the relay tells a receipt: of a request that it captures with the turn, through the journal; of one that the
engine was not asked for at once as well, by a notice.
"""

from memproxy.core.receipt import Cited, Decided
from memproxy.relay.controls import Mode
from memproxy.relay.decide import Decision


def decided(decision: Decision, *, status: int, model: str | None) -> Decided:
    """The decision, with the upstream's status and the model that was asked for."""
    return Decided(
        result=decision.result,
        reason=decision.reason,
        mode=_mode(decision).value,
        tokens=decision.given.tokens if decision.given is not None else 0,
        memories=_memories(decision),
        timings={stage: round(ms, 3) for stage, ms in decision.timings.items()},
        status=status,
        model=model,
    )


def _mode(decision: Decision) -> Mode:
    """The request's mode: off but captured is writing; with blocks that are not injected it is in the shadow."""
    if decision.result == "off":
        return Mode.WRITE if decision.captures else Mode.OFF
    if not decision.captures:
        return Mode.READ if decision.injects else Mode.SHADOW
    return Mode.ON if decision.injects or decision.given is None else Mode.SHADOW


def _memories(decision: Decision) -> list[Cited]:
    """What the request carries (in shadow mode: would carry): what was recalled for it, then what is repeated."""
    if decision.given is None:
        return []
    lines = decision.answer.citations if decision.answer.result == "injected" else []
    new = [Cited(memory_id=line.memory_id, turn_id=line.turn_id, score=round(line.score, 4)) for line in lines]
    known = {one.memory_id for one in new}
    repeated = [name for name in dict.fromkeys(decision.given.memory_ids) if name not in known]
    return [*new, *(Cited(memory_id=name, repeated=True) for name in repeated)]
