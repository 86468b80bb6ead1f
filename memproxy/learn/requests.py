"""Messages that only ask to forget something: they are hidden, because they name it."""

from collections.abc import Sequence

from memproxy.core.block import strip_blocks
from memproxy.core.chain import RETRACTED_BY
from memproxy.core.memory import Memory, Trust
from memproxy.core.retract import only_asks
from memproxy.learn.candidates import Grounded, Intent
from memproxy.learn.known import Known


def hide_requests(known: Known, found: Sequence[Grounded]) -> None:
    """Add to the plan that the user's turns of which nothing but requests to forget was read are not recalled; they
    are listed, and read again as any turn. One that was hidden for that, and tells something, is shown again.
    """
    by_turn: dict[tuple[str | None, str], list[Grounded]] = {}
    for one in found:
        by_turn.setdefault((one.turn.session_id, one.turn.id), []).append(one)
    for read in by_turn.values():
        turn = read[0].turn
        if _tells_after_all(known, turn, read):
            noted = {name: value for name, value in turn.metadata.items() if name != RETRACTED_BY}
            known.mark(turn, {"active": True, "metadata": noted})
        if _is_shown(known, turn) and _only_asks(turn, read):
            noted = known.marked(turn).get("metadata", turn.metadata)
            known.mark(turn, {"active": False, "metadata": noted | {RETRACTED_BY: turn.id}})


def _tells_after_all(known: Known, turn: Memory, read: Sequence[Grounded]) -> bool:
    """Whether a message was hidden for only asking to forget when it came, and something else was read in it now."""
    hidden = not turn.active and turn.metadata.get(RETRACTED_BY) == turn.id and not known.marked(turn)
    return hidden and any(one.candidate.intent in (Intent.STATE, Intent.CORRECT) for one in read)


def _is_shown(known: Known, turn: Memory) -> bool:
    return turn.trust is Trust.USER and turn.active and known.marked(turn).get("active") is not False


def _only_asks(turn: Memory, read: Sequence[Grounded]) -> bool:
    quotes = [quote for one in read for quote in one.candidate.evidence]
    return all(one.candidate.intent is Intent.FORGET for one in read) and only_asks(strip_blocks(turn.content), quotes)
